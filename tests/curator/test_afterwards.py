"""What is said of a change before it is made, and what comes of it afterwards."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from reflector.curation.changes import apply
from reflector.curation.proposals import Proposal, approve, proposals, propose
from reflector.curator.aftermath import ENOUGH, look_again
from reflector.curator.rehearsal import rehearse
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from tests.conftest import OpenLedger


@pytest.fixture
def ledger(open_ledger: OpenLedger) -> Ledger:
    """A ledger with two bullets that sessions were told, and judged helpful."""
    ledger = open_ledger()
    for text in ("Run the tests first.", "Always run the tests before a commit."):
        made(ledger, Change("add", section="pat", text=text))
    for number in range(6):
        told(ledger, f"s-{number}", ["pat-001", "pat-002"], [("pat-001", "helpful"), ("pat-002", "helpful")])
    return ledger


def made(ledger: Ledger, change: Change) -> Proposal:
    proposal = propose(ledger, change, origin="human", trust="person", reason="for the test", actor="human")
    approve(ledger, proposal)
    return proposal


def told(ledger: Ledger, session: str, names: list[str], verdicts: Iterable[tuple[str, str]] = ()) -> None:
    data = {"via": "injection", "lessons": [], "bullets": names}
    events = [NewEvent(ev.ADVICE_TOLD, identity(ev.ADVICE_TOLD, session), data, "hook", session_id=session)]
    for index, (name, tag) in enumerate(verdicts):
        verdict = {"index": index, "name": name, "tag": tag, "disposition": "counted"}
        id = identity(ev.BULLET_TAGGED, session, index)
        events.append(NewEvent(ev.BULLET_TAGGED, id, verdict, "rules", session_id=session, reflection_id=session))
    ledger.append(events)


def reverting(ledger: Ledger) -> list[Proposal]:
    return [one for one in proposals(ledger) if one.origin == "follow-up"]


def measured(ledger: Ledger) -> list[str]:
    return [(event.data or {})["verdict"] for event in ledger.events(types=[ev.CHANGE_MEASURED])]


def test_advice_that_did_harm_gets_one_proposal_to_take_it_back(ledger: Ledger) -> None:
    made(ledger, Change("add", section="mis", text="Mock the clock everywhere."))
    for number in range(3):
        assert look_again(ledger) == 0
        told(ledger, f"after-{number}", ["mis-001"], [("mis-001", "harmful")])
    assert look_again(ledger) == 1
    assert look_again(ledger) == 0
    (proposal,) = reverting(ledger)
    assert proposal.change == Change("remove", "mis-001")
    assert "0 helpful and 3 harmful in 3 sessions" in proposal.reason
    approve(ledger, proposal)
    assert next(row.status for row in ledger.rows() if row.name == "mis-001") == "removed"
    assert look_again(ledger) == 0


def test_what_a_person_changed_by_hand_is_looked_at_again_too(ledger: Ledger) -> None:
    apply(ledger, [Change("revise", "pat-001", text="Skip the tests.")], actor="human")
    for number in range(3):
        told(ledger, f"after-{number}", ["pat-001"], [("pat-001", "harmful")])
    look_again(ledger)
    (proposal,) = reverting(ledger)
    assert proposal.change == Change("revise", "pat-001", text="Run the tests first.")
    approve(ledger, proposal)
    told(ledger, "later", ["pat-001"], [("pat-001", "harmful")])
    assert look_again(ledger) == 0


def test_a_merge_after_which_the_advice_does_more_harm_than_before_gets_one_too(ledger: Ledger) -> None:
    made(ledger, Change("merge", names=("pat-001", "pat-002"), section="pat", text="Test."))
    for number, tag in enumerate(["helpful", "helpful", "helpful", *["harmful"] * 4]):
        told(ledger, f"after-{number}", ["pat-003"], [("pat-003", tag)])
    look_again(ledger)
    (proposal,) = reverting(ledger)
    assert proposal.change == Change("unmerge", "pat-003")


def test_verdicts_of_sessions_that_were_not_told_the_change_say_nothing_about_it(ledger: Ledger) -> None:
    made(ledger, Change("revise", "pat-001", text="Run all of the tests first."))
    for number in range(4):
        told(ledger, f"after-{number}", ["pat-002"], [("pat-001", "harmful")])
    look_again(ledger)
    assert measured(ledger) == []


def test_a_change_that_did_no_harm_is_measured_and_left(ledger: Ledger) -> None:
    made(ledger, Change("add", section="mis", text="Never sleep in tests."))
    for number in range(ENOUGH - 1):
        told(ledger, f"after-{number}", ["mis-001"], [("mis-001", "helpful")] if number % 3 == 0 else [])
    look_again(ledger)
    assert measured(ledger) == []
    told(ledger, "after-last", ["mis-001"])
    look_again(ledger)
    assert measured(ledger) == ["kept"]
    assert reverting(ledger) == []


def test_a_rehearsal_says_who_would_be_told_what_and_which_counts_would_move(ledger: Ledger) -> None:
    before = ledger.head()
    found = rehearse(ledger, Change("merge", names=("pat-001", "pat-002"), section="pat", text="Test first."))
    assert found.change.name == "pat-003"
    assert found.counters == {"pat-001": ((6, 0), None), "pat-002": ((6, 0), None), "pat-003": (None, (12, 0))}
    assert (found.sessions, found.affected, found.judged) == (6, 6, 6)
    assert found.told == {"pat-001": 6, "pat-002": 6}
    assert found.tokens < 0
    assert ledger.head() == before
    made(ledger, found.change)
    rows = {row.name: (row.helpful, row.harmful) for row in ledger.rows() if row.status == "live"}
    assert rows == {"pat-003": (12, 0)}
