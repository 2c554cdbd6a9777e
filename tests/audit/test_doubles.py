"""Double counts: each class by itself, every policy beside the others."""

from __future__ import annotations

from reflector.audit.doubles import double_counts
from reflector.events.event import NewEvent
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from tests.ledger.events import added, reflected, window

UP = ("pat-001", "helpful")


def told(ledger: Ledger, name: str | None = None, past: Past | None = None) -> dict[str, int]:
    """Surplus tags by class, empty classes left out."""
    return {one.code: one.tags for one in double_counts(ledger, name, past).classes if one.tags}


def append(ledger: Ledger, recorded: NewEvent, *reflections: list[NewEvent]) -> None:
    new = [] if ledger.head().position else [added("pat-001"), added("mis-001")]
    ledger.append([*new, recorded, *(event for events in reflections for event in events)])


def test_shared_records_are_d5_under_two_sessions_and_d6_under_one(ledger: Ledger) -> None:
    windows = [window(1, "s1", keys=[1, 2]), window(2, "s2", keys=[2, 3]), window(3, "s2", keys=[3]), window(4, "s4")]
    for number, one in enumerate(windows):
        append(ledger, one, reflected(f"r{number}", one, UP, *[("mis-001", "helpful")] * (number == 0)))
    found = {one.code: one for one in double_counts(ledger).classes}
    assert {code: one.tags for code, one in found.items() if one.tags} == {"D3": 1, "D4": 1, "D5": 1, "D6": 1}
    assert found["D5"].examples[0].sessions == ("s1", "s2")
    assert found["D6"].bullets == 1
    assert told(ledger, "pat-001") == {"D3": 1, "D4": 1, "D5": 1, "D6": 1}
    assert told(ledger, "mis-001") == {}
