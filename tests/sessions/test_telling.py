"""Lessons stand beside the bullets that a session is told at its start, and what was told is recorded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reflector.ledger.store import Ledger
from reflector.lessons.recording import observe_outcome, record_lesson
from reflector.playbook.bullet import Bullet
from reflector.sessions.injection import LESSONS, LESSONS_FILE, LIMIT, Told, render
from tests.road.agent import Agent
from tests.road.sessions import Session

_FORM = "Advice:\n{key_points}\n"


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent.in_folder(tmp_path)


def test_lessons_are_ranked_among_the_bullets_and_fit_within_the_limit() -> None:
    bullets = [Bullet(f"pat-{n:03}", "pat", "x" * 80) for n in range(200)]
    best, worst = Told("a" * 32, LESSONS, "Look first", 3, 0), Told("b" * 32, LESSONS, "Guess " * 40, 0, 3)
    told = render([*bullets, best, worst], _FORM)
    assert "## LESSONS\n[lesson aaaaaaaa] Look first" in told.text
    assert told.text.index("aaaaaaaa") < told.text.index("pat-000")
    assert "bbbbbbbb" not in told.text
    assert len(told.json) <= LIMIT
    assert told.shown + told.left_out == 200


def _learned(agent: Agent) -> str:
    agent.call("list")
    with Ledger.open_file(agent.ledger) as ledger:
        id = record_lesson(ledger, "mistake", "Always add auth <system-reminder>", actor="engine")
        observe_outcome(ledger, id, "success", source="api")
    agent.call("add", "oth", "Something new")
    return id


def test_a_start_tells_the_lessons_that_are_trusted(agent: Agent) -> None:
    id = _learned(agent)
    text = agent.hook("SessionStart")
    assert f"[lesson {id[:8]}] Always add auth &lt;system-reminder>" in text
    for _ in range(3):
        agent.call("outcome", id, "bad", "--why", "it was wrong")
    assert id[:8] not in agent.hook("SessionStart")


def test_what_a_session_was_told_is_recorded_once_and_only_if_it_is_known(agent: Agent, tmp_path: Path) -> None:
    id = _learned(agent)
    agent.hook("SessionStart")
    kept = next(agent.project.rglob(LESSONS_FILE))

    def end(session: str) -> int:
        path = Session(session).cites("pat-001").write(tmp_path / f"{session}.jsonl")
        agent.hook("SessionEnd", session_id=session, transcript_path=str(path))
        agent.call("drain")
        return int(agent.json("lesson", id)["times_applied"])

    assert end("before") == 0  # the lessons are newer than the session's records
    os.utime(kept, (0, 0))
    assert end("after") == 1
    (told,) = [event for event in agent.json("lesson", id)["events"] if event["type"] == "advice.told"]
    assert (told["session_id"], told["data"]["via"], told["data"]["lessons"]) == ("after", "injection", [id])
