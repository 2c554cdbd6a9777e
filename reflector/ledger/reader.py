"""Reads a ledger: its head, its events, the current playbook and its windows.

Invariant: this module never writes. Each question is one statement, or pages of an append-only
table, so it is answered from one state of the ledger, even while others append.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from reflector.events.event import (
    BULLET_TAGGED,
    EVENT_REDACTED,
    EVIDENCE_RETRACTED,
    LEDGER_MOVED,
    MAX_INT,
    Event,
)
from reflector.ledger.errors import HEAD_MISPLACED, LedgerCorrupt, LedgerMoved, translated
from reflector.ledger.rows import Head, WindowRow, event_of, read_data
from reflector.ledger.statements import TABLES, Statements
from reflector.playbook.entry import BulletRow
from reflector.playbook.names import SECTIONS

if TYPE_CHECKING:
    from reflector.ledger.engines import Engine
    from reflector.playbook.bullet import Bullet, Counting

_PAGE = 2000
#: The page size for the newest events, because callers need only a few.
_FEW_EVENTS = 32
#: The number of windows of a page, because each has about ten events.
_WINDOWS_AT_ONCE = 200
#: The number of positions whose events are read or counted at once, so that memory use stays
#: constant.
AT_ONCE = 5_000
#: A literal condition, because a planner uses a partial index only if the query contains the
#: index's own condition.
NOT_A_TAG = f"type <> '{BULLET_TAGGED}'"
_EVENTS = ", ".join(field.name for field in fields(Event) if field.name != "fault")
#: Its columns are the fields of `BulletRow`, so the order in the table does not matter.
_BULLETS = (
    f"SELECT {', '.join(field.name for field in fields(BulletRow))}"  # noqa: S608
    " FROM bullet WHERE "
    "playbook_id = ?"
)
_WINDOWS = (
    f"SELECT {', '.join(WindowRow._fields)} FROM session_window"  # noqa: S608
    " WHERE playbook_id = ?"
)
_HEAD = "SELECT position, chain, name, origin, recorded_at FROM playbook WHERE id = ?"
_RECORDED_AT = "SELECT recorded_at FROM event WHERE playbook_id = ? AND position = ?"
_REDACTIONS = (
    "SELECT target_id, event_id, recorded_at, data, meta FROM event"  # noqa: S608
    f" WHERE playbook_id = ? AND type = ? AND {NOT_A_TAG}"
)

_HAS_TYPE = (
    "SELECT 1 FROM event"  # noqa: S608
    f" WHERE playbook_id = ? AND type = ? AND {NOT_A_TAG} LIMIT 1"
)
_MAY_APPEND = (
    "SELECT current_setting('transaction_read_only') = 'off' AND "
    "has_table_privilege('event', 'INSERT')"
)


class Reader:
    """The queries on a playbook's ledger."""

    def __init__(self, engine: Engine, playbook_id: int, name: str) -> None:
        self.engine = engine
        self.playbook_id = playbook_id
        self.name = name
        #: The reason why nothing can be appended, "" if events can be. It is set for the copy of a
        #: ledger that cannot be written.
        self.only_reads = ""
        #: The statements of the open snapshot, None outside of one.
        self._held: Statements | None = None
        #: The head in that snapshot, after the first question for it.
        self._held_head: Head | None = None

    def head(self) -> Head:
        """Return the playbook's head."""
        if self._held_head:
            return self._held_head
        head = Head(*self.query(_HEAD)[0])
        if self._held:
            self._held_head = head
        return head

    def may_append(self) -> bool:
        """Return whether the caller may append: False for a role with read access only, for a
        standby server, and for a read-only file.
        """
        if self.engine.dialect == "sqlite":
            return not self.only_reads
        with self._reading() as sql:
            return bool(sql.execute(_MAY_APPEND).fetchone()[0])

    @cached_property
    def schema(self) -> str:
        """The schema of a ledger on PostgreSQL, "" for a file. A database can contain several
        ledgers in different schemas.
        """
        if self.engine.dialect == "sqlite":
            return ""
        with self._reading() as sql:
            return str(sql.execute("SELECT current_schema()").fetchone()[0])

    def moved(self) -> LedgerMoved | None:
        """Return the error that names the new place of the playbook; None if it was not moved."""
        last = (
            "position = (SELECT playbook.position FROM playbook WHERE playbook.id = "
            "playbook_id) AND type = ?"
        )
        events = _readable(self.matching(last, LEDGER_MOVED))
        if not events:
            return None
        to = events[0].fact("to")
        return LedgerMoved(
            f"the playbook {self.name!r} moved from {self.engine.url.shown} to {to}, so nothing "
            f"was appended. Set `ledger_url` to {to}, with a user and password if needed, "
            "then run the same command again"
        )

    def events(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Iterable[str] | None = None,
        session_id: str | None = None,
    ) -> Iterator[Event]:
        """Yield the readable events in order, from position `after` + 1 to `upto`. They are read
        page by page, so that memory use stays constant.
        """
        asked, values = conditions(types, session_id, after, upto)
        where = " AND ".join(asked)
        first = list[object]()
        if NOT_A_TAG in asked and session_id is None:
            # Without the plus, the planner would read all events, because these are in order.
            inner = (
                f"SELECT position FROM event WHERE playbook_id = ? AND {where}"  # noqa: S608
                " ORDER BY "
                f"+position LIMIT {_PAGE}"
            )
            where = f"position IN ({inner}) ORDER BY position"
            first = [self.playbook_id]
        else:
            where += f" ORDER BY position LIMIT {_PAGE}"
        while True:
            page = self.matching(where, *first, *values)
            yield from _readable(page)
            if len(page) < _PAGE:
                return
            values[0] = page[-1].position

    def newest(self, type_: str) -> Iterator[Event]:
        """Yield the readable events of a type, newest first, page by page. The type must not be
        that of tags.
        """
        where = (
            f"type = ? AND {NOT_A_TAG} AND position < ? ORDER BY position DESC LIMIT {_FEW_EVENTS}"
        )
        before = MAX_INT
        while True:
            page = self.matching(where, type_, before)
            yield from _readable(page)
            if len(page) < _FEW_EVENTS:
                return
            before = page[-1].position

    def history(self, upto: int = MAX_INT) -> Iterator[Event]:
        """Yield every event up to a position, in order and page by page, including unreadable
        events.
        """
        after: int | None = 0
        while after is not None:
            with self._reading() as sql:
                page = history_page(sql, after, upto)
            yield from page
            after = page[-1].position if page else None

    def event(self, event_id: str) -> Event | None:
        """Return an event by its id; None if there is no readable one."""
        return next(iter(self.having([event_id])), None)

    def has(self, type_: str) -> bool:
        """Return whether there is an event of a type. The type must not be that of tags."""
        return bool(self.query(_HAS_TYPE, type_))

    def having(self, event_ids: Collection[str]) -> list[Event]:
        """Return those of these events that the ledger has, in order."""
        return _readable(self.matching("event_id IN ? ORDER BY position", event_ids))

    def targeting(self, event_id: str, types: Collection[str] = ()) -> list[Event]:
        """Return the events whose target is this one, in order. If types are given, return only
        events of those types.
        """
        events = _readable(self.matching("target_id = ? ORDER BY position", event_id))
        return [event for event in events if not types or event.type in types]

    def of_sessions(self, session_ids: Collection[str | None], types: Sequence[str]) -> list[Event]:
        """Return the events of these types in some sessions, in order; None for events without a
        session.
        """
        named = [session_id for session_id in session_ids if session_id is not None]
        condition = f"{whose(types)} ORDER BY position"
        events = self.matching(f"session_id IN ? AND {condition}", named)
        if len(named) < len(session_ids):
            events += self.matching(f"session_id IS NULL AND {condition}")
        return _readable(events)

    def retracted(self, *event_ids: str) -> frozenset[str]:
        """Return the ids of those events that are retracted now by an active retraction of their
        own.
        """
        if not event_ids:
            return frozenset()
        query = (
            "SELECT target_id FROM retraction"
            " WHERE playbook_id = ? AND active = 1 AND target_id IN ?"
        )
        return frozenset(target_id for (target_id,) in self.query(query, event_ids))

    def retractions(self, event_id: str) -> list[Event]:
        """Return the retraction of an event, the retraction of that one, and so on, in order. The
        first removes the event from the count, the second restores it.
        """
        with self._reading() as sql:
            line = retraction_line(sql, event_id)
        return list(takewhile(lambda event: not event.fault, line))

    def at(self, positions: Collection[int], *, unreadable: bool = False) -> list[Event]:
        """Return the events at these positions, in order. With `unreadable`, include unreadable
        events.
        """
        events = self.matching("position IN ? ORDER BY position", positions)
        return events if unreadable else _readable(events)

    def matching(self, where: str, *values: object) -> list[Event]:
        """Return the events of a condition, including unreadable events, as `events_where`."""
        with self._reading() as sql:
            return events_where(sql, where, *values)

    def query(self, query: str, *values: object) -> list[Any]:
        """Return the rows of a query; its first value is the playbook's id."""
        with self._reading() as sql:
            return sql.rows(query, *values)

    def all_at(self, positions: Collection[int]) -> dict[int, Event]:
        """Return the event at each of these positions, which come from a table.

        Raises: LedgerCorrupt if one is unreadable or missing.
        """
        events = {event.position: event for event in self.at(positions)}
        if missing := sorted(set(positions) - events.keys()):
            raise LedgerCorrupt(
                f"a table of the ledger refers to position {missing[0]}, but the event at this "
                "position cannot be read; run `reflector verify`"
            )
        return events

    def position_at(self, time: str) -> int:
        """Return the last position recorded at or before a time (ISO 8601 in UTC, in the format of
        the ledger); 0 for none.

        Times grow with positions, so this is a binary search: about 20 look-ups by key in a million
        events.

        Raises: LedgerError; LedgerCorrupt if an event is missing.
        """
        head = self.head().position
        with self._reading() as sql:

            def recorded_at(position: int) -> str:
                if (row := sql.row(_RECORDED_AT, position)) is None:
                    raise LedgerCorrupt(HEAD_MISPLACED.format(where=self.engine.url.shown))
                return str(row[0])

            return bisect_right(range(1, head + 1), time, key=recorded_at)

    def rows(self) -> list[BulletRow]:
        """Return every bullet in order of creation, including tombstones."""
        return self._rows("1 = 1")

    def rows_by_name(self) -> dict[str, BulletRow]:
        """Return every bullet by name in order of creation, including tombstones."""
        return {row.name: row for row in self.rows()}

    def counting_names(self) -> set[str]:
        """Return the names of the bullets whose evidence counts."""
        return {row.name for row in self.rows() if row.counts}

    def row(self, name: str) -> BulletRow | None:
        """Return one bullet, which can be a tombstone; None for a name that no bullet had."""
        return next(iter(self._rows("name = ?", name)), None)

    def _rows(self, condition: str, *values: object) -> list[BulletRow]:
        rows = self.query(f"{_BULLETS} AND {condition} ORDER BY ordinal", *values)
        bullets = [BulletRow(*row) for row in rows]
        for bullet in bullets:
            if bullet.section not in SECTIONS:
                raise LedgerCorrupt(
                    f"the table of rules lists {bullet.name} under the section "
                    f"{bullet.section!r}, which does not exist; run `reflector rebuild`, "
                    "then `reflector verify`"
                )
        return bullets

    def bullets(self) -> tuple[Bullet, ...]:
        """Return the live bullets with their counters, in order of creation."""
        return tuple(row.bullet for row in self.rows() if row.status == "live")

    def open_windows(self) -> list[WindowRow]:
        """Return the windows whose reflection is not finished, oldest first."""
        # The condition of the partial index on open windows.
        return self._windows("state IN ('pending', 'answered', 'failed')")

    def windows(self, session_id: str | None = None) -> list[WindowRow]:
        """Return every window, or those of one session, oldest first."""
        return (
            self._windows("1 = 1")
            if session_id is None
            else self._windows("session_id = ?", session_id)
        )

    def newest_windows(self) -> Iterator[list[WindowRow]]:
        """Yield every window, newest first, in pages."""
        before = MAX_INT
        order = f"position DESC LIMIT {_WINDOWS_AT_ONCE}"
        while page := self._windows("position < ?", before, order=order):
            yield page
            before = page[-1].position

    def windows_at(self, positions: Collection[int]) -> list[WindowRow]:
        """Return the windows at these positions, oldest first."""
        return self._windows("position IN ?", positions)

    def window_states(self) -> dict[str, int]:
        """Return the number of windows in each state, ordered by the state's name."""
        return self._in_each_state("*")

    def session_states(self) -> dict[str, int]:
        """Return the number of sessions that have a window in each state, in the same order."""
        return self._in_each_state("DISTINCT coalesce(session_id, event_id)")

    def _in_each_state(self, counted: str) -> dict[str, int]:
        query = (
            f"SELECT state, count({counted}) FROM session_window"  # noqa: S608
            " WHERE playbook_id = ? GROUP BY state ORDER BY state"
        )
        return dict(self.query(query))

    def windows_in(self, *states: str) -> list[WindowRow]:
        """Return the windows in these states, oldest first."""
        return self._windows("state IN ?", states)

    def _windows(self, condition: str, *values: object, order: str = "position") -> list[WindowRow]:
        rows = self.query(f"{_WINDOWS} AND {condition} ORDER BY {order}", *values)
        return [WindowRow(*row) for row in rows]

    def seen(self, keys: Sequence[int]) -> set[int]:
        """Return those record keys that a window already contains."""
        query = 'SELECT "key" FROM record WHERE playbook_id = ? AND "key" IN ?'
        return {key for (key,) in self.query(query, keys)}

    def updated_at(self) -> str | None:
        """Return the time of the last change of a bullet or a count, which is `recorded_at` of its
        event; None for an empty playbook.
        """
        row = self._projection("updated_at", TABLES)
        return row[0] if row else None

    def counting(self) -> Counting:
        """Return the current counting policy."""
        from reflector.ledger.counters import Counters

        with self._reading() as sql:
            return Counters(sql).counting()

    def checkpoint(self, name: str) -> tuple[int, str] | None:
        """Return (position, state hash) of a named projection, for example `playbook.json`; None
        before the first.
        """
        row = self._projection("position, state_hash", name)
        return tuple(row) if row else None

    def _projection(self, columns: str, name: str) -> Any:
        query = f"SELECT {columns} FROM projection WHERE playbook_id = ? AND name = ?"  # noqa: S608
        return next(iter(self.query(query, name)), None)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all questions inside see one state of the ledger, in any number of statements. A
        snapshot in another one sees the state of that one.
        """
        # No other process writes to memory, and its one connection is the writer's too.
        if self.engine.url.in_memory:
            yield
            return
        with self.asking() as sql:
            outer = self._held
            self._held = sql
            try:
                yield
            finally:
                self._held = outer
                is_outermost = outer is None
                if is_outermost:
                    self._held_head = None

    @contextmanager
    def asking(self) -> Iterator[Statements]:
        """Statements that all see one state of the ledger. They must only read."""
        if self._held:
            yield self._again(self._held)
            return
        with self._reading() as sql:
            begins = self.engine.snapshot_statement
            if begins is not None:
                sql.execute(begins)
            yield sql

    @contextmanager
    def _reading(self) -> Iterator[Statements]:
        """Statements in the open snapshot; without one, on a connection that ends with them."""
        with translated(self.engine.url.shown):
            if self._held:
                yield self._again(self._held)
                return
            with self.engine.connection() as connection:
                yield self.statements(connection)

    def statements(self, connection: Any) -> Statements:
        """Return statements on the playbook's rows, with a cursor of their own."""
        return Statements(connection.cursor(), self.engine.dialect, self.playbook_id)

    def _again(self, held: Statements) -> Statements:
        """Return statements in the same transaction, with a new cursor, because an earlier answer
        may not be read to its end yet.
        """
        return self.statements(held.cursor.connection)


