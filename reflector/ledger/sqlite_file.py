"""The file of a SQLite ledger: made for its owner, opened where it was made, and known to be that one.

Invariant: SQLite opens the file in the ledger's folder, and no link below a `.claude` leads there. SQLite uses paths,
and a user who can write above that folder can replace it at any moment. So the file is created here and not by SQLite.
Before anything is written, the files that SQLite has open are compared with those in the folder, and files that it
created elsewhere are removed.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from reflector.files import Folder, folder_of
from reflector.ledger.errors import LedgerGone, LedgerUnavailable

#: SQLite before this can lose a commit when a checkpoint races a writer (the WAL-reset bug).
SOUND_SQLITE = (3, 51, 3)
#: What SQLite puts beside a database, by its path.
_BESIDE = ("", "-wal", "-shm", "-journal")
#: Descriptors that appear are one connection's.
_ONE_AT_A_TIME = threading.Lock()

_Identity = tuple[int, int]


@cache
def sqlite_module() -> ModuleType:
    """The wheel's SQLite (pysqlite3) where it is sound, else the newer one of it and the interpreter's."""
    wheel: ModuleType | None = None
    with suppress(ImportError):
        wheel = import_module("pysqlite3.dbapi2")
    if wheel is not None and wheel.sqlite_version_info >= SOUND_SQLITE:
        return wheel
    import sqlite3

    if wheel is None or sqlite3.sqlite_version_info >= wheel.sqlite_version_info:
        return sqlite3
    return wheel


def had_ledger(path: Path) -> bool:
    """Return whether a SQLite ledger was used in this file, whether or not it is still there."""
    return os.path.lexists(f"{path}.lock")


def forget_ledger(path: Path) -> None:
    """Remove what a ledger that is gone left beside its file, so that a new one may begin there. Raises OSError."""
    with folder_of(path) as folder:
        for suffix in (*_BESIDE[1:], "", ".lock"):
            with suppress(FileNotFoundError):
                folder.remove(f"{path.name}{suffix}")


def claim_file(path: Path) -> None:
    """Create a missing ledger file for its owner only.

    Raises LedgerGone where there was a ledger before: going on with an empty one would lose it silently.
    """
    with folder_of(path) as folder:
        # Looked at before the file: a first use makes the lock after the database's first page.
        was_used = _stat(folder, f"{path.name}.lock") is not None
        there = _stat(folder, path.name)
        if was_used and (there is None or (stat.S_ISREG(there.st_mode) and there.st_size == 0)):
            state = "missing" if there is None else "empty"
            raise LedgerGone(
                f"the ledger {path} is {state}, but {path.name}.lock shows that there was one; "
                "restore a backup with `reflector restore FILE`, or begin a new ledger with "
                "`reflector rebuild --new-ledger`: its counters begin at 0, so that sessions may be imported again"
            )
        _made(folder, path)


def open_file(path: Path, prepare: Callable[[Any], None], **options: Any) -> Any:
    """Return a driver's connection to a database file, which is made where it is missing, and `prepare` run on it.

    `prepare` reads from it, so that SQLite opens all that it needs. Raises LedgerUnavailable, OSError, and the driver's
    errors.
    """
    path = path.absolute()
    if "/.claude/" not in path.as_posix():  # the user's own choice of a place
        path = path.resolve()
    with _ONE_AT_A_TIME, folder_of(path) as folder:
        wanted = _made(folder, path)
        before = set(_open_files())
        connection = sqlite_module().connect(f"{path.as_uri()}?mode=rw", uri=True, **options)
        try:
            opened = set(_open_files()) - before
            # SQLite uses a descriptor again that another connection to this file left; what is new is then a thread's.
            if opened and wanted not in {identity for _, identity in opened | before}:
                raise _swapped(path)
            prepare(connection)
            strays = _strays(folder, path, set(_open_files()) - before)
        except BaseException:
            connection.close()
            raise
        if strays:
            connection.close()
            for stray in strays:
                if not (stray.parent / path.name).exists():  # else it is another ledger's
                    stray.unlink(missing_ok=True)
            raise _swapped(path)
    return connection


def _made(folder: Folder, path: Path) -> _Identity:
    """Return the identity of the file in the folder, which is created if it is missing. Raises LedgerUnavailable."""
    if _stat(folder, path.name) is None:
        with suppress(FileExistsError):
            # Not opened where it is there: closing it would let go of the locks that this process holds on it.
            os.close(folder.open(path.name, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    there = folder.stat(path.name)
    if not stat.S_ISREG(there.st_mode):
        what = "a link" if stat.S_ISLNK(there.st_mode) else "not a regular file"
        raise LedgerUnavailable(
            f"the ledger {path} is {what}; put the file itself there, remove it to begin a new ledger, or name another "
            "project with --project"
        )
    return there.st_dev, there.st_ino


def _stat(folder: Folder, name: str) -> os.stat_result | None:
    try:
        return folder.stat(name)
    except FileNotFoundError:
        return None


def _open_files() -> Iterator[tuple[int, _Identity]]:
    """Yield the regular files that this process has open, by descriptor; none if the system does not list them."""
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208
    except OSError:
        return
    for number in numbers:
        with suppress(OSError):  # that of the list itself, and another thread's
            found = os.fstat(number)
            if stat.S_ISREG(found.st_mode):
                yield number, (found.st_dev, found.st_ino)


def _strays(folder: Folder, path: Path, opened: set[tuple[int, _Identity]]) -> list[Path]:
    """Return where SQLite put files beside the database that are not in its folder; Linux gives the path."""
    strays = []
    for number, identity in opened:
        try:
            where = Path(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115
        except OSError:
            continue
        if where.name not in {f"{path.name}{suffix}" for suffix in _BESIDE}:
            continue
        there = _stat(folder, where.name)
        if there is None or identity != (there.st_dev, there.st_ino):
            strays.append(where)
    return strays


def _swapped(path: Path) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"the folder of the ledger {path} was replaced while it was opened; see who may write above it, and try again"
    )
