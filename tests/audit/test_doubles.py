"""Double counts: each class by itself, every policy beside the others."""

from __future__ import annotations

import pytest

from reflector.audit.doubles import CLASSES, double_counts
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.playbook.counting import COUNTINGS
from tests.ledger.events import added, changed, reflected, retracted, window

UP, DOWN = ("pat-001", "helpful"), ("pat-001", "harmful")


def told(ledger: Ledger, name: str | None = None, past: Past | None = None) -> dict[str, int]:
    """Surplus tags by class, empty classes left out."""
    return {one.code: one.tags for one in double_counts(ledger, name, past).classes if one.tags}


def append(ledger: Ledger, recorded: NewEvent, *reflections: list[NewEvent]) -> None:
    new = [] if ledger.head().position else [added("pat-001"), added("mis-001")]
    ledger.append([*new, recorded, *(event for events in reflections for event in events)])


def test_what_is_given_once_is_no_double(ledger: Ledger) -> None:
    first, second = window(1, "s1", keys=[1]), window(2, "s2", keys=[2])
    append(ledger, first, reflected("r1", first, UP, ("mis-001", "harmful")))
    append(ledger, second, reflected("r2", second, UP))
    assert told(ledger) == {}
    assert [one.code for one in double_counts(ledger).classes] == list(CLASSES)


def test_the_same_tag_twice_in_one_reflection_is_d1_and_both_tags_d2(ledger: Ledger) -> None:
    first, second = window(1, "s1"), window(2, "s2")
    append(ledger, first, reflected("r1", first, UP, UP, UP))
    assert told(ledger) == {"D1": 2}
    (example,) = double_counts(ledger).classes[0].examples
    assert (example.name, example.tag, len(example.positions), example.sessions) == ("pat-001", "helpful", 3, ("s1",))
    append(ledger, second, reflected("r2", second, UP, DOWN, ("mis-001", "helpful")))
    assert told(ledger) == {"D1": 2, "D2": 1}


def test_the_same_list_twice_is_d3_and_d4_another_list_d4_alone(ledger: Ledger) -> None:
    first, second = window(1, "s1"), window(2, "s2")
    append(ledger, first, reflected("r1", first, UP, ("mis-001", "harmful")))
    append(ledger, first, reflected("r2", first, UP, ("mis-001", "harmful")))
    assert told(ledger) == {"D3": 2, "D4": 2}
    append(ledger, second, reflected("r3", second, UP), reflected("r4", second, UP, ("mis-001", "harmful")))
    assert told(ledger) == {"D3": 2, "D4": 3}
    assert told(ledger, "mis-001") == {"D3": 1, "D4": 1}


def test_shared_records_are_d5_under_two_sessions_and_d6_under_one(ledger: Ledger) -> None:
    windows = [window(1, "s1", keys=[1, 2]), window(2, "s2", keys=[2, 3]), window(3, "s2", keys=[3]), window(4, "s4")]
    for number, one in enumerate(windows):
        append(ledger, one, reflected(f"r{number}", one, UP, *[("mis-001", "helpful")] * (number == 0)))
    found = {one.code: one for one in double_counts(ledger).classes}
    assert {code: one.tags for code, one in found.items() if one.tags} == {"D3": 1, "D4": 1, "D5": 1, "D6": 1}
    assert found["D5"].examples[0].sessions == ("s1", "s2")
    assert found["D6"].names == {"pat-001"}
    assert told(ledger, "pat-001") == {"D3": 1, "D4": 1, "D5": 1, "D6": 1}
    assert told(ledger, "mis-001") == {}


def test_every_two_windows_that_share_records_are_told_whoever_had_them_first(ledger: Ledger) -> None:
    windows = [window(number, f"s{number}", keys=[1]) for number in range(3)]
    for number, one in enumerate(windows):
        append(ledger, one, reflected(f"r{number}", one, UP if number else ("mis-001", "helpful")))
    assert told(ledger) == told(ledger, "pat-001") == {"D5": 1}
    ledger.redact(windows[0].event_id, reason="x", actor="human")
    assert told(ledger) == {"D5": 1}
    ledger.redact(windows[1].event_id, reason="x", actor="human")
    assert told(ledger) == told(ledger, "pat-001") == {"D5": 1}


def test_a_retracted_or_recounted_tag_is_no_double_any_more(ledger: Ledger) -> None:
    first = window()
    tags = reflected("r1", first, UP, UP)
    append(ledger, first, tags)
    then = ledger.head().position
    ledger.append([retracted(tags[2])])
    assert told(ledger) == {}
    assert told(ledger, past=Past(ledger, then)) == {"D1": 1}
    ledger.append([retracted(retracted(tags[2]))])
    assert told(ledger) == {"D1": 1}
    ledger.append([changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=1, harmful=0)])
    assert told(ledger) == {}


def test_every_policys_total_stands_beside_the_others(ledger: Ledger) -> None:
    first, second = window(1, "s1"), window(2, "s1")
    append(ledger, first, reflected("r1", first, UP, UP))
    append(ledger, second, reflected("r2", second, UP))
    wanted = dict(zip(COUNTINGS, ((3, 0), (2, 0), (1, 0)), strict=True))
    assert double_counts(ledger).totals["pat-001"] == wanted


@pytest.mark.parametrize(("session", "code"), [("s1", "D6"), ("s2", "D5")])
def test_windows_that_shared_records_then_did_so_whatever_came_later(ledger: Ledger, session: str, code: str) -> None:
    first, again, later = window(1, "s1", keys=[1, 2]), window(2, session, keys=[1]), window(3, "s3", keys=range(3, 40))
    append(ledger, first, reflected("r1", first, UP))
    append(ledger, again, reflected("r2", again, UP, ("mis-001", "harmful")))
    then = ledger.head().position
    append(ledger, later, reflected("r3", later, UP))
    assert told(ledger, past=Past(ledger, then))[code] == 1
    assert told(ledger, "pat-001", Past(ledger, then))[code] == 1
