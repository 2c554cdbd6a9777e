"""Engines: how a ledger's database is opened, and how one writer at a time gets in.

Invariant: a write transaction holds the playbook's one lock from before its first read. On SQLite that
is BEGIN IMMEDIATE behind a file lock (BEGIN IMMEDIATE alone never fails but is unfair: 8 writers
waited up to 2 s, with the file lock under 0.1 s; a plain BEGIN failed four times of five with
"database is locked"). On PostgreSQL it is SELECT … FOR UPDATE on the playbook's row.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event as sa_event

from reflector.files import folder_of
from reflector.ledger.errors import LedgerCorrupt, LedgerLocked, LedgerUnavailable
from reflector.ledger.sqlite_file import is_file, open_file, sqlite_module
from reflector.resources import install_command

# The drivers also log the errors that they raise; a person sees the error itself.
for _name in ("psycopg", "sqlalchemy.pool"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

BUSY_TIMEOUT_MS = 30_000
_CONNECT_TIMEOUT_S = 10
#: What the system says of a file system on which no file can be locked.
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
#: An event with its analysis fits into a page of this size; in SQLite's own 4 KiB most of them spill into a page
#: of their own, which makes the file a third larger.
_PAGE_SIZE = 8192
#: Pages in the WAL before SQLite checkpoints by itself; higher costs disk, lower costs fsyncs.
_CHECKPOINT_PAGES = 2000


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite ledger in a file."""
    return sa.URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def open_engine(url: str) -> sa.Engine:
    """Return an engine for a ledger's URL. Raises LedgerUnavailable for an URL that no installed driver takes."""
    try:
        parsed = sa.make_url(url)
        if parsed.drivername == "sqlite":
            return _sqlite(parsed)
        if parsed.drivername in {"postgresql", "postgresql+psycopg"}:
            return _postgresql(parsed)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ValueError):
        # Neither the URL nor the parser's message is shown: what cannot be parsed may be a password.
        raise LedgerUnavailable(
            f"the ledger URL, which begins with {url.split(':')[0][:20]!r}, is not usable; "
            "write sqlite:////path/to/ledger.db or postgresql://user@host/name, and percent-encode a password"
        ) from None
    except ImportError as error:
        raise LedgerUnavailable(
            f"no driver for {shown(parsed)!r} ({error}); install it with: {install_command('postgres')}"
        ) from error
    raise LedgerUnavailable(f"{parsed.drivername!r} is not a ledger's engine; use a sqlite:// or postgresql:// URL")


def shown(url: sa.URL) -> str:
    """Return a database as messages name it: a SQLite file by its path, any other URL without its passwords."""
    if url.get_backend_name() == "sqlite":
        return url.database or ":memory:"
    return url.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)


def place_of(url: sa.URL) -> str:
    """Return where a ledger is, as everybody who uses it can name it: without users, passwords and how to connect."""
    if url.get_backend_name() == "sqlite":
        return sqlite_url(Path(str(url.database)).absolute()) if is_file(url) else str(url)
    of_place = {key: value for key, value in sorted(url.query.items()) if key in {"host", "port", "dbname", "options"}}
    return str(url.set(drivername="postgresql", username=None, password=None, query=of_place))


