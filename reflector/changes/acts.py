"""What you did last: the act that bare `undo` takes back.

Invariant: an act is all that one command appended, by its transaction id, and only yours are looked
at: what an agent, another machine or an automatic adoption did is passed over. An act and the one
that took it back are both gone, so each `undo` goes further back; the undo of anything else is an
act like others. An act that bare `undo` cannot take back is named and never passed over for an
older one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reflector import authorship
from reflector.changes.undo import CHANGING, NothingToUndo, undone
from reflector.events import event as ev
from reflector.events.event import ASIDE, MERGED, Event, identity, tx_of
from reflector.ledger.reader import events_where, of_types
from reflector.ledger.store import Ledger

#: The actor of bullets that a file brings, by a command or at the first look at a project's
#: playbook.json.
IMPORT: Final = "import"
#: What a command cannot take back without being told which one.
_IMPORTS: Final = frozenset({ev.LEDGER_MERGED, ev.PLAYBOOK_IMPORTED})
_FINAL: Final = frozenset({ev.EVENT_REDACTED, ev.CHANGE_REJECTED, ev.TRIAL_OPENED, ev.TRIAL_CLOSED})
#: The types of events that take another one back, if they point to one.
_UNDOING: Final = frozenset({*CHANGING, ev.EVIDENCE_RETRACTED, ev.POLICY_ADOPTED})
_READ: Final = frozenset({*_UNDOING, *_IMPORTS, *_FINAL})
_NOTHING: Final = "nothing that you did here is left to undo; `reflector log` shows acts of others"
_NO_HOME: Final = (
    "without a home folder, reflector cannot tell which acts are yours; name one by its position "
    "in `reflector log`"
)
_VERDICTS: Final = f"{of_types((ev.REFLECTION_COMPLETED,))} AND actor = ? ORDER BY position"


class NotByItself(NothingToUndo):
    """Your newest act is one that has to be named; the text shows the command."""


@dataclass(frozen=True, slots=True)
class Act:
    """The newest act: events that change bullets, and those that are evidence, retractions or
    policies.
    """

    changes: Sequence[Event]
    evidence: Sequence[Event]


def newest(ledger: Ledger) -> Act:
    """Return the newest act of this user that stands.

    Raises NothingToUndo if there is none, and NotByItself for an import, an adoption or an act that
    stays.
    """
    yours, parts = _yours(ledger)
    named = {event.event_id: event for event in yours} | parts
    named |= {tag_id: event for event in yours if (tag_id := _tag_id(event)) is not None}
    gone = undone(ledger)
    standing = [event for event in yours if _stands(event, named, gone)]
    if not standing:
        raise NothingToUndo(_NOTHING if authorship.is_possible() else _NO_HOME)
    last = standing[-1]
    if last.type in _FINAL or _is_import(last):
        raise NotByItself(_refusal(last, standing))
    command = [event for event in standing if _command(event) == _command(last)]
    changes = [event for event in command if event.type in CHANGING]
    return Act(
        changes, [_evidence(ledger, event) for event in command if event.type not in CHANGING]
    )


def _yours(ledger: Ledger) -> tuple[list[Event], dict[str, Event]]:
    """Return the events of your acts, in order, and the verdict that a retraction is a part of, by
    the retraction's id.

    A verdict by hand is the completion of its reflection. What it takes out of the count is a part
    of it.
    """
    with ledger.asking() as sql:
        verdicts = events_where(sql, _VERDICTS, ev.HUMAN)
    events = sorted([*ledger.events(types=_READ), *verdicts], key=lambda event: event.position)
    # Older versions wrote no transaction id. In a file of your own, what a person did then was done
    # by you.
    first_signed = next(
        (event.position for event in events if tx_of(event.meta) is not None), ev.MAX_INT
    )
    of_reflection = {event.reflection_id: event for event in verdicts}
    acts: list[Event] = []
    parts: dict[str, Event] = {}
    for event in events:
        if not (_is_signed(event) or (event.position < first_signed and _is_unsigned(event))):
            continue
        if event.type == ev.EVIDENCE_RETRACTED and event.reflection_id in of_reflection:
            parts[event.event_id] = of_reflection[event.reflection_id]
        else:
            acts.append(event)
    return acts, parts


def _is_signed(event: Event) -> bool:
    """Return whether a command of yours appended an event as its own, not as a part of an
    import.
    """
    is_own_kind = event.actor in (ev.HUMAN, IMPORT) or event.type == ev.LEDGER_MERGED
    tx = tx_of(event.meta)
    return is_own_kind and MERGED not in event.meta and tx is not None and authorship.is_own(tx)


def _is_unsigned(event: Event) -> bool:
    is_from_here = (
        MERGED not in event.meta and ASIDE not in event.meta and event.recorded_by is None
    )
    return is_from_here and event.actor == ev.HUMAN


def _is_import(event: Event) -> bool:
    return event.type in _IMPORTS or event.actor == IMPORT


def _command(event: Event) -> str:
    """Return what the events of one command have in common; those of older versions have one
    time.
    """
    return tx_of(event.meta) or event.recorded_at


def _stands(event: Event, yours: Mapping[str, Event], gone: Mapping[str, int]) -> bool:
    """Return whether an act was not taken back and takes back none of yours that bare `undo` can
    take back.
    """
    if event.event_id in gone or _tag_id(event) in gone:
        return False
    is_undo = False
    while (target := _taken_back(event, yours)) is not None:
        is_undo, event = not is_undo, target
    return not is_undo


def _taken_back(event: Event, yours: Mapping[str, Event]) -> Event | None:
    """Return your act that an event takes back, if bare `undo` could take it back; else None."""
    if event.type not in _UNDOING or event.target_id is None:
        # a verdict points to the part of the session that was judged, a redaction to what it erased
        return None
    target = yours.get(event.target_id)
    # A forged ledger may hold a circle.
    if target is None or target.position >= event.position:
        return None
    return None if _is_import(target) or target.type in _FINAL else target


def _tag_id(event: Event) -> str | None:
    """Return the id of the one tag that a verdict by hand gave; None for any other event."""
    if event.type != ev.REFLECTION_COMPLETED:
        return None
    return identity(ev.BULLET_TAGGED, event.reflection_id or "", 0)


def _evidence(ledger: Ledger, act: Event) -> Event:
    """Return the event that is retracted or adopted again to take an act back."""
    tag = ledger.event(_tag_id(act) or "")
    return act if tag is None else tag


def _refusal(act: Event, standing: Sequence[Event]) -> str:
    """Return why bare `undo` takes back nothing, with the command that does."""
    if _is_import(act):
        same = [event.position for event in standing if _command(event) == _command(act)]
        markers = [
            event.position
            for event in standing
            if event.position in same and event.type in _IMPORTS
        ]
        where = str(markers[-1]) if markers else f"{same[0]}..{same[-1]}"
        return (
            f"your newest act is the import at position {act.position}; take it back with "
            f"`reflector undo {where}`"
        )
    names = {
        ev.EVENT_REDACTED: "a redaction",
        ev.CHANGE_REJECTED: "the rejection of a proposal",
        ev.TRIAL_OPENED: "the start of a trial",
        ev.TRIAL_CLOSED: "the end of a trial",
    }
    older = [event for event in standing if event.type not in _FINAL and not _is_import(event)]
    way = f"; name an older act, such as `reflector undo {older[-1].position}`" if older else ""
    return f"your newest act is {names[act.type]}, at position {act.position}, which stays{way}"
