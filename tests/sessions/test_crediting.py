"""A session's own tests speak for or against the lessons that it cites, where the tie is sure,
and once.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from reflector.embed.lessons.book import Outcome, lesson_book
from reflector.embed.lessons.recording import record_lesson
from reflector.events.event import LESSON_RECORDED
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from reflector.sessions.crediting import record_test_outcomes
from reflector.sessions.intake import Source, take_in
from tests.road.agent import Agent
from tests.road.sessions import Session

_TEST, _OTHER = "pytest -q tests/test_cart.py", "pytest -q tests/test_tax.py"
_LINTED, _PIPED = f"{_TEST} && ruff check", f"{_TEST} 2>&1 | tail -3"
_RED, _GREEN = "F.\n1 failed, 1 passed in 0.10s", "..\n2 passed in 0.10s"


@pytest.fixture
def lesson(ledger: Ledger) -> str:
    return record_lesson(ledger, "mistake", "Round once, at the end", actor="engine", task="prices")


def played(lesson: str, *steps: str) -> Session:
    """A session about a bug. A step is `edit`, `person` or a test's end, such as `red` or `green
    <command>`; else it is what the agent says, in which {} is the beginning of the lesson's id.
    """
    session = Session().user("The total is off by a cent. Please fix it.")
    for step in steps:
        kind, _, command = step.partition(" ")
        if step == "edit":
            session.runs("sed -i 's/round(x)/x/' cart.py", "")
        elif kind in ("red", "green"):
            session.runs(
                command or _TEST, _RED if kind == "red" else _GREEN, is_error=kind == "red"
            )
        elif kind == "person":
            session.user(command.format(lesson[:8]))
        else:
            session.agent(step.format(lesson[:8]))
    return session


CITE, DONE = "As [lesson {}] says, I round at the end.", "That was all."
#: A test that had failed passes after the lesson was applied.
MENDED = ("red", CITE, "edit", "green", DONE)


def mended(lesson: str) -> Session:
    return played(lesson, *MENDED)


def observed(ledger: Ledger, session: Session, folder: Path) -> list[Outcome]:
    """The outcomes of the only lesson once the session was taken in."""
    path = session.write(folder / f"{session.id}-{len(session.records)}.jsonl")
    taken = take_in(ledger, Source(path, "SessionEnd", session_id=session.id))
    for _ in range(2):  # reading a window again adds nothing
        record_test_outcomes(ledger, [taken.event_id])
    (one,) = lesson_book(ledger)
    return list(one.outcomes)


def test_repaired_test_speaks_for_the_lesson(ledger: Ledger, lesson: str, tmp_path: Path) -> None:
    (one,) = observed(ledger, mended(lesson), tmp_path)
    assert (one.kind, one.source) == ("success", "tests")
    assert one.why == f"`{_TEST}` passes after it had failed: 2 passed in 0.10s"
    assert one.observed_at == "2026-11-01T00:07:00.000000Z"
    assert list(verify(ledger)) == []


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("success", (CITE, "edit", "red", "edit", f"green {_PIPED}", DONE)),
        ("failure", ("green", CITE, "edit", "red", DONE)),
    ],
)
def test_the_last_end_decides(
    ledger: Ledger, lesson: str, tmp_path: Path, kind: str, steps: tuple[str, ...]
) -> None:
    (one,) = observed(ledger, played(lesson, *steps), tmp_path)
    assert one.kind == kind
    assert ("fails after it had passed: 1 failed, 1 passed" in one.why) == (kind == "failure")


SILENT = {
    "nobody cites it": ("red", "edit", "green", DONE),
    "it is named to decline it": ("red", "[lesson {}] does not apply here.", "edit", "green", DONE),
    "a person cites it": ("red", "person See [lesson {}].", "edit", "green", DONE),
    "it is cited after the run": ("red", "edit", "green", CITE),
    "nothing was changed": ("red", CITE, "green", DONE),
    "nothing was changed between the runs": (CITE, "edit", "red", "green", DONE),
    "the test had never failed": (CITE, "edit", "green", DONE),
    "the test had failed before": ("red", CITE, "edit", "red", DONE),
    "another test had failed": (f"red {_OTHER}", CITE, "edit", "green", DONE),
    ("the test runs in the next turn"): (
        "red",
        CITE,
        "edit",
        "Done. Shall I test it?",
        "person Yes.",
        "green",
        DONE,
    ),
    "the turn goes on": ("red", CITE, "edit", "green"),
    "lint runs with the test": (f"red {_LINTED}", CITE, "edit", f"green {_LINTED}", DONE),
    "the agent went on after the failure": ("green", CITE, "edit", "red", "edit", DONE),
    ("another test passes after the failure"): (
        "green",
        CITE,
        "edit",
        "red",
        f"green {_OTHER}",
        DONE,
    ),
    ("the agent expected the failure"): (
        "green",
        CITE,
        "edit",
        "red",
        "The new test fails as expected.",
    ),
}


@pytest.mark.parametrize("why", SILENT)
def test_nothing_is_said_where(ledger: Ledger, lesson: str, tmp_path: Path, why: str) -> None:
    assert observed(ledger, played(lesson, *SILENT[why]), tmp_path) == []


def test_compacted_turn_speaks_once_it_is_over(ledger: Ledger, lesson: str, tmp_path: Path) -> None:
    session = played(lesson, *MENDED[:-1])
    assert observed(ledger, session, tmp_path) == []
    assert len(observed(ledger, session.agent(DONE), tmp_path)) == 1


@pytest.mark.parametrize("why", ["two lessons begin alike", "the transcript is gone"])
def test_a_lesson_gets_no_outcome_where(
    ledger: Ledger, lesson: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    path = mended(lesson).write(tmp_path / "s.jsonl")
    taken = take_in(ledger, Source(path, "SessionEnd"))
    (event,) = ledger.events(types=(LESSON_RECORDED,))
    with monkeypatch.context() as patch:
        if why == "the transcript is gone":
            path.unlink()
        else:
            twin = replace(event, event_id=lesson[:8] + "f" * 24)
            patch.setattr(ledger, "events", lambda **_: [event, twin])
        record_test_outcomes(ledger, [taken.event_id])
    assert [one.outcomes for one in lesson_book(ledger)] == [()]


def test_run_counts_once_across_resumes_and_forks(
    ledger: Ledger, lesson: str, tmp_path: Path
) -> None:
    session = mended(lesson)
    assert len(observed(ledger, session, tmp_path)) == 1
    assert len(observed(ledger, session.user("Thanks. Now the tax.").agent("Sure."), tmp_path)) == 1
    assert len(observed(ledger, session.fork("s-2").user("Go on.").agent("Sure."), tmp_path)) == 1


def test_told_lesson_leads_to_its_outcome(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.call("list")
    with agent.open_ledger() as ledger:
        id = record_lesson(ledger, "mistake", "Round once, at the end", actor="engine")
    agent.call("add", "oth", "Something new")
    assert f"[lesson {id[:8]}] Round once" in agent.hook("SessionStart")
    path = mended(id).write(tmp_path / "s-1.jsonl")
    for _ in range(2):
        agent.hands("SessionEnd", path, drain=True)
    told = agent.json("show", f"[lesson {id[:8]}]")
    assert (told["successes"], told["effectiveness"]) == (1, 0.6)
    (one,) = [event for event in told["events"] if event["type"] == "outcome.observed"]
    assert (one["data"]["source"], one["session_id"], one["actor"]) == ("tests", "s-1", "tests")
    assert "worth 0.6 → 0.5" in agent.call("undo", "s-1", "--why", "a wrong branch").out
    assert agent.json("show", id)["successes"] == 0
    (retraction,) = agent.json("log", "--type", "evidence.retracted")
    agent.call("undo", str(retraction["position"]), "--why", "it was right")
    assert agent.json("show", id)["successes"] == 1
