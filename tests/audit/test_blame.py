"""Every count can be explained: the steps of a bullet end at its counters, whatever happened to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reflector.audit.blame import IN_A_MERGE, Evidence, Step, UnknownBullet, blame
from reflector.events import event as ev
from reflector.exchange.merge import merge
from reflector.exchange.transfer import exported
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from tests.ledger.events import about, added, changed, reflected, window


def told(steps: list[Step]) -> list[tuple[str | None, str, int, int]]:
    return [(step.tag, step.disposition, step.helpful, step.harmful) for step in steps]


def test_a_name_that_never_was_is_an_error_and_a_removed_one_is_not(ledger: Ledger) -> None:
    ledger.append([added(helpful=2), changed(ev.BULLET_REMOVED, "pat-001", reason="deleted", into=None)])
    assert told(blame(ledger, "pat-001")) == [(None, "baseline", 2, 0)]
    for name, past in (("pat-002", None), ("pat-001", Past(ledger, 0))):
        with pytest.raises(UnknownBullet):
            blame(ledger, name, past)


def test_a_step_has_the_judges_reason_what_was_asked_and_where_its_evidence_lies(ledger: Ledger) -> None:
    first = window()
    first = replace(first, data={**first.data, "said": [{"name": "pat-001", "why": "moved"}]})
    asked = {"backend": "anthropic", "answer": "x", "prompt_sha256": "p" * 64, "template_sha256": "t" * 64}
    answer = replace(about(ev.REFLECTION_ANSWERED, first, **asked), actor="rules", reflection_id="r1")
    completed, *tags = reflected("r1", first, ("pat-002", "helpful"), ("pat-001", "harmful"))
    rationales = [{"index": 0, "rationale": "not this"}, {"index": 1, "rationale": "It broke."}]
    data = {"analysis": "", "rationales": rationales, "backend": "anthropic", "model": "claude-sonnet-4-6"}
    ledger.append([added("pat-001"), added("pat-002"), first, answer, replace(completed, data=data), *tags])
    (step,) = blame(ledger, "pat-001")
    assert (step.rationale, step.backend, step.model) == ("It broke.", "anthropic", "claude-sonnet-4-6")
    assert (step.prompt_sha256, step.template_sha256) == ("p" * 64, "t" * 64)
    assert (step.evidence, step.said_wrong) == (Evidence(window=3, answer=4, transcript="/t.jsonl"), "moved")
    ledger.redact([first.event_id], reason="x", actor="human")
    assert [step.said_wrong for name in ("pat-001", "pat-002") for step in blame(ledger, name)] == ["[redacted]", None]


def test_what_a_merge_counted_is_no_edit_by_hand_and_says_so_of_the_tags_in_it() -> None:
    with Ledger.open("sqlite://") as one, Ledger.open("sqlite://") as two:
        second, third = window(2, "s2"), window(3, "s3")
        two.append([added("pat-001")])
        two.append([second, *reflected("r2", second, ("pat-001", "helpful"))])
        one.append([added("pat-001"), changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=3, harmful=0)])
        two.append([third, *reflected("r3", third, ("pat-001", "helpful"))])
        merge(one, lambda: exported(two))
        *_, by_hand, of_s2, of_s3, by_merge = blame(one, "pat-001")
        assert (by_hand.rationale, by_hand.helpful) == ("set by hand with 3 helpful, 0 harmful", 3)
        assert by_merge.helpful == 4
        assert by_merge.rationale == "counted by a merge, in one order for both ledgers, with 4 helpful, 0 harmful"
        for step in (of_s2, of_s3):
            assert (step.counted, step.disposition) == (False, "recounted")
            assert step.uncounted_by is not None
            assert (step.uncounted_by.position, step.uncounted_by.actor) == (by_merge.position, "merge")
            assert step.uncounted_by.reason == IN_A_MERGE
