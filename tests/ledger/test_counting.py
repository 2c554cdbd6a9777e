"""Counters: a baseline plus the tags that count. Retractions take evidence out, and may be taken back."""

from __future__ import annotations

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.events.fold import MAX_TAGS
from reflector.ledger.counters import Counters
from reflector.ledger.errors import AlreadyRetracted
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify

from . import sql
from .events import about, added, adopted, changed, imported, reflected, retracted, tagged, window


def _counts(ledger: Ledger) -> dict[str, tuple[int, int]]:
    """The counters, after a look that the tables say what the events say."""
    assert list(verify(ledger)) == []
    return {row.name: (row.helpful, row.harmful) for row in ledger.rows()}


UP, DOWN, NEUTRAL = ("pat-001", "helpful"), ("pat-001", "harmful"), ("pat-001", "neutral", "neutral")
_ONE, _TWO = window(1), window(2)
_FIRST = reflected("r1", _ONE, UP, UP, DOWN)
_MANY = reflected("r9", _ONE, *[UP] * MAX_TAGS)
_AGAIN = [retracted(_ONE)]
for _ in range(6):
    _AGAIN.append(retracted(_AGAIN[-1]))


def _recounted(helpful: int, harmful: int) -> NewEvent:
    return changed(ev.BULLET_RECOUNTED, "pat-001", helpful=helpful, harmful=harmful)


