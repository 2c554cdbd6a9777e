"""Reading a ledger: its head, its events, the current playbook and its windows.

Invariant: nothing here writes. Each question is one statement, or pages of an append-only table, so it is
answered from one state of the ledger, whatever is appended meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from reflector.ledger import tables
from reflector.ledger.canonical import MAX_INT
from reflector.ledger.engines import shown
from reflector.ledger.errors import translated
from reflector.ledger.event import BULLET_TAGGED, EVENT_REDACTED, Event
from reflector.ledger.projection import TABLES, Projector
from reflector.ledger.rows import PROJECTED, BulletRow, Head, Projected, WindowRow, event_of, projected_of
from reflector.ledger.statements import Statements
from reflector.playbook.bullet import Bullet
from reflector.playbook.counting import Counting
from reflector.playbook.fold import reads

_PAGE = 2000
_HISTORY = f"SELECT {PROJECTED} FROM event WHERE playbook_id = ? AND position > ? AND position <= ? ORDER BY position"  # noqa: S608
_HISTORY += f" LIMIT {_PAGE}"
_REDACTIONS = f"SELECT target_id, data FROM event WHERE playbook_id = ? AND type = ? AND type <> '{BULLET_TAGGED}'"  # noqa: S608
#: Literal conditions: the planners take a partial index only where they read its own condition.
_NOT_A_TAG = sa.text(f"type <> '{BULLET_TAGGED}'")
_IS_OPEN = sa.text(tables.OPEN_WINDOW)


class Reader:
    """The questions that a playbook's ledger answers."""

    def __init__(self, engine: sa.Engine, playbook_id: int, name: str) -> None:
        self.engine = engine
        self.playbook_id = playbook_id
        self.name = name

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

    def history(self, upto: int = MAX_INT) -> Iterator[Projected]:
        """What a fold reads of every event up to a position, in order and page by page.

        Read by the driver and without the prose, which is half the time of a fold over `events`.
        """
        after: int | None = 0
        while after is not None:
            with self._reading() as connection:
                page = history_page(self._statements(connection), after, upto, reads)
            yield from page
            after = page[-1].position if page else None

    def event(self, event_id: str) -> Event | None:
        """One event by its id."""
        table = tables.event
        query = sa.select(table).where(table.c.playbook_id == self.playbook_id, table.c.event_id == event_id)
        with self._reading() as connection:
            found = self._read(connection, query)
        return found[0] if found else None

    def targeting(self, event_id: str) -> list[Event]:
        """The events whose target is this one, in order."""
        table = tables.event
        query = (
            sa.select(table)
            .where(table.c.playbook_id == self.playbook_id, table.c.target_id == event_id)
            .order_by(table.c.position)
        )
        with self._reading() as connection:
            return self._read(connection, query)

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
                found += self._read(connection, query)
        return found

    def position_at(self, time: str) -> int:
        """The last position recorded at or before a time (ISO 8601 in UTC, as the ledger writes it); 0 for none.

        Times grow with positions, so this halves its way there: about 20 look-ups by key in a million events.
        """
        table = tables.event
        low, high = 0, self.head().position
        with self._reading() as connection:
            while low < high:
                middle = (low + high + 1) // 2
                query = sa.select(table.c.recorded_at).where(
                    table.c.playbook_id == self.playbook_id, table.c.position == middle
                )
                if connection.execute(query).scalar_one() <= time:
                    low = middle
                else:
                    high = middle - 1
        return low

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
        return self._windows(_IS_OPEN)

    def windows(self, session_id: str | None = None) -> list[WindowRow]:
        """Every window, or those of one session, oldest first."""
        column = tables.session_window.c.session_id
        return self._windows(sa.true() if session_id is None else column == session_id)

    def _windows(self, condition: sa.ColumnElement[bool] | sa.TextClause) -> list[WindowRow]:
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

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with translated(shown(self.engine.url)), self.engine.connect() as connection:
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
        conditions: list[sa.ColumnElement[bool] | sa.TextClause] = [
            table.c.playbook_id == self.playbook_id,
            table.c.position > after,
        ]
        if upto is not None:
            conditions.append(table.c.position <= upto)
        if session_id is not None:
            conditions.append(table.c.session_id == session_id)
        if types is not None:
            conditions.append(table.c.type.in_(types))
            if BULLET_TAGGED not in types:
                conditions.append(_NOT_A_TAG)
        query = sa.select(table).where(*conditions).limit(_PAGE)
        if types is not None and BULLET_TAGGED not in types and session_id is None:
            # Rare types: the plus keeps the planner from walking through all events because they are in order.
            found = sa.select(table.c.position).where(*conditions).order_by(sa.text("+position")).limit(_PAGE)
            query = sa.select(table).where(table.c.playbook_id == self.playbook_id, table.c.position.in_(found))
        return self._read(connection, query.order_by(table.c.position))

    def _read(self, connection: sa.Connection, query: sa.Select[Any]) -> list[Event]:
        """The events of a query over whole rows; a redacted one with the facts that its redaction kept."""
        rows = connection.execute(query).all()
        erased = [row.event_id for row in rows if row.data is None]
        kept = kept_of(connection, self.playbook_id, erased) if erased else {}
        return [event_of(row, kept.get(row.event_id)) for row in rows]


def history_page(sql: Statements, after: int, upto: int, reads: Callable[[str], bool]) -> list[Projected]:
    """The next events behind a position, at most `_PAGE` and none behind `upto`, with the data of the types that
    `reads` names."""
    rows = sql.run(_HISTORY, after, upto).fetchall()
    kept: dict[str, str | None] = {}
    if any(row[7] is None for row in rows):
        kept = dict(sql.run(_REDACTIONS, EVENT_REDACTED).fetchall())
    return [projected_of(row, kept, reads) for row in rows]


def kept_of(connection: sa.Connection, playbook_id: int, erased: Sequence[str]) -> dict[str, Mapping[str, Any] | None]:
    """What the redactions of these events kept of their data, by the redacted event's id."""
    table = tables.event
    kept: dict[str, Mapping[str, Any] | None] = {}
    for start in range(0, len(erased), 500):
        query = sa.select(table.c.target_id, table.c.data).where(
            table.c.playbook_id == playbook_id,
            table.c.type == EVENT_REDACTED,
            table.c.target_id.in_(erased[start : start + 500]),
            _NOT_A_TAG,
        )
        kept.update((row.target_id, json.loads(row.data or "{}").get("kept")) for row in connection.execute(query))
    return kept