def conditions(
    types: Iterable[str] | None, session_id: str | None, after: int, upto: int | None
) -> tuple[list[str], list[object]]:
    """Return the conditions for events after one position and up to another, of some types and of a
    session. Return also the values to bind, `after` first. For rare types the conditions use an
    index.
    """
    asked = ["position > ?"]
    values = list[object]([after])
    if upto is not None:
        asked.append("position <= ?")
        values.append(upto)
    if session_id is not None:
        asked.append("session_id = ?")
        values.append(session_id)
    if types is not None:
        chosen = sorted(types)
        asked.append(f"type IN ({', '.join('?' * len(chosen))})")
        values += chosen
        asked += [] if BULLET_TAGGED in chosen else [NOT_A_TAG]
    return asked, values


def _readable(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not event.fault]


def events_where(sql: Statements, where: str, *values: object) -> list[Event]:
    """Return the events of a condition, including unreadable events. A redacted event has the facts
    that its redaction kept.
    """
    rows = sql.rows(
        f"SELECT {_EVENTS} FROM event WHERE playbook_id = ? AND {where}",  # noqa: S608
        *values,
    )
    kept = kept_of(sql, [row[1] for row in rows if row[10] is None])
    return [event_of(row, kept.get(row[1])) for row in rows]


def of_types(types: Sequence[str]) -> str:
    """Return the condition that an event has one of these types, in the form that uses the index of
    rare types.
    """
    return f"{NOT_A_TAG} AND type IN ({', '.join(map(repr, types))})"


