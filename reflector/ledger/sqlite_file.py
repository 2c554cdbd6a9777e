"""The file of a SQLite ledger, and which SQLite opens it.

Invariant: a new file is its owner's alone, and no link below a `.claude` leads to a ledger: the file is created and
looked at here, through its folder, before SQLite opens it by its path.
"""

from __future__ import annotations

import os
import stat
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
#: SQLite's own limit is 512 bytes, with what it puts behind a name.
_LONGEST_PATH = 500
#: What SQLite puts beside a database, by its path.
_BESIDE = ("", "-wal", "-shm", "-journal")


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


def refuse_journal(path: Path) -> None:
    """Raise LedgerUnavailable where a rollback journal lies beside a database file.

    A ledger of ours writes ahead and leaves none, and SQLite does what a journal says, such as remove another file.
    """
    with folder_of(path) as folder:
        journal = _stat(folder, f"{path.name}-journal")
    if journal is not None and journal.st_size:
        raise LedgerUnavailable(
            f"{path}-journal lies beside the ledger, and no ledger of reflector leaves one: another program changed "
            "the file, or an archive brought both. Remove it, or restore a backup with `reflector ledger restore FILE`"
        )


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
                "restore a backup with `reflector ledger restore FILE`, or begin a new ledger with "
                "`reflector rebuild --new-ledger`: its counters begin at 0, so that sessions may be imported again"
            )
        _make(folder, path)


def open_file(path: Path, **options: Any) -> Any:
    """Return a driver's connection to a database file, which is made where it is missing.

    Raises LedgerUnavailable, OSError, and the driver's errors.
    """
    path = path.absolute()
    if "/.claude/" not in path.as_posix():  # the user's own choice of a place
        path = path.resolve()
    if (length := len(os.fsencode(path))) > _LONGEST_PATH:
        raise LedgerUnavailable(
            f"the path of the ledger has {length} bytes, and SQLite opens none of more than {_LONGEST_PATH}: {path}; "
            "move the project up, or name a ledger elsewhere with REFLECTOR_LEDGER_URL"
        )
    refuse_journal(path)
    with folder_of(path) as folder:
        _make(folder, path)
    return sqlite_module().connect(f"{path.as_uri()}?mode=rw", uri=True, **options)


def _make(folder: Folder, path: Path) -> None:
    """Create the file in the folder if it is missing. Raises LedgerUnavailable for what is not a regular file."""
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


def _stat(folder: Folder, name: str) -> os.stat_result | None:
    try:
        return folder.stat(name)
    except FileNotFoundError:
        return None
