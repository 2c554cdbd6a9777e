"""Changes that somebody proposes, and what becomes of them.

Invariant: a proposal changes no playbook. It is an event of its own, and ends once: an approval
appends the events of its change behind itself, a rejection says why, and one that can no longer be
applied, or that waited behind too many others, falls away with the reason, until it can be applied
again. The same change proposed again gets the decision, and no person is asked twice. What the
playbook told is not learned from it: a text that it says, or said, is refused.
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

from reflector.changes.apply import BulletRefused, Step, apply, fault, gone
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.proposals import MAX_QUOTE, MOST_QUOTES, TRUSTS
from reflector.events.state import REDACTED
from reflector.ledger.errors import Conflict
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.admissible import same_words
from reflector.playbook.change import Change
from reflector.text.secrets import quote

State = Literal["waiting", "approved", "rejected", "kept", "stale", "expired"]
_MAX_REASON: Final = 1_000
#: Characters of a proposed text: advice that is longer takes the place of other advice.
MOST_TEXT: Final = 500
#: So many proposals wait; one more makes the oldest expire.
MOST_WAITING: Final = 20
#: An agent in a loop must not fill the ledger: so many proposals of agents within a day.
MOST_PROPOSED: Final = 100
#: Nor the playbook, where no person is asked: so many bullets within a day; what is more waits for
#: a person.
MOST_ACCEPTED: Final = 20
#: After so many rejections of a text nobody is asked about it again.
_MOST_REJECTED: Final = 2
#: Who ends a proposal that nobody decides on.
_ACTOR: Final = "reflector"
_TYPES: Final = (ev.BULLET_PROPOSED, ev.CHANGE_PROPOSED)
#: What comes after a proposal of an earlier version, which had types of its own for its decision.
_DECISIONS: Final = (ev.CHANGE_APPROVED, ev.CHANGE_REJECTED)


class ProposalRefused(BulletRefused):
    """A proposal that cannot be made or decided; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Words that speak for a change, and who said them: person, agent or tool.

    session  the session in which they were said, `window` the id of the event that recorded it
    """

    text: str
    by: str
    session: str | None = None
    window: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed change and what became of it.

    origin  human, agent, rules, model, import or machine, `trust` who wrote its words: the least of
            its sources
    basis   the digests of the texts that it was made for, by the bullet's name
    target  the lesson that it is made of, or the approval that it would take back
    name    the bullet that its change made or changed, once it is approved; `approval` the id of
            that event
    why     why it was rejected or fell away; `edited` says whether a person approved it with
            another text
    undone_at  the position at which what it changed was undone, where somebody looked for it
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
    """Record a proposal, once; the same change again returns what became of it.

    lesson  the id of the lesson that it is made of
    first   events that the same transaction records before the proposal, if there is a new one
    The playbook's lock must be held. Raises ProposalRefused, LedgerError.
    """
    change = replace(change, text=change.text.strip()) if change.text else change
    rows = ledger.rows()
    known, _ = sweep(ledger)
    before = [one for one in known if one.change == change]
    what = fault(rows, change)
    if before and before[-1].state in (
        "waiting",
        "rejected",
        "kept",
        *(["approved"] if what else []),
    ):
        return before[-1]
    if what := what or _unwanted(ledger, rows, change, known, origin):
        raise ProposalRefused(f"{what}; nothing was proposed")
    data = {
        "change": change.to_data(),
        "origin": origin,
        # A model's words are a person's wish where it quotes one sentence of theirs, whatever else
        # speaks for them.
        "trust": trust
        if origin == "model"
        else max((trust, *(one.by for one in evidence)), key=TRUSTS.index),
        "reason": quote(reason, _MAX_REASON),
        "evidence": [_quoted(one) for one in evidence[:MOST_QUOTES]],
        "basis": [
            {"name": one.name, "digest": _digest(one.text)}
            for one in rows
            if one.name in change.about
        ],
    }
    event_id = identity(
        ev.CHANGE_PROPOSED, json.dumps(change.to_data(), sort_keys=True), len(before)
    )
    event = NewEvent(ev.CHANGE_PROPOSED, event_id, data, actor, target_id=lesson)
    waiting = [one for one in known if one.state == "waiting"]
    with suppress(Conflict):  # the same change, proposed for another reason a moment ago
        ledger.append(
            [
                *first,
                event,
                *(_expiry(one) for one in waiting[: max(0, len(waiting) + 1 - MOST_WAITING)]),
            ]
        )
    recorded = ledger.event(event.event_id)
    found = _read(ledger, recorded, {}) if recorded is not None else None
    if found is None:
        raise ProposalRefused(
            "this was proposed before, and its text was erased from the ledger since"
        )
    return found


def proposals(ledger: Ledger, *, waiting: bool = True) -> list[Proposal]:
    """Return the proposals that wait, or all of them, oldest first; those whose text was erased
    are left out.
    """
    # Two machines may have decided on one. What an approval made is in the playbook of both, so it
    # stands.
    ends = sorted(ledger.events(types=_DECISIONS), key=lambda one: one.type == ev.CHANGE_APPROVED)
    decided = {one.target_id: one for one in ends}
    found = (_read(ledger, event, decided) for event in ledger.events(types=_TYPES))
    return [one for one in found if one is not None and (one.state == "waiting" or not waiting)]


def find(ledger: Ledger, beginning: str) -> Proposal:
    """Return the proposal of an id, or of the beginning of one. Raises ProposalRefused."""
    found = [
        one
        for one in proposals(ledger, waiting=False)
        if beginning and one.id.startswith(beginning)
    ]
    if len(found) != 1:
        which = "no proposal's id begins" if not found else f"{len(found)} proposals' ids begin"
        raise ProposalRefused(f"{which} with {beginning!r}; see `reflector proposals --all`")
    return found[0]


def approve(
    ledger: Ledger,
    proposal: Proposal,
    *,
    text: str | None = None,
    actor: str = "human",
    first: int = 0,
) -> Step:
    """Make the proposed change, with another `text` if a person gave one. The playbook's lock must
    be held. Raises BulletRefused, LedgerError; ProposalRefused for one that cannot be applied,
    which is recorded.
    """
    what = _staleness(ledger.rows(), proposal)
    if proposal.state != "stale" or what:
        _check_waits(proposal)
    if text is not None and proposal.change.text is None:
        raise ProposalRefused(
            f"proposal {proposal.id[:8]} has no text to change; approve it as it is, or reject it"
        )
    if what:
        ledger.append([_ending(proposal, "stale", what)])
        raise ProposalRefused(f"proposal {proposal.id[:8]} fell away: {what}")
    change = proposal.change if text is None else replace(proposal.change, text=text)

    def approval(steps: Sequence[Step]) -> Sequence[NewEvent]:
        data = {"change": steps[0].change.to_data(), "edited": change != proposal.change}
        event_id = identity(ev.CHANGE_APPROVED, proposal.id)
        return [NewEvent(ev.CHANGE_APPROVED, event_id, data, actor, target_id=proposal.id)]

    reason = quote(proposal.reason, 200)
    (applied,) = apply(
        ledger,
        [change],
        actor=actor,
        first=first,
        target=proposal.id,
        origin="proposal",
        reason=reason,
        lead=approval,
    )
    return applied


def reject(ledger: Ledger, proposal: Proposal, reason: str, *, keep: bool = False) -> None:
    """Decide against a proposal; `keep` the bullets of a merge apart, and no pair of them is
    proposed for one again.

    The playbook's lock must be held. Raises ProposalRefused, LedgerError.
    """
    _check_waits(proposal)
    if keep and proposal.change.kind != "merge":
        raise ProposalRefused(
            f"proposal {proposal.id[:8]} is not a merge: there are no bullets to keep apart; "
            "reject it without --keep"
        )
    kept = proposal.change.names if keep else ()
    rejection = _ending(proposal, "kept" if keep else "rejected", reason, keep=kept, actor="human")
    ledger.append([rejection], tx=ledger.draw())


def sweep(ledger: Ledger) -> tuple[list[Proposal], list[Proposal]]:
    """Let the proposals fall away that can no longer be applied, and the oldest that wait behind
    too many others.

    Returns all proposals, and those that fell away, as they are now. The playbook's lock must be
    held. Raises LedgerError.
    """
    known, rows = proposals(ledger, waiting=False), ledger.rows()
    waiting = [one for one in known if one.state == "waiting"]
    endings = {
        one.id: _ending(one, "stale", what) for one in waiting if (what := _staleness(rows, one))
    }
    left = [one for one in waiting if one.id not in endings]
    endings |= {one.id: _expiry(one) for one in left[: max(0, len(left) - MOST_WAITING)]}
    if not endings:
        return known, []
    ledger.append(list(endings.values()))
    known = proposals(ledger, waiting=False)
    return known, [one for one in known if one.id in endings]


def kept_pairs(ledger: Ledger) -> set[frozenset[str]]:
    """Return the pairs of bullets that a person wants to keep apart."""
    rejections = ledger.events(types=[ev.CHANGE_REJECTED])
    return {
        frozenset(pair)
        for one in rejections
        for pair in combinations((one.data or {}).get("keep", ()), 2)
    }


def may_accept(ledger: Ledger) -> bool:
    """Whether a proposal may become a bullet without a person: not after `MOST_ACCEPTED` of them
    within a day.
    """
    added = ledger.events(types=[ev.BULLET_ADDED])
    return (
        sum(event.actor == "agent" and event.recorded_at >= _a_day_ago() for event in added)
        < MOST_ACCEPTED
    )


def _unwanted(
    ledger: Ledger,
    rows: Sequence[BulletRow],
    change: Change,
    known: Iterable[Proposal],
    origin: str,
) -> str | None:
    """Why a change that could be made is not proposed."""
    if change.text is not None:
        if len(change.text) > MOST_TEXT:
            return (
                f"the text has {len(change.text):,} characters; a proposed bullet has at most "
                f"{MOST_TEXT}"
            )
        if what := _injected(rows, change):
            return what
        words = same_words(change.text)
        no = [
            one
            for one in known
            if one.state == "rejected" and same_words(one.change.text or "") == words
        ]
        if len(no) >= _MOST_REJECTED:
            return (
                f"this text was rejected {len(no)} times, for the last time because: {no[-1].why}"
            )
    if change.kind == "merge":
        kept = kept_pairs(ledger)
        apart = next(
            (pair for pair in combinations(change.names, 2) if frozenset(pair) in kept), None
        )
        if apart is not None:
            return f"a person decided to keep {apart[0]} and {apart[1]} apart"
    if origin == "agent":
        since = _a_day_ago()
        if (
            sum(one.origin == "agent" and one.proposed_at >= since for one in known)
            >= MOST_PROPOSED
        ):
            return (
                f"agents proposed {MOST_PROPOSED} changes within a day; ask the person to look "
                "at them first"
            )
    return None


def _injected(rows: Sequence[BulletRow], change: Change) -> str | None:
    """Why a text is none that was learned: a bullet says it, or said it."""
    words = same_words(change.text or "")
    same = [row for row in rows if row.name not in change.about and same_words(row.text) == words]
    if not same:
        return None
    first = min(same, key=lambda row: row.status != "live")
    why = gone({first.name: first}, first.name)
    return f"{first.name} says this already" if why is None else f"a bullet said this: {why}"


def _staleness(rows: Sequence[BulletRow], proposal: Proposal) -> str | None:
    """Why a proposal cannot be applied to what the playbook says now."""
    for row in rows:
        if proposal.basis.get(row.name, _digest(row.text)) != _digest(row.text):
            return f"{row.name} says something else since it was proposed"
    return fault(rows, proposal.change)


def _check_waits(proposal: Proposal) -> None:
    if proposal.state == "approved":
        said = f"proposal {proposal.id[:8]} was approved already, as {proposal.name}"
        raise ProposalRefused(
            f"{said}; if it was undone, `reflector undo` with the undoing's position brings it back"
        )
    if proposal.state != "waiting":
        how = {"stale": "fell away", "expired": "expired"}.get(
            proposal.state, "was rejected already"
        )
        raise ProposalRefused(f"proposal {proposal.id[:8]} {how}: {proposal.why}")


def _expiry(proposal: Proposal) -> NewEvent:
    return _ending(proposal, "expired", f"{MOST_WAITING} newer ones wait")


def _ending(
    proposal: Proposal, how: str, reason: str, *, keep: Sequence[str] = (), actor: str = _ACTOR
) -> NewEvent:
    data = {"how": how, "reason": quote(reason, _MAX_REASON), "keep": list(keep)}
    return NewEvent(
        ev.CHANGE_REJECTED,
        identity(ev.CHANGE_REJECTED, proposal.id),
        data,
        actor,
        target_id=proposal.id,
    )


def _read(ledger: Ledger, event: Event, decided: Mapping[str | None, Event]) -> Proposal | None:
    """Return the proposal of an event; None where its text was erased."""
    data = event.data
    if data is None:
        return None
    old = event.type == ev.BULLET_PROPOSED
    change = (
        Change("add", section=data["section"], text=data["text"])
        if old
        else Change.from_data(data["change"])
    )
    if change.text == REDACTED:
        return None
    origin = ("human" if event.actor == "human" else "agent") if old else data["origin"]
    found = Proposal(
        event.event_id,
        event.position,
        event.recorded_at,
        event.actor,
        change,
        origin,
        ("person" if origin == "human" else "agent") if old else data["trust"],
        data["reason"],
        tuple(
            Quote(one["text"], one["by"], one.get("session"), one.get("window"))
            for one in data.get("evidence", ())
        ),
        {one["name"]: one["digest"] for one in data.get("basis", ())},
        event.target_id,
    )
    decision = decided.get(event.event_id)
    if decision is None and old:
        types = (ev.BULLET_ADDED, ev.EVIDENCE_RETRACTED)
        decision = next(
            (one for one in ledger.targeting(event.event_id) if one.type in types), None
        )
    return found if decision is None else replace(found, **_decision(decision))


def _decision(event: Event) -> dict[str, Any]:
    """What an event says of the proposal that it ends."""
    data = event.data or {}
    fields: dict[str, Any] = {"decided_at": event.recorded_at}
    if event.type not in (ev.CHANGE_APPROVED, ev.BULLET_ADDED):
        return fields | {"state": data.get("how", "rejected"), "why": data.get("reason")}
    name, edited = data.get("change", data).get("name"), data.get("edited", False)
    return fields | {
        "state": "approved",
        "name": name,
        "approval": event.event_id,
        "edited": edited,
    }


def _quoted(one: Quote) -> dict[str, Any]:
    data = {"text": quote(one.text, MAX_QUOTE), "by": one.by, "session": one.session}
    return data if one.window is None else {**data, "window": one.window}


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _a_day_ago() -> str:
    return (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
