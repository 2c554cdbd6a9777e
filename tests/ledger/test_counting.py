"""Counters: a baseline plus the tags that count. Retractions take evidence out, and may be taken
back.
"""

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.events.registry import fold
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify

from . import sql
from .events import (
    about,
    added,
    adopted,
    changed,
    imported,
    reflected,
    retracted,
    tagged,
    trajectory,
    window,
)


def _counts(ledger: Ledger) -> dict[str, tuple[int, int]]:
    """The counters, after a look that the tables and the fold say what the events say."""
    assert list(verify(ledger)) == []
    counts, book = (
        {row.name: (row.helpful, row.harmful) for row in ledger.rows()},
        fold(ledger.events()),
    )
    assert {name: book.counters(name) for name in book.entries} == counts
    assert (book.updated_at, book.position) == (ledger.updated_at(), ledger.head().position)
    return counts


UP, DOWN, NEUTRAL = (
    ("pat-001", "helpful"),
    ("pat-001", "harmful"),
    ("pat-001", "neutral", "neutral"),
)
_ONE, _TWO, _OF_TWO = window(1), window(2), window(3, "s2")
_FIRST = reflected("r1", _ONE, UP, UP, DOWN)
_LATER = reflected("r2", _TWO, UP, UP, DOWN)
_RUN = trajectory()
_LEARNED = reflected("r9", _RUN, UP)
_AGAIN = [retracted(_ONE)]
for _ in range(6):
    _AGAIN.append(retracted(_AGAIN[-1]))
_ALONE = [tagged(None, 1, *UP, session=None), tagged(None, 2, *UP, session=None)]
#: What an answer may hold besides verdicts. A disposition that does not fit its tag counts nothing
#: rather than wrong.
_ODD = [
    tagged("r1", 10 + index, name, tag, disposition)
    for index, (name, tag, disposition) in enumerate(
        [
            ("pat-001", "Helpful", "unknown_tag"),
            ("pat-001", None, "malformed"),
            (None, "helpful", "malformed"),
            (["pat-001"], {"a": 1}, "malformed"),
            ("pat-999", "helpful", "unknown_bullet"),
            ("pat-001", "neutral", "counted"),
            ("pat-001", ["helpful"], "counted"),
            (None, "helpful", "counted"),
            (["pat-001"], "helpful", "counted"),
            ("pat-001\0", "helpful", "counted"),
            ("pat\0", "x", "malformed"),
        ]
    )
]


def _recounted(helpful: int, harmful: int) -> NewEvent:
    return changed(ev.BULLET_RECOUNTED, "pat-001", helpful=helpful, harmful=harmful)


