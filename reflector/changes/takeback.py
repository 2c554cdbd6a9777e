"""Takes back an act: finds the act that a text names, the bullets that would be removed, and the
events to append.

Invariant: an act is taken back as a whole, in one append, or not at all. Bullets get their earlier
state, and evidence leaves the count or returns to it. Nothing is erased.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from reflector.changes.apply import Step, apply_changes
from reflector.changes.retractions import moved_counters, take_back, taken_out
from reflector.changes.undo import (
    CHANGING,
    Act,
    NothingToUndo,
    Undoing,
    approved,
    imported,
    last_change,
    undoing,
)
from reflector.events.event import (
    CHANGE_APPROVED,
    EVIDENCE_RETRACTED,
    HUMAN,
    LEDGER_MERGED,
    POLICY_ADOPTED,
    RULES_MOVED,
    Event,
    NewEvent,
    tx_of,
)
from reflector.events.registry import EVENT_TYPES
from reflector.mistakes import Mistake
from reflector.playbook.names import is_name

if TYPE_CHECKING:
    from reflector.ledger.store import BulletRow, Ledger


#: Types of events with which a command takes evidence back.
_EVIDENCE = (EVIDENCE_RETRACTED, POLICY_ADOPTED)


class TakenBack(NamedTuple):
    """The result of an undo.

    steps      the changes to rules
    moved      the other rules whose counters changed with the evidence, before and after the undo
    positions  the positions of the appended events, with which you can undo this undo
    files      the files that were restored
    """

    steps: Sequence[Step]
    moved: Sequence[tuple[BulletRow, BulletRow]]
    positions: Sequence[int]
    files: Sequence[str] = ()


def act_named(ledger: Ledger, text: str) -> Act | None:
    """Return the act that a bullet's name or a range of positions, such as 41..43, means; None for
    any other text.

    Raises: Mistake for a malformed range, NothingToUndo.
    """
    if is_name(text) and ledger.row(text):
        return Act(last_change(ledger, text))
    first, dots, last = text.partition("..")
    if not dots:
        return None
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise Mistake(f"{text!r} is not a range of positions; write a range such as 41..43")
    after = int(first) - 1
    upto = int(last)
    changes = list(ledger.events(after=after, upto=upto, types=CHANGING))
    evidence = list(ledger.events(after=after, upto=upto, types=_EVIDENCE))
    commands = {tx_of(change.meta) for change in changes} - {None}
    if changes:
        return Act(changes, [event for event in evidence if tx_of(event.meta) in commands])
    if not evidence:
        raise NothingToUndo(f"no event in {text} changed a rule; see `reflector log`")
    return Act.of_evidence(evidence)


def act_of(ledger: Ledger, events: Sequence[Event], session_id: str | None = None) -> Act:
    """Return the act of a session's windows, or of one event.

    Raises: NothingToUndo for an event that changed no bullet and no count.
    """
    event = events[0]
    if session_id is not None:
        return Act((), events, f"undid session {session_id}")
    if event.type == CHANGE_APPROVED:
        return Act(approved(ledger, event))
    if event.type == LEDGER_MERGED:
        return imported(ledger, event)
    if event.type in CHANGING:
        return Act([event])
    if event.type == RULES_MOVED:
        later = ledger.events(after=event.position, types={*CHANGING, RULES_MOVED})
        return Act([event, *(one for one in later if tx_of(one.meta) == tx_of(event.meta))])
    way_out = EVENT_TYPES[event.type].no_retraction
    if way_out and event.type != POLICY_ADOPTED:
        way_out = way_out.format(target=(event.target_id or "")[:8])
        raise NothingToUndo(
            f"the {event.type} at position {event.position} did not change a rule or a "
            f"count, so it cannot be undone; {way_out}"
        )
    return Act.of_evidence(events)


def removed_by(ledger: Ledger, act: Act) -> list[str]:
    """Return the names of the bullets that taking back an act removes."""
    if not act.changes:
        return []
    try:
        changes = undoing(ledger, act.changes).changes
    except NothingToUndo:
        return []
    return [change.name or "" for change in changes if change.kind == "remove"]


def take_back_act(
    ledger: Ledger,
    act: Act,
    *,
    why: str | None = None,
    first: int = 0,
) -> TakenBack:
    """Take back an act. The playbook's lock must be held.

    why    the reason, for the ledger
    first  the lowest number of a new name

    Raises: NothingToUndo; BulletRefused if a later change is in the way; LedgerError.
    """
    evidence_types = {event.type for event in act.evidence}
    if act.changes or act.is_imported or len(evidence_types) > 1:
        return take_back_changes(ledger, act, why=why, first=first)
    before = ledger.rows()
    head = ledger.head().position
    take_back(ledger, act.evidence, why or act.reason)
    return _result(ledger, [], before, head)


def take_back_changes(
    ledger: Ledger,
    act: Act,
    *,
    why: str | None = None,
    first: int = 0,
    preceding: Sequence[NewEvent] = (),
    tx: str | None = None,
) -> TakenBack:
    """Undo changes of bullets, and remove the evidence that came with them from the count.

    preceding  events to append before the undo, of a command with this `tx`

    Otherwise as `take_back_act`.
    """
    before = ledger.rows()
    head = ledger.head().position
    steps = _undo_changes(ledger, act, why or act.reason, first, preceding, tx or ledger.draw())
    return _result(ledger, steps, before, head)


def _result(
    ledger: Ledger, steps: Sequence[Step], before: Sequence[BulletRow], head: int
) -> TakenBack:
    """Return the result of an act's end that changed bullets, counters or both.

    The steps were computed before the evidence left the count, so they get the counters of now.

    before, head  the bullets and the last position before it
    """
    rows = ledger.rows_by_name()
    evidence = ledger.events(after=head, types=_EVIDENCE)
    positions = [event.position for event in evidence] + [step.position or 0 for step in steps]
    in_steps = {bullet.name for step in steps for bullet in step.before + step.after}
    moved = [
        (old, new)
        for old, new in moved_counters(before, [*rows.values()])
        if old.name not in in_steps
    ]
    counted = [
        step._replace(after=tuple(rows[bullet.name].bullet for bullet in step.after))
        for step in steps
    ]
    return TakenBack(counted, moved, positions)


def _undo_changes(
    ledger: Ledger,
    act: Act,
    reason: str,
    first: int,
    preceding: Sequence[NewEvent],
    tx: str,
) -> Sequence[Step]:
    """Append the `preceding` events and the undo of an act: take back its evidence and its changes
    to rules. Return the steps.

    Raises: NothingToUndo if the act has nothing left to undo.
    """
    evidence = taken_out(ledger, act.evidence, reason, tx)
    try:
        taken_back = undoing(ledger, act.changes)
    except NothingToUndo:
        if not evidence:
            raise
        taken_back = Undoing([], {}, {})
    return apply_changes(
        ledger,
        taken_back.changes,
        actor=HUMAN,
        first=first,
        again=True,
        reason=reason,
        target=taken_back.targets,
        baselines=taken_back.baselines,
        preceding=lambda _: [*preceding, *evidence],
        tx=tx,
    )
