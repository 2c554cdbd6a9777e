"""Filters of the log, condition by condition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reflector.audit.log import Filter, select
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.ledger.store import Ledger
from tests.ledger.events import about, added, changed, imported, reflected, window


def session(number: int, id: str, **data: Any) -> NewEvent:
    plain = window(number, id)
    return NewEvent(plain.type, plain.event_id, {**plain.data, **data}, "hook:SessionEnd", session_id=id)


@pytest.fixture
def lived_in(ledger: Ledger) -> Ledger:
    """1 import, 2 session, 3 answer, 4 completion, 5-6 tags, 7 revision, 8 session, 9 failure, 10 removal, 11 add."""
    first = session(1, "s1", cited=["pat-001"], unknown=["pat-009"])
    second = session(2, "s2", carried=["mis-001"])
    answered = replace(about(ev.REFLECTION_ANSWERED, first, backend="anthropic", answer="x"), actor="anthropic")
    ledger.append([imported(("pat-001", 0, 0), ("mis-001", 0, 0)), first, answered])
    ledger.append(reflected("r1", first, ("pat-001", "helpful"), ("mis-001", "harmful"), actor="anthropic"))
    ledger.append([changed(ev.BULLET_REVISED, "pat-001", 1, text="New"), second])
    ledger.append([about(ev.REFLECTION_FAILED, second, 1, backend="anthropic", stage="api", message="pat-001")])
    ledger.append([changed(ev.BULLET_REMOVED, "mis-001", 1, reason="merged", into="pat-001"), added("pat-010")])
    return ledger


@pytest.mark.parametrize(
    ("chosen", "positions"),
    [
        (Filter(), list(range(1, 12))),
        (Filter(session_id="s1"), [2, 3, 4, 5, 6]),
        (Filter(bullet="pat-001"), [1, 2, 5, 7, 10]),
        (Filter(bullet="mis-001"), [1, 6, 8, 10]),
        (Filter(bullet="pat-01"), []),
        (Filter(bullet='"'), []),
        (Filter(actor="hook"), [2, 8]),
        (Filter(actor="hoo"), []),
        (Filter(after=3, upto=6), [4, 5, 6]),
        (Filter(bullet="pat-001", session_id="s2"), []),
    ],
)
def test_an_event_is_chosen_when_it_meets_all_conditions(
    lived_in: Ledger, chosen: Filter, positions: list[int]
) -> None:
    assert [event.position for event in select(lived_in, chosen)] == positions
    assert [event.position for event in select(lived_in, chosen, newest=2)] == positions[-2:]


def test_a_redacted_session_is_still_found_by_what_it_cites(lived_in: Ledger) -> None:
    (recorded,) = select(lived_in, Filter(types=(ev.SESSION_RECORDED,), session_id="s1"))
    lived_in.redact(recorded.event_id, reason="a secret", actor="human")
    assert 2 in [event.position for event in select(lived_in, Filter(bullet="pat-001"))]
