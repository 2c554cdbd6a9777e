"""What other tools for the same job get wrong, with real hooks, real drains and real files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import HOOK
from tests.road.agent import Agent
from tests.road.sessions import Session


def test_one_citation_counts_once_however_often_it_is_reported(agent: Agent, tmp_path: Path) -> None:
    session = Session("s-1").cites("pat-001")
    transcript = session.write(tmp_path / "s-1.jsonl")
    subagent = Session("s-1", agent_id="a-1").user("Look at the cart module.").agent("It is in cart.py.")
    subagent.write(tmp_path / "s-1" / "subagents" / "agent-a-1.jsonl")
    about = {"session_id": "s-1", "transcript_path": str(transcript)}
    helper = {"agent_id": "a-1", "agent_transcript_path": str(tmp_path / "s-1/subagents/agent-a-1.jsonl")}
    for event, fields in [
        ("PreCompact", {"trigger": "auto"}),
        ("SubagentStop", helper),
        ("PreCompact", {"trigger": "manual"}),
        ("SubagentStop", helper),
        ("SubagentStop", helper),
        ("SessionEnd", {"reason": "other"}),
    ]:
        agent.hook(event, **about, **fields)
    agent.call("drain")
    agent.call("ingest", transcript)
    assert agent.counters()["pat-001"] == (1, 0)
    assert len(agent.events("session.recorded")) == 2
    assert len(agent.events("reflection.completed")) == 1


def test_eight_sessions_that_end_at_once_count_eight_times(agent: Agent, tmp_path: Path) -> None:
    transcripts = {f"s-{n}": Session(f"s-{n}").cites("pat-001").write(tmp_path / f"s-{n}.jsonl") for n in range(8)}
    hooks = [
        agent.start_hook("SessionEnd", spawn=True, session_id=name, transcript_path=str(path), reason="other")
        for name, path in transcripts.items()
    ]
    for hook in hooks:
        assert hook.wait(60) == 0
    agent.wait_until(lambda: not agent.deliveries() and agent.counters()["pat-001"] == (8, 0))
    steps = agent.json("blame", "pat-001")
    assert sorted(step["session_id"] for step in steps) == sorted(transcripts)
    assert [step["helpful"] for step in steps] == list(range(1, 9))
    assert agent.call("verify").out == ""


BROKEN = {
    "truncated": lambda whole: whole[: len(whole) // 2],
    "an empty list": lambda _: b"[]",
    "an empty object": lambda _: b"{}",
    "another schema": lambda _: b'{"rules": [{"id": 1, "body": "Be kind."}]}',
    "empty": lambda _: b"",
    "binary": lambda _: bytes(range(256)),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_playbook_is_refused_and_left_alone_before_there_is_a_ledger(agent: Agent, how: str) -> None:
    broken = BROKEN[how](agent.playbook.read_bytes())
    agent.playbook.write_bytes(broken)
    for question in (["list"], ["drain"], ["add", "pat", "Be kind."]):
        ran = agent.call(*question, code=1)
        assert str(agent.playbook) in ran.err
        assert "left as it is" in ran.err
        assert "Traceback" not in ran.err
    assert agent.playbook.read_bytes() == broken


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_playbook_is_left_alone_until_a_rebuild_keeps_it_aside_and_writes_it_again(
    agent: Agent, how: str
) -> None:
    agent.counted()
    whole = agent.playbook.read_bytes()
    broken = BROKEN[how](whole)
    agent.playbook.write_bytes(broken)
    assert "is unchanged" in agent.call("drain").err
    assert agent.playbook.read_bytes() == broken
    ran = agent.call("rebuild")
    assert agent.playbook.read_bytes() == whole
    (kept,) = [path for path in (agent.state / "kept").iterdir() if path.read_bytes() == broken]
    assert str(kept) in ran.err


def test_two_interleaved_sessions_are_told_the_playbook_once_each_and_counted_once_each(
    agent: Agent, tmp_path: Path
) -> None:
    sessions = {name: Session(name).user("Please fix the cart.") for name in ("s-1", "s-2")}
    paths = {name: tmp_path / f"{name}.jsonl" for name in sessions}

    def report(event: str, name: str) -> str:
        sessions[name].write(paths[name])
        return agent.hook(event, session_id=name, transcript_path=str(paths[name]))

    assert "[pat-001]" in report("SessionStart", "s-1")
    assert "[pat-001]" in report("SessionStart", "s-2")
    for event in ("UserPromptSubmit", "Stop", "PreCompact", "UserPromptSubmit", "SessionEnd"):
        for name, session in sessions.items():
            session.cites("pat-001") if event == "Stop" else session.user("What is in cart.py?").agent("The cart.")
            assert report(event, name) == ""
    agent.call("drain")
    assert agent.counters()["pat-001"] == (2, 0)
    assert {event["data"]["trigger"] for event in agent.events("session.recorded")} == {"PreCompact", "SessionEnd"}


def test_a_session_end_does_as_much_work_whatever_the_transcript_holds(agent: Agent, tmp_path: Path) -> None:
    session = Session("s-1").cites("pat-001")
    agent.hook("SessionEnd", session_id="s-0", transcript_path=str(tmp_path / "0.jsonl"))  # makes the folders
    works = []
    for _ in range(2):
        path = session.write(tmp_path / "1.jsonl")
        works.append(work(agent, "SessionEnd", session_id="s-1", transcript_path=str(path), reason="other"))
        session.records *= 500
    assert works[0] == works[1]
    assert len(agent.deliveries()) == 3


def test_a_session_start_does_as_much_work_whatever_the_playbook_holds(agent: Agent) -> None:
    agent.hook("SessionStart", session_id="s-0")  # makes the folders
    works = []
    for count in (200, 400):
        agent.write_playbook(many(count))
        agent.call("drain")
        works.append(work(agent, "SessionStart", session_id="s-1", source="startup"))
    assert works[0] == works[1]


#: Runs the hook and writes, before it ends, how often it called a function, of Python or of the interpreter's.
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
    """How many functions a hook calls: a measure of its work that no other process can change."""
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
    """One section of so many bullets, the best ones in the middle of it."""
    return {
        "PATTERNS & APPROACHES": [
            {
                "name": f"pat-{number:03}",
                "text": f"Point {number}: «check» the cart’s total 🛒 twice, {number * 7919 % count} times if need be.",
                "helpful": number * 7919 % count,
                "harmful": 0,
            }
            for number in range(1, count + 1)
        ]
    }
