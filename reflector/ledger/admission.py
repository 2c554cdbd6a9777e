"""What an event must be to be appended.

Invariant: whatever passes here can be hashed, stored and folded on both engines, now and in every rebuild. An
event that fails later, inside the projection, would be one that the ledger holds and cannot read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reflector.ledger import event as ev
from reflector.ledger.canonical import MAX_INT, plain, sealed
from reflector.ledger.errors import LedgerError
from reflector.ledger.event import NewEvent, identity

_MAX_FIELD = 1024
_FIELDS = ("event_id", "occurred_at", "actor", "session_id", "reflection_id", "target_id")
_TARGETED = frozenset({ev.REFLECTION_COMPLETED, ev.EVIDENCE_RETRACTED, ev.EVENT_REDACTED})
#: Types whose data the tables are written from, or that must have a target.
_CHECKED = _TARGETED | {
    ev.PLAYBOOK_IMPORTED,
    ev.BULLET_ADDED,
    ev.BULLET_REVISED,
    ev.BULLET_MOVED,
    ev.BULLET_REMOVED,
    ev.BULLET_RECOUNTED,
}
_NO_META = sealed({})


class Prepared(NamedTuple):
    """An event with its texts in canonical form; `facts` is its data as it reads back from the ledger."""

    event: NewEvent
    facts: Mapping[str, Any]
    data: str
    data_hash: str
    meta: str
    meta_hash: str


def prepare(event: NewEvent) -> Prepared:
    """Check an event and write its canonical form. Raises LedgerError, or NotCanonical for its data or meta."""
    check_fields(event)
    facts = plain(event.data)
    if event.type in _CHECKED:
        check_facts(event, facts)
    data, data_hash = sealed(facts)
    meta, meta_hash = sealed(plain(event.meta)) if event.meta else _NO_META
    return Prepared(event, facts, data, data_hash, meta, meta_hash)


def check_fields(event: NewEvent) -> None:
    """Check everything about an event but its data and meta. Raises LedgerError."""
    if event.type not in ev.TYPES:
        raise LedgerError(f"{event.type!r} is not an event type; the types are {', '.join(sorted(ev.TYPES))}")
    present = [
        value
        for value in (
            event.event_id,
            event.occurred_at,
            event.actor,
            event.session_id,
            event.reflection_id,
            event.target_id,
        )
        if value is not None
    ]
    # One look at them all passes nearly every event; which field is at fault is looked for where it does not.
    fields = "\n".join(present)
    sound = len(fields) <= _MAX_FIELD and fields.isascii() and "\0" not in fields and "" not in present
    if not sound or fields.count("\n") != len(present) - 1:
        _refuse_fields(event)


def _refuse_fields(event: NewEvent) -> None:
    for field in _FIELDS:
        value = getattr(event, field)
        if value is not None and (fault := _fault(value)):
            raise LedgerError(f"{event.type}: {field} {value[:40]!r} {fault}")


def _fault(value: str) -> str | None:
    if not 0 < len(value) <= _MAX_FIELD or "\n" in value or "\0" in value:
        return f"must be 1 to {_MAX_FIELD} characters without newline or NUL"
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        return "holds a lone surrogate; replace it before you append"
    return None


def check_facts(event: NewEvent, facts: Mapping[str, Any]) -> None:
    """Check that the tables can be written from an event's data, in its canonical form. Raises LedgerError."""
    if event.type in _TARGETED and event.target_id is None:
        raise LedgerError(f"{event.type}: target_id is missing; name the event that it is about")
    if event.type == ev.REFLECTION_COMPLETED:
        wanted = identity(ev.REFLECTION_COMPLETED, event.reflection_id or "")
        if event.reflection_id is None or event.event_id != wanted:
            # The tables find a reflection's completion by this id, from any of its tags.
            raise LedgerError(
                f"{event.type}: event_id {event.event_id!r} is not the identity of the reflection "
                f"{event.reflection_id!r}; make it with identity({event.type!r}, reflection_id)"
            )
    for index, bullet in enumerate(new_bullets(event.type, facts)):
        _check_texts(event.type, index, bullet, "name", "section", "text")
        _check_counters(event.type, bullet)
    if event.type == ev.BULLET_REVISED:
        _check_texts(event.type, 0, facts, "name", "text")
    elif event.type == ev.BULLET_MOVED:
        _check_texts(event.type, 0, facts, "name", "section")
    elif event.type == ev.BULLET_REMOVED:
        _check_texts(event.type, 0, facts, "name")
    elif event.type == ev.BULLET_RECOUNTED:
        _check_texts(event.type, 0, facts, "name")
        _check_counters(event.type, facts)


def new_bullets(type_: str, facts: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The bullets that an event brings into being."""
    if type_ == ev.BULLET_ADDED:
        yield facts
    elif type_ == ev.PLAYBOOK_IMPORTED:
        yield from facts.get("bullets", ())


def _check_texts(type_: str, index: int, facts: Mapping[str, Any], *fields: str) -> None:
    for field in fields:
        value = facts.get(field) if isinstance(facts, Mapping) else None
        if not isinstance(value, str) or not value or "\0" in value:
            raise LedgerError(f"{type_}: {field} of bullet {index + 1} is {value!r}; it must be a text without NUL")


def _check_counters(type_: str, facts: Mapping[str, Any]) -> None:
    for field in ("helpful", "harmful"):
        value = facts.get(field, 0)
        if type(value) is not int or not 0 <= value <= MAX_INT:
            raise LedgerError(f"{type_}: {field} of {facts['name']} is {value!r}; a counter is a whole number from 0")
