"""The file of a SQLite ledger, the SQLite that opens it, and the lock of its writers.

Invariant: a new file belongs to its owner alone, and no link below a `.claude` leads to a ledger.
This module creates and checks the file through its folder, before SQLite opens it by its path. A
writer holds a file lock in addition to SQLite's own, and a stopped writer blocks others for at most
`BUSY_TIMEOUT_MS`. BEGIN IMMEDIATE alone never fails but is unfair: eight writers waited up to 2 s
for it.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from reflector.files import Folder, folder_of, lock
from reflector.ledger.errors import LedgerGone, LedgerLocked, LedgerUnavailable
from reflector.waiting import holder_of, wait_for

if TYPE_CHECKING:
    from reflector.ledger.url import Url

#: Earlier versions of SQLite can lose a commit when a checkpoint races a writer (the WAL-reset
#: bug).
SOUND_SQLITE = (3, 51, 3)
#: SQLite's own limit is 512 bytes, including its suffixes.
_LONGEST_PATH = 500

BUSY_TIMEOUT_MS = 30_000
#: The system's errors for a file system without file locks.
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


@cache
def sqlite_module() -> ModuleType:
    """Return the wheel's SQLite (pysqlite3) if it is sound, else the newer one of it and the
    interpreter's.
    """
    wheel: ModuleType | None = None
    with suppress(ImportError):
        wheel = import_module("pysqlite3.dbapi2")
    if wheel and wheel.sqlite_version_info >= SOUND_SQLITE:
        return wheel
    import sqlite3

    if wheel is None or sqlite3.sqlite_version_info >= wheel.sqlite_version_info:
        return sqlite3
    return wheel


def had_ledger(path: Path) -> bool:
    """Return whether this file was ever used as a SQLite ledger, even if it is missing now."""
    return os.path.lexists(f"{path}.lock")


def refuse_journal(path: Path) -> None:
    """Raise LedgerUnavailable if a rollback journal is beside a database file.

    reflector's ledgers use a write-ahead log and have no such journal. SQLite obeys a journal,
    which can for example remove another file.
    """
    with folder_of(path) as folder:
        journal = _stat(folder, f"{path.name}-journal")
    if journal and journal.st_size:
        raise LedgerUnavailable(
            f"next to the ledger is {path}-journal, a file that reflector never writes. If the "
            "ledger and this file came with an archive, remove this file. If another program "
            "changed the ledger, restore a backup with `reflector ledger restore FILE`"
        )


def claim_file(path: Path) -> None:
    """Create a missing ledger file for its owner only.

    Raises: LedgerGone if there was a ledger before, because continuing with an empty one would lose
    it silently.
    """
    with folder_of(path) as folder:
        # Checked before the file, because a first use creates the lock after the database's first
        # page.
        was_used = _stat(folder, f"{path.name}.lock") is not None
        there = _stat(folder, path.name)
        if was_used and (there is None or (stat.S_ISREG(there.st_mode) and there.st_size == 0)):
            state = "missing" if there is None else "empty"
            raise LedgerGone(
                f"the ledger {path} is {state}, but {path.name}.lock shows that it existed; "
                "restore a backup with `reflector ledger restore FILE`. To start a new ledger with "
                f"the rules and counters of playbook.json, remove {path}*"
            )
        _make(folder, path)


def connect_file(path: Path, **options: Any) -> Any:
    """Return a driver's connection to a database file, which is created if it is missing.

    Raises: LedgerUnavailable, OSError, and the driver's errors.
    """
    path = path.absolute()
    if "/.claude/" not in path.as_posix():  # the user's own choice of a place
        path = path.resolve()
    if (length := len(os.fsencode(path))) > _LONGEST_PATH:
        raise LedgerUnavailable(
            f"the path of the ledger has {length} bytes, more than SQLite's limit of "
            f"{_LONGEST_PATH}: {path}. Move the project to a shorter path, or name a ledger "
            "elsewhere with REFLECTOR_LEDGER_URL"
        )
    refuse_journal(path)
    with folder_of(path) as folder:
        _make(folder, path)
    return sqlite_module().connect(f"{path.as_uri()}?mode=rw", uri=True, **options)


def _make(folder: Folder, path: Path) -> None:
    """Create the file in the folder if it is missing.

    Raises: LedgerUnavailable unless it is a regular file.
    """
    if _stat(folder, path.name) is None:
        with suppress(FileExistsError):
            # An existing file is not opened, because closing it would release the locks that this
            # process holds on it.
            os.close(folder.open(path.name, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    _refuse_irregular(folder.stat(path.name), path)


def _refuse_irregular(there: os.stat_result, path: Path) -> None:
    """Raise LedgerUnavailable unless it is a regular file."""
    if not stat.S_ISREG(there.st_mode):
        what = "a link" if stat.S_ISLNK(there.st_mode) else "not a regular file"
        raise LedgerUnavailable(
            f"the ledger {path} is {what}; put the ledger's file at this path, or name another "
            f"project with --project. To start a new ledger, remove {path}"
        )


def _stat(folder: Folder, name: str) -> os.stat_result | None:
    try:
        return folder.stat(name)
    except FileNotFoundError:
        return None


def can_be_written(path: Path) -> bool:
    """Return whether a ledger's file can be written, or created if it is missing. SQLite writes two
    files beside it, and reflector its lock.
    """
    files = [f"{path}{end}" for end in ("", "-wal", "-shm", ".lock")]
    existing = [str(path.parent), *filter(os.path.lexists, files)]
    is_effective = os.access in os.supports_effective_ids
    return all(os.access(name, os.W_OK, effective_ids=is_effective) for name in existing)


def copy_of(path: Path, folder: Path) -> Path:
    """Copy the file of a read-only ledger to a folder, with the content of its -wal, and return the
    copy. It is one state of the ledger, even if others write to it by another path.

    Raises: LedgerUnavailable, LedgerLocked, OSError.
    """
    refuse_journal(path)
    until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    with folder_of(path) as source:
        while True:
            with _writers_kept_out(source, path, until):
                before = _states(source, path)
                for name in before:
                    with (
                        open(source.open(name), "rb") as original,
                        (folder / name).open("wb") as copy,
                    ):
                        while part := original.read(1 << 20):
                            copy.write(part)
                # A process that ends moves the content of the -wal into the file, without a lock of
                # reflector.
                if _states(source, path) == before:
                    return folder / path.name
            if time.monotonic() >= until:
                raise LedgerLocked(
                    f"other processes keep writing to {path}, so reflector did not copy this "
                    "ledger; try again later"
                )


def _states(folder: Folder, path: Path) -> dict[str, tuple[int, ...]]:
    """Return values that change if the files of a ledger change, by file name, the main file first.

    Raises: LedgerUnavailable.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name in (path.name, f"{path.name}-wal"):
        if there := _stat(folder, name):
            _refuse_irregular(there, path)
            found[name] = (there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns)
    return found


