"""Known errors of other tools for the same job, tested with real hooks, real drains and real
files.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.road.agent import HOOK, Agent
from tests.road.sessions import Session


def test_session_end_costs_the_same_for_any_transcript(agent: Agent, tmp_path: Path) -> None:
    session = Session("s-1").cites("pat-001")
    # makes the folders
    agent.hook("SessionEnd", session_id="s-0", transcript_path=str(tmp_path / "0.jsonl"))
    works = []
    for _ in range(2):
        path = session.write(tmp_path / "1.jsonl")
        works.append(
            work(agent, "SessionEnd", session_id="s-1", transcript_path=str(path), reason="other")
        )
        session.records *= 500
    assert works[0] == works[1]
    assert len(agent.deliveries()) == 3


@pytest.mark.slow
def test_session_start_costs_the_same_for_any_playbook(agent: Agent) -> None:
    agent.call("drain")
    agent.hook("SessionStart", session_id="s-0")  # makes the folders
    works = []
    for count in (200, 400):
        agent.write_playbook(many(count))
        agent.call("drain")
        works.append(work(agent, "SessionStart", session_id="s-1", source="startup"))
    assert works[0] == works[1]


#: Runs the hook, and writes before its end how often it called a function of Python or of the
#: interpreter.
COUNTED = """
import os, runpy, sys
calls, end = 0, os._exit
def seen(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
def told(code):
    sys.setprofile(None)
    os.write(2, b"%d" % calls)
    end(code)
os._exit = __import__("posix")._exit = told
script = sys.argv[1]
sys.setprofile(seen)
runpy.run_path(script, run_name="__main__")
"""


def work(agent: Agent, event: str, **fields: Any) -> int:
    """Return the number of functions that a hook calls. Other processes cannot change this measure
    of its work.
    """
    payload = {"hook_event_name": event, "cwd": str(agent.project), **fields}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", COUNTED, HOOK[-1]],
        input=json.dumps(payload).encode(),
        env=agent.env(REFLECTOR_NO_SPAWN="1"),
        capture_output=True,
        check=True,
    )
    return int(done.stderr)


def many(count: int) -> dict[str, Any]:
    """Return one section of N bullets, with the best ones in the middle."""
    text = "Point {}: «check» the cart’s total 🛒 twice, {} times if need be."
    scores = {number: number * 7919 % count for number in range(1, count + 1)}
    bullets = [
        {
            "name": f"pat-{number:03}",
            "text": text.format(number, score),
            "helpful": score,
            "harmful": 0,
        }
        for number, score in scores.items()
    ]
    return {"PATTERNS & APPROACHES": bullets}
