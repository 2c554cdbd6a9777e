"""Events chosen by what they are about, who wrote them and when; what each says in a line.

Invariant: an event is chosen by its facts alone, so the same filter chooses the same events of the same positions,
all at once, the newest only, or while they are appended. Sessions, types and a bullet's tags are looked up
by index; who wrote an event, and which sessions cite a bullet, takes a pass over the events in question.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from reflector.events import event as ev
from reflector.events.event import Event
from reflector.events.registry import EVENT_TYPES, NAMING_TYPES, names_in

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements
    from reflector.ledger.store import BulletRow, Ledger

_NOT_A_TAG: Final = f"type <> '{ev.BULLET_TAGGED}'"


class Filter(NamedTuple):
    """Which events: all that meet every condition. `after` and `upto` are positions, the first not included.

    begin    events from this time on, by the session's own clock: an old session may be recorded today; `end` the same

    bullet   events that add, change, remove, cite or tag the bullet of this name
    actor    events by this actor; `hook` means every hook
    """

    types: Collection[str] = ()
    session_id: str | None = None
    bullet: str | None = None
    actor: str | None = None
    after: int = 0
    upto: int | None = None
    begin: str = ""
    end: str = ""

    def between(self, after: int, upto: int) -> Filter:
        """Return the same, of these positions."""
        return self._replace(after=after, upto=upto)


def select(ledger: Ledger, chosen: Filter, newest: int | None = None) -> list[Event]:
    """Return the events of a filter in order: all, or the newest so many. Raises LedgerError."""
    positions = _about(ledger, chosen.bullet) if chosen.bullet is not None else None
    with ledger.asking() as sql:
        found = _positions(sql, chosen, positions, newest)
    return ledger.at(found, unreadable=True)


def _positions(sql: Statements, chosen: Filter, among: Collection[int] | None, newest: int | None) -> list[int]:
    asked: list[tuple[str, Sequence[object]]] = [("position > ?", [chosen.after])]
    if chosen.upto is not None:
        asked.append(("position <= ?", [chosen.upto]))
    for limit, compared in ((chosen.begin, ">="), (chosen.end, "<=")):
        if limit:
            asked.append((f"occurred_at {compared} ?", [limit]))
    if chosen.types:
        asked.append((f"type IN ({', '.join('?' * len(chosen.types))})", [*chosen.types]))
    if chosen.session_id is not None:
        asked.append(("session_id = ?", [chosen.session_id]))
    if chosen.actor is not None:
        by = chosen.actor
        asked.append(("(actor = ? OR substr(actor, 1, ?) = ?)", [by, len(by) + 1, f"{by}:"]))
    if among is not None:
        condition, value = sql.among("position", among)
        asked.append((condition, [value]))
    rare = bool(chosen.types) and ev.BULLET_TAGGED not in chosen.types
    if rare:
        asked.append((_NOT_A_TAG, []))
    conditions, values = " AND ".join(one for one, _ in asked), [value for _, given in asked for value in given]
    # Of one type they are in order; of several, the plus keeps the planner from walking through all events for that.
    several = rare and len(chosen.types) > 1 and chosen.session_id is None
    order = f"ORDER BY {'+' if several else ''}position DESC"
    limit = f" LIMIT {newest:d}" if newest is not None else ""
    query = f"SELECT position FROM event WHERE playbook_id = ? AND {conditions} {order}{limit}"  # noqa: S608
    return [row[0] for row in sql.run(query, *values).fetchall()]


def _about(ledger: Ledger, name: str) -> list[int]:
    """Positions of the events that are about a bullet."""
    position_of = "strpos" if ledger.engine.dialect == "postgresql" else "instr"
    types = ", ".join(repr(type_) for type_ in NAMING_TYPES if type_ != ev.BULLET_TAGGED)
    with ledger.asking() as sql:
        tags = sql.run("SELECT position FROM tag WHERE playbook_id = ? AND name = ?", name).fetchall()
        query = (
            f"SELECT position FROM event WHERE playbook_id = ? AND {_NOT_A_TAG} AND type IN ({types})"  # noqa: S608
            f" AND (data IS NULL OR {position_of}(data, ?) > 0)"
        )
        doubtful = [row[0] for row in sql.run(query, f'"{name}"').fetchall()]
    naming = (event.position for event in ledger.at(doubtful) if name in names_in(event.type, event.data or {}))
    return [*(row[0] for row in tags), *naming]


def summary(event: Event) -> str:
    """Return an event's line in `log`."""
    if event.fault:
        return f"(unreadable, so without effect: {event.fault})"
    if event.data is None:
        return "(redacted)"
    one = EVENT_TYPES.get(event.type)
    return one.summary(event.data) if one is not None else ""


#: The bullet's row says how it came, and the table of tags has its tags.
_FOUND_OTHERWISE = (ev.BULLET_ADDED, ev.BULLET_TAGGED)


def about(ledger: Ledger, row: BulletRow, upto: int | None = None) -> list[Event]:
    """Return every event that says something of one bullet: how it came, changed and went, and its tags."""
    changes = [name for name in NAMING_TYPES if "name" in EVENT_TYPES[name].fields and name not in _FOUND_OTHERWISE]
    tags = (position for position, _ in ledger.tags_of(row.name))
    positions = {row.position, *(position for position in tags if upto is None or position <= upto)}
    names = {row.name}
    for event in ledger.events(types=changes, after=row.position, upto=upto):
        data = event.data or {}
        if row.name in data.get("sources", ()):
            names.add(data["name"])  # that the merge was undone is about its sources too
            positions.add(event.position)
        elif data.get("name") in (names if event.type == ev.BULLET_UNMERGED else {row.name}):
            positions.add(event.position)
    return ledger.at(sorted(positions))
