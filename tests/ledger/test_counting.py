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


def test_each_verdict_counts_once_and_a_neutral_one_not_at_all(ledger: Ledger) -> None:
    ledger.append([imported(("pat-001", 3, 1), ("oth-001", 0, 0), ("ctx-001", 1, 1)), window()])
    tags = [("pat-001", "helpful"), ("oth-001", "harmful"), ("ctx-001", "neutral", "neutral")]
    ledger.append(reflected("r1", window(), *tags))
    assert _counts(ledger) == {"pat-001": (4, 1), "oth-001": (0, 1), "ctx-001": (1, 1)}


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


def test_a_tag_given_before_its_bullet_existed_is_not_part_of_its_count(ledger: Ledger) -> None:
    first = window()
    early = reflected("r1", first, ("pat-001", "helpful"))
    ledger.append([first, *early])
    ledger.append([added("pat-001", helpful=2), *reflected("r2", first, ("pat-001", "helpful"))])
    assert _counts(ledger) == {"pat-001": (3, 0)}
    ledger.recount()
    assert _counts(ledger) == {"pat-001": (3, 0)}
    # Neither does it come in by being retracted and taken back.
    ledger.append([retracted(early[1])])
    ledger.append([retracted(retracted(early[1]))])
    assert _counts(ledger) == {"pat-001": (3, 0)}


def test_a_recount_sets_a_new_baseline_and_later_tags_count_on_top(ledger: Ledger) -> None:
    first = window()
    before = reflected("r1", first, ("pat-001", "helpful"), ("pat-001", "helpful"))
    ledger.append([added("pat-001"), first, *before])
    ledger.append([changed(ev.BULLET_RECOUNTED, "pat-001", helpful=10, harmful=1)])
    assert _counts(ledger) == {"pat-001": (10, 1)}
    ledger.append(reflected("r2", first, ("pat-001", "harmful")))
    # What the recount covered is not counted again when it is retracted and taken back.
    ledger.append([retracted(before[0])])
    assert _counts(ledger) == {"pat-001": (10, 2)}
    ledger.append([retracted(retracted(before[0]))])
    assert _counts(ledger) == {"pat-001": (10, 2)}


@pytest.mark.parametrize(("what", "left"), [("tag", (2, 1)), ("reflection", (1, 0)), ("window", (0, 0))])
def test_a_retraction_takes_out_a_tag_a_reflection_or_all_of_a_window(
    ledger: Ledger, what: str, left: tuple[int, int]
) -> None:
    first = window()
    one = reflected("r1", first, ("pat-001", "helpful"), ("pat-001", "helpful"), ("pat-001", "harmful"))
    two = reflected("r2", first, ("pat-001", "helpful"))
    ledger.append([added("pat-001"), first, *one, *two])
    target = {"tag": one[1], "reflection": one[0], "window": first}[what]
    ledger.append([retracted(target)])
    assert _counts(ledger) == {"pat-001": left}
    ledger.append([retracted(retracted(target))])
    assert _counts(ledger) == {"pat-001": (3, 1)}


def test_a_retraction_of_a_retraction_of_a_retraction_takes_out_again(ledger: Ledger) -> None:
    first = window()
    ledger.append([added("pat-001"), first, *reflected("r1", first, ("pat-001", "helpful"))])
    target: NewEvent = first
    for number in range(1, 8):
        target_next = retracted(target)
        ledger.append([target_next])
        assert _counts(ledger) == {"pat-001": ((number + 1) % 2, 0)}
        target = target_next


def test_a_tag_under_two_retractions_counts_again_only_when_both_are_taken_back(ledger: Ledger) -> None:
    first = window()
    events = reflected("r1", first, ("pat-001", "helpful"))
    ledger.append([added("pat-001"), first, *events])
    ledger.append([retracted(first), retracted(events[1])])
    assert _counts(ledger) == {"pat-001": (0, 0)}
    ledger.append([retracted(retracted(first))])
    assert _counts(ledger) == {"pat-001": (0, 0)}
    ledger.append([retracted(retracted(events[1]))])
    assert _counts(ledger) == {"pat-001": (1, 0)}