#: What is appended, one transaction a list, behind an import of pat-001 at 3/1 and two windows; and its counters then.
HISTORIES: dict[str, tuple[list[list[NewEvent]], tuple[int, int]]] = {
    "each verdict counts once, a neutral one not at all": ([reflected("r1", _ONE, UP, DOWN, NEUTRAL)], (4, 2)),
    "a tag is retracted": ([_FIRST, [retracted(_FIRST[1])]], (4, 2)),
    "a reflection is retracted": ([_FIRST, reflected("r2", _ONE, UP), [retracted(_FIRST[0])]], (4, 1)),
    "a window is retracted": ([_FIRST, reflected("r2", _ONE, UP), [retracted(_ONE)]], (3, 1)),
    "a retraction is taken back": ([_FIRST, [retracted(_ONE)], [retracted(retracted(_ONE))]], (5, 2)),
    "retractions of retractions": ([_FIRST, *([one] for one in _AGAIN)], (3, 1)),
    "one of two retractions is taken back": (
        [_FIRST, [retracted(_ONE), retracted(_FIRST[1])], [retracted(retracted(_ONE))]],
        (4, 2),
    ),
    "a window is retracted before its reflection": ([[retracted(_ONE)], _FIRST, reflected("r2", _TWO, DOWN)], (3, 2)),
    "a reflection has as many tags as the runner keeps": ([_MANY], (3 + MAX_TAGS, 1)),
    "all of its many tags are retracted": ([_MANY, [retracted(_ONE)]], (3, 1)),
    "a new baseline": ([_FIRST, [_recounted(10, 1)], reflected("r2", _ONE, DOWN)], (10, 2)),
    "what is behind a new baseline is retracted and taken back": (
        [_FIRST, [_recounted(10, 1)], [retracted(_FIRST[0])], [retracted(retracted(_FIRST[0]))]],
        (10, 1),
    ),
    "an unknown policy": ([[adopted("twice_as_much")], _FIRST], (5, 2)),
    "an id from outside that looks like a position": (
        [
            [adopted("once_per_session")],
            [tagged(None, 1, *UP, session=None), tagged(None, 2, *UP, session="position:5")],
        ],
        (5, 1),
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_a_counter_is_its_baseline_and_the_tags_that_count(ledger: Ledger, name: str) -> None:
    histories, expected = HISTORIES[name]
    ledger.append([imported(("pat-001", 3, 1)), _ONE, _TWO])
    for events in histories:
        ledger.append(events)
    for again in (lambda: None, ledger.rebuild):
        again()
        assert _counts(ledger) == {"pat-001": expected}


def test_a_tag_given_before_its_bullet_existed_is_not_part_of_its_count(ledger: Ledger) -> None:
    early = reflected("r1", _ONE, UP)
    ledger.append([_ONE, *early, added("pat-001", helpful=2), *reflected("r2", _ONE, UP)])
    ledger.append([retracted(early[1])])
    ledger.append([retracted(retracted(early[1]))])
    ledger.rebuild()
    assert _counts(ledger) == {"pat-001": (3, 0)}


@pytest.mark.parametrize("at_once", [True, False])
def test_a_tag_that_comes_behind_the_retraction_of_its_reflection_never_counts(ledger: Ledger, at_once: bool) -> None:
    first, other = window(1), window(2)
    completed, tag = reflected("r1", first, ("pat-001", "helpful"))
    events = [imported(("pat-001", 0, 0)), other, retracted(other), first, completed, tag]
    events += [retracted(completed), tagged("r1", 1, "pat-001", "helpful", "counted")]
    for batch in [events] if at_once else [[event] for event in events]:
        ledger.append(batch)
    assert _counts(ledger) == {"pat-001": (0, 0)}
    ledger.rebuild()
    assert _counts(ledger) == {"pat-001": (0, 0)}


def test_only_sound_tags_of_live_verdicts_count_whatever_else_an_answer_held(ledger: Ledger) -> None:
    first = window()
    odd = [
        tagged("r1", index, name, tag, disposition)
        for index, (name, tag, disposition) in enumerate(
            [
                ("pat-001", "helpful", "counted"),
                ("pat-001", "helpful", "counted"),
                ("pat-001", "harmful", "counted"),
                ("pat-001", "Helpful", "unknown_tag"),
                ("pat-001", None, "malformed"),
                (None, "helpful", "malformed"),
                (["pat-001"], {"a": 1}, "malformed"),
                ("pat-999", "helpful", "unknown_bullet"),
                # A disposition that does not fit its tag counts nothing rather than something wrong.
                ("pat-001", "neutral", "counted"),
                ("pat-001", ["helpful"], "counted"),
                (None, "helpful", "counted"),
                (["pat-001"], "helpful", "counted"),
                ("pat-001\0", "helpful", "counted"),
                ("pat\0", "x", "malformed"),
            ]
        )
    ]
    ledger.append([added("pat-001"), first, reflected("r1", first)[0], *odd])
    assert _counts(ledger) == {"pat-001": (2, 1)}
    ledger.rebuild()
    assert _counts(ledger) == {"pat-001": (2, 1)}


@pytest.mark.parametrize("together", [True, False])
def test_a_target_is_retracted_once_only(ledger: Ledger, together: bool) -> None:
    first = window()
    another = NewEvent(ev.EVIDENCE_RETRACTED, "another", {"reason": "x"}, "human", target_id=first.event_id)
    ledger.append([added("pat-001"), first, *reflected("r1", first, ("pat-001", "helpful"))])
    if not together:
        ledger.append([retracted(first)])
    position = ledger.head().position
    with pytest.raises(AlreadyRetracted, match=r"already retracted .* nothing was appended. To undo it, retract the"):
        ledger.append([retracted(first), another])
    assert ledger.head().position == position
    assert _counts(ledger) == {"pat-001": (int(together), 0)}


def test_tags_far_behind_a_completion_are_not_its_own(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("reflector.events.state", "reflector.ledger.projection"):
        monkeypatch.setattr(f"{module}.MAX_TAGS", 3)
    first = window()
    events = reflected("r1", first, *[("pat-001", "helpful")] * 5)
    ledger.append([added("pat-001"), first, *events])
    ledger.append([retracted(first)])
    assert _counts(ledger) == {"pat-001": (2, 0)}
    ledger.append(reflected("r2", first, *[("pat-001", "harmful")] * 5))
    assert _counts(ledger) == {"pat-001": (2, 2)}
    ledger.append([retracted(events[-1])])
    assert _counts(ledger) == {"pat-001": (1, 2)}
    ledger.rebuild()
    assert _counts(ledger) == {"pat-001": (1, 2)}


@pytest.mark.parametrize(
    ("counting", "expected"),
    [("as_applied", (7, 2)), ("once_per_reflection", (5, 2)), ("once_per_session", (4, 1))],
)
def test_a_policy_decides_which_tags_are_one(ledger: Ledger, counting: str, expected: tuple[int, int]) -> None:
    one, two = window(1, "s1"), window(2, "s1")
    ledger.append([added("pat-001", helpful=1), one, two])
    ledger.append(reflected("r1", one, ("pat-001", "helpful"), ("pat-001", "helpful"), ("pat-001", "harmful")))
    ledger.append([adopted(counting)])
    ledger.append(reflected("r2", two, ("pat-001", "helpful"), ("pat-001", "helpful"), ("pat-001", "harmful")))
    # Without a reflection and a session each stands for itself, even beside an id that looks like a position.
    ledger.append([tagged(None, index, "pat-001", "helpful", session=None) for index in range(2)])
    assert _counts(ledger) == {"pat-001": expected}
    assert ledger.counting() == counting
    ledger.rebuild()
    assert _counts(ledger) == {"pat-001": expected}
    ledger.append([adopted("as_applied", 2)])
    assert _counts(ledger) == {"pat-001": (7, 2)}


def test_a_counter_is_counted_and_never_subtracted(ledger: Ledger) -> None:
    first = window()
    events = reflected("r1", first, ("pat-001", "helpful"), ("pat-001", "harmful"))
    ledger.append([added("pat-001"), first, *events])
    # Even when the stored counter is off, a retraction leads to the true count and not below zero.
    sql.run(ledger, "UPDATE bullet SET helpful = 0, harmful = 0")
    ledger.append([retracted(events[0])])
    assert _counts(ledger) == {"pat-001": (0, 0)}


def test_the_time_of_the_last_change_is_that_of_the_last_event_that_changes_something(ledger: Ledger) -> None:
    first = window()
    assert ledger.updated_at() is None
    ledger.append([first, about(ev.REFLECTION_ANSWERED, first, answer="x")])
    assert ledger.updated_at() is None
    for change in ([added("pat-001")], reflected("r1", first, ("pat-001", "helpful")), [retracted(first)]):
        ledger.append(change)
        changed_at = ledger.head().recorded_at
        assert ledger.updated_at() == changed_at
        ledger.append(
            reflected(f"after-{changed_at}", first, ("pat-001", "neutral", "neutral"), ("x", "y", "malformed"))
        )
        assert ledger.updated_at() == changed_at
    ledger.rebuild()
    assert ledger.updated_at() == changed_at


def test_a_window_goes_from_pending_to_its_end_and_stays_there(ledger: Ledger) -> None:
    one, two, three = window(1, "s1"), window(2, "s1"), window(3, "s2")
    ledger.append([one, two, three])

    def states() -> list[tuple[str, int]]:
        assert list(verify(ledger)) == []
        return [(row.state, row.attempts) for row in ledger.windows()]

    assert states() == [("pending", 0)] * 3
    ledger.append([about(ev.REFLECTION_FAILED, one, 1), about(ev.REFLECTION_ANSWERED, two, 1)])
    assert states() == [("failed", 1), ("answered", 0), ("pending", 0)]
    ledger.append([about(ev.REFLECTION_FAILED, one, 2, final=True), about(ev.REFLECTION_SKIPPED, three)])
    assert states() == [("given_up", 2), ("answered", 0), ("skipped", 0)]
    assert [row.event_id for row in ledger.open_windows()] == [two.event_id]
    ledger.append(reflected("r2", two))
    ledger.append([about(ev.REFLECTION_FAILED, two, 9), about(ev.REFLECTION_ANSWERED, two, 9)])
    assert states() == [("given_up", 2), ("completed", 0), ("skipped", 0)]
    assert ledger.open_windows() == []
    assert [row.session_id for row in ledger.windows("s1")] == ["s1", "s1"]


def test_a_failing_rebuild_leaves_the_tables_as_they_were(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.append([added("pat-001"), *[tagged(None, index, "pat-001", "helpful") for index in range(3)]])

    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    with monkeypatch.context() as patched:
        patched.setattr(Counters, "increase", fail)
        with pytest.raises(RuntimeError, match="in the middle"):
            ledger.rebuild()
    assert _counts(ledger) == {"pat-001": (3, 0)}
