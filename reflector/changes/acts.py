"""Your newest act, which bare `undo` takes back.

Invariant: an act is everything that one command appended, by its transaction id. Acts of agents, of
other machines and automatic adoptions are not considered. After an undo, both the act and its undo
are skipped, so each bare `undo` goes one act further back. The undo of anything else is an act of
its own. If bare `undo` cannot take an act back, it names this act, and never takes back an older
one instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from reflector import authorship
from reflector.changes.undo import CHANGING, Act, NothingToUndo, undone
from reflector.events.event import (
    ASIDE,
    BULLET_TAGGED,
    CHANGE_REJECTED,
    EVENT_REDACTED,
    EVIDENCE_RETRACTED,
    HUMAN,
    IMPORT,
    LEDGER_MERGED,
    MAX_INT,
    PLAYBOOK_IMPORTED,
    POLICY_ADOPTED,
    REFLECTION_COMPLETED,
    TRIAL_CLOSED,
    TRIAL_OPENED,
    Event,
    identity,
    tx_of,
)
from reflector.ledger.reader import of_types
from reflector.ledger.store import Ledger

#: The types of acts that you must name to take them back.
_IMPORTS = frozenset({LEDGER_MERGED, PLAYBOOK_IMPORTED})
#: The types of acts that cannot be taken back, in words.
_FINAL = {
    EVENT_REDACTED: "a redaction",
    CHANGE_REJECTED: "the rejection of a proposal",
    TRIAL_OPENED: "the start of a trial",
    TRIAL_CLOSED: "the end of a trial",
}
#: The types of events that take another one back, if they point to one.
_UNDOING = frozenset({*CHANGING, EVIDENCE_RETRACTED, POLICY_ADOPTED})
_READ = frozenset({*_UNDOING, *_IMPORTS, *_FINAL})
_NOTHING = (
    "you do not have a change left to undo; `reflector log` lists all changes to rules, and "
    "`reflector log --memory` lists all changes to files"
)
_NO_HOME = (
    "this user does not have a home folder, so reflector cannot recognise your changes; name a "
    "change by its position, which `reflector log` shows"
)
_VERDICTS = f"{of_types((REFLECTION_COMPLETED,))} AND actor = ? ORDER BY position"


class NotByItself(NothingToUndo):
    """Bare `undo` cannot take back your newest act; the text shows the reason and a way out."""

    exit_code = 2


def newest(ledger: Ledger) -> Act:
    """Return your newest act that was not taken back.

    Raises: NothingToUndo if there is none; NotByItself for an import or an act that stays.
    """
    acts = _your_acts(ledger)
    undone_at = undone(ledger)
    remaining = [event for event in acts.events if _remains(event, acts, undone_at)]
    if not remaining:
        raise NothingToUndo(_NOTHING if authorship.is_possible() else _NO_HOME)
    last = remaining[-1]
    if last.type in _FINAL or acts.is_import(last):
        raise NotByItself(_refusal(last, remaining, acts))
    changes: list[Event] = []
    evidence: list[Event] = []
    for event in remaining:
        if _command(event) != _command(last):
            continue
        if event.type in CHANGING:
            changes.append(event)
        else:
            evidence.append(_evidence_of(ledger, event))
    return Act(changes, evidence) if changes else Act.of_evidence(evidence)


class _YourActs(NamedTuple):
    """The events of your acts, in order.

    by_id    these events by their ids, by the id of the tag that they gave, and by the ids of the
             retractions that are part of them
    imports  the commands that brought rules from a file or from another ledger
    """

    events: Sequence[Event]
    by_id: Mapping[str, Event]
    imports: Collection[str]

    def is_import(self, event: Event) -> bool:
        """Return whether an event is part of an import. Adopting watched lines is not an import,
        because its undo makes them watched again.
        """
        return _command(event) in self.imports


def _your_acts(ledger: Ledger) -> _YourActs:
    """Return your acts. A verdict by hand is the completion of its reflection, and includes the
    retractions of that reflection.
    """
    verdicts = ledger.matching(_VERDICTS, HUMAN)
    events = sorted([*ledger.events(types=_READ), *verdicts], key=lambda event: event.position)
    # Older versions wrote no transaction id. In a file of your own, a user's acts from that time
    # are yours.
    signed = (event.position for event in events if tx_of(event.meta) is not None)
    first_signed = next(signed, MAX_INT)
    verdict_of = {event.reflection_id: event for event in verdicts}
    acts: list[Event] = []
    by_id: dict[str, Event] = {}
    for event in events:
        is_old_act = event.position < first_signed and _is_unsigned(event)
        if not _is_signed(event) and not is_old_act:
            continue
        if event.type == EVIDENCE_RETRACTED and event.reflection_id in verdict_of:
            by_id[event.event_id] = verdict_of[event.reflection_id]
        else:
            acts.append(event)
            by_id[event.event_id] = event
            if tag_id := _tag_id(event):
                by_id[tag_id] = event
    imports = {_command(event) for event in acts if event.type in _IMPORTS}
    return _YourActs(acts, by_id, imports)


def _is_signed(event: Event) -> bool:
    """Return whether a command of yours appended an event directly, not as part of an import."""
    is_own_kind = event.actor in (HUMAN, IMPORT) or event.type == LEDGER_MERGED
    return is_own_kind and tx_of(event.meta) is not None and authorship.is_yours(event)


def _is_unsigned(event: Event) -> bool:
    return event.actor == HUMAN and ASIDE not in event.meta and authorship.is_yours(event)


def _command(event: Event) -> str:
    """Return the transaction id of an event's command; for an older version, the event's time."""
    return tx_of(event.meta) or event.recorded_at


def _remains(event: Event, acts: _YourActs, undone_at: Mapping[str, int]) -> bool:
    """Return whether an act was not taken back and is not itself an undo of an act that bare `undo`
    can take back.
    """
    if event.event_id in undone_at or _tag_id(event) in undone_at:
        return False
    is_undo = False
    target = _taken_back(event, acts)
    while target:
        is_undo = not is_undo
        target = _taken_back(target, acts)
    return not is_undo


def _taken_back(event: Event, acts: _YourActs) -> Event | None:
    """Return your act that an event takes back, if bare `undo` could take it back; else None."""
    if event.type not in _UNDOING or event.target_id is None:
        # a verdict points to the judged part of the session, a redaction to the erased event
        return None
    target = acts.by_id.get(event.target_id)
    # A forged ledger may contain a circle.
    if target is None or target.position >= event.position:
        return None
    is_out_of_reach = acts.is_import(target) or target.type in _FINAL
    return None if is_out_of_reach else target


def _tag_id(event: Event) -> str | None:
    """Return the id of the one tag that a verdict by hand gave; None for any other event."""
    if event.type != REFLECTION_COMPLETED:
        return None
    return identity(BULLET_TAGGED, event.reflection_id or "", 0)


def _evidence_of(ledger: Ledger, act: Event) -> Event:
    """Return the event to retract or to adopt again to take an act back."""
    tag = ledger.event(_tag_id(act) or "")
    return act if tag is None else tag


def _refusal(act: Event, remaining: Sequence[Event], acts: _YourActs) -> str:
    """Return the reason why bare `undo` takes back nothing, with the command that does."""
    if acts.is_import(act):
        return (
            f"your newest change is the import at position {act.position}; to undo the import, run "
            f"`reflector undo {_import_positions(act, remaining)}`"
        )
    own_changes = [event for event in remaining if not acts.is_import(event)]
    older = [event for event in own_changes if event.type not in _FINAL]
    way_out = ""
    if older:
        way_out = (
            f"; to undo an earlier change, give its position: `reflector undo {older[-1].position}`"
        )
    act_words = _FINAL[act.type]
    refusal = f"your newest change is {act_words}, at position {act.position}"
    if act.type == CHANGE_REJECTED:
        approve = f"reflector review approve {(act.target_id or '')[:8]}"
        return f"{refusal}; to approve the proposal anyway, run `{approve}`{way_out}"
    return f"{refusal}, which cannot be undone{way_out}"


def _import_positions(act: Event, remaining: Sequence[Event]) -> str:
    """Return the positions with which `undo` takes back an import, such as `41..43`."""
    command = [event for event in remaining if _command(event) == _command(act)]
    # The position of a merge stands for all events that it brought.
    merges = [event for event in command if event.type == LEDGER_MERGED]
    first = (merges or command)[0].position
    last = (merges or command)[-1].position
    return str(first) if first == last else f"{first}..{last}"