@contextmanager
def _writers_kept_out(folder: Folder, path: Path, until: float) -> Iterator[None]:
    """Hold the lock of a ledger's writers as a shared lock, if the lock file can be opened.

    Raises: LedgerLocked.
    """
    try:
        handle = folder.open(f"{path.name}.lock")
    except OSError:
        yield
        return
    try:
        while not _locked_shared(handle):
            if time.monotonic() >= until:
                who = holder_of(handle, f"{path}.lock")
                raise LedgerLocked(
                    f"the ledger {path} has been locked for {BUSY_TIMEOUT_MS / 1000:g} s by {who}"
                )
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)


def _locked_shared(handle: int) -> bool:
    try:
        return lock(handle, wait=False, shared=True)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return True
        raise


@contextmanager
def file_lock(url: Url, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a SQLite ledger's writers. Other ledgers need none. The wait is limited,
    because the holder may be a stopped process.

    Raises: LedgerLocked, LedgerUnavailable.
    """
    if url.dialect != "sqlite" or url.in_memory:
        yield
        return
    file = Path(f"{url.database}.lock")
    doing = "opened"
    with ExitStack() as stack:
        try:
            with folder_of(file) as folder:
                handle = folder.open(file.name, os.O_RDWR | os.O_CREAT)
            stack.callback(os.close, handle)  # closing releases the lock
            doing = "locked"
            seconds = BUSY_TIMEOUT_MS / 1000 if wait else 0.0
            if not wait_for(handle, seconds):
                who = holder_of(handle, str(file))
                raise LedgerLocked(
                    f"the ledger {url.database} has been locked for {seconds:g} s by {who}"
                )
        except OSError as error:
            raise _refused(file, doing, error) from error
        yield


def _refused(file: Path, doing: str, error: OSError) -> LedgerUnavailable:
    way_out = f"check that {file.parent} exists, and that you may write in this folder"
    if error.errno in NO_LOCKS:
        way_out = (
            "the file system of this file cannot lock files: set `ledger_url` to a ledger on a "
            "local disk (sqlite:////path/to/ledger.db) or on a PostgreSQL server"
        )
    elif error.errno in {errno.EMFILE, errno.ENFILE}:
        way_out = "close programs or raise the limit (`ulimit -n`), then run the same command again"
    elif error.errno in {errno.ENOSPC, errno.EDQUOT}:
        way_out = "free some space, then run the same command again"
    return LedgerUnavailable(
        f"the ledger's lock {file} cannot be {doing} ({error.strerror}); {way_out}"
    )
