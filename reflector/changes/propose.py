"""Proposed changes of the playbook, and the decisions on them.

Invariant: a proposal does not change the playbook. It is an event of its own, and ends once. An
approval appends the events of its change after itself. A rejection has a reason. A proposal lapses,
with the reason, if it cannot be applied any more or if too many others wait. You can still approve
it if it can be applied again. If its change is proposed again, that is a new proposal.

If the change of an approval is undone, the approval no longer decides: the proposal waits again, or
has the rejection that it also got. To approve it again makes its change again, by an undo of that
undo, because a proposal has at most one approval.

If the same change is proposed again, it gets the earlier decision, so you are not asked twice. A
text that a bullet has or had is refused, so the playbook never learns its own advice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import combinations
from typing import Any, Final, Literal

from reflector.changes.apply import BulletRefused, Step, apply_changes, fault
from reflector.changes.undo import undoing, undone_among
from reflector.events.event import (
    BULLET_ADDED,
    BULLET_PROPOSED,
    CHANGE_APPROVED,
    CHANGE_PROPOSED,
    CHANGE_REJECTED,
    EVIDENCE_RETRACTED,
    Event,
    NewEvent,
    identity,
)
from reflector.events.folds import fold_ledger
from reflector.events.proposals import MAX_QUOTE, MOST_QUOTES, TRUSTS
from reflector.events.state import REDACTED
from reflector.ledger.errors import Conflict
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.admissible import same_words
from reflector.playbook.change import CHANGE_EVENTS, Change, why_not_live
from reflector.text.secrets import quote

State = Literal["waiting", "approved", "rejected", "kept", "stale", "expired"]
_MAX_REASON = 1_000
#: The most characters of a proposed text. Longer advice would displace other advice.
MOST_TEXT = 500
#: The most proposals that wait; with one more, the oldest expires.
MOST_WAITING = 20
#: The most proposals of agents within a day, because an agent in a loop must not fill the ledger.
MOST_PROPOSED = 100
#: The most bullets within a day that agents add without asking you, because they must not fill the
#: playbook either.
MOST_ACCEPTED = 20
#: After this number of rejections of a text, you are not asked about it again.
_MAX_REJECTIONS = 2
_MAX_REMOVAL_REASON = 200
#: The actor that ends a proposal without a user's decision.
_ACTOR = "reflector"
_TYPES = (BULLET_PROPOSED, CHANGE_PROPOSED)
#: The decisions on a proposal of an earlier version, if there is no other one.
_EARLIER_DECISIONS = (BULLET_ADDED, EVIDENCE_RETRACTED)
#: The types of events that an approval makes, and that undo them.
_MADE = (CHANGE_APPROVED, *sorted(CHANGE_EVENTS))
#: The states in which a proposal answers the same change proposed again.
_ANSWERING_STATES = ("waiting", "rejected", "kept")


class ProposalRefused(BulletRefused):
    """A proposal that cannot be made or decided; the text gives the reason and the next step."""


# Not frozen: a frozen class takes three times as long to define at each start.
@dataclass
class Quote:
    """Words that support a change, and their speaker: person, agent or tool.

    session  the session that contains the words
    window   the id of the event that recorded this part of the session
    """

    text: str
    by: str
    session: str | None = None
    window: str | None = None


@dataclass
class Proposal:
    """A proposed change and the decision on it.

    origin     human, agent, rules, model, import or machine
    trust      the least trusted author of the proposal's words
    basis      the digests of the texts for which the proposal was made, by the rule's name
    target     the lesson from which the proposal comes, or the approval that it would take back
    name       the rule that the approved change made or changed
    approval   the id of the approval
    why        the reason why the proposal was rejected or no longer applies
    edited     whether you approved the proposal with another text
    undone_at  the position at which the approved change was undone, so the proposal waits again
    """

    id: str
    position: int
    proposed_at: str
    actor: str
    change: Change
    origin: str
    trust: str
    reason: str
    evidence: tuple[Quote, ...] = ()
    basis: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    state: State = "waiting"
    decided_at: str | None = None
    name: str | None = None
    approval: str | None = None
    why: str | None = None
    edited: bool = False
    undone_at: int | None = None


def propose(
    ledger: Ledger,
    change: Change,
    *,
    origin: str,
    trust: str,
    reason: str,
    evidence: Sequence[Quote] = (),
    actor: str,
    lesson: str | None = None,
    first: Sequence[NewEvent] = (),
) -> Proposal:
    """Record a proposal once, and return it. If the same change was proposed before, return the
    earlier proposal with its decision. The playbook's lock must be held.

    lesson  the id of the lesson that it is made of
    first   events that the same transaction records before the proposal, if there is a new one

    Raises: ProposalRefused, LedgerError.
    """
    change = change._replace(text=change.text.strip()) if change.text else change
    rows = ledger.rows()
    known, _ = sweep_proposals(ledger)
    same = [proposal for proposal in known if proposal.change == change]
    refusal = fault(rows, change)
    if same and _answers(same[-1], refusal):
        return same[-1]
    refusal = refusal or _unwanted(ledger, rows, change, known, origin)
    if refusal:
        raise ProposalRefused(f"{refusal}; nothing was proposed")
    data = {
        "change": change.to_data(),
        "origin": origin,
        "trust": _least_trust(trust, origin, evidence),
        "reason": quote(reason, _MAX_REASON),
        "evidence": [_quote_data(quoted) for quoted in evidence[:MOST_QUOTES]],
        "basis": [
            {"name": row.name, "digest": _digest(row.text)}
            for row in rows
            if row.name in change.about
        ],
    }
    change_key = json.dumps(change.to_data(), sort_keys=True)
    number = len(same)
    # An erased proposal has one of the ids, but is not among the same ones.
    while same and ledger.event(identity(CHANGE_PROPOSED, change_key, number)):
        number += 1
    event_id = identity(CHANGE_PROPOSED, change_key, number)
    event = NewEvent(CHANGE_PROPOSED, event_id, data, actor, target_id=lesson)
    waiting = [proposal for proposal in known if proposal.state == "waiting"]
    surplus = waiting[: max(0, len(waiting) + 1 - MOST_WAITING)]
    with suppress(Conflict):  # the id belongs to a proposal whose text was erased
        ledger.append([*first, event, *(_expiry(proposal) for proposal in surplus)])
    recorded = ledger.event(event.event_id)
    proposal = _read_proposal(recorded) if recorded else None
    if proposal is None:
        raise ProposalRefused(
            "reflector does not propose this change again, because its text was erased from the "
            "ledger"
        )
    return proposal


def _least_trust(trust: str, origin: str, evidence: Sequence[Quote]) -> str:
    # A model's words are a user's wish if the model quotes one sentence of the user, whatever else
    # supports them.
    trusts = [trust]
    if origin != "model":
        trusts += [quoted.by for quoted in evidence]
    return max(trusts, key=TRUSTS.index)


def _answers(proposal: Proposal, refusal: str | None) -> bool:
    """Return whether an earlier proposal answers the same change. An approved one does if the
    change cannot be made again.
    """
    is_made = proposal.state == "approved" and refusal is not None
    return proposal.state in _ANSWERING_STATES or is_made


def read_proposals(ledger: Ledger, *, only_waiting: bool = True) -> list[Proposal]:
    """Return the waiting proposals, or all of them, oldest first, without those whose text was
    erased.
    """
    known = fold_ledger(ProposalFold(), ledger)
    return [proposal for proposal in known if proposal.state == "waiting" or not only_waiting]


class ProposalFold:
    """All proposals, oldest first, without those whose text was erased."""

    types: Final = (*_TYPES, CHANGE_REJECTED, EVIDENCE_RETRACTED, *_MADE)

    def __init__(self) -> None:
        self._proposed: list[Event] = []
        self._approvals: dict[str | None, Event] = {}
        self._rejections: dict[str | None, Event] = {}
        self._earlier_decisions: dict[str | None, Event] = {}
        self._made: list[Event] = []

    def apply(self, event: Event) -> None:
        if event.type in _TYPES:
            self._proposed.append(event)
        elif event.type == CHANGE_APPROVED:
            self._approvals[event.target_id] = event
        elif event.type == CHANGE_REJECTED:
            self._rejections[event.target_id] = event
        elif event.type in _EARLIER_DECISIONS:
            self._earlier_decisions.setdefault(event.target_id, event)
        if event.type in _MADE:
            self._made.append(event)

    def answer(self) -> list[Proposal]:
        undone_at = undone_among(self._made) if self._made else {}
        proposals = (self._read(event, undone_at) for event in self._proposed)
        return [proposal for proposal in proposals if proposal]

    def _read(self, proposed: Event, undone_at: Mapping[str, int]) -> Proposal | None:
        """Return a proposal in its present state; None if its text was erased.

        Two machines may have decided on one proposal. The result of an approval is in the playbook
        of both, so the approval decides until it is undone.
        """
        proposal = _read_proposal(proposed)
        if proposal is None:
            return None
        approval = self._approvals.get(proposed.event_id)
        rejection = self._rejections.get(proposed.event_id)
        if not (approval or rejection) and proposed.type == BULLET_PROPOSED:
            earlier = self._earlier_decisions.get(proposed.event_id)
            if earlier and earlier.type == BULLET_ADDED:
                approval = earlier
            else:
                rejection = earlier
        if approval:
            proposal = _approved(proposal, approval, undone_at.get(approval.event_id))
        if rejection and proposal.state != "approved":
            proposal = _rejected(proposal, rejection)
        return proposal


def find_proposal(ledger: Ledger, beginning: str) -> Proposal:
    """Return the proposal whose id is or begins with this text.

    Raises: ProposalRefused if no id or several begin so, LedgerError.
    """
    known = read_proposals(ledger, only_waiting=False) if beginning else []
    matching = [proposal for proposal in known if proposal.id.startswith(beginning)]
    if len(matching) != 1:
        count = len(matching)
        which = (
            f"the ids of {count} proposals begin"
            if matching
            else "no proposal has an id that begins"
        )
        raise ProposalRefused(f"{which} with {beginning!r}; see `reflector review list`")
    return matching[0]


def approve_proposal(
    ledger: Ledger,
    proposal: Proposal,
    *,
    text: str | None = None,
    actor: str = "human",
    first: int = 0,
) -> Step:
    """Make the proposed change, and return its step. The playbook's lock must be held.

    You may change your mind: a proposal that was rejected, that expired, or whose approval you
    undid, can be approved.

    text   another text than the proposed one
    first  the lowest number of a new name

    Raises: BulletRefused, LedgerError; ProposalRefused for a proposal that cannot be applied, after
    this was recorded.
    """
    _check_is_not_approved(proposal)
    staleness = _staleness(ledger.rows(), proposal)
    if text is not None and proposal.change.text is None:
        raise ProposalRefused(
            f"proposal {proposal.id[:8]} does not contain a text that you could change; approve "
            "the proposal unchanged, or reject it"
        )
    if staleness:
        if proposal.state == "waiting":
            ledger.append([_ending(proposal, "stale", staleness)])
        raise ProposalRefused(f"proposal {proposal.id[:8]} no longer applies: {staleness}")
    change = proposal.change if text is None else proposal.change._replace(text=text)
    if proposal.undone_at is not None:
        return _approve_again(ledger, proposal, change, actor, first)

    def approval(steps: Sequence[Step]) -> Sequence[NewEvent]:
        made = steps[0].change  # with the name of the new bullet
        data = {"change": made.to_data(), "edited": change != proposal.change}
        event_id = identity(CHANGE_APPROVED, proposal.id)
        return [NewEvent(CHANGE_APPROVED, event_id, data, actor, target_id=proposal.id)]

    steps = apply_changes(
        ledger,
        [change],
        actor=actor,
        first=first,
        target=proposal.id,
        origin="proposal",
        reason=quote(proposal.reason, _MAX_REMOVAL_REASON),
        preceding=approval,
    )
    return steps[0]


def _approve_again(
    ledger: Ledger, proposal: Proposal, change: Change, actor: str, first: int
) -> Step:
    """Make the change of an undone approval again, and return its last step.

    change  the change, with the text to approve now
    """
    if refusal := fault(ledger.rows(), change):
        raise ProposalRefused(f"{refusal}; nothing was changed")
    back = undoing(ledger, ledger.at([proposal.undone_at or 0]))
    changes = [*back.changes]
    approved_text = _made_change(ledger.having([proposal.approval or ""])[0]).get("text")
    if change.text != approved_text:
        changes.append(Change("revise", text=change.text))
    steps = apply_changes(
        ledger,
        changes,
        actor=actor,
        first=first,
        again=True,
        target=back.targets,
        baselines=back.baselines,
    )
    return steps[-1]


def reject_proposal(ledger: Ledger, proposal: Proposal, reason: str, *, keep: bool = False) -> None:
    """Reject a proposal. The playbook's lock must be held.

    keep  keep the bullets of a merge apart: no pair of them is proposed for a merge again

    Raises: ProposalRefused, LedgerError.
    """
    _check_waits(proposal)
    if keep and proposal.change.kind != "merge":
        raise ProposalRefused(
            f"proposal {proposal.id[:8]} is not a merge, so `review keep` does not apply; reject "
            "the proposal with `reflector review reject`"
        )
    apart = proposal.change.names if keep else ()
    how = "kept" if keep else "rejected"
    rejection = _ending(proposal, how, reason, keep=apart, actor="human")
    ledger.append([rejection], tx=ledger.draw())


def sweep_proposals(ledger: Ledger) -> tuple[list[Proposal], list[Proposal]]:
    """End the proposals that can no longer be applied, and the oldest ones if too many wait. Return
    all proposals, and those that ended, in their present state.

    The playbook's lock must be held.

    Raises: LedgerError.
    """
    known = read_proposals(ledger, only_waiting=False)
    rows = ledger.rows()
    endings: dict[str, NewEvent] = {}
    applicable: list[Proposal] = []
    for proposal in known:
        if proposal.state != "waiting":
            continue
        if staleness := _staleness(rows, proposal):
            endings[proposal.id] = _ending(proposal, "stale", staleness)
        else:
            applicable.append(proposal)
    surplus = applicable[: max(0, len(applicable) - MOST_WAITING)]
    endings |= {proposal.id: _expiry(proposal) for proposal in surplus}
    if not endings:
        return known, []
    ledger.append(list(endings.values()))
    known = read_proposals(ledger, only_waiting=False)
    return known, [proposal for proposal in known if proposal.id in endings]


def kept_pairs(ledger: Ledger) -> set[frozenset[str]]:
    """Return the pairs of bullets that you want to keep apart."""
    pairs: set[frozenset[str]] = set()
    for rejection in ledger.events(types=[CHANGE_REJECTED]):
        names = rejection.fact("keep", ())
        pairs |= {frozenset(pair) for pair in combinations(names, 2)}
    return pairs


def may_accept(ledger: Ledger) -> bool:
    """Return whether a proposal may become a bullet without your decision. At most `MOST_ACCEPTED`
    may within a day.
    """
    since = _a_day_ago()
    by_agents = [event for event in ledger.events(types=[BULLET_ADDED]) if event.actor == "agent"]
    return sum(event.recorded_at >= since for event in by_agents) < MOST_ACCEPTED


def _unwanted(
    ledger: Ledger,
    rows: Sequence[BulletRow],
    change: Change,
    known: Sequence[Proposal],
    origin: str,
) -> str | None:
    """Return the reason why a change must not be proposed; None if it may be proposed."""
    refusal = None
    if change.text is not None:
        refusal = _unwanted_text(rows, change, change.text, known)
    if refusal is None and change.kind == "merge":
        refusal = _unwanted_merge(ledger, change)
    if refusal is None and origin == "agent":
        since = _a_day_ago()
        of_agents = [proposal for proposal in known if proposal.origin == "agent"]
        if sum(proposal.proposed_at >= since for proposal in of_agents) >= MOST_PROPOSED:
            return (
                f"agents proposed {MOST_PROPOSED} changes within a day, which is the limit; "
                "propose this change tomorrow"
            )
    return refusal


def _unwanted_text(
    rows: Sequence[BulletRow], change: Change, text: str, known: Iterable[Proposal]
) -> str | None:
    """Return the reason why a text must not be proposed; None if it may be proposed. The reason is
    its length, a bullet with the same words, or your rejections.
    """
    if len(text) > MOST_TEXT:
        return (
            f"the text has {len(text):,} characters, but a proposed rule may have at most "
            f"{MOST_TEXT}"
        )
    words = same_words(text)
    other_rows = [row for row in rows if row.name not in change.about]
    bullets = [row for row in other_rows if same_words(row.text) == words]
    if bullets:
        bullet = min(bullets, key=lambda row: row.status != "live")
        reason = why_not_live({bullet.name: bullet}, bullet.name)
        if reason is None:
            return f"{bullet.name} already has this text"
        return f"{bullet.name} has the same text. {reason}"
    rejections: list[Proposal] = []
    for proposal in known:
        is_same = same_words(proposal.change.text or "") == words
        if is_same and proposal.state == "rejected":
            rejections.append(proposal)
    if len(rejections) >= _MAX_REJECTIONS:
        return (
            f"this text was rejected {len(rejections)} times, the last time because: "
            f"{rejections[-1].why}"
        )
    return None


def _unwanted_merge(ledger: Ledger, change: Change) -> str | None:
    apart = kept_pairs(ledger)
    for first, second in combinations(change.names, 2):
        if frozenset((first, second)) in apart:
            return f"the user decided not to merge {first} and {second}"
    return None


def _staleness(rows: Sequence[BulletRow], proposal: Proposal) -> str | None:
    """Return the reason why a proposal no longer applies to the playbook; None if it does."""
    for row in rows:
        if proposal.basis.get(row.name, _digest(row.text)) != _digest(row.text):
            return f"{row.name} has changed since the proposal"
    return fault(rows, proposal.change)


def _check_is_not_approved(proposal: Proposal) -> None:
    if proposal.state == "approved":
        raise ProposalRefused(
            f"proposal {proposal.id[:8]} about {proposal.name} was already approved; see "
            f"`reflector show {proposal.name}`"
        )


def _check_waits(proposal: Proposal) -> None:
    _check_is_not_approved(proposal)
    if proposal.state != "waiting":
        endings = {"stale": "no longer applies", "expired": "expired"}
        ending = endings.get(proposal.state, "was rejected already")
        raise ProposalRefused(f"proposal {proposal.id[:8]} {ending}: {proposal.why}")


def _expiry(proposal: Proposal) -> NewEvent:
    return _ending(proposal, "expired", f"{MOST_WAITING} newer proposals are waiting")


def _ending(
    proposal: Proposal, how: str, reason: str, *, keep: Sequence[str] = (), actor: str = _ACTOR
) -> NewEvent:
    data = {"how": how, "reason": quote(reason, _MAX_REASON), "keep": list(keep)}
    event_id = identity(CHANGE_REJECTED, proposal.id)
    return NewEvent(CHANGE_REJECTED, event_id, data, actor, target_id=proposal.id)


def _read_proposal(event: Event) -> Proposal | None:
    """Return the proposal of an event, without a decision; None if its text was erased."""
    if event.data is None:
        return None
    is_old = event.type == BULLET_PROPOSED
    data = _data_of_today(event) if is_old else event.data
    change = Change.from_data(data["change"])
    if change.text == REDACTED:
        return None
    return Proposal(
        event.event_id,
        event.position,
        event.recorded_at,
        event.actor,
        change,
        data["origin"],
        data["trust"],
        data["reason"],
        tuple(_quote_of(quote_data) for quote_data in data.get("evidence", ())),
        {basis["name"]: basis["digest"] for basis in data.get("basis", ())},
        event.target_id,
    )


def _data_of_today(event: Event) -> dict[str, Any]:
    """Return the data of a proposal of an earlier version in the form of a `change.proposed`."""
    data = event.facts
    change = {"kind": "add", "section": data["section"], "text": data["text"]}
    is_human = event.actor == "human"
    return {
        "change": change,
        "origin": "human" if is_human else "agent",
        "trust": "person" if is_human else "agent",
        "reason": data["reason"],
    }


def _approved(proposal: Proposal, approval: Event, undone_at: int | None) -> Proposal:
    """Return a proposal with its approval, which decides on it unless it was undone."""
    proposal = replace(proposal, approval=approval.event_id, undone_at=undone_at)
    if undone_at is not None:
        return proposal
    return replace(
        proposal,
        state="approved",
        decided_at=approval.recorded_at,
        name=_made_change(approval).get("name"),
        edited=approval.fact("edited", False),
    )


def _made_change(approval: Event) -> Mapping[str, Any]:
    """Return the data of the change that an approval made, also if it is of an earlier version."""
    change: Mapping[str, Any] = approval.fact("change", approval.facts)
    return change


def _rejected(proposal: Proposal, rejection: Event) -> Proposal:
    how = rejection.fact("how", "rejected")
    why = rejection.fact("reason")
    return replace(proposal, state=how, decided_at=rejection.recorded_at, why=why)


def _quote_of(data: Mapping[str, Any]) -> Quote:
    return Quote(data["text"], data["by"], data.get("session"), data.get("window"))


def _quote_data(quoted: Quote) -> dict[str, Any]:
    data = {"text": quote(quoted.text, MAX_QUOTE), "by": quoted.by, "session": quoted.session}
    return data if quoted.window is None else {**data, "window": quoted.window}


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _a_day_ago() -> str:
    return (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