def _sqlite(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(
        url, module=sqlite_module(), connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False}
    )

    @sa_event.listens_for(engine, "do_connect")
    def _connect(_: Any, __: Any, arguments: list[Any], options: dict[str, Any]) -> Any:
        def prepare(connection: Any) -> None:
            _prepare(connection, shown(url))

        if is_file(url):
            return open_file(Path(str(url.database)), prepare, **options)
        connection = sqlite_module().connect(*arguments, **options)
        prepare(connection)
        return connection

    @sa_event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        immediate = connection.get_execution_options().get("reflector_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _write_ahead(cursor: Any) -> str:
    """Change to write-ahead logging and return the journal mode. SQLite does not wait for others that just do the same,
    so this does. Raises the driver's OperationalError."""
    until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            return str(cursor.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except sqlite_module().OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= until:
                raise
            time.sleep(0.01)


def _prepare(connection: Any, where: str) -> None:
    # The driver must not begin transactions by itself: BEGIN IMMEDIATE is ours.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    names = {row[0] for row in cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}
    # A ledger or an empty database. Another program's is refused later, with its journal mode as it was.
    if not names or {"playbook", "event"} <= names:
        cursor.execute(f"PRAGMA page_size={_PAGE_SIZE}")  # of a new file; it cannot change later
        if not names:  # the change of mode needs no journal beside a file that holds nothing
            with suppress(sqlite_module().OperationalError):  # another process is just changing it
                cursor.execute("PRAGMA journal_mode=MEMORY")
        mode = _write_ahead(cursor)
        if str(mode).lower() not in {"wal", "memory"}:
            raise LedgerUnavailable(
                f"the ledger {where} cannot use write-ahead logging (journal mode {mode}); "
                "put it on a local disk, not on a network file system"
            )
    # NORMAL lost acknowledged commits in a power-loss model.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    cursor.close()


def _postgresql(url: sa.URL) -> sa.Engine:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    wait = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_TIMEOUT_S}
    engine = sa.create_engine(
        url, paramstyle="format", isolation_level="READ COMMITTED", pool_pre_ping=True, connect_args=wait
    )

    # Before SQLAlchemy's own first look at the server, which cannot read what a database without an encoding answers.
    @sa_event.listens_for(engine, "connect", insert=True)
    def _connect(connection: Any, _: Any) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in {"UTF8", None}:  # None: a pooler that does not pass it on
            raise LedgerUnavailable(
                f"the database {shown(url)} stores its text in {encoding}, and a ledger needs UTF8; create another "
                "with `createdb --encoding=UTF8 --template=template0 NAME` and name it in the URL"
            )
        # Without it a writer that was stopped while it held the playbook's row would stop every other one.
        connection.execute(f"SET lock_timeout = {BUSY_TIMEOUT_MS}")
        connection.commit()

    return engine


@contextmanager
def write_transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection inside a write transaction, the ledger's one lock held; commits when the body ends well."""
    with file_lock(engine.url), engine.connect() as connection:
        writing = connection.execution_options(reflector_write=True)
        with writing.begin():
            yield writing


@contextmanager
def migration_transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A write transaction in which a migration may put a copy in the place of a SQLite table.

    Foreign keys are off inside, for the table that goes is pointed at; they are checked before the commit.
    """
    if engine.dialect.name != "sqlite":
        with write_transaction(engine) as connection:
            yield connection
        return
    with file_lock(engine.url), engine.connect() as connection:
        pragma = connection.connection.cursor()
        pragma.execute("PRAGMA foreign_keys=OFF")  # does nothing once a transaction has begun
        try:
            writing = connection.execution_options(reflector_write=True)
            with writing.begin():
                yield writing
                broken = writing.exec_driver_sql("PRAGMA foreign_key_check").first()
                if broken is not None:
                    raise LedgerCorrupt(
                        f"a row of {broken[0]} in {engine.url.database} points to a {broken[2]} that is gone; the "
                        "schema was left as it is. Restore a backup"
                    )
        finally:
            pragma.execute("PRAGMA foreign_keys=ON")


def sweep(engine: sa.Engine) -> None:
    """Rewrite a SQLite ledger's file, so that what was erased is in no free page and in no write-ahead log.

    Raises LedgerLocked if another process still reads an older state, which SQLite keeps for it.
    """
    if engine.dialect.name != "sqlite":
        return
    with file_lock(engine.url):
        connection = engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute("VACUUM")
            busy = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            connection.close()
    if busy:
        raise LedgerLocked(
            f"another process reads {engine.url.database} and keeps its old content there: what was erased is out of "
            "the ledger, but not yet out of its file. End that process, then run the same command again"
        )


@contextmanager
def file_lock(url: sa.URL) -> Iterator[None]:
    """Hold the lock that every writer of a SQLite ledger queues for; nothing for other ledgers. Raises LedgerLocked."""
    handle = open_lock(url)
    if handle is None:
        yield
        return
    try:
        queue_for(handle, url)
        yield
    finally:
        os.close(handle)


def open_lock(url: sa.URL) -> int | None:
    """Return the file whose lock is the queue in front of BEGIN IMMEDIATE: the kernel wakes waiters in turn, SQLite's
    busy handler polls. None where there is no such file or no such lock."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    if find_spec("fcntl") is None:  # Windows: BEGIN IMMEDIATE and its busy timeout serialise, only less fairly
        return None
    try:
        lock = Path(f"{url.database}.lock")
        with folder_of(lock) as folder:
            return folder.open(lock.name, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise LedgerUnavailable(
            f"the ledger's lock {url.database}.lock cannot be opened ({error.strerror}); {_way_out(error)}"
        ) from error


def release(handle: int) -> None:
    """Let the next writer in; the file stays open."""
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_UN)


def queue_for(handle: int, url: sa.URL) -> None:
    """Wait for the lock in the kernel's queue, but not forever: its holder may be stopped.

    Raises LedgerLocked, after which the handle has to be closed, and LedgerUnavailable.
    """
    import fcntl

    database = url.database
    failures: list[OSError] = []

    def wait() -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            failures.append(error)

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    except BlockingIOError:
        # flock has no timeout, so a thread waits; when it comes too late, the closed handle lets go at once.
        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        waiter.join(BUSY_TIMEOUT_MS / 1000)
    except OSError as error:
        failures.append(error)
    if failures:
        raise LedgerUnavailable(
            f"the ledger's lock {database}.lock cannot be taken ({failures[0].strerror}); {_way_out(failures[0])}"
        ) from failures[0]
    if waiter.is_alive():
        raise LedgerLocked(
            f"the ledger {database} is locked by another process for {BUSY_TIMEOUT_MS // 1000} s; "
            "see which one hangs, and try again"
        )


def _way_out(error: OSError) -> str:
    """Return what a person can do where a lock's file cannot be opened or locked."""
    if error.errno in NO_LOCKS:
        return (
            "no file can be locked on that file system: name a ledger on a local disk "
            "(sqlite:////path/to/ledger.db) or a PostgreSQL server with `ledger_url`"
        )
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return "close programs or raise the limit (`ulimit -n`), then run the same command again"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "free some space, then run the same command again"
    return "check that its folder exists and that you may write there"
