"""A recorded answer that a later parser reads in another way, after a user decided on it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reflector.changes.retractions import put_back_evidence, retract
from reflector.config import Config
from reflector.events import event as ev
from reflector.judges import answers
from reflector.judges.answers import Parsed, parse_answer
from reflector.ledger.store import Ledger
from reflector.reflection.gate import Gate
from reflector.reflection.runner import Runner
from reflector.reflection.standing import citation_of, record_verdict, reparse
from reflector.sessions.intake import Source, take_in
from tests.building import Says
from tests.judges.api import answer
from tests.reading import counters, of_type
from tests.road.sessions import Session


@pytest.fixture
def judged(book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A session with two helpful verdicts. A later parser reads the second one as harmful."""
    session = Session("s-1").cites("pat-001").cites("pat-002")
    take_in(book, Source(session.write(tmp_path / "s-1.jsonl"), "SessionEnd"))
    judge = Says([answer(("pat-001", "helpful"), ("pat-002", "helpful"))])
    Runner(book, judge, gate=Gate(Config(), tmp_path)).finish_pending(retry="all")
    assert counters(book) == {"pat-001": (1, 0), "pat-002": (1, 0)}
    later = answers.parse_answer(answer(("pat-001", "helpful"), ("pat-002", "harmful")))
    monkeypatch.setattr(answers, "parse_answer", lambda _: later)
    return book


def take_reading_back(ledger: Ledger) -> None:
    retract(ledger, of_type(ledger, ev.REFLECTION_COMPLETED), "wrong")


def put_reading_back(ledger: Ledger) -> None:
    take_reading_back(ledger)
    put_back_evidence(ledger, of_type(ledger, ev.EVIDENCE_RETRACTED), "right")


def take_first_verdict_back(ledger: Ledger) -> None:
    retract(ledger, of_type(ledger, ev.BULLET_TAGGED)[:1], "wrong")


def judge_first_citation(ledger: Ledger) -> None:
    record_verdict(ledger, citation_of(ledger, "s-1", "pat-001"), "harmful")


def replace_first_verdict(ledger: Ledger) -> None:
    take_first_verdict_back(ledger)
    judge_first_citation(ledger)


@pytest.mark.parametrize(
    ("decide", "readings", "first", "second"),
    [
        (take_reading_back, [], (0, 0), (0, 0)),
        (put_reading_back, ["changed"], (1, 0), (0, 1)),
        (take_first_verdict_back, ["changed"], (0, 0), (0, 1)),
        (judge_first_citation, ["changed"], (0, 1), (0, 1)),
        (replace_first_verdict, ["changed"], (0, 1), (0, 1)),
    ],
)
def test_later_parser_respects_your_decision(
    judged: Ledger,
    decide: Callable[[Ledger], None],
    readings: list[str],
    first: tuple[int, int],
    second: tuple[int, int],
) -> None:
    decide(judged)
    assert [reading.reading for reading in reparse(judged)] == readings
    assert counters(judged) == {"pat-001": first, "pat-002": second}
    assert [reading.reading for reading in reparse(judged)] == ["same"] * len(readings)


ODD = Parsed("", (), "none", fault="odd")


@pytest.mark.parametrize(
    ("take_back", "is_readable", "reading"),
    [
        (take_reading_back, False, "read"),
        (take_first_verdict_back, True, "changed"),
    ],
)
def test_answer_of_another_judge_is_its_own(
    judged: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    take_back: Callable[[Ledger], None],
    is_readable: bool,
    reading: str,
) -> None:
    take_back(judged)
    judge = Says([answer(("pat-001", "harmful"), ("pat-002", "helpful"))], "other")
    with monkeypatch.context() as earlier:
        earlier.setattr(answers, "parse_answer", parse_answer if is_readable else lambda _: ODD)
        Runner(judged, judge, gate=Gate(Config(), Path())).finish(judged.windows()[0], forced=True)
    assert [reparsed.reading for reparsed in reparse(judged)] == [reading]
    assert counters(judged)["pat-001"] == (1, 0)


@pytest.mark.parametrize("name", ["pat-001", "pat-002"])
def test_new_verdict_returns_when_yours_goes(judged: Ledger, name: str) -> None:
    record_verdict(judged, citation_of(judged, "s-1", name), "neutral")
    for _ in reparse(judged):
        assert counters(judged)[name] == (0, 0)
    yours = of_type(judged, ev.REFLECTION_COMPLETED)
    retract(judged, [event for event in yours if event.actor == ev.HUMAN], "wrong")
    assert counters(judged) == {"pat-001": (1, 0), "pat-002": (0, 1)}
