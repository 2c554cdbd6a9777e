"""Checks that an event can be appended.

Invariant: every event that passes here can be hashed, stored, folded and shown on both engines, now and in every
rebuild. The ledger could not read an event that fails later, inside the projection or a command. A
bullet is admitted by the same rules whether a person adds it, an agent proposes it or a file brings it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.canonical import plain, sealed
from reflector.ledger.errors import LedgerError

_MAX_FIELD = 1024
_FIELDS = ("event_id", "occurred_at", "actor", "session_id", "reflection_id", "target_id")
_fields_of, _shared_of = attrgetter(*_FIELDS), attrgetter(*_FIELDS[1:])
_NO_META = sealed({})


class Prepared(NamedTuple):
    """An event with its texts in canonical form; `facts` is its data as it reads back from the ledger. Of one that was
    erased, `data` is None and `facts` is what its redaction left."""

    event: NewEvent
    facts: Mapping[str, Any] | None
    data: str | None
    data_hash: str
    meta: str
    meta_hash: str


def prepare(event: NewEvent, *, foreign: bool = False) -> Prepared:
    """Check an event and write its canonical form; a `foreign` one is a file's.

    Raises LedgerError, or NotCanonical for its data or meta.
    """
    check_fields(event)
    facts = plain(event.data)
    check_facts(event, facts, foreign=foreign)
    data, data_hash = sealed(facts)
    meta, meta_hash = sealed(plain(event.meta)) if event.meta else _NO_META
    return Prepared(event, facts, data, data_hash, meta, meta_hash)


def check_fields(event: NewEvent) -> None:
    """Check everything about an event but its data and meta. Raises LedgerError."""
    if event.type not in EVENT_TYPES:
        raise LedgerError(f"{event.type!r} is not an event type; the types are {', '.join(sorted(EVENT_TYPES))}")
    own = event.event_id
    if own.isascii() and own.isprintable() and 0 < len(own) <= _MAX_FIELD and _are_plain(*_shared_of(event)):
        return
    for number, value in enumerate(_fields_of(event)):
        if value is not None and (fault := _fault(value)):
            raise LedgerError(f"{event.type}: {_FIELDS[number]} {value[:40]!r} {fault}")


@lru_cache(maxsize=256)  # the events of one append say mostly the same
def _are_plain(*values: str | None) -> bool:
    """Return whether nothing has to be asked about the characters of any value."""
    return all(
        value is None or (value.isascii() and value.isprintable() and 0 < len(value) <= _MAX_FIELD) for value in values
    )


def _fault(value: str) -> str | None:
    if not 0 < len(value) <= _MAX_FIELD or "\n" in value or "\0" in value:
        return f"must be 1 to {_MAX_FIELD} characters without newline or NUL"
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        return "holds a lone surrogate; replace it before you append"
    return None


def check_facts(event: NewEvent, facts: Mapping[str, Any], *, foreign: bool = False) -> None:
    """Check an event's target, and its data in canonical form. Raises LedgerError.

    What this program appends has the shape of its type by the way it is made, so only bullets are looked at, which
    people and models word, and what `verify` reads. A `foreign` event is a file's, which may come from anybody.
    """
    one = EVENT_TYPES[event.type]
    if one.target is not None and one.target.required and event.target_id is None:
        raise LedgerError(f"{event.type}: target_id is missing; name the event that it is about")
    if event.type == ev.REFLECTION_COMPLETED:
        wanted = identity(ev.REFLECTION_COMPLETED, event.reflection_id or "")
        if event.reflection_id is None or event.event_id != wanted:
            # The tables find a reflection's completion by this id, from any of its tags.
            raise LedgerError(
                f"{event.type}: event_id {event.event_id!r} is not the identity of the reflection "
                f"{event.reflection_id!r}; make it with identity({event.type!r}, reflection_id)"
            )
    fault = next(one.faults(facts), None) if foreign or one.checked else one.unreadable(facts)
    if fault is not None:
        raise LedgerError(f"{event.type}: {fault}")
