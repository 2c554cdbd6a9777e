"""Which event of another ledger is which event here.

Invariant: an event is known by its birth, the ledger, position, id and data hash with which it was
first appended. However many ledgers it came through, and whatever id or names of bullets it has
there, it is the same event. Two events with one id are two events if their births differ, unless
their data is the same: then both say one thing.

Older versions gave two different events one id, where clones of one ledger went on apart. The
second one is stored under an id that follows from its birth, so every machine gives it the same.
What points to an event is mapped with it, and so is a reflection whose verdicts differ from those
of the reflection that has its id here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from reflector.events import event as ev
from reflector.events.event import came_through, identity
from reflector.events.kinds import Merge
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.rows import object_in
from reflector.ledger.statements import Statements

#: The events of one reflection, whose ids follow from its id.
OF_REFLECTIONS = frozenset(
    {ev.REFLECTION_ANSWERED, ev.REFLECTION_COMPLETED, ev.BULLET_TAGGED, ev.BULLET_CHECKED}
)
_ROWS = (
    "SELECT event_id, position, data_hash, meta, reflection_id, target_id FROM event WHERE "
    "playbook_id = ?"
)


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
    others = [
        came["event_id"] for came in came_through(meta) if isinstance(came.get("event_id"), str)
    ]
    return list(dict.fromkeys([event_id, *others]))


def beside(type_: str, birth: Birth) -> str:
    """Return the id under which an event is stored if another one has its id."""
    return identity(type_, "beside", *birth)


class Other(NamedTuple):
    """An event of the other ledger, as far as it is looked for here: `ids` are all that it ever
    had.
    """

    type: str
    birth: Birth
    ids: tuple[str, ...]


class Row(NamedTuple):
    """An event here, as far as others are compared with it."""

    data_hash: str
    birth: Birth
    reflection_id: str | None = None
    target_id: str | None = None

    def points_to(self, target_id: str | None) -> bool:
        """Return whether the event is about another one, given by its id here; True if that of
        either is unknown.
        """
        return target_id is None or self.target_id is None or self.target_id == target_id


class Known:
    """The events here, looked up by their ids; each id is asked for once."""

    def __init__(self, sql: Statements, origin: str) -> None:
        self._sql = sql
        self._origin = origin
        self._rows: dict[str, Row | None] = {}

    def __contains__(self, event_id: str) -> bool:
        return self.get(event_id) is not None

    def get(self, event_id: str) -> Row | None:
        """Return the event of an id; None if there is none."""
        if event_id not in self._rows:
            self.look_up([event_id])
        return self._rows[event_id]

    def look_up(self, event_ids: Iterable[str]) -> None:
        """Ask for the events of several ids at once."""
        wanted = {event_id for event_id in event_ids if event_id not in self._rows}
        self._rows.update(dict.fromkeys(wanted))
        if wanted:
            self._take(self._sql.run(f"{_ROWS} AND event_id IN ?", wanted).fetchall())

    def add(self, event_id: str, row: Row) -> None:
        """Take an event that is about to be appended."""
        self._rows[event_id] = row

    def forget(self) -> None:
        """Keep memory flat; what was appended is asked for again."""
        self._rows.clear()

    def born(
        self, other: Other, event_ids: Sequence[str], target_id: str | None = None
    ) -> str | None:
        """Return the one of some ids under which the very event of the other ledger is here.

        Clones of one ledger may have two events of one birth that are about different events:
        `target_id`, the id here of the event that it is about, tells them apart.
        """
        for event_id in event_ids:
            row = self.get(event_id)
            if row is not None and row.birth == other.birth and row.points_to(target_id):
                return event_id
        return None

    def says(self, event_id: str, data_hash: str, target_id: str | None = None) -> bool:
        """Return whether there is an event of this id with this data, about the same event."""
        row = self.get(event_id)
        return row is not None and row.data_hash == data_hash and row.points_to(target_id)

    def search(self, other: Other) -> str | None:
        """Return the id of the other ledger's event here, however an older version named it. Reads
        every event of its type that came from another ledger.
        """
        mark = f'%"event_id":"{other.birth.event_id}"%'
        rows = self._sql.run(f"{_ROWS} AND type = ? AND meta LIKE ?", other.type, mark).fetchall()
        self._take(rows)
        return self.born(other, [row[0] for row in rows])

    def _take(self, rows: Iterable[Sequence[Any]]) -> None:
        for event_id, position, data_hash, meta, reflection_id, target_id in rows:
            here = Birth(self._origin, position, event_id, data_hash)
            self._rows[event_id] = Row(
                data_hash, birth_of(here, object_in(meta)[0]), reflection_id, target_id
            )


def candidates(other: Other, wanted: str, renamed: Mapping[str, str], data_hash: str) -> list[str]:
    """Return the ids that an event of the other ledger may have here.

    wanted     the id that it would be appended with
    renamed    the ids here of events of older versions whose identity is a bullet's name
    data_hash  the hash of its data with the names that its bullets have here
    """
    own = [wanted, *(renamed.get(event_id, event_id) for event_id in other.ids)]
    # An older version named the second event of an id by the data that it has here.
    former = [identity(other.type, "beside", event_id, data_hash) for event_id in own]
    return list(dict.fromkeys([*own, *other.ids, beside(other.type, other.birth), *former]))


def is_kept_beside(type_: str) -> bool:
    """Return whether an event is stored beside another one that has its id, because both have to
    stay.
    """
    return EVENT_TYPES[type_].merge is Merge.BESIDE
