"""One line for each event, the events about a bullet, and the session that an id means."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from reflector.events import event as ev
from reflector.events.event import Event
from reflector.events.registry import EVENT_TYPES, NAMING_TYPES

if TYPE_CHECKING:
    from reflector.ledger.store import BulletRow, Ledger

#: The most sessions that an error names for an ambiguous beginning.
_CANDIDATES = 6


class UnknownSession(LookupError):
    """No window of this session was ever recorded; `candidates` are sessions whose id begins alike."""

    def __init__(self, session_id: str, candidates: list[str]) -> None:
        super().__init__(session_id)
        self.candidates = candidates


def session_named(ledger: Ledger, session_id: str) -> str:
    """Return a session's whole id, from it or from the unique beginning of it. Raises UnknownSession."""
    candidates = _sessions_like(ledger, session_id)
    if session_id in candidates:
        return session_id
    if len(candidates) != 1:
        raise UnknownSession(session_id, candidates)
    return candidates[0]


def _sessions_like(ledger: Ledger, beginning: str) -> list[str]:
    """Return the first sessions, by id, whose id begins so; itself first, if it is one."""
    if not beginning or "\0" in beginning or not beginning.isprintable():
        return []
    query = "SELECT DISTINCT session_id FROM event WHERE playbook_id = ? AND "
    with ledger.asking() as sql:
        if sql.run(f"{query}session_id = ? LIMIT 1", beginning).fetchone():
            return [beginning]
        if sql.postgres:
            # Its index is in the order of the database's language, in which a beginning is not a range.
            rows = sql.run(f"{query}starts_with(session_id, ?) ORDER BY 1 LIMIT ?", beginning, _CANDIDATES).fetchall()
        else:
            last = beginning + chr(0x10FFFF)
            rows = sql.run(
                f"{query}session_id >= ? AND session_id < ? ORDER BY 1 LIMIT ?", beginning, last, _CANDIDATES
            ).fetchall()
    return [row[0] for row in rows]


def summary(event: Event) -> str:
    """Return an event's line in `log`."""
    if event.data is None:
        return "(redacted)"
    one = EVENT_TYPES.get(event.type)
    return one.summary(event.data) if one is not None else ""


def as_json(event: Event) -> dict[str, Any]:
    """Return an event as a JSON object: every column by its name, the packed record keys left out of `data`."""
    whole = {**whole_event(event), "recorded_by": event.recorded_by}
    if whole["data"] is not None and isinstance(whole["data"].get("window"), dict):
        window = {key: value for key, value in whole["data"]["window"].items() if key != "keys"}
        whole["data"] = {**whole["data"], "window": window}
    return whole


def whole_event(event: Event) -> dict[str, Any]:
    """Return an event as a JSON object with everything that its hashes cover."""
    whole = {one.name: getattr(event, one.name) for one in fields(Event) if one.compare}
    return whole | {"data": dict(event.data) if event.data is not None else None, "meta": dict(event.meta)}


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
