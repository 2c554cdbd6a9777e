"""What counts: evidence taken out of the count and put back, and the counting policy in force.

Invariant: nothing is subtracted. A retraction makes the set of counted tags smaller, and undoing it is a retraction of
the retraction, which makes it what it was. An event is retracted at most once, so the retractions that follow from one
are a line, and only its last one may be retracted next. An adoption's id comes from the policy and the adoption before
it, so the same wish, expressed twice, is one event, and going back to an earlier policy is another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reflector.events import event as ev
from reflector.events.event import Appended, Event, NewEvent, identity
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.errors import AlreadyRetracted, LedgerError
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.counting import Counting
from reflector.text.secrets import quote

_MAX_REASON: Final = 500


class RetractionRefused(LedgerError):
    """Something that cannot be retracted, or whose retraction cannot be undone."""


def retract(ledger: Ledger, targets: Sequence[Event], why: str) -> list[Appended]:
    """Take the evidence of these events out of the count; those that are out already stay so.

    The playbook's lock must be held. Raises AlreadyRetracted where all are out, RetractionRefused, LedgerError.
    """
    lines = [_line(ledger, target) for target in targets]
    counting = [line[-1] for line in lines if len(line) % 2]
    if not counting:
        target, *_, last = lines[0]
        raise AlreadyRetracted(
            f"{_named(target)} is out of the count since position {last.position}{_reason(last)}; "
            f"put it back with `reflector undo {last.position}`"
        )
    lifted = [line[-1] for target in targets for line in _replaced(ledger, target) if len(line) % 2]
    return _append(ledger, [*counting, *lifted], why)


def undo(ledger: Ledger, targets: Sequence[Event], why: str) -> list[Appended]:
    """Put evidence back that was retracted; a retraction may be named instead of what it took out.

    The playbook's lock must be held. Raises RetractionRefused where nothing of it is out, LedgerError.
    """
    lines = [_line(ledger, target) for target in targets]
    out = [line[-1] for line in lines if len(line) % 2 == (line[0].type == ev.EVIDENCE_RETRACTED)]
    if not out:
        target, *after = lines[0]
        since = f" since position {after[-1].position}{_reason(after[-1])}" if after else ""
        what = "is undone" if target.type == ev.EVIDENCE_RETRACTED else "is not retracted"
        raise RetractionRefused(f"{_named(target)} {what}{since}; there is nothing to undo. See `reflector log`")
    replaced = [line[-1] for target in targets for line in _replaced(ledger, target, out=True) if not len(line) % 2]
    return _append(ledger, [*out, *replaced], why)


def moved(before: Sequence[BulletRow], after: Sequence[BulletRow]) -> list[tuple[BulletRow, BulletRow]]:
    """Return the bullets whose counters differ, as they were and as they are."""
    then = {row.name: row for row in before}
    pairs = [(then[row.name], row) for row in after if row.name in then]
    return [(old, new) for old, new in pairs if (old.helpful, old.harmful) != (new.helpful, new.harmful)]


def adoptions(ledger: Ledger) -> list[Event]:
    """Return every adoption of a policy, oldest first."""
    return list(ledger.events(types=[ev.POLICY_ADOPTED]))


def adopt(ledger: Ledger, counting: Counting, *, reason: str | None = None) -> Appended | None:
    """Put a counting policy in force: every counter is counted again under it. None where it is in force already."""
    if ledger.counting() == counting:
        return None
    before = adoptions(ledger)
    data = {"policy": identity("policy", "counting", counting), "counting": counting, "reason": reason}
    event_id = identity(ev.POLICY_ADOPTED, counting, before[-1].event_id if before else "")
    (appended,) = ledger.append([NewEvent(ev.POLICY_ADOPTED, event_id, data, "human")])
    return appended


def _append(ledger: Ledger, ends: Sequence[Event], why: str) -> list[Appended]:
    reason = quote(why, _MAX_REASON)
    if not reason:
        raise RetractionRefused("the reason is empty; say with --why why, for later readers of the ledger")
    type_, data = ev.EVIDENCE_RETRACTED, {"reason": reason}
    return ledger.append(
        [
            NewEvent(type_, identity(type_, id), data, "human", target_id=id)
            for id in {end.event_id: None for end in ends}
        ]
    )


def _line(ledger: Ledger, target: Event) -> list[Event]:
    """Return an event, its retraction, the retraction of that one, and so on. Raises RetractionRefused."""
    _check(ledger, target)
    line = [target]
    while found := [event for event in ledger.targeting(line[-1].event_id) if event.type == ev.EVIDENCE_RETRACTED]:
        if found[0].position <= line[-1].position:
            break  # a forged ledger may hold a circle
        line.append(found[0])
    return line


def _replaced(ledger: Ledger, target: Event, *, out: bool = False) -> list[list[Event]]:
    """Return the lines of the retractions by which a person's verdict took the place of others.

    None of a verdict that does not count; with `out`, of one that more than this target keeps out of the count.
    """
    evidence: Event | None = target
    while evidence is not None and evidence.type == ev.EVIDENCE_RETRACTED:
        evidence = ledger.event(evidence.target_id or "")
    if evidence is None or evidence.actor != ev.HUMAN or evidence.reflection_id is None:
        return []
    types = (ev.REFLECTION_COMPLETED, ev.BULLET_TAGGED, ev.EVIDENCE_RETRACTED)
    events = [
        event
        for event in ledger.events(types=types, session_id=evidence.session_id)
        if event.reflection_id == evidence.reflection_id
    ]
    said = [_line(ledger, event) for event in events if event.type != ev.EVIDENCE_RETRACTED]
    if sum(len(line) % 2 == 0 for line in said) != out:
        return []
    return [_line(ledger, event) for event in events if event.type == ev.EVIDENCE_RETRACTED]


def _check(ledger: Ledger, target: Event) -> None:
    if way := EVENT_TYPES[target.type].no_retraction:
        raise RetractionRefused(f"{_named(target)} is not evidence that counts; {way}")
    below: Event | None = target
    while below is not None and below.type == ev.EVIDENCE_RETRACTED:
        above, below = below, ledger.event(below.target_id or "")
        if below is not None and below.position >= above.position:
            break  # a forged ledger may hold a circle
    if below is not None and below.type == ev.BULLET_PROPOSED:
        raise RetractionRefused(
            f"{_named(target)} is the rejection of a proposal, which is final; add the bullet with `reflector add`"
        )


def _named(event: Event) -> str:
    return f"the {event.type} at position {event.position}"


def _reason(event: Event) -> str:
    return f" ({event.data['reason']})" if event.data and event.data.get("reason") else ""
