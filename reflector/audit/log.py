"""Chooses events by subject and time, and formats each as one line.

Invariant: the choice depends only on the facts of an event. So the same conditions choose the same
events whether all are read, only the newest, or each one as it is appended. Sessions, types and
tags of a bullet are looked up by index. Finding the sessions that cite a bullet takes one pass over
the events. `log` and `history` use this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from reflector.events.event import BULLET_TAGGED, BULLET_UNMERGED, Event, as_written
from reflector.events.registry import EVENT_TYPES, NAMING_TYPES, names_in
from reflector.ledger.reader import NOT_A_TAG, conditions

if TYPE_CHECKING:
    from reflector.ledger.store import BulletRow, Ledger


def select(
    ledger: Ledger,
    *,
    types: Collection[str] = (),
    session_id: str | None = None,
    bullet: str | None = None,
    after: int = 0,
    upto: int | None = None,
    begin: str = "",
    end: str = "",
    newest: int | None = None,
) -> list[Event]:
    """Return the events that meet every condition, in order: all, or the N newest.

    bullet      events that add, change, remove, cite or tag the bullet of this name
    after       a position, which is not included
    upto        a position, which is included
    begin, end  times by the session's own clock, because an old session may be recorded today
    """
    where, values = conditions(types or None, session_id, after, upto)
    # Events of one type are in order. For several types, the plus prevents the planner from reading
    # all events in order.
    is_of_several_types = len(types) > 1 and NOT_A_TAG in where
    plus = "+" * (is_of_several_types and session_id is None)
    is_timed = bool(begin or end)
    # Only to the second, because a time in a form other than the limits' may sort differently.
    if is_timed:
        where.append("(occurred_at BETWEEN ? AND ? OR occurred_at NOT LIKE ?)")
        values += [begin[:19], f"{end[:19] or '9999'}Z", "____-__-__T%Z"]
    if bullet is not None:
        where.append("position IN ?")
        values.append(_positions_about(ledger, bullet))
    query = (
        "SELECT position, occurred_at FROM event WHERE playbook_id = ? AND "  # noqa: S608
        f"{' AND '.join(where)} ORDER BY {plus}position DESC"
    )
    if newest is not None and not is_timed:
        query += f" LIMIT {newest:d}"
    with ledger.asking() as sql:
        rows = sql.run(query, *values)
        if is_timed:
            latest = end or "~"
            rows = (row for row in rows if begin <= as_written(row[1]) <= latest)
        positions = [position for position, _ in islice(rows, newest)]
    return ledger.at(positions, unreadable=True)


def _positions_about(ledger: Ledger, name: str, types: Iterable[str] = NAMING_TYPES) -> list[int]:
    """Return the positions of the events about a bullet: its tags, and events of these types."""
    position_of = "strpos" if ledger.engine.dialect == "postgresql" else "instr"
    rare_types = ", ".join(repr(type_) for type_ in types if type_ != BULLET_TAGGED)
    tags = "SELECT position FROM tag WHERE playbook_id = ? AND name = ?"
    candidates = (
        "SELECT position FROM event WHERE playbook_id = ? AND "  # noqa: S608
        f"{NOT_A_TAG} AND type IN ({rare_types}) "
        f"AND (data IS NULL OR {position_of}(data, ?) > 0)"
    )
    positions = [row[0] for row in ledger.query(tags, name)]
    doubtful = [row[0] for row in ledger.query(candidates, f'"{name}"')]
    naming = [event for event in ledger.at(doubtful) if name in names_in(event.type, event.facts)]
    merges = {event.facts["name"] for event in naming if name in event.fact("sources", ())}
    if merges:  # undoing a merge is also about its sources
        unmerged = ledger.events(types=[BULLET_UNMERGED])
        naming += [event for event in unmerged if event.fact("name") in merges]
    return [*positions, *(event.position for event in naming)]


def summary(event: Event) -> str:
    """Return an event's line in `log`."""
    if event.fault:
        return f"(no effect, because the event cannot be read: {event.fault})"
    if event.data is None:
        return "(redacted)"
    event_type = EVENT_TYPES.get(event.type)
    return event_type.summary(event.data) if event_type else ""


def about(ledger: Ledger, row: BulletRow, upto: int | None = None) -> list[Event]:
    """Return every event about one bullet: its tags, and the events that added, changed or removed
    it.
    """
    types = [type_ for type_ in NAMING_TYPES if "name" in EVENT_TYPES[type_].fields]
    events = ledger.at({row.position, *_positions_about(ledger, row.name, types)})
    return [event for event in events if upto is None or event.position <= upto]
