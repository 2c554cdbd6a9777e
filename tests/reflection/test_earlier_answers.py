"""Ledgers of earlier versions, which took for an answer what is none."""

from pathlib import Path

import pytest

from reflector.audit.checked import checked_lines
from reflector.judges.answers import read_answer
from reflector.judges.protocol import Answer, judge_named
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from reflector.reflection import recorder as events_of
from reflector.reflection.checking import MODE, todo
from reflector.reflection.trouble import trouble_of
from reflector.sessions.intake import Source, take_in
from tests.judges.api import answer
from tests.road.sessions import Session

SAID = answer(("pat-001", "neutral"))


def read_before(ledger: Ledger, folder: Path, text: str) -> str:
    """The session of an answer to a check that parser 4 read."""
    taken = take_in(
        ledger, Source(Session("s-1").cites("oth-001").write(folder / "s-1.jsonl"), "SessionEnd")
    )
    window = ledger.event(taken.event_id or "")
    assert window is not None
    asked = {"asked": ["pat-001"], "again": [], "unasked": []}
    made = events_of.answer_event(
        window, "anthropic", MODE, Answer(text, "m"), about=(MODE, 0), question=asked
    )
    more = {"mode": MODE, "parser": 4}
    read = events_of.completion_events(
        window, made.reflection_id or "", read_answer(made.data), made, {}, [], extra=more
    )
    ledger.append([made, *read])
    return "s-1"


@pytest.mark.parametrize(
    "text", ["I cannot say.", "", SAID[:-20], f"[{SAID}]"[1:40], '["pat-001"]', '{"analysis": "a"}']
)
def test_an_earlier_no_answer_is_asked_for_again(book: Ledger, tmp_path: Path, text: str) -> None:
    session = read_before(book, tmp_path, text)
    (line,) = [line for line in checked_lines(book).lines if line.name == "pat-001"]
    assert (line.sessions, line.relevant, line.result) == (0, 0, "not asked about")
    assert [one.names for one in todo(book, session, ["pat-001"])] == [("pat-001",)]
    assert list(verify(book)) == []


@pytest.mark.parametrize("text", ['{"bullet_tags": []}', SAID])
def test_an_earlier_answer_stays_one(book: Ledger, tmp_path: Path, text: str) -> None:
    session = read_before(book, tmp_path, text)
    (line,) = [line for line in checked_lines(book).lines if line.name == "pat-001"]
    assert (line.sessions, list(todo(book, session, ["pat-001"]))) == (1, [])


def test_waiting_answer_is_read_and_not_requested(book: Ledger, tmp_path: Path) -> None:
    path = Session("s-1").cites("oth-001").write(tmp_path / "s-1.jsonl")
    taken = take_in(book, Source(path, "SessionEnd"))
    window = book.event(taken.event_id or "")
    assert window is not None
    asked = {"asked": ["pat-001"], "again": [], "unasked": []}
    made = events_of.answer_event(
        window, "anthropic", MODE, Answer(SAID, "m"), about=(MODE, 0), question=asked
    )
    book.append([made])
    (waiting,) = todo(book, "s-1", ["pat-001"])
    assert waiting.answer is not None
    assert (waiting.answer.event_id, waiting.names) == (made.event_id, ())


def test_an_earlier_failure_names_no_client(book: Ledger, tmp_path: Path) -> None:
    taken = take_in(
        book, Source(Session("s-1").cites("pat-001").write(tmp_path / "s-1.jsonl"), "SessionEnd")
    )
    (window,) = (row for row in book.windows() if row.event_id == taken.event_id)
    book.append(
        [
            events_of.failure_event(
                window,
                "agent",
                events_of.Failure("parse", "the answer does not contain JSON", parser=4),
            )
        ]
    )
    story = book.targeting(window.event_id)
    last = trouble_of(story)
    assert last is not None
    assert (last.unusable, trouble_of(story, judge_named("agent", "claude"))) == (1, None)
