"""Events chosen by what they are about and when they happened; what each says in a line.

Invariant: an event is chosen by its facts alone, so the same conditions choose the same events of
the same positions, all at once, the newest only, or while they are appended. Sessions, types and a
bullet's tags are looked up by index; which sessions cite a bullet takes a pass over the events in
question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from reflector.events import event as ev
from reflector.events.event import Event, as_written
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
    """Return the events that meet every condition, in order: all, or the newest so many. Raises
    LedgerError.

    bullet      events that add, change, remove, cite or tag the bullet of this name
    after       a position, which is not included; `upto` one that is
    begin, end  times by the session's own clock: an old session may be recorded today
    """
    asked, values = conditions(types or None, session_id, after, upto)
    # to the second; a time in another form than the limits may be in another order
    if begin or end:
        asked.append("(occurred_at BETWEEN ? AND ? OR occurred_at NOT LIKE ?)")
        values += [begin[:19], f"{end[:19] or '9999'}Z", "____-__-__T%Z"]
    if bullet is not None:
        asked.append("position IN ?")
        values.append(_about(ledger, bullet))
    # Of one type they are in order; of several, the plus keeps the planner from walking through all
    # events for that.
    several = len(types) > 1 and NOT_A_TAG in asked and session_id is None
    most = f" LIMIT {newest:d}" if newest is not None and not (begin or end) else ""
    where = f"{' AND '.join(asked)} ORDER BY {'+' if several else ''}position DESC{most}"
    with ledger.asking() as sql:
        rows = sql.run(
            (f"SELECT position, occurred_at FROM event WHERE playbook_id = ? AND {where}"),  # noqa: S608
            *values,
        )
        found = (
            at
            for at, time in rows
            if not (begin or end) or begin <= as_written(time) <= (end or "~")
        )
        positions = [*islice(found, newest)]
    return ledger.at(positions, unreadable=True)


def _about(ledger: Ledger, name: str, types: Iterable[str] = NAMING_TYPES) -> list[int]:
    """Positions of the events that are about a bullet: its tags, and events of these types."""
    position_of = "strpos" if ledger.engine.dialect == "postgresql" else "instr"
    among = ", ".join(repr(type_) for type_ in types if type_ != ev.BULLET_TAGGED)
    with ledger.asking() as sql:
        tags = sql.run(
            "SELECT position FROM tag WHERE playbook_id = ? AND name = ?", name
        ).fetchall()
        query = (
            f"SELECT position FROM event WHERE playbook_id = ? AND {NOT_A_TAG} AND type IN "  # noqa: S608
            f"({among})"
            f" AND (data IS NULL OR {position_of}(data, ?) > 0)"
        )
        doubtful = [row[0] for row in sql.run(query, f'"{name}"').fetchall()]
    naming = [event for event in ledger.at(doubtful) if name in names_in(event.type, event.facts)]
    merges = {event.facts["name"] for event in naming if name in event.facts.get("sources", ())}
    if merges:  # that a merge was undone is about its sources too
        naming += [
            one
            for one in ledger.events(types=[ev.BULLET_UNMERGED])
            if one.facts.get("name") in merges
        ]
    return [*(row[0] for row in tags), *(event.position for event in naming)]


def summary(event: Event) -> str:
    """Return an event's line in `log`."""
    if event.fault:
        return f"(unreadable, so without effect: {event.fault})"
    if event.data is None:
        return "(redacted)"
    one = EVENT_TYPES.get(event.type)
    return one.summary(event.data) if one is not None else ""


def about(ledger: Ledger, row: BulletRow, upto: int | None = None) -> list[Event]:
    """Return every event that says something of one bullet: how it came, changed and went, and
    its tags.
    """
    kinds = [type_ for type_ in NAMING_TYPES if "name" in EVENT_TYPES[type_].fields]
    found = ledger.at({row.position, *_about(ledger, row.name, kinds)})
    return [event for event in found if upto is None or event.position <= upto]
