"""What the reader answers about retractions, and the retractions of these."""

import pytest

from reflector.events import event as ev
from reflector.events.event import identity
from reflector.ledger.store import Ledger

from .events import reflected, retracted, window

_WINDOW = window()
_COMPLETED, _TAG = reflected("r1", _WINDOW, ("pat-001", "helpful"))
_ID = _TAG.event_id


@pytest.fixture
def judged(ledger: Ledger) -> Ledger:
    """A ledger in which a window was judged."""
    ledger.append([_WINDOW, _COMPLETED, _TAG])
    return ledger


def test_event_without_retraction_is_not_retracted(judged: Ledger) -> None:
    assert judged.retracted(_ID) == frozenset()
    assert judged.retractions(_ID) == []


def test_only_the_retracted_of_several_are_returned(judged: Ledger) -> None:
    judged.append([retracted(_TAG)])
    assert judged.retracted(_ID, _COMPLETED.event_id, "unknown") == {_ID}


def test_each_retraction_of_a_retraction_turns_the_answer(judged: Ledger) -> None:
    line, answers = [_TAG], []
    for _ in range(4):
        line.append(retracted(line[-1]))
        judged.append([line[-1]])
        answers.append(bool(judged.retracted(_ID)))
    assert answers == [True, False, True, False]
    assert [event.event_id for event in judged.retractions(_ID)] == [
        event.event_id for event in line[1:]
    ]


def test_tag_of_a_retracted_reflection_is_not_retracted(judged: Ledger) -> None:
    judged.append([retracted(_COMPLETED)])
    assert judged.retracted(_ID, _COMPLETED.event_id) == {_COMPLETED.event_id}


def test_answer_without_ids_asks_nothing(judged: Ledger) -> None:
    judged.close()
    assert judged.retracted() == frozenset()


def test_unknown_event_has_no_retractions(judged: Ledger) -> None:
    assert judged.retractions(identity(ev.BULLET_TAGGED, "unknown")) == []
