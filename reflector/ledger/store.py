"""The ledger: append events, read them back, ask for the current playbook.

Invariant: an append is one transaction. It takes the playbook's lock, gives the new events the positions
after the head, extends the chain, folds them into the tables and commits, or leaves nothing behind.
Whatever needs no lock (canonical form, hashes) is done before it is taken.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from reflector.ledger import tables
from reflector.ledger.canonical import canonical, digest, genesis, next_chain
from reflector.ledger.engines import open_engine, sqlite_url, write_transaction
from reflector.ledger.errors import AlreadyRetracted, Conflict, LedgerCorrupt, LedgerError, translated
from reflector.ledger.event import TYPES, Appended, Event, NewEvent
from reflector.ledger.migration import ensure_current
from reflector.ledger.projection import CODE_VERSION, TABLES, Projected, Projector, Statements
from reflector.playbook.bullet import Bullet
from reflector.playbook.counting import DEFAULT, Counting

_MAX_FIELD = 1024
_PAGE = 2000
_INSERT = (
    "INSERT INTO event (playbook_id, position, event_id, type, schema_version, occurred_at, recorded_at, actor,"
    " session_id, reflection_id, target_id, data, data_hash, meta, chain)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def utc_now() -> str:
    """Now, as the ledger writes time: ISO 8601 in UTC with microseconds, of fixed width."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class Head:
    """Where a playbook's history ends: position 0 and the genesis chain before the first event."""

    playbook: str
    origin: str
    position: int
    chain: str
    recorded_at: str


