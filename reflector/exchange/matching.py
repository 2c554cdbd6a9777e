"""Which event of another ledger is which event here.

Invariant: an event is known by its birth, the ledger, position, id and data hash with which it was first appended.
However many ledgers it came through, and whatever id or names of bullets it has there, it is the same event. Two events
with one id are two events if their births differ, unless their data is the same: then both say one thing.

Older versions gave two different events one id, where clones of one ledger went on apart. The second one is stored
under an id that follows from its birth, so every machine gives it the same. What points to an event is mapped with it,
and so is a reflection whose verdicts differ from those of the reflection that has its id here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reflector.events import event as ev
from reflector.events.event import came_through, identity
from reflector.events.kinds import Merge
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.canonical import sealed
from reflector.ledger.rows import object_in
from reflector.ledger.statements import Statements

#: Events of which one id has one reflection; the ids of all but answers follow from it.
_OF_REFLECTIONS = frozenset({ev.REFLECTION_ANSWERED, ev.REFLECTION_COMPLETED, ev.BULLET_TAGGED})
_ROWS = "SELECT event_id, position, data_hash, meta FROM event WHERE playbook_id = ? AND event_id IN ?"


class Birth(NamedTuple):
    """Where an event was first appended, and what it was there."""

    origin: str
    position: int
    event_id: str
    data_hash: str


def birth_of(here: Birth, meta: Mapping[str, Any]) -> Birth:
    """Return an event's birth: `here`, where it is now, if it came from no other ledger."""
    origin, position, event_id, data_hash = here
    for came in came_through(meta):
        origin, position = came["origin"], came["position"]
        event_id = came.get("event_id", event_id)
        data_hash = came.get("data_hash", data_hash)
    return Birth(origin, position, event_id, data_hash)


def ids_of(event_id: str, meta: Mapping[str, Any]) -> list[str]:
    """Return the ids that an event ever had, the present one first."""
    others = [came["event_id"] for came in came_through(meta) if isinstance(came.get("event_id"), str)]
    return list(dict.fromkeys([event_id, *others]))


def beside(type_: str, birth: Birth) -> str:
    """Return the id under which an event is stored if another one has its id."""
    return identity(type_, "beside", *birth)


class Other(NamedTuple):
    """An event of the other ledger, as far as it is looked for here."""

    type: str
    birth: Birth
    ids: tuple[str, ...]


@dataclass(slots=True)
class Known:
    """The events here that were looked up: position, data hash and birth by id."""

    rows: dict[str, tuple[int, str, Birth]] = field(default_factory=dict)

    @classmethod
    def read(cls, sql: Statements, origin: str, ids: Collection[str]) -> Known:
        """Look up the events of some ids in a ledger, whose origin is given."""
        rows = sql.run(_ROWS, ids).fetchall() if ids else []
        return cls({id: (at, hash_, _birth_here(origin, id, at, hash_, meta)) for id, at, hash_, meta in rows})

    def __contains__(self, event_id: str) -> bool:
        return event_id in self.rows

    def add(self, event_id: str, position: int, data_hash: str, birth: Birth) -> None:
        self.rows[event_id] = position, data_hash, birth

    def born(self, birth: Birth, ids: Iterable[str]) -> str | None:
        """Return the one of some ids that the event of a birth has here."""
        return next((id for id in ids if id in self.rows and self.rows[id][2] == birth), None)

    def says(self, event_id: str, data_hash: str) -> bool:
        """Return whether the event of an id has this data."""
        return event_id in self.rows and self.rows[event_id][1] == data_hash


def _birth_here(origin: str, event_id: str, position: int, data_hash: str, meta: str) -> Birth:
    return birth_of(Birth(origin, position, event_id, data_hash), object_in(meta)[0])


def candidates(other: Other, renamed: Mapping[str, str], data_hash: str) -> list[str]:
    """Return the ids that an event of the other ledger may have here.

    renamed    the ids here of events of older versions whose identity is a bullet's name
    data_hash  the hash of its data with the names that its bullets have here
    """
    own = [renamed.get(id, id) for id in other.ids]
    # An older version named the second event of an id by the data that it has here.
    former = [identity(other.type, "beside", id, data_hash) for id in own]
    return list(dict.fromkeys([*own, *other.ids, beside(other.type, other.birth), *former]))


def is_kept_beside(type_: str) -> bool:
    """Return whether an event is stored beside another one that has its id, because both have to stay."""
    return EVENT_TYPES[type_].merge is Merge.BESIDE
