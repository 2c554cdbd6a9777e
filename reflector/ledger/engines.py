"""Engines: open a ledger's database, and admit one writer at a time.

Invariant: a write transaction holds the playbook's lock from before its first read. On SQLite this
is BEGIN IMMEDIATE after a file lock. On PostgreSQL it is SELECT … FOR UPDATE on the playbook's row.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from reflector.ledger import sqlite_file
from reflector.ledger.errors import LedgerCorrupt, LedgerLocked, LedgerUnavailable, translated
from reflector.ledger.sqlite_file import connect_file, file_lock, sqlite_module
from reflector.ledger.url import Url, url_of, url_of_engine
from reflector.resources import remedy_for_extra

if TYPE_CHECKING:
    import sqlalchemy as sa

_CONNECT_TIMEOUT_S = 10
#: The timeout for each server if the URL names several.
_CONNECT_TIMEOUT_EACH_S = 3
#: An event with its analysis fits into a page of this size. With SQLite's default of 4 KiB, most
#: events need an overflow page, which makes the file a third larger.
_PAGE_SIZE = 8192
#: Pages in the WAL before SQLite's automatic checkpoint. A higher number costs disk space, a lower
#: one costs fsyncs.
_CHECKPOINT_PAGES = 2000


class Engine:
    """A ledger's database: provides the driver's connections, and SQLAlchemy's for work on the
    schema.

    Questions and appends run on the driver through `Statements`, because loading SQLAlchemy takes
    several times as long as an everyday command. SQLAlchemy is loaded only for work on a schema
    (create, migrate, compare), and for PostgreSQL, because it provides the connection pool.
    """

    def __init__(self, url: Url) -> None:
        self.url = url
        #: The writing thread holds it.
        self.turn = threading.Lock()
        self._idle: list[Any] = []
        self._alchemy: sa.Engine | None = None
        #: Whether the database belongs to another program, or is only read. Its journal mode, its
        #: journal and its other tables stay unchanged then.
        self.is_guest = False
        self._module: Any = sqlite_module() if url.dialect == "sqlite" else None

    @property
    def dialect(self) -> str:
        """The engine's name: "sqlite" or "postgresql"."""
        return self.url.dialect

    @property
    def snapshot_statement(self) -> str | None:
        """The statement after which all questions of a transaction see one state; None if the
        transaction belongs to another program.
        """
        # By default each statement on PostgreSQL sees its own state. A transaction on SQLite sees
        # one state.
        if self.dialect == "postgresql":
            return "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
        return "BEGIN"

    def require_own_transaction(self, act: str) -> None:
        """Do nothing, because each transaction is the ledger's own. A `HostEngine` raises
        LedgerMisused.
        """

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection of the driver, outside a transaction. An uncommitted transaction is rolled
        back at the end. A connection that the server closed is not used again.

        Raises: the driver's errors, LedgerUnavailable.
        """
        if self.dialect == "postgresql":
            pooled = self.alchemy().raw_connection()
            # An idle connection expects no answer. If there is something to read, the server has
            # closed it.
            if select.select([cast("Any", pooled.driver_connection)], [], [], 0)[0]:
                pooled.invalidate()
                self.alchemy().dispose()
                pooled = self.alchemy().raw_connection()
            try:
                yield pooled.driver_connection
            finally:
                pooled.close()
            return
        driver = self._memory if self.url.in_memory else self._free()
        try:
            yield driver
        finally:
            try:
                if driver.in_transaction:
                    driver.rollback()
                if not self.url.in_memory:
                    self._idle.append(driver)
            except Exception:  # noqa: BLE001  it is lost; the earlier error has the reason
                driver.close()

    @contextmanager
    def appending(self, *, pipelined: bool) -> Iterator[Any]:
        """A driver's connection for an append that holds the file's lock. It commits after a
        successful body.

        pipelined  on PostgreSQL, send statements without waiting for the previous answer

        Raises: the driver's errors and LedgerLocked.
        """
        with self.turn, file_lock(self.url), self.connection() as connection:
            is_pipelined = pipelined and self.dialect == "postgresql"
            with connection.pipeline() if is_pipelined else nullcontext():
                if self.dialect == "sqlite":
                    connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.commit()

    def _free(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return self._opened()

    def alchemy(self) -> sa.Engine:
        """Return SQLAlchemy's engine for the same database.

        Raises: LedgerUnavailable.
        """
        if self._alchemy is None:
            import sqlalchemy as sa

            if self.dialect == "postgresql":
                self._alchemy = _postgresql(self.url)
            else:  # a ledger in memory exists only in its one connection
                creator, pool = (
                    (lambda: self._memory, sa.StaticPool)
                    if self.url.in_memory
                    else (self._opened, sa.QueuePool)
                )
                self._alchemy = sa.create_engine(
                    "sqlite://", module=self._module, creator=creator, poolclass=pool
                )
        return self._alchemy

    def share(self, host: sa.Engine) -> None:
        """Open the database of another program in the same way as that program.

        SQLite's locks belong to the process. A second SQLite library in it would drop the locks of
        the first, so the host's library is used. Connections to PostgreSQL are made by the host's
        engine, and have their own pool and isolation level.
        """
        self.is_guest = True
        if self.dialect == "postgresql":
            self._alchemy = _postgresql(self.url, lambda: _detached(host))
        else:
            self._module = host.dialect.loaded_dbapi

    def close(self) -> None:
        """Close every unused connection."""
        if self._alchemy:
            self._alchemy.dispose()
        while self._idle:
            self._idle.pop().close()
        if "_memory" in vars(self):
            self._memory.close()
            del self._memory

    @cached_property
    def _memory(self) -> Any:
        """The one connection of a ledger in memory."""
        return self._opened()

    def _opened(self) -> Any:
        """Return a new connection to a SQLite ledger."""
        options: dict[str, Any] = {
            "timeout": sqlite_file.BUSY_TIMEOUT_MS / 1000,
            "check_same_thread": False,
        }
        name = self.url.database or ":memory:"
        if "?" in self.url.text:
            url = self.url.alchemy()
            (name,), asked = url.get_dialect()().create_connect_args(url)
            options = {**asked, **options}
        connection: Any
        if self.url.is_file and not self.is_guest:
            connection = connect_file(Path(self.url.database), **options)
        else:
            connection = self._module.connect(name, **options)
        try:
            _prepare(connection)
            if not self.is_guest:
                _make_write_ahead(connection, self.url.shown)
        except BaseException:
            connection.close()
            raise
        return connection


def open_engine(source: str | sa.Engine) -> Engine:
    """Return an engine for a ledger's URL, or for the database of an SQLAlchemy engine.

    Raises: LedgerUnavailable for a database that no installed driver opens.
    """
    if isinstance(source, str):
        return Engine(url_of(source))
    engine = Engine(url_of_engine(source))
    engine.share(source)
    return engine


def _write_ahead(cursor: Any) -> str:
    """Change to write-ahead logging and return the journal mode. This function waits for other
    processes that make the same change, because SQLite does not.

    Raises: the driver's OperationalError.
    """
    until = time.monotonic() + sqlite_file.BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            return str(cursor.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except sqlite_module().OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= until:
                raise
            time.sleep(0.01)


def _prepare(connection: Any) -> None:
    """Apply the settings that each connection to a SQLite ledger needs."""
    # The driver must not begin transactions, because reflector runs BEGIN IMMEDIATE.
    connection.isolation_level = None
    cursor = connection.cursor()
    # With NORMAL, a simulated power loss lost acknowledged commits.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    cursor.close()


def _make_write_ahead(connection: Any, where: str) -> None:
    """Let a new database use a write-ahead log, or a ledger that lost this setting.

    Raises: LedgerUnavailable.
    """
    cursor = connection.cursor()
    (mode,) = cursor.execute("PRAGMA journal_mode").fetchone()
    if mode == "wal":
        return
    rows = cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {name for (name,) in rows}
    if tables and not {"playbook", "event"} <= tables:
        return  # another program's database is refused later, with its journal mode unchanged
    cursor.execute(f"PRAGMA page_size={_PAGE_SIZE}")  # only for a new file; it cannot change later
    if not tables:  # the change of mode needs no journal beside an empty file
        with suppress(sqlite_module().OperationalError):  # another process is changing it
            cursor.execute("PRAGMA journal_mode=MEMORY")
    mode = _write_ahead(cursor)
    if mode.lower() not in {"wal", "memory"}:
        raise LedgerUnavailable(
            f"the ledger {where} cannot use write-ahead logging (journal mode {mode}); move the "
            "ledger from a network file system to a local disk"
        )


def _options(url: sa.URL) -> dict[str, Any]:
    """Return the driver's options that the URL does not set."""
    # A server that disappears without closing the connection is noticed within a minute. The
    # system's own limit is two hours.
    options: dict[str, Any] = {
        "keepalives_idle": 20,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 50_000,  # milliseconds
        "connect_timeout": _CONNECT_TIMEOUT_S,
    }
    # Of several servers, each may be away, and one accepts writes.
    if isinstance(url.query.get("host"), tuple):
        options["connect_timeout"] = _CONNECT_TIMEOUT_EACH_S
        options["target_session_attrs"] = "read-write"
    return options


