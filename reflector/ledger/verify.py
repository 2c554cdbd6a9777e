"""Proof that a ledger is what was appended: nothing edited, removed, reordered or miscounted.

Invariant: findings are values, in order, and a sound ledger yields none. Verifying reads the events and the
tables in one snapshot and writes nothing. What a chain cannot see alone (a truncated tail) an anchor shows: a
head that was published earlier must still be a prefix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from reflector.ledger import event as ev
from reflector.ledger import tables
from reflector.ledger.canonical import digest, genesis, next_chain
from reflector.ledger.drift import drift
from reflector.ledger.engines import shown
from reflector.ledger.errors import translated
from reflector.ledger.migration import trigger_files
from reflector.ledger.record_keys import unpack_keys
from reflector.ledger.redaction import PROSE
from reflector.ledger.rows import Projected, tag_data
from reflector.ledger.store import Ledger
from reflector.ledger.views import wrong_views
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


def verify(ledger: Ledger, *anchors: Anchor) -> Iterator[Finding]:
    """Every finding of a ledger: its file, triggers, chain and order, counters and other projections, and each of the
    anchors that is not in its history.

    SQLite checks its own file on a second connection meanwhile: that is a third of the work and needs no Python.
    """
    with (
        translated(shown(ledger.engine.url)),
        ThreadPoolExecutor(1) as beside,
        ledger.engine.connect() as connection,
    ):
        if connection.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        damage = beside.submit(_damage, ledger.engine)
        with connection.begin():
            try:
                yield from _triggers(connection)
                yield from _views(connection)
                yield from _events(connection, ledger, anchors)
            except Exception:
                # Where the file is damaged, that is why the events could not be read.
                yield from damage.result()
                raise
            yield from damage.result()


def _events(connection: sa.Connection, ledger: Ledger, anchors: Sequence[Anchor]) -> Iterator[Finding]:
    walk = _Walk(connection, ledger, anchors)
    try:
        yield from walk.findings()
    except Exception as error:
        # The drivers' errors have no class in common: this is SQLite's for bytes that are no UTF-8.
        if "could not decode" not in str(error).lower():
            raise
        walk.foldable = False
        yield Finding("data", None, f"an event holds bytes that are no text ({error})", _RESTORE)
    if walk.foldable:
        for difference in drift(connection, walk.id, walk.playbook, walk.windows, walk.keys):
            yield Finding("projection", None, difference, "run `reflector rebuild`")


def _damage(engine: sa.Engine) -> list[Finding]:
    """What SQLite finds in its own file; a database in memory is this process's own."""
    if engine.dialect.name != "sqlite" or engine.url.database in {None, "", ":memory:"}:
        return []
    found = []
    with engine.connect() as connection:
        for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)").fetchall():
            if line != "ok":
                found.append(
                    Finding("database", None, f"SQLite finds damage: {line}", "restore a backup of the ledger")
                )
        for row in connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(20):
            what = f"a row of {row[0]} points to a {row[2]} that is gone"
            found.append(Finding("reference", None, what, "restore a backup of the ledger"))
    return found


def wrong_triggers(ledger: Ledger) -> list[str]:
    """The names of triggers that are missing, disabled or changed: a look at the schema, no event is read."""
    with translated(shown(ledger.engine.url)), ledger.engine.connect() as connection:
        return [name for name, _ in _wrong_triggers(connection)]


def _triggers(connection: sa.Connection) -> Iterator[Finding]:
    for name, what in _wrong_triggers(connection):
        yield Finding(
            "trigger",
            None,
            f"the trigger {name} {what}, so the database itself no longer refuses changes",
            "find out who changed it, then run `reflector verify --mend-triggers`",
        )


def _views(connection: sa.Connection) -> Iterator[Finding]:
    for name, what in wrong_views(connection):
        yield Finding(
            "view",
            None,
            f"the view {name} {what}, so what SQL answers from it proves nothing",
            "find out who changed it, then run `reflector verify --mend-triggers`",
        )


