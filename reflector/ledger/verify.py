"""Proof that a ledger is what was appended: nothing edited, removed, reordered or miscounted.

Invariant: findings are values, in order, and a sound ledger yields none. Verifying reads one snapshot
and writes nothing. What a chain cannot see alone (a truncated tail) an anchor shows: a head that was
published earlier must still be a prefix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from reflector.ledger import event as ev
from reflector.ledger import tables
from reflector.ledger.canonical import digest, genesis, next_chain
from reflector.ledger.engines import shown
from reflector.ledger.errors import translated
from reflector.ledger.migration import trigger_files
from reflector.ledger.projection import Projected
from reflector.ledger.record_keys import unpack_keys
from reflector.ledger.store import Ledger
from reflector.playbook.fold import Playbook

_BATCH = 1000
_COLUMNS = (
    "position, event_id, type, schema_version, occurred_at, recorded_at, actor, session_id, reflection_id,"
    " target_id, data, data_hash, meta, chain"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was appended. `position` is the event it stands at, None for the whole ledger."""

    code: str
    position: int | None
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head that was published earlier."""

    position: int
    chain: str


def verify(ledger: Ledger, anchor: Anchor | None = None) -> Iterator[Finding]:
    """Every finding of a ledger: schema and triggers, chain and order, counters and other projections."""
    with translated(shown(ledger.engine.url)), ledger.engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield from _integrity(connection)
            yield from _triggers(connection)
            walk = _Walk(connection, ledger, anchor)
            yield from walk.findings()
            if walk.foldable:
                yield from _projections(connection, ledger, walk.playbook, walk.windows, walk.keys)


def _integrity(connection: sa.Connection) -> Iterator[Finding]:
    if connection.dialect.name != "sqlite":
        return
    for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)").fetchall():
        if line != "ok":
            yield Finding("database", None, f"SQLite finds damage: {line}", "restore a backup of the ledger")
    for row in connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(20):
        yield Finding(
            "reference", None, f"a row of {row[0]} points to a {row[2]} that is gone", "restore a backup of the ledger"
        )


def _triggers(connection: sa.Connection) -> Iterator[Finding]:
    standing = _standing_triggers(connection)
    for name, path in trigger_files(connection.dialect.name).items():
        wanted = _bodies(path.read_text(encoding="utf-8"), connection.dialect.name)
        if name not in standing:
            what = "is missing"
        elif wanted is not None and standing[name] != wanted:
            what = "was changed or disabled"
        else:
            continue
        yield Finding(
            "trigger",
            None,
            f"the trigger {name} {what}, so the database itself no longer refuses changes",
            "find out who changed it, then run `reflector verify --mend-triggers`",
        )


def _standing_triggers(connection: sa.Connection) -> dict[str, str | None]:
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        return {name: _squeezed(sql) for name, sql in rows}
    rows = connection.exec_driver_sql(
        "SELECT t.tgname, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
        " JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND c.relnamespace = current_schema()::regnamespace"
    ).fetchall()
    return {name: _squeezed(source) for name, source in rows}


def _bodies(text: str, dialect: str) -> str | None:
    """What the catalogue shows for a trigger's file: the statement on SQLite, the function's body on PostgreSQL."""
    if dialect == "sqlite":
        return _squeezed(text[text.index("CREATE TRIGGER") :])
    body = re.search(r"\$\$(.*)\$\$", text, re.DOTALL)
    return _squeezed(body[1]) if body else None


def _squeezed(sql: str) -> str:
    return " ".join(sql.split())


class _Walk:
    """One pass over the events: chain, order and redactions checked, the playbook folded."""

    def __init__(self, connection: sa.Connection, ledger: Ledger, anchor: Anchor | None) -> None:
        self.connection = connection
        self.id = ledger.playbook_id
        self.anchor = anchor
        self.playbook = Playbook()
        self.windows: dict[str, str] = {}
        self.keys: set[int] = set()
        self.foldable = True

    def findings(self) -> Iterator[Finding]:
        table = tables.playbook
        head = self.connection.execute(sa.select(table).where(table.c.id == self.id)).one()
        chain = genesis(head.name, head.origin)
        position, last = 0, ""
        anchored = self.anchor is None or (self.anchor.position == 0 and self.anchor.chain == chain)
        erased: list[tuple[int, str]] = []
        for row in self._rows():
            data, meta = row[10], row[12]
            if row[0] != position + 1:
                yield Finding("order", row[0], f"position {row[0]} follows {position}", _RESTORE)
            position = row[0]
            if data is None:
                erased.append((position, row[1]))
            elif digest(data) != row[11]:
                yield Finding("data", position, f"the data of this {row[2]} is not what was appended", _RESTORE)
            expected = next_chain(chain, row[:10], row[11], digest(meta))
            if expected != row[13]:
                yield Finding("chain", position, f"this {row[2]} or the event before it was changed", _RESTORE)
            chain = row[13] if _well_formed(row[13]) else expected
            if row[5] < last:
                yield Finding("order", position, f"recorded at {row[5]}, before its predecessor ({last})", _RESTORE)
            last = row[5]
            if self.anchor is not None and position == self.anchor.position:
                anchored = chain == self.anchor.chain
            yield from self._fold(row, data)
        yield from self._redactions(erased)
        if (position, chain) != (head.position, head.chain):
            yield Finding("head", position, f"the events end at {position}, the head says {head.position}", _RESTORE)
        if not anchored and self.anchor is not None:
            yield Finding(
                "anchor",
                self.anchor.position,
                f"the published head {self.anchor.position} is not in this history, which ends at {position}",
                _RESTORE,
            )

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        cursor = self.connection.execution_options(stream_results=True).exec_driver_sql(
            f"SELECT {_COLUMNS} FROM event WHERE playbook_id = {self.id:d} ORDER BY position"  # noqa: S608
        )
        for batch in cursor.partitions(_BATCH):
            yield from (tuple(row) for row in batch)

    def _fold(self, row: tuple[Any, ...], text: str | None) -> Iterator[Finding]:
        try:
            data = None if text is None else json.loads(text)
            event = Projected(row[0], row[1], row[2], row[5], row[7], row[8], row[9], data)
            self.playbook.apply(event)
            state = _WINDOW_STATES.get(row[2])
            if row[2] == ev.SESSION_RECORDED:
                self.windows[row[1]] = "pending"
                self.keys.update(unpack_keys((data or {}).get("window", {}).get("keys", "")))
            elif state and self.windows.get(row[9]) in {"pending", "answered", "failed"}:
                self.windows[row[9]] = "given_up" if state == "failed" and (data or {}).get("final") else state
            elif row[2] == ev.BULLET_ASSERTED and data:
                yield from self._assertion(row[0], data)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self.foldable = False
            yield Finding("data", row[0], f"the data of this {row[2]} cannot be read ({error!r})", _RESTORE)

    def _assertion(self, position: int, data: dict[str, Any]) -> Iterator[Finding]:
        name = data["name"]
        if name not in self.playbook.entries:
            yield Finding("assertion", position, f"{name} is asserted but does not exist", "look at `reflector log`")
            return
        counted = self.playbook.counters(name)
        if counted != (data["helpful"], data["harmful"]):
            yield Finding(
                "assertion",
                position,
                f"{name} was asserted at {data['helpful']}/{data['harmful']}, "
                f"the events give {counted[0]}/{counted[1]}",
                f"look at `reflector blame {name}`",
            )

    def _redactions(self, erased: list[tuple[int, str]]) -> Iterator[Finding]:
        if not erased:
            return
        table = tables.event
        query = sa.select(table.c.target_id).where(table.c.playbook_id == self.id, table.c.type == ev.EVENT_REDACTED)
        allowed = set(self.connection.execute(query).scalars())
        for position, event_id in erased:
            if event_id not in allowed:
                yield Finding("redaction", position, "the data was erased without an event.redacted", _RESTORE)


_RESTORE = "restore a backup, or compare with an export from before the change"
_WINDOW_STATES = {
    ev.REFLECTION_SKIPPED: "skipped",
    ev.REFLECTION_ANSWERED: "answered",
    ev.REFLECTION_COMPLETED: "completed",
    ev.REFLECTION_FAILED: "failed",
}


def _well_formed(chain: object) -> bool:
    return isinstance(chain, str) and re.fullmatch(r"pl1:[0-9a-f]{64}", chain) is not None


def _projections(
    connection: sa.Connection, ledger: Ledger, playbook: Playbook, windows: dict[str, str], keys: set[int]
) -> Iterator[Finding]:
    table = tables.bullet
    rows = connection.execute(
        sa.select(table).where(table.c.playbook_id == ledger.playbook_id).order_by(table.c.ordinal)
    ).all()
    stored = {row.name: (row.section, row.text, row.status, row.removed_into, row.helpful, row.harmful) for row in rows}
    folded = {
        entry.name: (entry.section, entry.text, entry.status, entry.removed_into, *playbook.counters(entry.name))
        for entry in playbook.entries.values()
    }
    fields = ("section", "text", "status", "removed_into", "helpful", "harmful")
    for name in _both(folded, stored):
        if name not in stored or name not in folded:
            where = "the table" if name not in stored else "the events"
            yield Finding("projection", None, f"{name} is missing in {where}", _REBUILD)
            continue
        for field, wanted, got in zip(fields, folded[name], stored[name], strict=True):
            if wanted != got:
                message = f"{name}: {field} is {str(got)[:60]!r} in the table, {str(wanted)[:60]!r} by the events"
                yield Finding("projection", None, message, _REBUILD)
    window = tables.session_window
    states = dict(
        connection.execute(
            sa.select(window.c.event_id, window.c.state).where(window.c.playbook_id == ledger.playbook_id)
        )
        .tuples()
        .all()
    )
    for event_id in _both(windows, states):
        if windows.get(event_id) != states.get(event_id):
            message = f"window {event_id} is {states.get(event_id)} in the table, {windows.get(event_id)} by the events"
            yield Finding("projection", None, message, _REBUILD)
    record = tables.record
    stored_keys = set(
        connection.execute(sa.select(record.c.key).where(record.c.playbook_id == ledger.playbook_id)).scalars()
    )
    if stored_keys != keys:
        message = f"{len(stored_keys ^ keys)} transcript records are seen by the table or the events, not by both"
        yield Finding("projection", None, message, _REBUILD)


_REBUILD = "run `reflector rebuild`"


def _both(one: Iterable[str], other: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))