@dataclass(frozen=True, slots=True)
class BulletRow:
    """A bullet as the ledger keeps it, tombstones included."""

    name: str
    section: str
    text: str
    status: str
    reason: str | None
    removed_into: str | None
    position: int
    helpful: int
    harmful: int

    @property
    def bullet(self) -> Bullet:
        """The part that readers of a playbook see."""
        return Bullet(self.name, self.section, self.text, self.helpful, self.harmful)


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A session window and how far its reflection came."""

    position: int
    event_id: str
    session_id: str | None
    state: str
    attempts: int
    changed_at: str


@dataclass(frozen=True, slots=True)
class _Prepared:
    event: NewEvent
    data: str
    data_hash: str
    meta: str
    meta_hash: str


class Ledger:
    """One playbook's ledger in a database. Use `Ledger.open`, or as a context manager to close it."""

    def __init__(self, engine: sa.Engine, playbook_id: int, name: str) -> None:
        self.engine = engine
        self.playbook_id = playbook_id
        self.name = name

    @classmethod
    def open(cls, url: str, playbook: str = "default") -> Self:
        """Open a ledger by its SQLAlchemy URL; create or upgrade it on first use.

        Raises LedgerUnavailable, LedgerTooNew, LedgerCorrupt or LedgerLocked.
        """
        engine = open_engine(url)
        with translated(_shown(engine)):
            ensure_current(engine)
            return cls(engine, _playbook_id(engine, playbook), playbook)

    @classmethod
    def open_file(cls, path: Path, playbook: str = "default") -> Self:
        """Open the SQLite ledger in a file; it and its folder are readable by their owner only."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with translated(str(path)):
            if not path.exists():
                path.touch(mode=0o600)
        return cls.open(sqlite_url(path), playbook)

    def close(self) -> None:
        """Release the database's connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing -------------------------------------------------------------------------------------------

    def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        """Append events in order, all or none; answer where each stands.

        An id the ledger has with the same data is answered with its first position and added once only.
        Raises Conflict for an id with other data, AlreadyRetracted, NotCanonical or a LedgerError.
        """
        prepared = [_prepare(event) for event in events]
        with translated(_shown(self.engine)), _retracted_once(), write_transaction(self.engine) as connection:
            return self._append(connection, prepared)

    def _append(self, connection: sa.Connection, prepared: list[_Prepared]) -> list[Appended]:
        sql = self._statements(connection)
        lock = " FOR UPDATE" if sql.postgres else ""
        position, chain, last = sql.run(
            f"SELECT position, chain, recorded_at FROM playbook WHERE id = ?{lock}"  # noqa: S608
        ).fetchone()
        known = self._known(sql, [item.event.event_id for item in prepared])
        recorded_at = max(utc_now(), last)
        answers: list[Appended] = []
        rows: list[tuple[object, ...]] = []
        projected: list[Projected] = []
        for item in prepared:
            event = item.event
            if (first := known.get(event.event_id)) is not None:
                if first[1] != item.data_hash:
                    raise Conflict(event.event_id, event.type, first[0])
                answers.append(Appended(event.event_id, first[0], added=False))
                continue
            position += 1
            header = (
                position,
                event.event_id,
                event.type,
                event.schema_version,
                event.occurred_at or recorded_at,
                recorded_at,
                event.actor,
                event.session_id,
                event.reflection_id,
                event.target_id,
            )
            chain = next_chain(chain, header, item.data_hash, item.meta_hash)
            rows.append((*header, item.data, item.data_hash, item.meta, chain))
            known[event.event_id] = (position, item.data_hash)
            answers.append(Appended(event.event_id, position, added=True))
            projected.append(
                Projected(
                    position,
                    event.event_id,
                    event.type,
                    recorded_at,
                    event.session_id,
                    event.reflection_id,
                    event.target_id,
                    event.data,
                )
            )
        if rows:
            sql.many(_INSERT, rows)
            Projector(sql).project(projected)
            text = sql._text("UPDATE playbook SET position = ?, chain = ?, recorded_at = ? WHERE id = ?")
            sql.cursor.execute(text, (position, chain, recorded_at, self.playbook_id))
        return answers

    def _known(self, sql: Statements, ids: list[str]) -> dict[str, tuple[int, str]]:
        known: dict[str, tuple[int, str]] = {}
        for start in range(0, len(ids), 500):
            chunk = ids[start : start + 500]
            rows = sql.run(
                "SELECT event_id, position, data_hash FROM event"  # noqa: S608
                f" WHERE playbook_id = ? AND event_id IN ({', '.join('?' * len(chunk))})",
                *chunk,
            ).fetchall()
            known.update((row[0], (row[1], row[2])) for row in rows)
        return known

    def rebuild(self) -> None:
        """Empty the projected tables and fill them again from the events, in one transaction.

        Appends nothing and calls nobody; readers see the old rows until it commits.
        """
        with translated(_shown(self.engine)), write_transaction(self.engine) as connection:
            sql = self._statements(connection)
            sql.run(f"SELECT position FROM playbook WHERE id = ?{' FOR UPDATE' if sql.postgres else ''}").fetchone()
            for table in tables.REBUILDABLE:
                sql.run(f"DELETE FROM {table.name} WHERE playbook_id = ?")  # noqa: S608
            sql.run("DELETE FROM projection WHERE playbook_id = ? AND name = 'tables'")
            _start_projection(sql)
            projector = Projector(sql)
            position = 0
            while page := self._page(connection, position, None, None, None):
                projector.project(_projected(page))
                position = page[-1].position

    def recount(self) -> None:
        """Rebuild every counter from the tag table: one GROUP BY over an index."""
        with translated(_shown(self.engine)), write_transaction(self.engine) as connection:
            Projector(self._statements(connection)).recount_all()

    # -- reading -------------------------------------------------------------------------------------------

    def head(self) -> Head:
        """The playbook's head."""
        table = tables.playbook
        with self._reading() as connection:
            row = connection.execute(sa.select(table).where(table.c.id == self.playbook_id)).one()
        return Head(row.name, row.origin, row.position, row.chain, row.recorded_at)

    def events(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Iterable[str] | None = None,
        session_id: str | None = None,
    ) -> Iterator[Event]:
        """Events in order, from position `after` + 1 to `upto`, read page by page: memory stays flat."""
        chosen = None if types is None else sorted(types)
        while True:
            with self._reading() as connection:
                page = self._page(connection, after, upto, chosen, session_id)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].position

    def event(self, event_id: str) -> Event | None:
        """One event by its id."""
        table = tables.event
        query = sa.select(table).where(table.c.playbook_id == self.playbook_id, table.c.event_id == event_id)
        with self._reading() as connection:
            row = connection.execute(query).one_or_none()
        return _event(row) if row else None

    def targeting(self, event_id: str) -> list[Event]:
        """The events whose target is this one, in order."""
        table = tables.event
        query = (
            sa.select(table)
            .where(table.c.playbook_id == self.playbook_id, table.c.target_id == event_id)
            .order_by(table.c.position)
        )
        with self._reading() as connection:
            return [_event(row) for row in connection.execute(query)]

    def tags_of(self, name: str) -> list[tuple[int, bool]]:
        """(position, whether it counts now) of every tag a bullet was given, in order."""
        table = tables.tag
        query = (
            sa.select(table.c.position, table.c.active)
            .where(table.c.playbook_id == self.playbook_id, table.c.name == name)
            .order_by(table.c.position)
        )
        with self._reading() as connection:
            return [(row.position, bool(row.active)) for row in connection.execute(query)]

    def at(self, positions: Sequence[int]) -> list[Event]:
        """The events at these positions, in order."""
        table = tables.event
        found: list[Event] = []
        with self._reading() as connection:
            for start in range(0, len(positions), 500):
                chunk = list(positions[start : start + 500])
                query = (
                    sa.select(table)
                    .where(table.c.playbook_id == self.playbook_id, table.c.position.in_(chunk))
                    .order_by(table.c.position)
                )
                found += [_event(row) for row in connection.execute(query)]
        return found

    def rows(self) -> list[BulletRow]:
        """Every bullet in order of creation, tombstones included."""
        table = tables.bullet
        query = sa.select(table).where(table.c.playbook_id == self.playbook_id).order_by(table.c.ordinal)
        with self._reading() as connection:
            return [
                BulletRow(
                    row.name,
                    row.section,
                    row.text,
                    row.status,
                    row.reason,
                    row.removed_into,
                    row.position,
                    row.helpful,
                    row.harmful,
                )
                for row in connection.execute(query)
            ]

    def bullets(self) -> tuple[Bullet, ...]:
        """The live bullets with their counters, in order of creation."""
        return tuple(row.bullet for row in self.rows() if row.status == "live")

    def open_windows(self) -> list[WindowRow]:
        """Windows whose reflection is not finished, oldest first."""
        return self._windows(tables.session_window.c.state.in_(("pending", "answered", "failed")))

    def windows(self, session_id: str | None = None) -> list[WindowRow]:
        """Every window, or those of one session, oldest first."""
        column = tables.session_window.c.session_id
        return self._windows(sa.true() if session_id is None else column == session_id)

    def _windows(self, condition: sa.ColumnElement[bool]) -> list[WindowRow]:
        table = tables.session_window
        query = sa.select(table).where(table.c.playbook_id == self.playbook_id, condition).order_by(table.c.position)
        with self._reading() as connection:
            return [
                WindowRow(row.position, row.event_id, row.session_id, row.state, row.attempts, row.changed_at)
                for row in connection.execute(query)
            ]

    def seen(self, keys: Sequence[int]) -> set[int]:
        """Those of the record keys that a window has already taken in."""
        with self._reading() as connection:
            sql = self._statements(connection)
            if not sql.run("SELECT 1 FROM record WHERE playbook_id = ? LIMIT 1").fetchone():
                return set()
            if sql.postgres:
                query, values = 'SELECT "key" FROM record WHERE playbook_id = ? AND "key" = ANY(?)', list(keys)
            else:
                query = 'SELECT "key" FROM record WHERE playbook_id = ? AND "key" IN (SELECT value FROM json_each(?))'
                values = json.dumps(list(keys))  # type: ignore[assignment]
            return {row[0] for row in sql.run(query, values).fetchall()}

    def updated_at(self) -> str | None:
        """When a bullet or a count last changed: `recorded_at` of that event; None for an empty playbook."""
        table = tables.projection
        query = sa.select(table.c.updated_at).where(table.c.playbook_id == self.playbook_id, table.c.name == TABLES)
        with self._reading() as connection:
            value: str | None = connection.execute(query).scalar_one_or_none()
        return value

    def counting(self) -> Counting:
        """The counting policy in force."""
        with self._reading() as connection:
            return Projector(self._statements(connection)).counting()

    def checkpoint(self, name: str) -> tuple[int, str] | None:
        """(position, state hash) of a named projection, such as `playbook.json`; None before the first."""
        table = tables.projection
        query = sa.select(table.c.position, table.c.state_hash).where(
            table.c.playbook_id == self.playbook_id, table.c.name == name
        )
        with self._reading() as connection:
            row = connection.execute(query).one_or_none()
        return (row.position, row.state_hash) if row else None

    def set_checkpoint(self, name: str, position: int, state_hash: str) -> None:
        """Remember that a named projection was written at a position, with this hash."""
        with translated(_shown(self.engine)), write_transaction(self.engine) as connection:
            sql = self._statements(connection)
            sql.run("DELETE FROM projection WHERE playbook_id = ? AND name = ?", name)
            sql.run(_INSERT_PROJECTION, name, CODE_VERSION, "", position, state_hash)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with translated(_shown(self.engine)), self.engine.connect() as connection:
            yield connection

    def _statements(self, connection: sa.Connection) -> Statements:
        return Statements(connection.connection.cursor(), connection.dialect.name, self.playbook_id)

    def _page(
        self,
        connection: sa.Connection,
        after: int,
        upto: int | None,
        types: list[str] | None,
        session_id: str | None,
    ) -> list[Event]:
        table = tables.event
        query = sa.select(table).where(table.c.playbook_id == self.playbook_id, table.c.position > after)
        if upto is not None:
            query = query.where(table.c.position <= upto)
        if types is not None:
            query = query.where(table.c.type.in_(types))
        if session_id is not None:
            query = query.where(table.c.session_id == session_id)
        return [_event(row) for row in connection.execute(query.order_by(table.c.position).limit(_PAGE))]


