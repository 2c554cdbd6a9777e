"""A trajectory is a window like a session's, and lessons are evidence: every part of the ledger knows them as it is."""

from __future__ import annotations

import pytest

from reflector.audit.targets import target_named
from reflector.curation.counts import RetractionRefused, retract, undo
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.exchange.merge import merge
from reflector.exchange.transfer import exported
from reflector.ledger.as_of import Past
from reflector.ledger.errors import LedgerError
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger

from .events import added, changed, learned, lesson, outcome, told, trajectory, window


def counters(ledger: Ledger, name: str = "pat-001") -> tuple[int, int]:
    row = ledger.row(name)
    assert row is not None
    return row.helpful, row.harmful


def test_the_tags_of_a_trajectory_count_and_its_retraction_takes_them_out(ledger: Ledger) -> None:
    run = trajectory()
    ledger.append([added(), *learned()])
    assert counters(ledger) == (0, 1)
    assert [(row.event_id, row.state) for row in ledger.windows()] == [(run.event_id, "completed")]
    retract(ledger, target_named(ledger, "trajectory-t1").events, "a wrong ground truth")
    assert counters(ledger) == (0, 0)
    assert Past(ledger, ledger.head().position - 1).counters(["pat-001"]) == {"pat-001": (0, 1)}
    assert list(verify(ledger)) == []
    undo(ledger, target_named(ledger, run.event_id).events, "it was right")
    assert counters(ledger) == (0, 1)
    ledger.rebuild()
    assert (counters(ledger), list(verify(ledger))) == ((0, 1), [])


def test_lessons_outcomes_and_revisions_can_be_retracted_and_what_was_told_cannot(ledger: Ledger) -> None:
    ledger.append([added(), *learned()])
    for event in ledger.events(types=[ev.LESSON_RECORDED, ev.OUTCOME_OBSERVED, ev.REVISION_ATTEMPTED]):
        (answer,) = retract(ledger, [event], "mistaken")
        assert answer.added
    for event in ledger.events(types=[ev.ADVICE_TOLD, ev.GATE_DECIDED]):
        with pytest.raises(RetractionRefused, match=r"is not evidence that counts; (what was told|a decision)"):
            retract(ledger, [event], "mistaken")
    assert list(verify(ledger)) == []


def test_an_export_a_merge_and_a_redaction_know_the_types(ledger: Ledger, open_ledger: OpenLedger) -> None:
    ledger.append([added(), *learned()])
    copy = open_ledger("other")
    lines = list(exported(ledger))
    copy.append([added("pat-001"), changed(ev.BULLET_REVISED, "pat-001", 1, text="Here"), window(9, "s9")])
    merged = merge(copy, lambda: lines)
    assert merged.added == len(learned())
    assert merge(copy, lambda: lines).added == 0
    assert (counters(copy), list(verify(copy))) == ((0, 1), [])
    (of_run,) = copy.events(types=[ev.LESSON_RECORDED])
    copy.redact(of_run.event_id, reason="a secret", actor="human")
    (of_run,) = copy.events(types=[ev.LESSON_RECORDED])
    assert (of_run.data or {})["kind"] == "insight"
    assert "Read the sign" not in str(list(copy.events()))
    assert list(verify(copy)) == []


def test_a_merge_renames_the_bullets_that_were_told(ledger: Ledger, open_ledger: OpenLedger) -> None:
    ledger.append([added("pat-001", "There"), *learned()])
    lines = list(exported(ledger))
    copy = open_ledger("other")
    copy.append([added("pat-001", "Here")])
    merged = merge(copy, lambda: lines, rename=True)
    assert merged.renamed == {"pat-001": "pat-002"}
    (told_here,) = copy.events(types=[ev.ADVICE_TOLD])
    (run,) = copy.events(types=[ev.TRAJECTORY_RECORDED])
    assert ((told_here.data or {})["bullets"], (run.data or {})["cited"]) == (["pat-002"], ["pat-002"])
    assert (counters(copy, "pat-002"), list(verify(copy))) == ((0, 1), [])


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        (lesson(kind="rumour"), "kind is 'rumour': must be one of insight, reflection, mistake, summary"),
        (lesson(text="x" * 100_001), "must be a text of at most 100,000 characters"),
        (lesson(tags=["a"] * 101), "must be a list of at most 100 tags"),
        (lesson(improvement=1.5), "improvement is '1.500000': must be a number from 0 to 1"),
        (outcome(lesson(), "perfect"), "kind is 'perfect': must be one of retry_improved"),
        (outcome(lesson(), why="x" * 100_001), "why is 'xxx"),
        (told(lesson(), via="rumour"), "via is 'rumour'"),
        (trajectory(status="done"), "status is 'done': must be one of success, failure"),
        (trajectory(query="x" * 4_000_001), "must be a text of at most 4,000,000 characters"),
        (trajectory(cited=["../x"]), "must be a list of names of bullets"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(ledger: Ledger, event: NewEvent, fault: str) -> None:
    ledger.append([lesson()])
    with pytest.raises(LedgerError, match=fault):
        ledger.append([event])
    assert ledger.head().position == 1
