"""How events are appended: positions, chain, projection and head, in one write transaction.

Invariant: what is appended together is appended as a whole or not at all, in the order given, right behind the head.
Loaded by the first append, since a question needs none of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from reflector.events.event import BULLET_ASSERTED, EVENT_REDACTED, Appended, NewEvent, identity
from reflector.events.registry import new_bullets
from reflector.ledger.admission import Prepared, prepare
from reflector.ledger.canonical import next_chain
from reflector.ledger.errors import Conflict, LedgerCorrupt, NameTaken, NoSuchTarget, NotSo
from reflector.ledger.projection import Projector
from reflector.ledger.reader import line_of
from reflector.ledger.redaction import Takes, everything, redaction_of
from reflector.ledger.rows import Projected, Stored
from reflector.ledger.times import later_than

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements
    from reflector.ledger.writer import Writing


def append(writing: Writing, prepared: Iterable[Prepared], *, merged: bool = False) -> list[Appended]:
    """Append prepared events on an open write transaction; of `merged` ones a new bullet may have a name that is taken,
    and changes nothing. Raises Conflict, NameTaken, LedgerCorrupt."""
    sql, known = writing.sql, writing.known
    position, chain = writing.position, writing.chain
    recorded_at = later_than(writing.recorded_at)
    answers: list[Appended] = []
    rows: list[Stored] = []
    projected: list[Projected] = []
    for item in prepared:
        event = item.event
        if (first := known.get(event.event_id)) is not None:
            if first[1] != item.data_hash:
                raise Conflict(event.event_id, event.type, first[0], at_once=first[0] > writing.position)
            answers.append(Appended(event.event_id, first[0], added=False))
            continue
        position += 1
        header = (
            *(position, event.event_id, event.type, event.schema_version),
            *(event.occurred_at or recorded_at, recorded_at, event.actor),
            *(event.session_id, event.reflection_id, event.target_id),
        )
        try:
            chain = next_chain(chain, header, item.data_hash, item.meta_hash)
        except ValueError as error:
            raise LedgerCorrupt(
                f"the head's chain {chain[:80]!r} is not a hash, and nothing was appended; run `reflector verify`, "
                "then `reflector verify --mend-head`"
            ) from error
        stored = Stored(*header, item.data, item.data_hash, item.meta, chain)
        rows.append(stored)
        known[event.event_id] = (position, item.data_hash)
        answers.append(Appended(event.event_id, position, added=True))
        projected.append(
            Projected(
                *(position, event.event_id, event.type, recorded_at),
                *(event.session_id, event.reflection_id, event.target_id),
                *(item.facts, event.actor, item.meta),
            )
        )
    if rows:
        if not merged:
            _refuse_taken_names(sql, projected)
        sql.insert("event", Stored._fields, rows)
        projector = Projector(sql, writing.in_force)
        projector.project(projected)
        writing.in_force = None
        update = "UPDATE playbook SET position = ?, chain = ?, recorded_at = ? WHERE id = ?"
        sql.execute(update, position, chain, recorded_at, sql.id)
        writing.position, writing.chain, writing.recorded_at = position, chain, recorded_at
    return answers


def redact(writing: Writing, event_id: str, reason: str, actor: str, takes: Takes | None) -> Appended:
    """Erase an event's text on an open write transaction. Raises NoSuchTarget, LedgerError."""
    line = line_of(writing.sql, event_id)
    if not line:
        raise NoSuchTarget(f"event {event_id} is not in the ledger; look its id up with `reflector log`")
    last = line[-1]
    data = redaction_of(line, event_id, reason, takes or everything)
    if data is None:
        return Appended(last.event_id, last.position, added=False)
    event = NewEvent(EVENT_REDACTED, identity(EVENT_REDACTED, last.event_id), data, actor, target_id=last.event_id)
    (answer,) = append(writing, [prepare(event)])
    writing.sql.run("UPDATE event SET data = NULL WHERE playbook_id = ? AND event_id = ?", last.event_id)
    return answer


def assert_counters(writing: Writing, name: str, helpful: int, harmful: int, actor: str) -> Appended:
    """Append that a bullet has these counters, if it has. Raises NoSuchTarget, NotSo."""
    query = "SELECT helpful, harmful FROM bullet WHERE playbook_id = ? AND name = ?"
    row = writing.sql.run(query, name).fetchone()
    if row is None:
        raise NoSuchTarget(f"no bullet is or was called {name!r}; see `reflector list --all`")
    if tuple(row) != (helpful, harmful):
        raise NotSo(
            f"{name} is at {row[0]}/{row[1]}, not at {helpful}/{harmful}; nothing was appended. "
            f"See why with `reflector blame {name}`"
        )
    data = {"name": name, "helpful": helpful, "harmful": harmful}
    event_id = identity(BULLET_ASSERTED, name, writing.position)
    (answer,) = append(writing, [prepare(NewEvent(BULLET_ASSERTED, event_id, data, actor))])
    return answer


def _refuse_taken_names(sql: Statements, events: list[Projected]) -> None:
    new = [(event, bullet["name"]) for event in events for bullet in new_bullets(event.type, event.data or {})]
    if not new:
        return
    among, names = sql.among("name", [name for _, name in new])
    taken = dict(sql.run(f"SELECT name, position FROM bullet WHERE playbook_id = ? AND {among}", names).fetchall())  # noqa: S608
    for event, name in new:
        if name in taken:
            raise NameTaken(event.event_id, name, taken[name])
        taken[name] = event.position