_INSERT_PROJECTION = "INSERT INTO projection (playbook_id, name, code_version, policy_id, position, state_hash) VALUES (?, ?, ?, ?, ?, ?)"


def _shown(engine: sa.Engine) -> str:
    return engine.url.database or "" if engine.dialect.name == "sqlite" else str(engine.url)


def _start_projection(sql: Statements) -> None:
    sql.run(_INSERT_PROJECTION, TABLES, CODE_VERSION, DEFAULT, 0, "")


def _playbook_id(engine: sa.Engine, name: str) -> int:
    table = tables.playbook
    with engine.connect() as connection:
        found = connection.execute(sa.select(table.c.id).where(table.c.name == name)).scalar_one_or_none()
    if found is not None:
        return int(found)
    with write_transaction(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("LOCK TABLE playbook IN SHARE ROW EXCLUSIVE MODE")
        found = connection.execute(sa.select(table.c.id).where(table.c.name == name)).scalar_one_or_none()
        if found is not None:
            return int(found)
        new_id = int(connection.execute(sa.select(sa.func.coalesce(sa.func.max(table.c.id), 0) + 1)).scalar_one())
        origin = secrets.token_hex(16)
        connection.execute(
            table.insert().values(
                id=new_id, name=name, origin=origin, position=0, chain=genesis(name, origin), recorded_at=utc_now()
            )
        )
        _start_projection(Statements(connection.connection.cursor(), connection.dialect.name, new_id))
        return new_id


def _prepare(event: NewEvent) -> _Prepared:
    if event.type not in TYPES:
        raise LedgerError(f"{event.type!r} is not an event type; the types are {', '.join(sorted(TYPES))}")
    for field in ("event_id", "occurred_at", "actor", "session_id", "reflection_id", "target_id"):
        value = getattr(event, field)
        if value is not None and (len(value) > _MAX_FIELD or "\n" in value or "\x00" in value or not value):
            raise LedgerError(
                f"{event.type}: {field} {value[:40]!r} must be 1 to {_MAX_FIELD} characters without newline or NUL"
            )
    data, meta = canonical(event.data), canonical(event.meta)
    return _Prepared(event, data, digest(data), meta, digest(meta))


@contextmanager
def _retracted_once() -> Iterator[None]:
    try:
        yield
    except LedgerError as error:
        if "this target is taken" in str(error) or "event_target_once" in str(error):
            raise AlreadyRetracted(
                "this target is already retracted or redacted; nothing was appended. To undo it, retract the retraction"
            ) from error
        raise


def _projected(events: Iterable[Event]) -> Iterator[Projected]:
    for e in events:
        yield Projected(
            e.position, e.event_id, e.type, e.recorded_at, e.session_id, e.reflection_id, e.target_id, e.data
        )


def _event(row: Any) -> Event:
    try:
        data = None if row.data is None else json.loads(row.data)
        meta = json.loads(row.meta)
    except (ValueError, RecursionError) as error:
        raise LedgerCorrupt(
            f"event {row.position} ({row.type}) does not hold JSON ({error}); run `reflector verify`"
        ) from error
    return Event(
        row.position,
        row.event_id,
        row.type,
        row.schema_version,
        row.occurred_at,
        row.recorded_at,
        row.actor,
        row.session_id,
        row.reflection_id,
        row.target_id,
        data,
        row.data_hash,
        meta,
        row.chain,
    )