def test_a_window_retracted_before_its_reflection_completes_never_counts(ledger: Ledger) -> None:
    first, second = window(1), window(2)
    ledger.append([added("pat-001"), first, second, retracted(first)])
    ledger.append(reflected("r1", first, ("pat-001", "helpful")))
    ledger.append(reflected("r2", second, ("pat-001", "harmful")))
    assert _counts(ledger) == {"pat-001": (0, 1)}
    ledger.append([retracted(retracted(first))])
    assert _counts(ledger) == {"pat-001": (1, 1)}


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


def test_the_same_retraction_twice_is_one(ledger: Ledger) -> None:
    ledger.append([added("pat-001"), window()])
    ledger.append([retracted(window())])
    assert not ledger.append([retracted(window())])[0].added


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


def test_a_reflection_may_have_as_many_tags_as_the_runner_keeps(ledger: Ledger) -> None:
    first = window()
    ledger.append([added("pat-001"), first, *reflected("r1", first, *[("pat-001", "helpful")] * MAX_TAGS)])
    assert _counts(ledger) == {"pat-001": (MAX_TAGS, 0)}
    ledger.append([retracted(first)])
    assert _counts(ledger) == {"pat-001": (0, 0)}


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


def test_no_id_from_outside_can_pass_for_another_tags_own(ledger: Ledger) -> None:
    ledger.append([added("pat-001"), adopted("once_per_session")])
    ledger.append([tagged(None, 1, "pat-001", "helpful", session=None)])
    ledger.append([tagged(None, 2, "pat-001", "helpful", session="position:3")])
    assert _counts(ledger) == {"pat-001": (2, 0)}


def test_a_policy_without_a_known_counting_changes_none(ledger: Ledger) -> None:
    ledger.append([added("pat-001"), adopted("twice_as_much")])
    assert ledger.counting() == "as_applied"
    assert _counts(ledger) == {"pat-001": (0, 0)}


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


def test_a_window_that_was_skipped_or_given_up_may_still_be_judged(ledger: Ledger) -> None:
    one, two = window(1, "s1"), window(2, "s2")
    ledger.append([one, two, about(ev.REFLECTION_FAILED, one, 1, final=True), about(ev.REFLECTION_SKIPPED, two)])
    ledger.append([about(ev.REFLECTION_ANSWERED, one, 1), about(ev.REFLECTION_FAILED, two, 1)])
    assert [(row.state, row.attempts) for row in ledger.windows()] == [("answered", 1), ("failed", 1)]
    ledger.append([*reflected("r1", one), *reflected("r2", two)])
    assert [row.state for row in ledger.windows()] == ["completed", "completed"]
    assert list(verify(ledger)) == []


def test_a_rebuild_appends_nothing_and_gives_the_very_same_rows(ledger: Ledger) -> None:
    first, second = window(1), window(2, "s2", keys=[5, 6])
    events = reflected("r1", first, ("pat-001", "helpful"), ("mis-001", "harmful"))
    ledger.append([imported(("pat-001", 1, 2), ("mis-001", 0, 0)), first, *events, second, retracted(events[2])])
    ledger.append([adopted("once_per_session"), *reflected("r2", second, ("pat-001", "helpful"))])
    ledger.append([changed(ev.BULLET_RECOUNTED, "mis-001", helpful=4, harmful=4), about(ev.REFLECTION_FAILED, second)])
    ledger.append([changed(ev.BULLET_REMOVED, "mis-001", reason="pruned", into=None)])

    def everything() -> list[list[tuple[object, ...]]]:
        names = ("bullet", "tag", "session_window", "retraction", "record", "projection", "playbook", "event")
        return [sorted(sql.rows(ledger, f"SELECT * FROM {name}"), key=repr) for name in names]

    before = everything()
    for _ in range(2):
        ledger.rebuild()
        assert everything() == before
    ledger.recount()
    assert everything() == before


def test_a_failing_rebuild_leaves_the_tables_as_they_were(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.append([added("pat-001"), *[tagged(None, index, "pat-001", "helpful") for index in range(3)]])

    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    with monkeypatch.context() as patched:
        patched.setattr(Counters, "increase", fail)
        with pytest.raises(RuntimeError, match="in the middle"):
            ledger.rebuild()
    assert _counts(ledger) == {"pat-001": (3, 0)}
