"""Bullets that the agent proposes, and what people decide about them.

Invariant: a proposal changes no playbook. It is an event of its own; approved, it is the target of the bullet.added
that follows, and rejected, of an evidence.retracted with the reason. Its identity is the section and the text, so an
agent that proposes the same thing again gets the decision, and no person is asked twice.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from reflector.curation.bullets import BulletRefused, add_bullet, secret_fault
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.ledger.errors import Conflict
from reflector.ledger.store import Ledger
from reflector.playbook.admissible import text_fault
from reflector.playbook.bullet import Bullet
from reflector.playbook.names import SECTIONS
from reflector.text.secrets import quote

State = Literal["waiting", "approved", "rejected"]
_MAX_REASON = 1_000
#: Characters of a proposal: advice that is longer takes the place of other advice.
MOST_TEXT = 500
#: An agent in a loop must not fill the ledger, nor a person's list.
MOST_WAITING = 100
#: Nor the playbook, where no person is asked: so many bullets within a day; what is more waits for a person.
MOST_ACCEPTED = 20


class ProposalRefused(BulletRefused):
    """A proposal that cannot be made or decided; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed bullet; `name` is the bullet it became, `why` the reason it was rejected for."""

    id: str
    position: int
    proposed_at: str
    section: str
    text: str
    reason: str
    state: State
    name: str | None = None
    why: str | None = None


def propose(
    ledger: Ledger, section: str, text: str, reason: str, *, actor: str = "agent", lesson: str | None = None
) -> Proposal:
    """Record a proposal, once; `lesson` is the id of what it is made of. Raises ProposalRefused, LedgerError."""
    if section not in SECTIONS:
        raise ProposalRefused(f"{section!r} is not a section; the sections are {', '.join(SECTIONS)}")
    text = text.strip()
    if fault := text_fault(text) or secret_fault(text):
        raise ProposalRefused(f"{fault}; nothing was proposed")
    if len(text) > MOST_TEXT:
        raise ProposalRefused(f"the text has {len(text):,} characters; advice that is told has at most {MOST_TEXT}")
    same = next((row.name for row in ledger.rows() if row.status == "live" and row.text == text), None)
    if same is not None:
        raise ProposalRefused(f"{same} says exactly this already")
    event_id = identity(ev.BULLET_PROPOSED, section, text)
    if ledger.event(event_id) is None:
        if sum(one.state == "waiting" for one in proposals(ledger)) >= MOST_WAITING:
            raise ProposalRefused(f"{MOST_WAITING} proposals wait already; ask the person to look at them first")
        data = {"section": section, "text": text, "reason": quote(reason, _MAX_REASON)}
        with suppress(Conflict):  # the same text, proposed for another reason a moment ago
            ledger.append([NewEvent(ev.BULLET_PROPOSED, event_id, data, actor, target_id=lesson)])
    event = ledger.event(event_id)
    if event is None or event.data is None:
        raise ProposalRefused("this was proposed before, and its text was erased from the ledger since")
    return _read(ledger, event)


def proposals(ledger: Ledger) -> list[Proposal]:
    """Return every proposal, oldest first; those whose text was redacted are left out."""
    return [_read(ledger, event) for event in ledger.events(types=[ev.BULLET_PROPOSED]) if event.data is not None]


def find(ledger: Ledger, beginning: str) -> Proposal:
    """Return the proposal of an id, or of the beginning of one. Raises ProposalRefused."""
    found = [one for one in proposals(ledger) if beginning and one.id.startswith(beginning)]
    if len(found) != 1:
        which = "no proposal's id begins" if not found else f"{len(found)} proposals' ids begin"
        raise ProposalRefused(f"{which} with {beginning!r}; see `reflector proposals`")
    return found[0]


def approve(ledger: Ledger, proposal: Proposal, *, actor: str = "human", first: int = 0) -> Bullet:
    """Add the proposed bullet. The playbook's lock must be held. Raises BulletRefused, LedgerError."""
    _check_waits(proposal)
    return add_bullet(
        ledger, proposal.section, proposal.text, actor=actor, origin="proposal", first=first, proposal=proposal.id
    )


def may_accept(ledger: Ledger) -> bool:
    """Whether a proposal may become a bullet without a person: not after `MOST_ACCEPTED` of them within a day."""
    since = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
    added = ledger.events(types=[ev.BULLET_ADDED])
    return sum(event.actor == "agent" and event.recorded_at >= since for event in added) < MOST_ACCEPTED


def reject(ledger: Ledger, proposal: Proposal, why: str) -> None:
    """Decide against a proposal. The playbook's lock must be held. Raises ProposalRefused, LedgerError."""
    _check_waits(proposal)
    event_id = identity(ev.EVIDENCE_RETRACTED, proposal.id)
    data = {"reason": quote(why, _MAX_REASON)}
    ledger.append([NewEvent(ev.EVIDENCE_RETRACTED, event_id, data, "human", target_id=proposal.id)])


def _check_waits(proposal: Proposal) -> None:
    if proposal.state == "approved":
        raise ProposalRefused(f"proposal {proposal.id[:8]} was approved already, as {proposal.name}")
    if proposal.state == "rejected":
        raise ProposalRefused(f"proposal {proposal.id[:8]} was rejected already: {proposal.why}")


def _read(ledger: Ledger, event: Event) -> Proposal:
    data = event.data or {}
    state: State = "waiting"
    name = why = None
    for decision in ledger.targeting(event.event_id):
        if decision.type == ev.BULLET_ADDED:
            state, name = "approved", (decision.data or {}).get("name")
        elif decision.type == ev.EVIDENCE_RETRACTED:
            state, why = "rejected", (decision.data or {}).get("reason")
    return Proposal(
        event.event_id,
        event.position,
        event.recorded_at,
        data["section"],
        data["text"],
        data["reason"],
        state,
        name,
        why,
    )