#: What is appended, one transaction a list, behind an import of pat-001 at 3/1 and windows; and its
#: counters then.
HISTORIES: dict[str, tuple[list[list[NewEvent]], tuple[int, int]]] = {
    "each verdict counts once, a neutral one not at all": (
        [reflected("r1", _ONE, UP, DOWN, NEUTRAL)],
        (4, 2),
    ),
    "what is no sound verdict counts nothing": ([[*_FIRST, *_ODD]], (5, 2)),
    "a tag is retracted": ([_FIRST, [retracted(_FIRST[1])]], (4, 2)),
    "a reflection is retracted": (
        [_FIRST, reflected("r2", _ONE, UP), [retracted(_FIRST[0])]],
        (4, 1),
    ),
    "a window is retracted": ([_FIRST, reflected("r2", _ONE, UP), [retracted(_ONE)]], (3, 1)),
    "a retraction is taken back": (
        [_FIRST, [retracted(_ONE)], [retracted(retracted(_ONE))]],
        (5, 2),
    ),
    "retractions of retractions": ([_FIRST, *([one] for one in _AGAIN)], (3, 1)),
    "one of two retractions is taken back": (
        [_FIRST, [retracted(_ONE), retracted(_FIRST[1])], [retracted(retracted(_ONE))]],
        (4, 2),
    ),
    ("a window is retracted before its reflection"): (
        [[retracted(_ONE)], _FIRST, reflected("r2", _TWO, DOWN)],
        (3, 2),
    ),
    "a tag comes behind the retraction of its reflection, at once": (
        [[retracted(_TWO), _FIRST[0], _FIRST[1], retracted(_FIRST[0]), _FIRST[2]]],
        (3, 1),
    ),
    "a tag comes behind the retraction of its reflection, later": (
        [[retracted(_TWO)], _FIRST[:2], [retracted(_FIRST[0])], _FIRST[2:]],
        (3, 1),
    ),
    "a trajectory is judged": ([[_RUN, *_LEARNED]], (4, 1)),
    "a trajectory is retracted": ([[_RUN, *_LEARNED], [retracted(_RUN)]], (3, 1)),
    "a new baseline": ([_FIRST, [_recounted(10, 1)], reflected("r2", _ONE, DOWN)], (10, 2)),
    "what is behind a new baseline is retracted and taken back": (
        [_FIRST, [_recounted(10, 1)], [retracted(_FIRST[0])], [retracted(retracted(_FIRST[0]))]],
        (10, 1),
    ),
    "an unknown policy": ([[adopted("twice_as_much")], _FIRST], (5, 2)),
    "every tag": ([_FIRST, [adopted("as_applied")], _LATER, _ALONE], (9, 3)),
    "once a reflection": ([_FIRST, [adopted("once_per_reflection")], _LATER, _ALONE], (7, 3)),
    "once a session": ([_FIRST, [adopted("once_per_session")], _LATER, _ALONE], (6, 2)),
    "another session": (
        [[adopted("once_per_session")], _FIRST, reflected("r3", _OF_TWO, UP)],
        (5, 2),
    ),
    "every tag again": (
        [_FIRST, [adopted("once_per_session")], _LATER, [adopted("as_applied", 2)]],
        (7, 3),
    ),
    "an id from outside that looks like a position": (
        [[adopted("once_per_session")], [_ALONE[0], tagged(None, 2, *UP, session="position:5")]],
        (5, 1),
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_counter_is_baseline_plus_counting_tags(ledger: Ledger, name: str) -> None:
    histories, expected = HISTORIES[name]
    ledger.append([imported(("pat-001", 3, 1)), _ONE, _TWO, _OF_TWO])
    for events in histories:
        ledger.append(events)
    for again in (lambda: None, ledger.rebuild):
        again()
        assert _counts(ledger) == {"pat-001": expected}


def test_tag_before_its_bullet_is_not_counted(ledger: Ledger) -> None:
    early = reflected("r1", _ONE, UP)
    ledger.append([_ONE, *early, added("pat-001", helpful=2), *reflected("r2", _ONE, UP)])
    ledger.append([retracted(early[1])])
    ledger.append([retracted(retracted(early[1]))])
    ledger.rebuild()
    assert _counts(ledger) == {"pat-001": (3, 0)}


def test_tags_beyond_the_limit_belong_to_no_completion(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("reflector.events.state", "reflector.ledger.projection"):
        monkeypatch.setattr(f"{module}.MAX_TAGS", 3)
    events = reflected("r1", _ONE, *[UP] * 5)
    ledger.append([added("pat-001"), _ONE, *events])
    for more, expected in (
        ([retracted(_ONE)], (2, 0)),
        (reflected("r2", _ONE, *[DOWN] * 5), (2, 2)),
        ([retracted(events[-1])], (1, 2)),
    ):
        ledger.append(more)
        assert _counts(ledger) == {"pat-001": expected}
    ledger.rebuild()
    assert _counts(ledger) == {"pat-001": (1, 2)}


def test_a_counter_is_counted_and_never_subtracted(ledger: Ledger) -> None:
    events = reflected("r1", _ONE, UP, DOWN)
    ledger.append([added("pat-001"), _ONE, *events])
    # Even when the stored counter is off, a retraction leads to the true count and not below zero.
    sql.run(ledger, "UPDATE bullet SET helpful = 0, harmful = 0")
    ledger.append([retracted(events[0])])
    assert _counts(ledger) == {"pat-001": (0, 0)}


def test_last_change_is_the_last_effective_event(
    ledger: Ledger,
) -> None:
    ledger.append([_ONE, about(ev.REFLECTION_ANSWERED, _ONE, answer="x")])
    assert ledger.updated_at() is None
    for number, change in enumerate(
        ([added("pat-001")], reflected("r1", _ONE, UP), [retracted(_ONE)])
    ):
        ledger.append(change)
        changed_at = ledger.head().recorded_at
        ledger.append(reflected(f"after-{number}", _ONE, NEUTRAL, ("x", "y", "malformed")))
        assert ledger.updated_at() == changed_at
        _counts(ledger)
    ledger.rebuild()
    assert ledger.updated_at() == changed_at
