"""A ledger in another program's transaction, on an SQLAlchemy connection.

Invariant: this module commits and rolls back only its own work. An append is a savepoint in the
host's transaction: it is complete or absent, and the host decides when it is committed. The head is
read after the lock is held, so two hosts never give the same position.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from reflector.ledger.engines import Engine
from reflector.ledger.errors import LedgerMisused
from reflector.ledger.url import url_of_engine

#: Changes nothing. SQLite takes the writers' lock for it, so the head is read after that.
_TAKE_LOCK = "DELETE FROM retraction WHERE 0"
_SERVER_SETTINGS = (
    "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')"
)


class HostEngine(Engine):
    """The connection of another program, in whose transaction a ledger is read and appended to."""

    def __init__(self, connection: sa.Connection) -> None:
        """Raise LedgerMisused for a closed connection, and LedgerUnavailable for a database in
        memory or of an unsupported driver.
        """
        if connection.closed:
            raise LedgerMisused(
                "the connection is closed; append before you close the connection, or open "
                "another connection"
            )
        super().__init__(url_of_engine(connection.engine))
        self._host = connection
        self.is_guest = True

    @property
    def snapshot_statement(self) -> None:
        """None, because the host's transaction decides which state a question sees."""
        return

    def require_own_transaction(self, act: str) -> None:
        """Raise LedgerMisused for an act that cannot be part of the host's transaction."""
        raise LedgerMisused(
            f"{act} needs its own transaction; use a ledger from `Ledger.open(engine)`"
        )

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """The host's driver connection, inside its transaction."""
        if not self._host.in_transaction():
            self._host.begin()
        yield self._driver

    @property
    def _driver(self) -> Any:
        return self._host.connection.driver_connection

    @contextmanager
    def appending(self, *, pipelined: bool) -> Iterator[Any]:
        """The host's driver connection, inside a savepoint of its transaction.

        Raises: LedgerMisused, and the driver's errors.
        """
        if self.dialect == "sqlite":
            self._take_lock()
        else:
            self._check_server()
        with self._host.begin_nested():
            yield self._driver

    def _take_lock(self) -> None:
        """Take SQLite's lock of writers in the host's transaction.

        Raises: LedgerMisused.
        """
        self._refuse_bare_savepoint()
        checks_keys = self._host.exec_driver_sql("PRAGMA foreign_keys").scalar_one()
        if not checks_keys:
            raise LedgerMisused(
                "the connection does not check foreign keys, so a retraction could name a missing "
                "event; run PRAGMA foreign_keys=ON on each new connection (docs/embedding.md shows "
                "the code)"
            )
        self._host.exec_driver_sql(_TAKE_LOCK)
        if not self._driver.in_transaction:
            raise LedgerMisused(
                "the connection commits each statement separately (AUTOCOMMIT), so an "
                "append could not be rolled back as a whole; open the connection without "
                "that isolation level"
            )

    def _refuse_bare_savepoint(self) -> None:
        """Raise LedgerMisused for a savepoint that may be the whole transaction. The driver begins
        no transaction for a savepoint, and SQLite commits an outermost savepoint when it is
        released.
        """
        begins = getattr(self._driver, "autocommit", None) is False
        has_listener = bool(self._host.engine.dispatch.begin)
        if self._host.in_nested_transaction() and not (begins or has_listener):
            raise LedgerMisused(
                "the connection is in a savepoint, which the driver may commit early; append "
                "before `begin_nested`, or make the engine emit BEGIN (docs/embedding.md shows the "
                "code)"
            )

    def _check_server(self) -> None:
        """Raise LedgerMisused if PostgreSQL's transaction is not fit for an append."""
        if self._driver.autocommit:
            raise LedgerMisused(
                "the connection commits each statement separately (AUTOCOMMIT), so an "
                "append could not be rolled back as a whole; open the connection with READ "
                "COMMITTED"
            )
        isolation, reads_only = self._host.exec_driver_sql(_SERVER_SETTINGS).one()
        if reads_only == "on":
            raise LedgerMisused(
                "the connection's transaction is read-only (transaction_read_only); append "
                "on a connection that may write"
            )
        if isolation != "read committed":
            raise LedgerMisused(
                f"the connection's isolation level is {isolation.upper()}, which fails if two "
                "programs append at the same time; open the connection with READ COMMITTED"
            )
