"""The connection that a ledger appends on, kept from one append to the next.

Invariant: inside `transaction` the playbook's one lock is held, and an error inside leaves neither an open transaction
nor the lock behind. Taking a connection from a pool and opening the lock's file for each append would cost as much
as the append itself.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from reflector.ledger.checkpoints import TABLES
from reflector.ledger.counters import IN_FORCE, InForce
from reflector.ledger.engines import Engine, Taken, patience
from reflector.ledger.lock import Lock
from reflector.ledger.statements import COPIED, Statements

_HEAD = "SELECT position, chain, recorded_at FROM playbook WHERE id = ?"
_KNOWN = "SELECT event_id, position, data_hash FROM event WHERE playbook_id = ? AND "


@dataclass(slots=True)
class Writing:
    """An open write transaction: the playbook's head, (position, data hash) of the ids that it holds, what is in force
    until something is appended."""

    sql: Statements
    position: int
    chain: str
    recorded_at: str
    known: dict[str, tuple[int, str]]
    in_force: InForce


class Writer:
    """One playbook's way to write, used by one thread at a time; `close` it when the ledger is closed."""

    def __init__(self, engine: Engine, playbook_id: int) -> None:
        self._engine = engine
        self._playbook_id = playbook_id
        self._postgres = engine.dialect == "postgresql"
        self._turn = threading.Lock()
        self._lock = Lock(engine.url)
        self._taken: Taken | None = None
        self._sql: Statements | None = None

    @contextmanager
    def transaction(self, event_ids: Sequence[str] = ()) -> Iterator[Writing]:
        """A write transaction with the head locked; commits when the body ends well, else leaves nothing behind.

        Raises the driver's errors and LedgerLocked.
        """
        with self._turn, self._lock.held():
            connection, sql = self._kept()
            try:
                with self._pipelined(connection, len(event_ids)):
                    writing = self._begun(sql, event_ids)
                    yield writing
                    connection.commit()
            except BaseException:
                try:
                    connection.rollback()
                except Exception:  # noqa: BLE001  the connection is lost; the first error says why
                    self._drop()
                raise

    def close(self) -> None:
        """Give the connection back and let go of the lock's file."""
        with self._turn:
            if self._taken is not None:
                self._taken.give_back()
            self._taken = self._sql = None
            self._lock.close()

    def _begun(self, sql: Statements, event_ids: Sequence[str]) -> Writing:
        head: Sequence[Any]
        found: Sequence[Sequence[Any]] = ()
        among, ids = sql.among("event_id", event_ids)
        if not self._postgres:
            sql.cursor.execute("BEGIN IMMEDIATE")
            (head,) = sql.run(_HEAD).fetchall()
            if event_ids:
                found = sql.run(_KNOWN + among, ids).fetchall()
            in_force = sql.run(IN_FORCE, TABLES).fetchone()
        else:
            # All are sent at once. The first waits; what the others see was committed before they ran.
            locked = sql.run(f"{_HEAD} AND {patience()} <> '' FOR UPDATE")
            known = sql.run(_KNOWN + among, ids) if event_ids else None
            in_force = sql.run(IN_FORCE, TABLES).fetchone()
            (head,) = locked.fetchall()
            found = known.fetchall() if known is not None else ()
        return Writing(sql, head[0], head[1], head[2], {row[0]: (row[1], row[2]) for row in found}, in_force)

    def _pipelined(self, connection: Any, events: int) -> AbstractContextManager[Any]:
        """On PostgreSQL: statements are sent without waiting for the answer of the one before; not where the rows are
        so many that COPY, which a pipeline refuses, gains more."""
        return connection.pipeline() if self._postgres and events < COPIED else nullcontext()

    def _kept(self) -> tuple[Any, Statements]:
        connection: Any = self._taken.driver if self._taken is not None else None
        if connection is not None and self._postgres and select.select([connection.fileno()], [], [], 0)[0]:
            # Nothing was asked of an idle connection: where there is something to read, the server closed it.
            self._drop()
        if self._taken is None or self._sql is None:
            self._taken = self._engine.take()
            connection = self._taken.driver
            self._sql = Statements(connection.cursor(), self._engine.dialect, self._playbook_id)
        return connection, self._sql

    def _drop(self) -> None:
        dropped, self._taken, self._sql = self._taken, None, None
        if dropped is not None:
            dropped.discard()