def _detached(host: sa.Engine) -> Any:
    """Return a new connection that the host program makes and that is removed from its pool."""
    pooled = host.raw_connection()
    driver: Any = pooled.driver_connection
    pooled.detach()
    driver.rollback()
    driver.autocommit = False
    return driver


def _postgresql(of: Url, creator: Callable[[], Any] | None = None) -> sa.Engine:
    import logging

    import sqlalchemy as sa

    # The drivers also log the errors that they raise, but the user sees the error itself.
    for name in ("psycopg", "sqlalchemy.pool"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    url = of.alchemy().set(drivername="postgresql+psycopg")
    asked = str(url.query.get("prepare_threshold", ""))
    url = url.difference_update_query(["prepare_threshold"])
    options = {name: value for name, value in _options(url).items() if name not in url.query}
    if asked:
        options["prepare_threshold"] = _threshold(asked)
    try:
        more: dict[str, Any] = (
            {"connect_args": options} if creator is None else {"creator": creator}
        )
        engine = sa.create_engine(
            url, paramstyle="format", isolation_level="READ COMMITTED", **more
        )
    except ImportError as error:
        raise LedgerUnavailable(
            f"the driver for {of.shown!r} is missing ({error}); {remedy_for_extra('postgres')}"
        ) from error

    # This runs before SQLAlchemy's own first query, because SQLAlchemy cannot read the answer of a
    # database without an encoding.
    @sa.event.listens_for(engine, "connect", insert=True)
    def _connect(connection: Any, _: Any) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in {"UTF8", None}:  # None: the pooler does not forward it
            raise LedgerUnavailable(
                f"the database {of.shown} stores its text in {encoding}, but a ledger needs UTF8; "
                "create another database with `createdb --encoding=UTF8 --template=template0 NAME` "
                "and write its name in the ledger URL"
            )
        # A pooler sends each transaction to any of its connections, so a setting must not outlive
        # the transaction. With a pooler, the process id of the connection is not that of the
        # answering process.
        connection.autocommit = True
        answering = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
        has_pooler = answering != connection.info.backend_pid
        if not has_pooler:
            # Without it, a process that is stopped while it changes the schema would block every
            # other one.
            connection.execute(f"SET lock_timeout = {sqlite_file.BUSY_TIMEOUT_MS}")
        elif not asked:
            connection.prepare_threshold = None
        connection.autocommit = False

    return engine


def _threshold(asked: str) -> int | None:
    """Return the number of uses after which a statement is prepared (None: never), from the URL."""
    if asked != "none" and not asked.isdecimal():
        raise LedgerUnavailable(
            f"prepare_threshold={asked} in the ledger URL is not a number; remove this option from "
            "the URL. If your pooler does not support prepared statements, write "
            "prepare_threshold=none"
        )
    return None if asked == "none" else int(asked)


def patience() -> str:
    """Return the SQL expression that limits how long PostgreSQL waits for a lock in the
    transaction. It is never NULL.

    Without it, a stopped writer that holds the playbook's row would block every other one. Inside
    the waiting statement it costs no round trip, and no other client of a pooler gets the setting.
    """
    return f"set_config('lock_timeout', '{sqlite_file.BUSY_TIMEOUT_MS}', true)"


@contextmanager
def write_transaction(engine: Engine, *, wait: bool = True) -> Iterator[Any]:
    """A driver's connection inside a write transaction that holds the ledger's lock. It commits
    after a successful body.

    Raises: LedgerLocked if another process has the lock and `wait` is False, or a LedgerError for
    an error of the driver.
    """
    engine.require_own_transaction("a change of the schema")
    with (
        translated(engine.url.shown),
        file_lock(engine.url, wait=wait),
        engine.connection() as connection,
    ):
        connection.execute(
            "BEGIN IMMEDIATE" if engine.dialect == "sqlite" else f"SELECT {patience()}"
        )
        yield connection
        connection.commit()


@contextmanager
def migration_transaction(engine: Engine) -> Iterator[sa.Connection]:
    """A write transaction in which a migration may replace a SQLite table by a copy.

    Foreign keys are off inside, because other tables point to the replaced table. They are checked
    before the commit.

    Raises: LedgerCorrupt if a row points to a missing row (SQLite), LedgerLocked, and the driver's
    errors.
    """
    if engine.dialect != "sqlite":
        with engine.alchemy().connect() as connection, connection.begin():
            connection.exec_driver_sql(f"SELECT {patience()}")
            yield connection
        return
    with file_lock(engine.url), engine.alchemy().connect() as connection:
        pragma = connection.connection.cursor()
        pragma.execute("PRAGMA foreign_keys=OFF")  # has no effect inside a transaction
        try:
            with connection.begin():
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
                if broken := connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                    raise LedgerCorrupt(
                        f"in {engine.url.database}, a row of the table {broken[0]} points to a row "
                        f"of {broken[2]} that does not exist, so the ledger was not upgraded; "
                        "restore a backup"
                    )
        finally:
            pragma.execute("PRAGMA foreign_keys=ON")


def rewrite_file(engine: Engine) -> None:
    """Rewrite a SQLite ledger's file, so that no free page and no write-ahead log contains an
    erased text.

    Raises: LedgerLocked if another process still reads an older state, which SQLite keeps for it.
    """
    if engine.dialect != "sqlite":
        return
    with file_lock(engine.url), engine.connection() as connection:
        connection.execute("VACUUM")
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if busy:
        raise LedgerLocked(
            f"another process reads {engine.url.database}, so the file still contains the erased "
            "text. The ledger no longer shows this text. End the other process, then run the "
            "same command again"
        )
