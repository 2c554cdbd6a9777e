"""What other tools for the same job get wrong, with real hooks, real drains and real files."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from reflector.ledger.store import Ledger
from reflector.sessions.intake import Source, take_in
from tests.conftest import examples
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


def test_hooks_that_all_start_drains_at_once_count_one_citation_once(agent: Agent, tmp_path: Path) -> None:
    transcript = Session("s-1").cites("pat-001").write(tmp_path / "s-1.jsonl")
    about = {"session_id": "s-1", "transcript_path": str(transcript), "spawn": True}
    events = ["PreCompact", "PreCompact", "SubagentStop", "SubagentStop", "SubagentStop", "SessionEnd"]
    hooks = [agent.start_hook(event, **about) for event in events]
    for hook in hooks:
        assert hook.wait(60) == 0
    agent.wait_until(lambda: not agent.deliveries() and agent.counters()["pat-001"] != (0, 0))
    agent.call("ingest", transcript)
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.call("verify").out == ""


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


def test_a_drain_killed_while_it_saves_leaves_a_whole_playbook_and_loses_nothing(agent: Agent) -> None:
    chance = random.Random(7)
    sessions = examples(20)
    for n in range(sessions):
        agent.ended(id=f"s-{n}")
        drain = agent.start("drain")
        # The code loads for a third of a second or more before anything is written.
        time.sleep(chance.uniform(0.2, 0.8))
        drain.send_signal(signal.SIGKILL)
        drain.communicate()
        assert set(agent.counters()) == {"pat-001", "pat-002", "mis-001"}
    agent.call("drain")
    assert agent.counters() == {"pat-001": (sessions, 0), "pat-002": (3, 1), "mis-001": (0, 0)}
    assert agent.call("verify").out == ""
    assert [path.name for path in agent.claude.iterdir() if path.name.endswith(".tmp")] == []


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


def test_the_name_of_a_removed_bullet_is_not_given_out_again(agent: Agent) -> None:
    agent.call("add", "pat", "Third.")
    agent.counted("pat-003")
    assert agent.counters()["pat-003"] == (1, 0)
    document = json.loads(agent.playbook.read_bytes())
    document["sections"]["PATTERNS & APPROACHES"].pop()
    agent.playbook.write_text(json.dumps(document))
    agent.call("drain")
    assert "pat-003" not in agent.counters()
    assert agent.call("add", "pat", "Fourth.").out.startswith("[pat-004] helpful=0 harmful=0")


def test_the_end_of_a_subagent_is_about_the_subagents_own_transcript(agent: Agent, tmp_path: Path) -> None:
    parent = Session("s-1").cites("pat-002").write(tmp_path / "s-1.jsonl")
    child = Session("s-1", agent_id="a-1").cites("pat-001").write(tmp_path / "s-1/subagents/agent-a-1.jsonl")
    about = {"session_id": "s-1", "transcript_path": str(parent)}
    agent.hook("SubagentStop", **about, agent_id="a-1", agent_transcript_path=str(child))
    agent.hook("SubagentStop", **about, agent_id="a-2", agent_transcript_path=str(tmp_path / "never-written.jsonl"))
    agent.call("drain")
    (recorded,) = agent.events("session.recorded")
    assert recorded["data"]["transcript"]["path"] == str(child)
    assert agent.counters()["pat-002"] == (3, 1)
    assert agent.call("status").err == ""


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


def test_blame_tells_the_session_the_reason_the_model_and_the_running_totals(agent: Agent) -> None:
    agent.counted("pat-002", "harmful")
    agent.counted("pat-002", "helpful", id="s-2")
    baseline, harmful, helpful = json.loads(agent.call("blame", "pat-002", "--json").out)
    assert (baseline["disposition"], baseline["helpful"], baseline["harmful"]) == ("baseline", 3, 1)
    assert (harmful["session_id"], harmful["tag"], harmful["helpful"], harmful["harmful"]) == ("s-1", "harmful", 3, 2)
    assert (helpful["session_id"], helpful["tag"], helpful["helpful"], helpful["harmful"]) == ("s-2", "helpful", 4, 2)
    assert "Thanks!" in helpful["rationale"]
    assert helpful["backend"] == "rules"
    assert helpful["model"].startswith("rules/")
    answers = {event["reflection_id"]: event["data"] for event in agent.events("reflection.answered")}
    assert answers[helpful["reflection_id"]].keys() >= {"prompt_sha256", "template_sha256", "answer"}


def test_a_neutral_verdict_is_kept_with_its_reason(agent: Agent) -> None:
    agent.counted("pat-001", None)
    (step,) = json.loads(agent.call("blame", "pat-001", "--json").out)
    assert (step["tag"], step["disposition"], step["counted"]) == ("neutral", "neutral", False)
    assert step["rationale"]
    assert agent.counters()["pat-001"] == (0, 0)


def test_a_reflection_that_failed_is_kept_with_its_reason_and_tried_again(agent: Agent, tmp_path: Path) -> None:
    session = Session("s-1").cites("pat-001")
    path = session.write(tmp_path / "1.jsonl")
    agent.call("drain")
    with Ledger.open_file(agent.ledger) as ledger:  # a drain that was killed between the two
        take_in(ledger, Source(path, "SessionEnd"))
    path.unlink()
    assert "tried again" in agent.call("drain", code=1).err
    (failed,) = agent.events("reflection.failed")
    assert str(path) in failed["data"]["message"]
    assert str(path) in agent.call("status", code=1).out
    session.write(path)
    agent.call("drain", "--retry-failed")
    assert agent.counters()["pat-001"] == (1, 0)
    agent.call("status")


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


@pytest.mark.parametrize("event", ["SessionStart", "SubagentStart"])
def test_of_a_playbook_too_long_to_tell_the_best_is_told_and_how_much_was_left_out(agent: Agent, event: str) -> None:
    bullets = many(400)
    agent.write_playbook(bullets)
    agent.environ["REFLECTOR_RANKING"] = "best"
    agent.call("drain")
    told = agent.hook(event, session_id="s-1")
    assert len(told.encode("utf-16-le")) // 2 < 9_500
    text = json.loads(told)["hookSpecificOutput"]["additionalContext"] if event == "SubagentStart" else told
    shown = set(re.findall(r"^\[(pat-\d+)\]", text, re.MULTILINE))
    best = sorted(bullets["PATTERNS & APPROACHES"], key=lambda b: b["harmful"] - b["helpful"])[: len(shown)]
    assert shown == {bullet["name"] for bullet in best}
    assert all(bullet["text"] in text for bullet in best)
    assert f"({400 - len(shown)} more bullets were left out here" in text


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


def test_a_corrupt_payload_of_a_hook_is_kept_and_shown_by_status(agent: Agent) -> None:
    done = subprocess.run(HOOK, input=b'{"hook_event_name": "SessionEnd", "ses', env=agent.env(), capture_output=True)
    assert done.returncode == 0
    assert "not a hook payload" in agent.call("status", code=1).out
    assert len(agent.json("status", code=1)["spool"]["broken"]) == 1