def _wrong_triggers(connection: sa.Connection) -> Iterator[tuple[str, str]]:
    """(name, what is wrong with it)."""
    dialect = connection.dialect.name
    standing = _standing_triggers(connection)
    for name, path in trigger_files(dialect).items():
        wanted = _wanted(path.read_text(encoding="utf-8"), dialect)
        if name not in standing:
            yield name, "is missing or disabled"
        elif standing[name] != (wanted if wanted[1] is not None else (wanted[0], standing[name][1])):
            yield name, "was changed"


def _standing_triggers(connection: sa.Connection) -> dict[str, tuple[str, str | None]]:
    """(statement, function's body on PostgreSQL) of each trigger that is enabled, by name."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        return {name: (_squeezed(sql), None) for name, sql in rows}
    rows = connection.exec_driver_sql(
        "SELECT t.tgname, pg_get_triggerdef(t.oid, true), p.prosrc"
        " FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND c.relnamespace = current_schema()::regnamespace"
    ).fetchall()
    return {name: (_squeezed(statement), _squeezed(body)) for name, statement, body in rows}


def _wanted(text: str, dialect: str) -> tuple[str, str | None]:
    """What the catalogue shows for a trigger's file; a file may use a function that another one defines."""
    statement = text[text.index("CREATE TRIGGER") :]
    if dialect == "sqlite":
        return _squeezed(statement), None
    body = re.search(r"\$\$(.*)\$\$", text, re.DOTALL)
    return _squeezed(statement.rstrip().rstrip(";")), _squeezed(body[1]) if body else None


def _squeezed(sql: str) -> str:
    return " ".join(sql.split())


