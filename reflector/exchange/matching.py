"""Which event of another ledger is which event in this one.

Invariant: an event is identified by its birth: the ledger, position, id and data hash with which it
was first appended. It stays the same event through any number of ledgers, even if its id or its
names of bullets differ there. Two events with one id are two events if their births differ, unless
their data is the same.

Older versions could give one id to two different events if clones of a ledger continued apart. The
second one is stored under an id that is derived from its birth, so every machine computes the same
id. Pointers to the event are mapped with it. The same applies to a reflection whose verdicts differ
from those of the reflection that has its id in this ledger.
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
    """The ledger and position at which an event was first appended, with its id and hash there."""

    origin: str
    position: int
    event_id: str
    data_hash: str


def birth_of(present: Birth, meta: Mapping[str, Any]) -> Birth:
    """Return an event's birth. `present`, its place now, is the birth if it came from no other
    ledger.
    """
    birth = present
    for place in came_through(meta):
        event_id = place.get("event_id", birth.event_id)
        data_hash = place.get("data_hash", birth.data_hash)
        birth = Birth(place["origin"], place["position"], event_id, data_hash)
    return birth


def ids_of(event_id: str, meta: Mapping[str, Any]) -> list[str]:
    """Return all ids that an event ever had, the present one first."""
    former = [place.get("event_id") for place in came_through(meta)]
    return list(dict.fromkeys([event_id, *(id_ for id_ in former if isinstance(id_, str))]))


def id_beside(type_: str, birth: Birth) -> str:
    """Return the id under which an event is stored if another one has its id."""
    return identity(type_, "beside", *birth)


class TheirEvent(NamedTuple):
    """The properties by which an event of the other ledger is found here.

    ids  all ids that it ever had, its present id there first
    """

    type: str
    birth: Birth
    ids: tuple[str, ...]


class OurEvent(NamedTuple):
    """The properties of an event here that are compared with those of other events."""

    data_hash: str
    birth: Birth
    reflection_id: str | None = None
    target_id: str | None = None

    def points_to(self, target_id: str | None) -> bool:
        """Return whether the target of the event has this id here; True if either target is
        unknown.
        """
        return target_id is None or self.target_id is None or self.target_id == target_id


class OurEvents:
    """The events here, by their ids. Each id is looked up once."""

    def __init__(self, sql: Statements, origin: str) -> None:
        self._sql = sql
        self._origin = origin
        self._events: dict[str, OurEvent | None] = {}

    def __contains__(self, event_id: str) -> bool:
        return self.get(event_id) is not None

    def get(self, event_id: str) -> OurEvent | None:
        """Return the event of an id; None if there is none."""
        if event_id not in self._events:
            self.look_up([event_id])
        return self._events[event_id]

    def look_up(self, event_ids: Iterable[str]) -> None:
        """Look up the events of several ids at once."""
        missing = {event_id for event_id in event_ids if event_id not in self._events}
        self._events.update(dict.fromkeys(missing))
        if missing:
            self._take(self._sql.run(f"{_ROWS} AND event_id IN ?", missing).fetchall())

    def add(self, event_id: str, event: OurEvent) -> None:
        """Add an event before it is appended."""
        self._events[event_id] = event

    def forget(self) -> None:
        """Forget the events, so that memory use stays constant. Appended events are looked up
        again.
        """
        self._events.clear()

    def born(
        self, theirs: TheirEvent, event_ids: Sequence[str], target_id: str | None = None
    ) -> str | None:
        """Return the first of these ids that belongs to the other ledger's event here, compared by
        birth.

        Clones of one ledger may have two events of one birth with different targets. `target_id`,
        the target's id here, distinguishes them.
        """
        for event_id in event_ids:
            ours = self.get(event_id)
            if ours is not None and ours.birth == theirs.birth and ours.points_to(target_id):
                return event_id
        return None

    def is_same(self, event_id: str, data_hash: str, target_id: str | None = None) -> bool:
        """Return whether an event with this id, data and target is here."""
        ours = self.get(event_id)
        return ours is not None and ours.data_hash == data_hash and ours.points_to(target_id)

    def search(self, theirs: TheirEvent) -> str | None:
        """Return the id of the other ledger's event here, even if an older version gave it another
        id.

        This reads every event of that type that came from another ledger.
        """
        mark = f'%"event_id":"{theirs.birth.event_id}"%'
        rows = self._sql.run(f"{_ROWS} AND type = ? AND meta LIKE ?", theirs.type, mark).fetchall()
        self._take(rows)
        return self.born(theirs, [row[0] for row in rows])

    def _take(self, rows: Iterable[Sequence[Any]]) -> None:
        for event_id, position, data_hash, meta, reflection_id, target_id in rows:
            present = Birth(self._origin, position, event_id, data_hash)
            birth = birth_of(present, object_in(meta)[0])
            self._events[event_id] = OurEvent(data_hash, birth, reflection_id, target_id)


def candidate_ids(
    theirs: TheirEvent, new_id: str, renamed_ids: Mapping[str, str], data_hash: str
) -> list[str]:
    """Return the ids that an event of the other ledger may have here.

    new_id       the id with which it would be appended
    renamed_ids  the ids here of events of older versions whose identity is a bullet's name
    data_hash    the hash of its data with the names of its bullets here
    """
    own_ids = [new_id, *(renamed_ids.get(event_id, event_id) for event_id in theirs.ids)]
    # An older version gave the second event of an id an id from its data here.
    former_ids = [identity(theirs.type, "beside", event_id, data_hash) for event_id in own_ids]
    # A merge brings a renaming by git as the birth of the bullet that got the name.
    types = [theirs.type, *([ev.BULLET_ADDED] if theirs.type == ev.BULLET_RECOUNTED else [])]
    beside = [id_beside(type_, theirs.birth) for type_ in types]
    return list(dict.fromkeys([*own_ids, *theirs.ids, *beside, *former_ids]))


def is_kept_beside(type_: str) -> bool:
    """Return whether an event is stored beside another event with the same id, because both must
    stay.
    """
    return EVENT_TYPES[type_].merge is Merge.BESIDE
