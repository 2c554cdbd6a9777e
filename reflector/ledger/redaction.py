"""Erases a text, while the counts that rest on its event stay.

Invariant: after a redaction, every counter, name and window is unchanged, in the tables and after a
rebuild, and the chain verifies. So if an event contains more than prose, its facts are kept in the
`kept` of the event.redacted that erases it, and a reader of the event gets those.

A later text of the same event is in that `kept`. The event.redacted that erases it points to the
earlier one and erases that. So redactions of one event form a line, and the last one has the
remaining facts of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reflector.events.registry import EVENT_TYPES, fields_of, mapped
from reflector.events.state import REDACTED
from reflector.ledger.errors import LedgerError

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.events.kinds import Field

#: Returns whether a text is erased.
Takes = Callable[[str], bool]


def everything(_: str) -> bool:
    """Return True: every text is erased."""
    return True


def texts_of(type_: str, data: Mapping[str, Any], takes: Takes = everything) -> tuple[str, ...]:
    """Return the texts of an event's data that a redaction would erase, without duplicates."""
    found: dict[str, None] = {}

    def note(text: str) -> bool:
        if takes(text):
            found[text] = None
        return False

    mapped(fields_of(type_), data, _erasing(note))
    return tuple(found)


def kept_facts(
    type_: str, data: Mapping[str, Any], takes: Takes = everything
) -> dict[str, Any] | None:
    """Return the facts of an event's data without its prose, None if it is only prose.

    Raises: LedgerError if it contains no prose.
    """
    kind = EVENT_TYPES[type_]
    if kind.all_prose:
        return None
    if kind.holds_prose:
        return mapped(kind.fields, data, _erasing(takes))
    raise LedgerError(
        f"an event of type {type_} contains no text; redact the rule, session or reflection of "
        "this event"
    )


def _erasing(takes: Takes) -> Callable[[Field, object, Any], Any]:
    def erased(one: Field, holder: object, found: Any) -> Any:
        if isinstance(found, list):
            return [erased(one, holder, item) for item in found]
        if not isinstance(found, str) or one.prose is None or found in ("", REDACTED):
            return found
        return REDACTED if one.prose(found) and takes(found) else found

    return erased


def redaction_of(
    line: Sequence[Event], event_id: str, reason: str, takes: Takes
) -> dict[str, Any] | None:
    """Return the data of an event.redacted that erases texts of one event of a line; None if
    nothing is left to erase.

    The line is an event and the redactions of it so far, oldest first.

    Raises: LedgerError for an event without prose.
    """
    event, *before = line
    if not before:
        kept = kept_facts(event.type, event.facts, takes)
        return {"reason": reason} if kept is None else {"reason": reason, "kept": kept}
    data = before[-1].data or {}
    left: Mapping[str, Any] = data.get("kept", {})
    reasons = [*data.get("earlier", ()), data.get("reason", "")]
    kept = dict(left)
    earlier = list(reasons)
    if event_id == event.event_id:
        kept = (kept_facts(event.type, left, takes) if left else None) or {}
    else:
        number = [one.event_id for one in before].index(event_id)
        earlier[number] = REDACTED if takes(reasons[number]) else reasons[number]
    return (
        None
        if (kept, earlier) == (left, reasons)
        else {"reason": reason, "earlier": earlier, "kept": kept}
    )


def what_is_left(
    target_id: str, by_target: Mapping[str, tuple[str, Mapping[str, Any] | None]]
) -> Any:
    """Return the data that replaces the data of an erased event, None if there is none.

    `by_target` has the id and the data (None once it was erased) of each event.redacted, by the id
    of its target.
    """
    # A redaction can be redacted itself. The last one of the line has the data of all.
    data: Mapping[str, Any] | None = None
    steps = 0
    while data is None and target_id in by_target and steps < len(by_target):
        target_id, data = by_target[target_id]
        steps += 1
    if data is None:
        return None
    kept = data.get("kept") or None
    earlier = data.get("earlier", ())
    if not isinstance(kept, dict | None) or not isinstance(earlier, Sequence):
        return None  # `verify` names the event
    is_first_of_line = steps > len(earlier)
    if is_first_of_line:
        return kept
    reason = {"reason": earlier[-steps]}
    return {**reason, "kept": kept} if kept else reason
