"""The file whose lock is the queue of the writers in front of SQLite's own.

Invariant: who writes to a SQLite ledger holds this lock, and one who is stopped while he holds it stops the others for
`BUSY_TIMEOUT_MS` at most.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from reflector.files import folder_of
from reflector.ledger.errors import LedgerLocked, LedgerUnavailable
from reflector.ledger.url import Url

BUSY_TIMEOUT_MS = 30_000
#: What the system says of a file system on which no file can be locked.
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


@contextmanager
def file_lock(url: Url) -> Iterator[None]:
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


def open_lock(url: Url) -> int | None:
    """Return the file whose lock is the queue in front of BEGIN IMMEDIATE: the kernel wakes waiters in turn, SQLite's
    busy handler polls. None where there is no such file or no such lock."""
    if url.dialect != "sqlite" or url.in_memory:
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


def queue_for(handle: int, url: Url) -> None:
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
