"""A trajectory is a window like a session's, and lessons are evidence: every part of the ledger knows them as it is."""

from __future__ import annotations

from reflector.audit.targets import target_named
from reflector.curation.counts import retract, undo
from reflector.events import event as ev
from reflector.exchange.merge import merge
from reflector.exchange.transfer import exported
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger

from .events import added, learned, trajectory


def counters(ledger: Ledger, name: str = "pat-001") -> tuple[int, int]:
    """What the tables say of a bullet, after a look that it is what the events say."""
    assert list(verify(ledger)) == []
    row = ledger.row(name)
    assert row is not None
    return row.helpful, row.harmful


def test_the_evidence_of_a_trajectory_counts_until_it_is_retracted_and_again_when_that_is_undone(
    ledger: Ledger,
) -> None:
    run = trajectory()
    ledger.append([added(), *learned()])
    assert counters(ledger) == (0, 1)
    assert [(row.event_id, row.state) for row in ledger.windows()] == [(run.event_id, "completed")]
    retract(ledger, target_named(ledger, "trajectory-t1").events, "a wrong ground truth")
    assert counters(ledger) == (0, 0)
    assert Past(ledger, ledger.head().position - 1).counters(["pat-001"]) == {"pat-001": (0, 1)}
    undo(ledger, target_named(ledger, run.event_id).events, "it was right")
    assert counters(ledger) == (0, 1)
    for event in ledger.events(types=[ev.LESSON_RECORDED, ev.OUTCOME_OBSERVED, ev.REVISION_ATTEMPTED]):
        (answer,) = retract(ledger, [event], "mistaken")
        assert answer.added
    ledger.rebuild()
    assert counters(ledger) == (0, 1)


def test_a_merge_brings_every_type_once_and_renames_the_bullets_that_were_told(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    ledger.append([added("pat-001", "There"), *learned()])
    lines = list(exported(ledger))
    copy = open_ledger("other")
    copy.append([added("pat-001", "Here")])
    merged = merge(copy, lambda: lines, rename=True)
    assert (merged.added, merged.renamed) == (len(learned()) + 1, {"pat-001": "pat-002"})
    assert merge(copy, lambda: lines).added == 0
    (told_here,) = copy.events(types=[ev.ADVICE_TOLD])
    (run,) = copy.events(types=[ev.TRAJECTORY_RECORDED])
    assert ((told_here.data or {})["bullets"], (run.data or {})["cited"]) == (["pat-002"], ["pat-002"])
    assert counters(copy, "pat-002") == (0, 1)
