"""The file whose lock is the queue of the writers in front of SQLite's own.

Invariant: who writes to a SQLite ledger holds this lock, and one who is stopped while he holds it stops the others for
`BUSY_TIMEOUT_MS` at most.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.files import folder_of
from reflector.ledger.errors import LedgerLocked, LedgerUnavailable
from reflector.ledger.turns import Turns

if TYPE_CHECKING:
    from reflector.ledger.url import Url

BUSY_TIMEOUT_MS = 30_000
#: What the system says of a file system on which no file can be locked.
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


@contextmanager
def file_lock(url: Url) -> Iterator[None]:
    """Hold the lock that every writer of a SQLite ledger queues for, once. Raises as `Lock.held` does."""
    lock = Lock(url)
    try:
        with lock.held():
            yield
    finally:
        lock.close()


class Lock:
    """The lock that every writer of a SQLite ledger queues for; nothing for other ledgers, and where no file can be
    locked (Windows): there BEGIN IMMEDIATE and its busy timeout serialise, only less fairly.

    Its file stays open from one use to the next; used by one thread at a time.
    """

    def __init__(self, url: Url) -> None:
        self._database = url.database
        is_queued = url.dialect == "sqlite" and not url.in_memory and find_spec("fcntl") is not None
        self._turns = Turns(self._opened) if is_queued else None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock and hold it, but do not wait forever: its holder may be stopped.

        Raises LedgerLocked, LedgerUnavailable.
        """
        if self._turns is None:
            yield
            return
        try:
            came = self._turns.take(BUSY_TIMEOUT_MS / 1000)
        except OSError as error:
            self.close()
            raise LedgerUnavailable(
                f"the ledger's lock {self._database}.lock cannot be taken ({error.strerror}); {_way_out(error)}"
            ) from error
        if not came:
            raise LedgerLocked(
                f"the ledger {self._database} is locked by another process for {BUSY_TIMEOUT_MS // 1000} s; "
                "see which one hangs, and try again"
            )
        try:
            yield
        finally:
            self._turns.leave()

    def close(self) -> None:
        """Let go of the lock's file."""
        if self._turns is not None:
            self._turns.close()

    def _opened(self) -> int:
        try:
            lock = Path(f"{self._database}.lock")
            with folder_of(lock) as folder:
                return folder.open(lock.name, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise LedgerUnavailable(
                f"the ledger's lock {self._database}.lock cannot be opened ({error.strerror}); {_way_out(error)}"
            ) from error


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
