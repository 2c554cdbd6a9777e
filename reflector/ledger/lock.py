"""The file whose lock a writer holds before SQLite's own.

Invariant: who writes to a SQLite ledger holds this lock, and one who is stopped while holding it stops the others for
`BUSY_TIMEOUT_MS` at most. BEGIN IMMEDIATE alone never fails but is unfair: eight writers waited up to 2 s for it.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reflector.files import folder_of, lock
from reflector.ledger.errors import LedgerLocked, LedgerUnavailable

if TYPE_CHECKING:
    from reflector.ledger.url import Url

BUSY_TIMEOUT_MS = 30_000
#: Seconds between two questions for the lock: the first, and the most.
_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01
#: What the system says of a file system on which no file can be locked.
NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


@contextmanager
def file_lock(url: Url, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a SQLite ledger's writers, and nothing for other ledgers. Who waits for it does not wait
    forever, for its holder may be stopped.

    Raises LedgerLocked, LedgerUnavailable.
    """
    if url.dialect != "sqlite" or url.in_memory:
        yield
        return
    file, doing = Path(f"{url.database}.lock"), "opened"
    with ExitStack() as stack:
        try:
            with folder_of(file) as folder:
                handle = folder.open(file.name, os.O_RDWR | os.O_CREAT)
            stack.callback(os.close, handle)  # which lets go of the lock
            doing = "locked"
            _take(url.database, handle, BUSY_TIMEOUT_MS / 1000 if wait else 0.0)
        except OSError as error:
            raise _refused(file, doing, error) from error
        yield


def _take(database: str, handle: int, seconds: float) -> None:
    until, pause = time.monotonic() + seconds, _PAUSE
    while not lock(handle, wait=False):
        if time.monotonic() >= until:
            raise LedgerLocked(
                f"another process holds the ledger {database} for {seconds:g} s; see which one hangs, and try again"
            )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _refused(file: Path, doing: str, error: OSError) -> LedgerUnavailable:
    way_out = "check that its folder exists and that you may write there"
    if error.errno in NO_LOCKS:
        way_out = (
            "no file can be locked on that file system: name a ledger on a local disk "
            "(sqlite:////path/to/ledger.db) or a PostgreSQL server with `ledger_url`"
        )
    elif error.errno in {errno.EMFILE, errno.ENFILE}:
        way_out = "close programs or raise the limit (`ulimit -n`), then run the same command again"
    elif error.errno in {errno.ENOSPC, errno.EDQUOT}:
        way_out = "free some space, then run the same command again"
    return LedgerUnavailable(f"the ledger's lock {file} cannot be {doing} ({error.strerror}); {way_out}")
