"""Every count can be explained: the steps of a bullet end at its counters, whatever happened to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reflector.audit.blame import IN_A_MERGE, Evidence, Step, UnknownBullet, blame
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.exchange.merge import merge
from reflector.exchange.transfer import exported
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from tests.ledger.events import added, adopted, changed, imported, reflected, retracted, tagged, window


def told(steps: list[Step]) -> list[tuple[str | None, str, int, int]]:
    return [(step.tag, step.disposition, step.helpful, step.harmful) for step in steps]


def test_each_step_has_its_total_and_a_baseline_says_where_it_comes_from(ledger: Ledger) -> None:
    first = window()
    ledger.append([imported(("pat-001", 3, 1)), first, *reflected("r1", first, ("pat-001", "helpful"))])
    baseline, step = blame(ledger, "pat-001")
    assert told([baseline, step]) == [(None, "baseline", 3, 1), ("helpful", "counted", 4, 1)]
    assert baseline.rationale == "imported with 3 helpful, 1 harmful"
    assert (step.session_id, step.reflection_id, step.counted) == ("s1", "r1", True)


def test_what_does_not_count_is_listed_with_the_reason(ledger: Ledger) -> None:
    first, second = window(1, "s1"), window(2, "s2")
    early = reflected("r1", first, ("pat-001", "helpful"), ("pat-001", "neutral", "neutral"))
    late = reflected("r2", second, ("pat-001", "harmful"), ("pat-001", "great", "unknown_tag"))
    ledger.append([tagged("r0", 0, "pat-001", "helpful"), tagged("r0", 1, "ctx-001", "helpful")])
    ledger.append([added("ctx-001"), added()])
    assert told(blame(ledger, "ctx-001")) == [("helpful", "unknown_bullet", 0, 0)]
    ledger.append([first, *early, changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=5, harmful=0)])
    ledger.append([second, *late, retracted(late[1])])
    assert told(blame(ledger, "pat-001")) == [
        ("helpful", "recounted", 0, 0),
        ("helpful", "recounted", 0, 0),
        ("neutral", "neutral", 0, 0),
        (None, "baseline", 5, 0),
        ("harmful", "retracted", 5, 0),
        ("great", "unknown_tag", 5, 0),
    ]


def test_a_double_is_told_under_a_policy_that_counts_it_once(ledger: Ledger) -> None:
    first = window()
    ledger.append([added(), first, *reflected("r1", first, ("pat-001", "helpful"), ("pat-001", "helpful"))])
    assert [step.disposition for step in blame(ledger, "pat-001")] == ["counted", "counted"]
    ledger.append([adopted("once_per_reflection")])
    assert told(blame(ledger, "pat-001")) == [("helpful", "counted", 1, 0), ("helpful", "double", 1, 0)]


def test_a_name_that_never_was_is_an_error_and_a_removed_one_is_not(ledger: Ledger) -> None:
    ledger.append([added(helpful=2), changed(ev.BULLET_REMOVED, "pat-001", reason="deleted", into=None)])
    assert told(blame(ledger, "pat-001")) == [(None, "baseline", 2, 0)]
    with pytest.raises(UnknownBullet):
        blame(ledger, "pat-002")


def test_what_took_a_tag_out_of_the_count_is_told_by_whom_and_why(ledger: Ledger) -> None:
    first, second = window(1, "s1"), window(2, "s2")
    ledger.append([added(), first, *reflected("r1", first, ("pat-001", "helpful"), ("pat-001", "helpful"))])
    ledger.append([second, *reflected("r2", second, ("pat-001", "harmful"))])
    ledger.append([retracted(second, "it was a rehearsal"), adopted("once_per_reflection")])
    causes = [step.uncounted_by for step in blame(ledger, "pat-001")]
    assert causes[0] is None
    assert [(c.position, c.actor, c.reason) for c in causes if c] == [
        (4, "rules", None),
        (9, "human", "it was a rehearsal"),
    ]
    ledger.append([changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=5, harmful=0)])
    *tags, baseline = blame(ledger, "pat-001")
    assert {step.uncounted_by and step.uncounted_by.position for step in tags} == {baseline.position}


def test_a_step_has_the_judges_reason_what_was_asked_and_where_its_evidence_lies(ledger: Ledger) -> None:
    first = window()
    asked = {
        "backend": "anthropic",
        "model": "m",
        "answer": "x",
        "prompt_sha256": "p" * 64,
        "template_sha256": "t" * 64,
    }
    answer = NewEvent(
        ev.REFLECTION_ANSWERED, identity("answer"), asked, "rules", reflection_id="r1", target_id=first.event_id
    )
    completed, *tags = reflected("r1", first, ("pat-002", "helpful"), ("pat-001", "harmful"))
    rationales = [{"index": 0, "rationale": "not this"}, {"index": 1, "rationale": "It broke."}]
    data = {"analysis": "", "rationales": rationales, "backend": "anthropic", "model": "claude-sonnet-4-6"}
    ledger.append([added("pat-001"), added("pat-002"), first, answer, replace(completed, data=data), *tags])
    (step,) = blame(ledger, "pat-001")
    assert (step.rationale, step.backend, step.model) == ("It broke.", "anthropic", "claude-sonnet-4-6")
    assert (step.prompt_sha256, step.template_sha256) == ("p" * 64, "t" * 64)
    assert step.evidence == Evidence(window=3, answer=4, transcript="/t.jsonl")


def test_blame_of_a_moment_is_what_it_was_then(ledger: Ledger) -> None:
    first = window()
    ledger.append([added(), first, *reflected("r1", first, ("pat-001", "helpful"), ("pat-001", "harmful"))])
    steps = [blame(ledger, "pat-001", Past(ledger, position)) for position in range(1, 6)]
    ledger.append([retracted(first), changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=5, harmful=0)])
    assert [blame(ledger, "pat-001", Past(ledger, position)) for position in range(1, 6)] == steps
    assert told(blame(ledger, "pat-001", Past(ledger, 6))) == [
        ("helpful", "retracted", 0, 0),
        ("harmful", "retracted", 0, 0),
    ]
    with pytest.raises(UnknownBullet):
        blame(ledger, "pat-001", Past(ledger, 0))


def test_a_retraction_that_was_undone_and_done_again_is_named_by_the_one_in_force(ledger: Ledger) -> None:
    first = window()
    ledger.append([added("pat-001"), first, *reflected("r1", first, ("pat-001", "helpful"))])
    line = [retracted(first, "the database was down")]
    line.append(retracted(line[0], "it was not"))
    line.append(retracted(line[1], "it was, on that machine"))
    for done in range(1, 4):
        ledger.append(line[:done])
        (step,) = blame(ledger, "pat-001")
        cause = step.uncounted_by
        assert (cause is None) == (done == 2)
        assert cause is None or (cause.event_id, cause.reason) == (
            line[done - 1].event_id,
            line[done - 1].data["reason"],
        )
    then = ledger.head().position - 2
    (step,) = blame(ledger, "pat-001", Past(ledger, then))
    assert step.uncounted_by is not None
    assert step.uncounted_by.position == then


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
