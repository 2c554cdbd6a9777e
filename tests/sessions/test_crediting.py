"""A session's own tests speak for or against the lessons that it cites, where the tie is sure, and once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reflector.events.event import LESSON_RECORDED
from reflector.ledger.store import Ledger
from reflector.lessons.book import Outcome, lesson_book
from reflector.lessons.recording import record_lesson
from reflector.proof.verify import verify
from reflector.sessions.crediting import record_test_outcomes
from reflector.sessions.intake import Source, take_in
from tests.road.agent import Agent
from tests.road.sessions import Session

_TEST = "pytest -q tests/test_cart.py"
_RED, _GREEN = "F.\n1 failed, 1 passed in 0.10s", "..\n2 passed in 0.10s"
_DONE = "That was all."


@pytest.fixture
def lesson(ledger: Ledger) -> str:
    return record_lesson(ledger, "mistake", "Round once, at the end", actor="engine", task="prices")


def begun() -> Session:
    return Session().user("The total is off by a cent. Please fix it.")


def cites(session: Session, lesson: str, said: str = "As [lesson {}] says, I round at the end.") -> Session:
    return session.agent(said.format(lesson[:8]))


def checks(session: Session, output: str, command: str = _TEST) -> Session:
    return session.runs(command, output, is_error="failed" in output)


def edits(session: Session) -> Session:
    return session.runs("sed -i 's/round(x)/x/' cart.py", "")


def mended(lesson: str) -> Session:
    """A test that had failed passes after the lesson was applied."""
    return checks(edits(cites(checks(begun(), _RED), lesson)), _GREEN).agent(_DONE)


def observed(ledger: Ledger, session: Session, folder: Path) -> list[Outcome]:
    """The outcomes of the only lesson once the session was taken in."""
    path = session.write(folder / f"{session.id}-{len(session.records)}.jsonl")
    taken = take_in(ledger, Source(path, "SessionEnd", session_id=session.id))
    assert taken.event_id is not None
    for _ in range(2):  # reading a window again adds nothing
        record_test_outcomes(ledger, [taken.event_id])
    (one,) = lesson_book(ledger)
    return list(one.outcomes)


def test_a_test_that_had_failed_and_passes_speaks_for_the_lesson(ledger: Ledger, lesson: str, tmp_path: Path) -> None:
    (one,) = observed(ledger, mended(lesson), tmp_path)
    assert (one.kind, one.source, one.session_id) == ("success", "tests", "s-1")
    assert one.why == f"`{_TEST}` passes after it had failed: 2 passed in 0.10s"
    assert one.observed_at == "2026-11-01T00:07:00.000000Z"
    assert list(verify(ledger)) == []


def test_a_test_that_had_passed_and_fails_speaks_against_it(ledger: Ledger, lesson: str, tmp_path: Path) -> None:
    session = checks(edits(cites(checks(begun(), _GREEN), lesson)), _RED).agent(_DONE)
    (one,) = observed(ledger, session, tmp_path)
    assert (one.kind, one.why) == ("failure", f"`{_TEST}` fails after it had passed: 1 failed, 1 passed in 0.10s")


def test_how_a_test_ends_last_decides(ledger: Ledger, lesson: str, tmp_path: Path) -> None:
    session = checks(edits(checks(edits(cites(begun(), lesson)), _RED)), _GREEN, f"{_TEST} 2>&1 | tail -3").agent(_DONE)
    (one,) = observed(ledger, session, tmp_path)
    assert one.kind == "success"


def _silent(lesson: str) -> dict[str, Session]:
    other = "pytest -q tests/test_tax.py"
    red = checks(begun(), _RED)
    return {
        "nobody cites it": checks(edits(checks(begun(), _RED)), _GREEN).agent(_DONE),
        "it is cited without brackets": checks(
            edits(cites(checks(begun(), _RED), lesson, "As lesson {} says.")), _GREEN
        ).agent(_DONE),
        "it is cited in code": checks(
            edits(cites(checks(begun(), _RED), lesson, "```\n[lesson {}]\n```")), _GREEN
        ).agent(_DONE),
        "it is named to decline it": checks(
            edits(cites(checks(begun(), _RED), lesson, "[lesson {}] does not apply here.")), _GREEN
        ).agent(_DONE),
        "a person cites it": checks(edits(red.user(f"See [lesson {lesson[:8]}].")), _GREEN).agent(_DONE),
        "it is cited after the run": cites(checks(edits(checks(begun(), _RED)), _GREEN), lesson),
        "nothing was changed": checks(cites(checks(begun(), _RED), lesson), _GREEN).agent(_DONE),
        "nothing was changed between the runs": checks(checks(edits(cites(begun(), lesson)), _RED), _GREEN).agent(
            _DONE
        ),
        "the test had never failed": checks(edits(cites(begun(), lesson)), _GREEN).agent(_DONE),
        "the test had failed before": checks(edits(cites(checks(begun(), _RED), lesson)), _RED).agent(_DONE),
        "another test had failed": checks(edits(cites(checks(begun(), _RED, other), lesson)), _GREEN).agent(_DONE),
        "another test fails": checks(checks(edits(cites(checks(begun(), _RED), lesson)), _RED, other), _GREEN).agent(
            _DONE
        ),
        "the test runs in the next turn": checks(
            edits(cites(checks(begun(), _RED), lesson)).agent("Done. Shall I test it?").user("Yes."), _GREEN
        ).agent(_DONE),
        "the turn goes on": checks(edits(cites(checks(begun(), _RED), lesson)), _GREEN),
        "lint runs with the test": checks(
            edits(cites(checks(begun(), _RED, f"{_TEST} && ruff check"), lesson)), _GREEN, f"{_TEST} && ruff check"
        ).agent(_DONE),
        "the agent went on after the failure": edits(checks(edits(cites(checks(begun(), _GREEN), lesson)), _RED)).agent(
            _DONE
        ),
        "another test passes after the failure": checks(
            checks(edits(cites(checks(begun(), _GREEN), lesson)), _RED), _GREEN, other
        ).agent(_DONE),
        "the agent expected the failure": checks(edits(cites(checks(begun(), _GREEN), lesson)), _RED).agent(
            "The new test fails as expected."
        ),
        "it is another lesson": mended("0" * 32),
    }


@pytest.mark.parametrize("why", _silent("0" * 32))
def test_nothing_is_said_where(ledger: Ledger, lesson: str, tmp_path: Path, why: str) -> None:
    assert observed(ledger, _silent(lesson)[why], tmp_path) == []


def test_a_run_counts_once_through_resumed_and_forked_sessions(ledger: Ledger, lesson: str, tmp_path: Path) -> None:
    session = mended(lesson)
    assert len(observed(ledger, session, tmp_path)) == 1
    assert len(observed(ledger, session.user("Thanks. Now the tax.").agent("Sure."), tmp_path)) == 1
    assert len(observed(ledger, session.fork("s-2").user("Go on.").agent("Sure."), tmp_path)) == 1


def test_a_turn_that_a_compaction_cuts_speaks_when_it_is_over(ledger: Ledger, lesson: str, tmp_path: Path) -> None:
    session = checks(edits(cites(checks(begun(), _RED), lesson)), _GREEN)
    assert observed(ledger, session, tmp_path) == []
    assert len(observed(ledger, session.agent(_DONE), tmp_path)) == 1


def test_two_lessons_that_begin_alike_get_no_outcome(
    ledger: Ledger, lesson: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = take_in(ledger, Source(mended(lesson).write(tmp_path / "s.jsonl"), "SessionEnd"))
    (event,) = ledger.events(types=(LESSON_RECORDED,))
    twin = replace(event, event_id=lesson[:8] + "f" * 24)
    monkeypatch.setattr(ledger, "events", lambda **_: [event, twin])
    assert taken.event_id is not None
    record_test_outcomes(ledger, [taken.event_id])
    monkeypatch.undo()
    assert [one.outcomes for one in lesson_book(ledger)] == [()]


def test_the_road_from_the_told_lesson_to_its_outcome(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.call("list")
    with Ledger.open_file(agent.ledger) as ledger:
        id = record_lesson(ledger, "mistake", "Round once, at the end", actor="engine")
    agent.call("add", "oth", "Something new")
    assert f"[lesson {id[:8]}] Round once" in agent.hook("SessionStart")
    path = mended(id).write(tmp_path / "s-1.jsonl")
    for _ in range(2):
        agent.hook("SessionEnd", session_id="s-1", transcript_path=str(path))
        agent.call("drain")
    told = agent.json("show", f"[lesson {id[:8]}]")
    assert (told["successes"], told["effectiveness"]) == (1, 0.6)
    (one,) = [event for event in told["events"] if event["type"] == "outcome.observed"]
    assert (one["data"]["source"], one["session_id"], one["actor"]) == ("tests", "s-1", "tests")
    assert "worth 0.6 → 0.5" in agent.call("undo", "s-1", "--why", "a wrong branch").out
    assert agent.json("show", id)["successes"] == 0
    (retraction,) = agent.json("log", "--type", "evidence.retracted")
    agent.call("undo", str(retraction["position"]), "--why", "it was right")
    assert agent.json("show", id)["successes"] == 1


@pytest.mark.parametrize("stamp", ["", "noon", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-10:00"])
def test_a_record_of_no_time_is_observed_when_it_is_read(
    ledger: Ledger, lesson: str, tmp_path: Path, stamp: str
) -> None:
    session = mended(lesson)
    session.records = [{**record, "timestamp": stamp} for record in session.records]
    assert [one.kind for one in observed(ledger, session, tmp_path)] == ["success"]


def test_a_transcript_that_is_gone_says_nothing(ledger: Ledger, lesson: str, tmp_path: Path) -> None:
    path = mended(lesson).write(tmp_path / "s.jsonl")
    taken = take_in(ledger, Source(path, "SessionEnd"))
    path.unlink()
    assert taken.event_id is not None
    record_test_outcomes(ledger, [taken.event_id])
    assert [one.outcomes for one in lesson_book(ledger)] == [()]