def whose(types: Sequence[str]) -> str:
    """Return the same condition in a form that cannot use the index of types. The query then uses
    the index of sessions or of targets.
    """
    return f"(type || '') IN ({', '.join(map(repr, types))})"


def rare_events_between(
    sql: Statements, types: Sequence[str], after: int, upto: int
) -> Iterator[Event]:
    """Yield the events of rare types after one position and up to another, in order. Unreadable
    events are included.
    """
    where = f"{of_types(types)} AND position > ? AND position <= ? ORDER BY position"
    for begin in range(after, upto, AT_ONCE):
        yield from events_where(sql, where, begin, min(begin + AT_ONCE, upto))


def retraction_line(sql: Statements, event_id: str) -> list[Event]:
    """Return the retraction of an event, the retraction of that one, and so on, including
    unreadable events. An event is retracted once.
    """
    line: list[Event] = []
    retraction = f"target_id = ? AND {whose((EVIDENCE_RETRACTED,))} AND position > ?"
    position = 0  # a retraction comes after its target, but a forged ledger may contain a circle
    while more := events_where(sql, retraction, event_id, position):
        line.append(more[0])
        event_id = more[0].event_id
        position = more[0].position
    return line


def redaction_line(sql: Statements, event_id: str) -> list[Event]:
    """Return an event and its redactions so far, oldest first; [] for a missing event. The line is
    the same for each event in it.
    """
    line = events_where(sql, "event_id = ?", event_id)
    while line and line[0].type == EVENT_REDACTED and line[0].target_id is not None:
        # Each comes after its target, but a forged ledger may contain a circle.
        before = events_where(
            sql, "event_id = ? AND position < ?", line[0].target_id, line[0].position
        )
        if not before:
            break
        line = [*before, *line]
    redaction = f"target_id = ? AND type = ? AND position > ? AND {NOT_A_TAG}"
    while line and (
        more := events_where(sql, redaction, line[-1].event_id, EVENT_REDACTED, line[-1].position)
    ):
        line += more
    return line


def history_page(sql: Statements, after: int, upto: int) -> list[Event]:
    """Return the next events after a position, at most `_PAGE` and up to `upto`."""
    return events_where(
        sql, (f"position > ? AND position <= ? ORDER BY position LIMIT {_PAGE}"), after, upto
    )


def kept_of(sql: Statements, erased: Collection[str]) -> dict[str, Mapping[str, Any] | None]:
    """Return the data that the redactions of these events kept, by the redacted event's id."""
    from reflector.ledger.redaction import what_is_left

    by_target: dict[str, tuple[str, Mapping[str, Any] | None]] = {}
    unread: Collection[str] = erased
    while unread:
        rows = sql.rows(f"{_REDACTIONS} AND target_id IN ?", EVENT_REDACTED, unread)
        for target_id, event_id, *columns in rows:
            by_target[target_id] = (event_id, read_data(EVENT_REDACTED, *columns)[0])
        erased_in_turn = [row[1] for row in rows if row[3] is None]
        unread = [event_id for event_id in erased_in_turn if event_id not in by_target]
    return {target: what_is_left(target, by_target) for target in erased}
