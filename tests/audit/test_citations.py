"""What leads nowhere, and what was erased, in the statistics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reflector.audit.stats import stats
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.ledger.store import Ledger
from tests.ledger.events import about, added, changed, reflected, tagged, window


def session(number: int, id: str | None, **names: Any) -> NewEvent:
    plain = window(number, id)
    return NewEvent(plain.type, plain.event_id, {**plain.data, **names}, "ingest", session_id=id)


def test_what_leads_nowhere_counts_nowhere(ledger: Ledger) -> None:
    first, second, third = (
        session(1, "s1", cited=["pat-001"], unknown=["pat-099"]),
        session(2, "s2", unknown=["pat-099"]),
        session(3, "s3"),
    )
    ledger.append([added("pat-001"), added("mis-001"), added("ctx-001"), first, second, third])
    strays = (("pat-098", "helpful", "unknown_bullet"), (None, "helpful", "malformed"))
    ledger.append(reflected("r1", first, *strays))
    ledger.append([changed(ev.BULLET_REMOVED, "mis-001", 1, reason="deleted", into=None)])
    ledger.append([tagged("r2", 0, "mis-001", "helpful", "retired_bullet")])
    ledger.append([about(ev.REFLECTION_SKIPPED, third, reason="the window cites nothing")])
    whole = stats(ledger)
    assert (whole.whole.helpful, whole.whole.undecided, whole.sessions) == (0, 3, 3)
    assert whole.states == {"completed": 1, "pending": 1, "skipped": 1}
    assert [(group.key, group.undecided) for group in whole.groups["model"]] == [("rules", 2)]


def test_an_answer_that_was_erased_stays_with_its_model_and_its_template(ledger: Ledger) -> None:
    seen = window()
    parts = [
        replace(
            about(ev.REFLECTION_ANSWERED, seen, part, model="m-1", template_sha256="f" * 64, answer="a secret"),
            reflection_id="r1",
            actor="anthropic",
            meta={"input_tokens": 7},
        )
        for part in (1, 2)
    ]
    completed, *tags = reflected("r1", seen, ("pat-001", "helpful"), actor="anthropic")
    completed = replace(completed, data={**completed.data, "model": "m-1"})
    ledger.append([added(), seen, *parts, completed, *tags])
    before = stats(ledger)
    ledger.redact(parts[0].event_id, reason="a secret", actor="human")
    after = stats(ledger)
    assert replace(after, events=before.events) == before
    ledger.redact(parts[1].event_id, reason="a secret", actor="human")
    assert [group.key for group in stats(ledger).groups["model"]] == ["m-1"]