class _Walk:
    """One pass over the events: chain, order and redactions checked, the playbook folded."""

    def __init__(self, connection: sa.Connection, ledger: Ledger, anchors: Sequence[Anchor]) -> None:
        self.connection = connection
        self.id = ledger.playbook_id
        self.anchors = anchors
        self.playbook = Playbook()
        self.windows: dict[str, tuple[str, int]] = {}
        self.keys: set[int] = set()
        self.foldable = True
        self.wrong: Finding | None = None

    def findings(self) -> Iterator[Finding]:
        table = tables.playbook
        head = self.connection.execute(sa.select(table).where(table.c.id == self.id)).one()
        chain = genesis(head.name, head.origin)
        position, last = 0, ""
        there = {Anchor(0, chain)}
        wanted = {anchor.position for anchor in self.anchors}
        kept = self._kept()
        meta, meta_hash = "{}", digest("{}")
        for row in self._rows():
            data = row[10]
            if row[0] != position + 1:
                yield Finding("order", row[0], f"position {row[0]} follows {position}", _RESTORE)
            position = row[0]
            if data is None:
                yield from self._erased(row, kept)
            elif digest(data) != row[11]:
                yield Finding("data", position, f"the data of this {row[2]} is not what was appended", _RESTORE)
            if row[12] != meta:  # most events have the meta of the event before
                meta, meta_hash = row[12], digest(row[12])
            expected = next_chain(chain, row[:10], row[11], meta_hash)
            if expected != row[13]:
                yield Finding("chain", position, f"this {row[2]} or the event before it was changed", _RESTORE)
                chain = row[13] if _well_formed(row[13]) else expected
            else:
                chain = expected
            if row[5] < last:
                yield Finding("order", position, f"recorded at {row[5]}, before its predecessor ({last})", _RESTORE)
            last = row[5]
            if position in wanted:
                there.add(Anchor(position, chain))
            try:
                self._fold(row, data, kept)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                self.foldable = False
                yield Finding("data", position, f"the data of this {row[2]} cannot be read ({error!r})", _RESTORE)
            if self.wrong is not None:
                yield self.wrong
                self.wrong = None
        if position != head.position:
            yield Finding("head", position, f"the events end at {position}, the head says {head.position}", _RESTORE)
        elif chain != head.chain or (position and last != head.recorded_at):
            yield Finding("head", position, "the head's chain or time is not the last event's", _RESTORE)
        for anchor in dict.fromkeys(self.anchors):
            if anchor not in there:
                what = f"the published head {anchor.position} is not in this history, which ends at {position}"
                yield Finding("anchor", anchor.position, what, _RESTORE)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        query = f"SELECT {_COLUMNS} FROM event WHERE playbook_id = {self.id:d} ORDER BY position"  # noqa: S608
        raw = self.connection.connection
        # The driver's own rows, a batch at a time; on PostgreSQL only a named cursor leaves the rest at the server.
        cursor = raw.cursor("walk") if self.connection.dialect.name == "postgresql" else raw.cursor()
        try:
            cursor.execute(query)
            while batch := cursor.fetchmany(_BATCH):
                yield from batch
        finally:
            cursor.close()

    def _fold(self, row: tuple[Any, ...], text: str | None, kept: dict[str, dict[str, Any] | None]) -> None:
        type_ = row[2]
        data: Mapping[str, Any] | None
        if text is None:
            data = kept.get(row[1])
        else:
            data = tag_data(text) if type_ == ev.BULLET_TAGGED else json.loads(text)
        self.playbook.apply(Projected(row[0], row[1], type_, row[5], row[7], row[8], row[9], data))
        if type_ == ev.BULLET_TAGGED:
            return
        if type_ == ev.SESSION_RECORDED:
            self.windows[row[1]] = ("pending", 0)
            self.keys.update(unpack_keys((data or {}).get("window", {}).get("keys", "")))
        elif type_ in _WINDOW_STATES:
            self._window(row[9], _WINDOW_STATES[type_], data or {})
        elif type_ == ev.BULLET_ASSERTED and data:
            self.wrong = self._assertion(row[0], data)

    def _window(self, event_id: str | None, state: str, data: Mapping[str, Any]) -> None:
        before, attempts = self.windows.get(event_id or "", ("", 0))
        if before not in ("", "completed") and event_id:
            failed = state == "failed"
            self.windows[event_id] = ("given_up" if failed and data.get("final") else state, attempts + failed)

    def _assertion(self, position: int, data: Mapping[str, Any]) -> Finding | None:
        name = data["name"]
        if name not in self.playbook.entries:
            what, remedy = f"{name} is asserted but does not exist", "look at `reflector log`"
            return Finding("assertion", position, what, remedy)
        counted = self.playbook.counters(name)
        if counted == (data["helpful"], data["harmful"]):
            return None
        what = f"{name} was asserted at {data['helpful']}/{data['harmful']}, "
        what += f"the events give {counted[0]}/{counted[1]}"
        return Finding("assertion", position, what, f"look at `reflector blame {name}`")

    def _kept(self) -> dict[str, dict[str, Any] | None]:
        """What each event.redacted kept of its target's data, by the target's id."""
        table = tables.event
        query = sa.select(table.c.target_id, table.c.data).where(
            table.c.playbook_id == self.id, table.c.type == ev.EVENT_REDACTED
        )
        kept: dict[str, dict[str, Any] | None] = {}
        for target, data in self.connection.execute(query):
            try:
                kept[target] = json.loads(data or "{}").get("kept")
            except (ValueError, AttributeError, RecursionError):
                kept[target] = None  # the walk itself finds this event's data unreadable
        return kept

    def _erased(self, row: tuple[Any, ...], kept: dict[str, dict[str, Any] | None]) -> Iterator[Finding]:
        if row[1] not in kept:
            yield Finding("redaction", row[0], "the data was erased without an event.redacted", _RESTORE)
        elif row[2] not in PROSE and kept[row[1]] is None:
            yield Finding("redaction", row[0], f"the facts of this {row[2]} were erased with its text", _RESTORE)


_RESTORE = "restore a backup, or compare with an export from before the change"
_WINDOW_STATES = {
    ev.REFLECTION_SKIPPED: "skipped",
    ev.REFLECTION_ANSWERED: "answered",
    ev.REFLECTION_COMPLETED: "completed",
    ev.REFLECTION_FAILED: "failed",
}


def _well_formed(chain: object) -> bool:
    return isinstance(chain, str) and re.fullmatch(r"pl1:[0-9a-f]{64}", chain) is not None
