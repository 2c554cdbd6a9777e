"""Takes evidence out of the count, puts it back, and changes the counting policy.

Invariant: nothing is subtracted. A retraction makes the set of counted tags smaller, and a
retraction is undone by a retraction of it. An event is retracted at most once, so the retractions
that follow from one event form a line. Only the last of them can be retracted next, and if the line
has an odd length, the evidence counts. An adoption of a policy that takes an earlier one back
points to that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reflector.events.event import (
    BULLET_PROPOSED,
    BULLET_TAGGED,
    EVIDENCE_RETRACTED,
    HUMAN,
    POLICY_ADOPTED,
    REFLECTION_COMPLETED,
    Appended,
    Event,
    NewEvent,
    identity,
)
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.as_of import Past
from reflector.ledger.errors import AlreadyRetracted, LedgerError
from reflector.text.secrets import quote

if TYPE_CHECKING:
    from reflector.ledger.store import BulletRow, Ledger
    from reflector.playbook.bullet import Counting

_MAX_REASON = 500


class RetractionRefused(LedgerError):
    """An event that cannot be retracted, or whose retraction cannot be undone."""


def take_back(ledger: Ledger, events: Sequence[Event], why: str) -> list[Appended]:
    """Remove evidence from the count, put it back, or restore the former policy.

    Raises: as `adopt`, `put_back_evidence` and `retract`.
    """
    first = events[0]
    if first.type == POLICY_ADOPTED:
        counting = Past(ledger, first.position - 1).counting
        return adopt(ledger, counting, reason=why, target=first.event_id)
    if first.type == EVIDENCE_RETRACTED:
        return put_back_evidence(ledger, events, why)
    return retract(ledger, events, why)


def retract(ledger: Ledger, targets: Sequence[Event], why: str) -> list[Appended]:
    """Remove the evidence of these events from the count. Evidence that does not count stays out.

    The playbook's lock must be held.

    Raises: AlreadyRetracted if none of it counts, RetractionRefused, LedgerError.
    """
    lines = [_line(ledger, target) for target in targets]
    counting = [line[-1] for line in lines if _counts(line)]
    if not counting:
        target = lines[0][0]
        last = lines[0][-1]
        raise AlreadyRetracted(
            f"{_event_words(target)} has not counted since position "
            f"{last.position}{_reason_words(last)}; to count it again, run `reflector undo "
            f"{last.position}`"
        )
    for target in targets:
        replaced = _replaced_lines(ledger, target, verdicts_out=0)
        counting += [line[-1] for line in replaced if _counts(line)]
    return _append(ledger, counting, why)


def put_back_evidence(ledger: Ledger, targets: Sequence[Event], why: str) -> list[Appended]:
    """Make retracted evidence count again. A target may be a retraction instead of the evidence.

    The playbook's lock must be held.

    Raises: RetractionRefused if none of it is retracted, LedgerError.
    """
    lines = [_line(ledger, target) for target in targets]
    out = [line[-1] for line in lines if _counts(line) == (line[0].type == EVIDENCE_RETRACTED)]
    if not out:
        target, *retractions = lines[0]
        state = "counts"
        if retractions:
            last = retractions[-1]
            is_retraction = target.type == EVIDENCE_RETRACTED
            verb = "was already undone at" if is_retraction else "has counted again since"
            state = f"{verb} position {last.position}{_reason_words(last)}"
        raise RetractionRefused(
            f"{_event_words(target)} {state}, so there is nothing to undo; see `reflector log`"
        )
    for target in targets:
        replaced = _replaced_lines(ledger, target, verdicts_out=1)
        out += [line[-1] for line in replaced if not _counts(line)]
    return _append(ledger, out, why)


def taken_out(ledger: Ledger, evidence: Sequence[Event], why: str, tx: str) -> list[NewEvent]:
    """Return the events that remove evidence from the count, put back evidence that retractions
    removed, and restore the former policy.

    Evidence that does not count stays out, and a policy that was replaced since stays replaced.

    tx  the command's transaction id
    """
    policies = [event for event in evidence if event.type == POLICY_ADOPTED]
    lines = [_line(ledger, event) for event in evidence if event.type != POLICY_ADOPTED]
    ends = [line[-1] for line in lines if _counts(line)]
    events = _retractions(ends, why) if ends else []
    if policies and adoptions(ledger)[-1].event_id == policies[-1].event_id:
        former = Past(ledger, policies[0].position - 1).counting
        if former != ledger.counting():
            events.append(_adoption(former, tx, why, policies[-1].event_id))
    return events


def moved_counters(
    before: Sequence[BulletRow], after: Sequence[BulletRow]
) -> list[tuple[BulletRow, BulletRow]]:
    """Return the bullets whose counters differ, each before and after."""
    former = {row.name: row for row in before}
    pairs = [(former[row.name], row) for row in after if row.name in former]
    return [
        (old, new) for old, new in pairs if (old.helpful, old.harmful) != (new.helpful, new.harmful)
    ]


def adoptions(ledger: Ledger) -> list[Event]:
    """Return every adoption of a policy, oldest first."""
    return list(ledger.events(types=[POLICY_ADOPTED]))


def adopt(
    ledger: Ledger, counting: Counting, *, reason: str | None = None, target: str | None = None
) -> list[Appended]:
    """Put a counting policy in force, under which every counter is computed again. If the policy is
    already in force, nothing is appended.

    target  the adoption that this one takes back
    """
    if ledger.counting() == counting:
        return []
    tx = ledger.draw()
    return ledger.append([_adoption(counting, tx, reason, target)], tx=tx)


def _adoption(counting: Counting, tx: str, reason: str | None, target: str | None) -> NewEvent:
    policy = identity("policy", "counting", counting)
    data = {"policy": policy, "counting": counting, "reason": reason}
    event_id = identity(POLICY_ADOPTED, tx)
    return NewEvent(POLICY_ADOPTED, event_id, data, "human", target_id=target)


def _append(ledger: Ledger, ends: Sequence[Event], why: str) -> list[Appended]:
    return ledger.append(_retractions(ends, why), tx=ledger.draw())


def _retractions(ends: Sequence[Event], why: str) -> list[NewEvent]:
    """Return a retraction of each of these events, which are the last ones of their lines."""
    reason = quote(why, _MAX_REASON)
    if not reason:
        raise RetractionRefused(
            "the reason is empty; give a reason with --why, for later readers of the ledger"
        )
    retraction = EVIDENCE_RETRACTED
    data = {"reason": reason}
    return [
        NewEvent(retraction, identity(retraction, target_id), data, "human", target_id=target_id)
        for target_id in dict.fromkeys(end.event_id for end in ends)
    ]


def _line(ledger: Ledger, target: Event) -> list[Event]:
    """Return an event, its retraction, the retraction of that one, and so on.

    Raises: RetractionRefused for an event that is not evidence.
    """
    _check_is_evidence(ledger, target)
    return [target, *ledger.retractions(target.event_id)]


def _counts(line: Sequence[Event]) -> bool:
    """Return whether the last event of a line is in force. For evidence: whether it counts."""
    return len(line) % 2 == 1


def _replaced_lines(ledger: Ledger, target: Event, *, verdicts_out: int) -> list[list[Event]]:
    """Return the lines of the retractions through which your verdict replaced others.

    The list is empty unless `verdicts_out` of your verdicts in that reflection are out of the
    count. This is 0 before the verdict is retracted, and 1 before it is put back.
    """
    evidence = evidence_below(ledger, target)
    if evidence is None or evidence.actor != HUMAN or evidence.reflection_id is None:
        return []
    types = (REFLECTION_COMPLETED, BULLET_TAGGED, EVIDENCE_RETRACTED)
    verdict_lines: list[list[Event]] = []
    replaced_lines: list[list[Event]] = []
    for event in ledger.events(types=types, session_id=evidence.session_id):
        if event.reflection_id != evidence.reflection_id:
            continue
        is_retraction = event.type == EVIDENCE_RETRACTED
        lines = replaced_lines if is_retraction else verdict_lines
        lines.append(_line(ledger, event))
    lines_out = [line for line in verdict_lines if not _counts(line)]
    return replaced_lines if len(lines_out) == verdicts_out else []


def _check_is_evidence(ledger: Ledger, target: Event) -> None:
    """Raise RetractionRefused for an event that cannot leave the count."""
    if way_out := EVENT_TYPES[target.type].no_retraction:
        way_out = way_out.format(target=(target.target_id or "")[:8])
        raise RetractionRefused(
            f"{_event_words(target)} is not evidence, so it cannot be excluded from the "
            f"counts; {way_out}"
        )
    evidence = evidence_below(ledger, target)
    if evidence and evidence.type == BULLET_PROPOSED:
        raise RetractionRefused(
            f"{_event_words(target)} is the rejection of a proposal, which is final; to add "
            "the rule anyway, use `reflector add`"
        )


def evidence_below(ledger: Ledger, event: Event) -> Event | None:
    """Return the evidence that a line of retractions is about; any other event is returned
    unchanged. None if a forged ledger contains a circle.
    """
    evidence: Event | None = event
    while evidence and evidence.type == EVIDENCE_RETRACTED:
        below = ledger.event(evidence.target_id or "")
        evidence = below if below and below.position < evidence.position else None
    return evidence


def _event_words(event: Event) -> str:
    return f"the {event.type} at position {event.position}"


def _reason_words(event: Event) -> str:
    reason = event.fact("reason")
    return f" ({reason})" if reason else ""
