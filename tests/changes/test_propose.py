"""Proposals of changes: what is refused, what becomes of them, and that nobody is asked twice."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reflector.changes.apply import Step, apply_changes
from reflector.changes.propose import (
    MOST_PROPOSED,
    MOST_WAITING,
    Proposal,
    ProposalRefused,
    Quote,
    approve_proposal,
    find_proposal,
    kept_pairs,
    propose,
    read_proposals,
    reject_proposal,
    sweep_proposals,
)
from reflector.changes.takeback import act_of, take_back_act
from reflector.embed.lessons.book import lesson_book
from reflector.embed.lessons.recording import record_lesson
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from reflector.proof.verify import verify
from tests.building import TOKEN
from tests.ledger.events import added


@pytest.fixture
def told(ledger: Ledger) -> Ledger:
    ledger.append(
        [
            added("pat-001", "Read the error first."),
            added("pat-002", "Run the tests."),
            added("mis-001", "No."),
        ]
    )
    return ledger


def proposed(ledger: Ledger, change: Change, **more: Any) -> Proposal:
    given = {
        "origin": "agent",
        "trust": "agent",
        "reason": "it came up twice",
        "actor": "agent",
        **more,
    }
    return propose(ledger, change, **given)


def new(text: str, section: str = "pat") -> Change:
    return Change("add", section=section, text=text)


def texts(ledger: Ledger) -> dict[str, str]:
    return {bullet.name: bullet.text for bullet in ledger.bullets()}


@pytest.mark.parametrize(
    ("change", "name", "after"),
    [
        (new("Log in first.", "ctx"), "ctx-001", {"ctx-001": "Log in first."}),
        (
            Change("revise", "pat-001", text="Read the whole error."),
            "pat-001",
            {"pat-001": "Read the whole error."},
        ),
        (Change("move", "mis-001", section="oth"), "mis-001", {}),
        (Change("remove", "mis-001"), "mis-001", {"mis-001": None}),
        (Change("recount", "mis-001", helpful=4, harmful=0), "mis-001", {}),
    ],
    ids=lambda value: value.kind if isinstance(value, Change) else "",
)
def test_only_approval_changes_bullets(
    told: Ledger, change: Change, name: str, after: dict[str, str | None]
) -> None:
    before = texts(told)
    one = proposed(told, change)
    assert (one.state, one.change, texts(told)) == ("waiting", change, before)
    applied = approve_proposal(told, find_proposal(told, one.id[:6]))
    assert applied.name == name
    expected = {key: text for key, text in {**before, **after}.items() if text is not None}
    assert texts(told) == expected
    approval, made = told.targeting(one.id)
    assert (approval.type, {*approval.facts}) == (ev.CHANGE_APPROVED, {"change", "edited"})
    assert (made.event_id, made.actor) == (applied.event_id, "human")
    (decided,) = read_proposals(told, only_waiting=False)
    assert (decided.state, decided.name, decided.edited) == ("approved", name, False)
    assert list(verify(told)) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (new("Run the tests."), "pat-002 already has exactly this text"),
        (new("  run THE   tests!"), "pat-002 already has this text"),
        (new(" "), "the text is empty"),
        (new("x", "habits"), "'habits' is not a section"),
        (new(f"Log in with {TOKEN}"), "seems to contain a secret"),
        (new("Run\u200b it."), r"the invisible character U\+200B at index 3, after 'Run'"),
        (new("Run \u202eti."), r"the character U\+202E at index 4"),
        (new("long " * 200), "at most 500"),
        (Change("revise", "pat-009", text="x"), "the rule 'pat-009' does not exist"),
        (
            Change("revise", "pat-001", text="Read the error first."),
            "already has exactly this text",
        ),
        (Change("move", "pat-001", section="pat"), "is already in PATTERNS & APPROACHES"),
        (Change("restore", "pat-001"), "pat-001 is already in the playbook"),
        (Change("unmerge", "pat-001"), "is not a merged rule"),
        (
            Change("merge", names=("pat-001", "pat-001"), section="pat", text="x"),
            "a merge needs two or more rules",
        ),
        (
            Change("merge", names=("pat-008", "pat-001"), text="x"),
            "the rule 'pat-008' does not exist",
        ),
        (Change("recount", "pat-001", helpful=0, harmful=0), "already has 0 helpful, 0 harmful"),
    ],
    ids=str,
)
def test_impossible_proposal_is_refused_with_the_way_out(
    told: Ledger, change: Change, why: str
) -> None:
    with pytest.raises(ProposalRefused, match=f"{why}.*; nothing was proposed"):
        proposed(told, change)
    assert list(told.events(types=[ev.CHANGE_PROPOSED])) == []


def test_text_that_was_removed_is_not_proposed(told: Ledger) -> None:
    apply_changes(told, [Change("remove", "mis-001")], actor="human")
    with pytest.raises(
        ProposalRefused,
        match=(
            r"mis-001 has the same text. mis-001 was removed \(deleted\); to restore this "
            r"rule, run `reflector"
        ),
    ):
        proposed(told, new("NO", "oth"))


def test_one_proposal_reads_the_others_once(told: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    proposed(told, new("Sleep."))
    read, events = [], Ledger.events
    monkeypatch.setattr(
        Ledger, "events", lambda *_, **more: (read.append(more.get("types")), events(*_, **more))[1]
    )
    proposed(
        told, Change("merge", names=("pat-001", "pat-002"), section="pat", text="Read, then run.")
    )
    assert sum(ev.CHANGE_PROPOSED in (types or ()) for types in read) == 1


def test_the_same_change_again_gets_the_decision(told: Ledger) -> None:
    one = proposed(told, new("Sleep."))
    assert proposed(told, new("Sleep."), reason="still") == one
    reject_proposal(told, one, "too slow")
    again = proposed(told, new("Sleep."))
    assert (again.id, again.state, again.why) == (one.id, "rejected", "too slow")
    with pytest.raises(ProposalRefused, match="was rejected already: too slow"):
        reject_proposal(told, again, "x")
    other = proposed(told, new("Use the logs allways."))
    approve_proposal(told, other, text="Use the logs.")  # a person may approve other words
    assert texts(told)["pat-003"] == "Use the logs."
    assert next(p.edited for p in read_proposals(told, only_waiting=False) if p.id == other.id)


def _rejected(ledger: Ledger) -> Proposal:
    proposal = proposed(ledger, new("Sleep."))
    reject_proposal(ledger, proposal, "too slow")
    return proposal


def _expired(ledger: Ledger) -> Proposal:
    proposal = proposed(ledger, new("Sleep."))
    for number in range(MOST_WAITING):
        proposed(ledger, new(f"Sleep {number} hours."))
    return proposal


@pytest.mark.parametrize(("decided", "state"), [(_rejected, "rejected"), (_expired, "expired")])
def test_decided_proposal_can_be_approved_after_all(
    told: Ledger, decided: Callable[[Ledger], Proposal], state: str
) -> None:
    proposal = find_proposal(told, decided(told).id)
    assert proposal.state == state
    approve_proposal(told, proposal)
    assert texts(told)["pat-003"] == "Sleep."
    assert find_proposal(told, proposal.id).state == "approved"


def undo(ledger: Ledger, applied: Step) -> None:
    (event,) = ledger.at([applied.position or 0])
    take_back_act(ledger, act_of(ledger, [event]))


_CHANGES = [
    new("Log in first."),
    Change("revise", "pat-001", text="Read the whole error."),
    Change("move", "mis-001", section="oth"),
    Change("remove", "mis-001"),
    Change("recount", "mis-001", helpful=4, harmful=0),
    Change("merge", names=("pat-001", "pat-002"), section="pat", text="Read and run."),
]


@pytest.mark.parametrize("change", _CHANGES, ids=lambda change: change.kind)
def test_undone_approval_waits_until_approved_again(told: Ledger, change: Change) -> None:
    id = proposed(told, change).id
    before, states = texts(told), []
    results = []
    for _ in range(2):
        applied = approve_proposal(told, find_proposal(told, id))
        results.append(sorted(texts(told).values()))
        states.append(find_proposal(told, id).state)
        undo(told, applied)
        states.append(find_proposal(told, id).state)
        assert texts(told) == before
    assert states == ["approved", "waiting"] * 2
    assert results[0] == results[1]
    assert list(verify(told)) == []


@pytest.mark.parametrize("change", [_CHANGES[0], _CHANGES[1], _CHANGES[5]], ids=lambda c: c.kind)
def test_undone_approval_is_approved_with_other_words(told: Ledger, change: Change) -> None:
    id = proposed(told, change).id
    undo(told, approve_proposal(told, find_proposal(told, id)))
    before = texts(told)
    applied = approve_proposal(told, find_proposal(told, id), text="Use the logs.")
    assert texts(told)[applied.name] == "Use the logs."
    undo(told, applied)
    assert texts(told) == before


def test_undone_approval_can_be_rejected(told: Ledger) -> None:
    proposal = proposed(told, new("Sleep."))
    undo(told, approve_proposal(told, proposal))
    reject_proposal(told, find_proposal(told, proposal.id), "too slow")
    rejected = find_proposal(told, proposal.id)
    assert (rejected.state, rejected.why) == ("rejected", "too slow")
    approve_proposal(told, rejected)
    assert texts(told)["pat-003"] == "Sleep."
    assert find_proposal(told, proposal.id).state == "approved"


def test_text_rejected_twice_is_not_proposed_again(told: Ledger) -> None:
    reject_proposal(told, proposed(told, new("Sleep first.")), "no")
    reject_proposal(told, proposed(told, new("sleep first", "oth")), "never")
    with pytest.raises(ProposalRefused, match="rejected 2 times, the last time because: never"):
        proposed(told, Change("revise", "pat-001", text="SLEEP FIRST"))


def test_proposal_is_stale_once_its_bullet_changed(told: Ledger) -> None:
    change = Change("revise", "pat-001", text="Read it all.")
    one, other = proposed(told, change), proposed(told, Change("remove", "mis-001"))
    apply_changes(
        told,
        [Change("revise", "pat-001", text="Read the log."), Change("remove", "mis-001")],
        actor="human",
    )
    assert {p.id: (p.state, p.why) for p in sweep_proposals(told)[1]} == {
        one.id: ("stale", "pat-001 has changed since the proposal"),
        other.id: (
            "stale",
            "mis-001 was removed (deleted); to restore this rule, run `reflector undo mis-001`",
        ),
    }
    assert sweep_proposals(told)[1] == []
    again = proposed(told, change)
    assert (again.state, again.id != one.id) == ("waiting", True)
    apply_changes(told, [Change("remove", "pat-001")], actor="human")
    with pytest.raises(ProposalRefused, match="no longer applies: pat-001 was removed"):
        approve_proposal(told, again)
    assert [p.state for p in read_proposals(told, only_waiting=False)] == ["stale"] * 3


def test_stale_proposal_is_approved_once_its_bullet_returns(told: Ledger) -> None:
    one, other = (
        proposed(told, Change("revise", name, text="Read it all."))
        for name in ("pat-001", "pat-002")
    )
    apply_changes(
        told,
        [Change("remove", "pat-001"), Change("revise", "pat-002", text="Run it.")],
        actor="human",
    )
    sweep_proposals(told)
    apply_changes(told, [Change("restore", "pat-001")], actor="human")
    approve_proposal(told, find_proposal(told, one.id))
    assert texts(told)["pat-001"] == "Read it all."
    with pytest.raises(
        ProposalRefused, match="no longer applies: pat-002 has changed since the proposal"
    ):
        approve_proposal(told, find_proposal(told, other.id))
    assert [p.state for p in read_proposals(told, only_waiting=False)] == ["approved", "stale"]
    assert list(verify(told)) == []


def test_change_waits_again_after_an_erased_proposal(told: Ledger) -> None:
    change = Change("revise", "pat-001", text="Read it all.")
    for _ in range(2):
        proposal = proposed(told, change)
        apply_changes(told, [Change("revise", "pat-001", text="Read the log.")], actor="human")
        sweep_proposals(told)
        apply_changes(
            told, [Change("revise", "pat-001", text="Read the error first.")], actor="human"
        )
    (first, _) = told.events(types=[ev.CHANGE_PROPOSED])
    told.redact([first.event_id], reason="private", actor="human")
    again = proposed(told, change)
    assert again.id != proposal.id
    assert read_proposals(told) == [again]


def test_at_most_twenty_wait_and_the_oldest_expire(told: Ledger) -> None:
    first, *_ = [
        proposed(told, new(f"Advice number {n}."), origin="rules") for n in range(MOST_WAITING + 2)
    ]
    assert len(read_proposals(told)) == MOST_WAITING
    (expired, _) = [p for p in read_proposals(told, only_waiting=False) if p.state == "expired"]
    assert (expired.id, expired.why) == (first.id, "20 newer proposals are waiting")
    assert proposed(told, first.change).state == "waiting"


def test_an_agent_in_a_loop_is_stopped(told: Ledger) -> None:
    said: dict[str, Any] = {
        "origin": "agent",
        "trust": "agent",
        "reason": "",
        "evidence": [],
        "basis": [],
    }
    for n in range(MOST_PROPOSED):
        data = {**said, "change": new(f"Advice {n}.").to_data()}
        told.append([NewEvent(ev.CHANGE_PROPOSED, identity("x", n), data, "agent")])
    with pytest.raises(ProposalRefused, match="100 changes within a day"):
        proposed(told, new("One more."))
    assert proposed(told, new("One more."), origin="rules").state == "waiting"


def test_text_has_the_trust_of_its_least_source(told: Ledger) -> None:
    quotes = [Quote("always use uv", "person", "s1"), Quote(f"error: {TOKEN}", "tool")]
    one = proposed(told, new("Use uv."), trust="person", evidence=quotes, origin="rules")
    assert one.trust == "tool"
    assert one.evidence == (quotes[0], Quote("error: [redacted:github-token]", "tool"))
    assert proposed(told, new("Use ruff."), trust="person", evidence=quotes[:1]).trust == "person"


def test_removal_has_neither_text_nor_pair_to_keep(told: Ledger) -> None:
    removal = proposed(told, Change("remove", "pat-002"))
    with pytest.raises(
        ProposalRefused, match=f"{removal.id[:8]} does not contain a text that you could change"
    ):
        approve_proposal(told, removal, text="Keep it.")
    with pytest.raises(
        ProposalRefused, match=rf"{removal.id[:8]} is not a merge.*`reflector review reject`"
    ):
        reject_proposal(told, removal, "", keep=True)
    assert [one.state for one in read_proposals(told)] == ["waiting"]


def test_pairs_kept_apart_are_not_merged_again(told: Ledger) -> None:
    merge = Change("merge", names=("pat-001", "pat-002"), section="pat", text="Read, then run.")
    reject_proposal(told, proposed(told, merge), "different moments", keep=True)
    assert kept_pairs(told) == {frozenset(merge.names)}
    assert proposed(told, merge).state == "kept"
    other = Change(
        "merge", names=("pat-002", "mis-001", "pat-001"), section="pat", text="Read and run."
    )
    with pytest.raises(ProposalRefused, match="not to merge pat-002 and pat-001"):
        proposed(told, other)


def test_proposals_of_an_older_version_wait_on(told: Ledger) -> None:
    ids = [identity(ev.BULLET_PROPOSED, str(n)) for n in range(3)]
    for n, id in enumerate(ids):
        told.append(
            [
                NewEvent(
                    ev.BULLET_PROPOSED,
                    id,
                    {"section": "pat", "text": f"Old {n}.", "reason": "r"},
                    "agent",
                )
            ]
        )
    told.append([NewEvent(ev.EVIDENCE_RETRACTED, "r", {"reason": "no"}, "human", target_id=ids[0])])
    told.append([replace(added("pat-003", "Old 1."), target_id=ids[1])])
    assert [(p.state, p.why or p.name) for p in read_proposals(told, only_waiting=False)] == [
        ("rejected", "no"),
        ("approved", "pat-003"),
        ("waiting", None),
    ]
    assert proposed(told, new("Old 2.")).id == ids[2]
    assert approve_proposal(told, find_proposal(told, ids[2])).name == "pat-004"
    assert read_proposals(told) == []


def test_a_lesson_knows_the_proposal_that_it_became(told: Ledger) -> None:
    id = record_lesson(told, "mistake", "Add auth middleware", actor="engine", task="api_design")
    one = proposed(told, new("Add auth middleware.", "mis"), origin="human", lesson=id)
    approve_proposal(told, one)
    assert (lesson_book(told).named(id).proposal, lesson_book(told).named(id).bullet) == (
        one.id,
        "mis-002",
    )
