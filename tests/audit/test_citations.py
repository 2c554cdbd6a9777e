"""What leads nowhere, and what was erased, in the statistics."""

from __future__ import annotations

from typing import Any

from reflector.audit.citations import use
from reflector.audit.stats import stats
from reflector.events.event import NewEvent
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.ledger.usage import usage_at
from tests.ledger.events import added, merged, reflected, retracted, window


def session(number: int, id: str | None, **names: Any) -> NewEvent:
    plain = window(number, id)
    return NewEvent(plain.type, plain.event_id, {**plain.data, **names}, "ingest", session_id=id)


def test_a_merged_bullet_has_the_sessions_of_what_it_is_made_of_each_once(ledger: Ledger) -> None:
    first, second = session(1, "s1", cited=["pat-001", "pat-002"]), session(2, "s2", cited=["pat-002"])
    ledger.append([added("pat-001"), added("pat-002"), first, second])
    ledger.append(reflected("r1", first, ("pat-001", "helpful"), ("pat-002", "neutral")))
    ledger.append(reflected("r2", second, ("pat-002", "harmful")))
    ledger.append([merged("pat-003", "pat-001", "pat-002")])
    assert (use(ledger)["pat-003"].sessions, use(ledger)["pat-003"].trend) == (2, "+.-")
    assert usage_at(ledger).bullets["pat-003"].cited == 2
    assert use(ledger, name="pat-001")["pat-001"].sessions == 1


def test_a_verdict_that_was_taken_back_is_in_no_trend_and_in_no_figure(ledger: Ledger) -> None:
    first, second = session(1, "s1"), session(2, "s2")
    ledger.append([added("pat-001"), added("pat-002"), first, second])
    wrong = reflected("r1", first, ("pat-001", "harmful"), ("pat-002", "neutral"))
    ledger.append([*wrong, *reflected("r2", second, ("pat-001", "helpful"))])
    ledger.append([retracted(wrong[0])])
    for past, trend, figures in ((None, "+", (1, 0, 0)), (Past(ledger, ledger.head().position - 1), "-+", (1, 1, 1))):
        assert use(ledger, past)["pat-001"].trend == trend
        for group in (stats(ledger, past).whole, *stats(ledger, past).groups["model"]):
            assert (group.helpful, group.harmful, group.undecided) == figures
    ledger.append([merged("pat-003", "pat-001", "pat-002")])
    assert use(ledger)["pat-003"].trend == "+"
