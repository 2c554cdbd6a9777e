"""Copies a SQLite ledger into another file, for example the copy that an upgrade leaves beside the
ledger.

Invariant: the copy of an upgrade is one state of the ledger, which no writer changes before the
upgrade, in one file that only its owner can read. It gets its name when it is completely on disk.
The rest of a killed process has another name and is removed with the next copy. The newest copy is
kept. A text that is erased from the ledger does not stay in it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.files import error_words, folder_of
from reflector.ledger.errors import LedgerError, LedgerUnavailable, translated
from reflector.ledger.sqlite_file import sqlite_module
from reflector.ledger.statements import Statements

if TYPE_CHECKING:
    from reflector.files import Folder

_OF_UPGRADE = re.compile(r"\.revision-(\d{4})")
_UNFINISHED = ".revision.tmp"
_TABLES = (
    "SELECT count(*) FROM sqlite_master WHERE name IN ('event', 'playbook') AND type = 'table'"
)
_HEADS = "SELECT name, origin, position, chain FROM playbook"


class Before(NamedTuple):
    """A copy of a ledger from before an upgrade: its file, the earlier revision of its schema, and
    the time of the copy (seconds).
    """

    file: Path
    revision: str
    copied_at: float


@contextmanager
def open_database(path: Path, mode: str = "rw") -> Iterator[Any]:
    """A connection to an existing database file. Errors inside name the last opened file."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    with (
        translated(str(path)),
        closing(
            sqlite_module().connect(uri, uri=True, isolation_level=None, timeout=30)
        ) as connection,
    ):
        yield connection


def copy_database(source: Path, to: Path, mode: str = "rw") -> None:
    """Copy a database into a new file that only its owner can read. The copy is one state, without
    the free pages, which could still contain an erased text.

    Raises: LedgerError, OSError.
    """
    to.touch(mode=0o600, exist_ok=False)
    with open_database(source, mode) as connection:
        connection.execute("VACUUM INTO ?", (str(to),))


def settle_database(path: Path) -> None:
    """Move the whole content of a database into its one file, on disk."""
    with open_database(path) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    with path.open("rb") as file:
        os.fsync(file.fileno())


def before_upgrade(ledger: Path) -> Before | None:
    """Return the copy that the newest upgrade of a ledger left beside it. No file is opened."""
    copies = _copies(ledger)
    return max(copies, key=lambda copy: copy.copied_at) if copies else None


def keep_before_upgrade(ledger: Path, revision: str) -> Path:
    """Copy a ledger beside itself before its upgrade, remove earlier copies, and return the copy.
    The caller must hold the writers' lock.

    Raises: LedgerUnavailable; the ledger must not be upgraded then.
    """
    kept = ledger.with_name(f"{ledger.name}.revision-{revision}")
    staged = ledger.with_name(f".{ledger.name}{_UNFINISHED}")
    try:
        with folder_of(ledger) as folder:
            try:
                _remove_staged(folder, staged.name)
                copy_database(ledger, staged)
                settle_database(staged)
                folder.replace(staged.name, kept.name)
            finally:
                _remove_staged(folder, staged.name)
            for earlier in _copies(ledger):
                if earlier.file != kept:
                    folder.remove(earlier.file.name, missing_ok=True)
    except (LedgerError, OSError) as error:
        raise LedgerUnavailable(
            f"an earlier version of reflector wrote {ledger}. reflector could not copy this "
            f"ledger ({error_words(error)}), so reflector did not upgrade the ledger. Free "
            f"{ledger.stat().st_size:,} bytes in {ledger.parent}, or make this folder writable, "
            "then run the same command again"
        ) from error
    return kept


def has_head(copied: Path, name: str, head: tuple[str, int, str]) -> bool:
    """Return whether a copy ends at the same head as a playbook: (origin, position, chain)."""
    try:
        with looking(copied) as connection:
            return (name, *head) in connection.execute(_HEADS).fetchall()
    except LedgerError:
        return False


def drop_erased(ledger: Path, sql: Statements) -> Path | None:
    """Remove the copy of an upgrade if it contains the data of an event that was erased since then.
    Return its path, or None if nothing was removed.

    Raises: OSError.
    """
    before = before_upgrade(ledger)
    if before is None:
        return None
    erased = [
        row[0] for row in sql.execute("SELECT event_id FROM event WHERE data IS NULL").fetchall()
    ]
    if not erased or not _holds(before.file, erased):
        return None
    with folder_of(before.file) as folder:
        folder.remove(before.file.name, missing_ok=True)
        folder.sync()
    return before.file


def _holds(copied: Path, erased: list[str]) -> bool:
    """Return whether a copy has the data of one of these events. For an unreadable copy this is
    unknown, so True.
    """
    try:
        with looking(copied) as connection:
            copy = Statements(connection.cursor(), "sqlite", 0)
            query = "SELECT 1 FROM event WHERE data IS NOT NULL AND event_id IN ? LIMIT 1"
            return copy.execute(query, erased).fetchone() is not None
    except LedgerError:
        return True


@contextmanager
def looking(copied: Path) -> Iterator[Any]:
    """A connection that only reads a ledger's copy and does not trust its content, because the file
    may come from a repository.

    Raises: LedgerUnavailable for another file.
    """
    with open_database(copied, "ro") as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        if connection.execute(_TABLES).fetchone() != (2,):
            raise LedgerUnavailable(f"{copied} is not a ledger of reflector")
        yield connection


def _copies(ledger: Path) -> list[Before]:
    """Return the copies of a ledger that were made before its upgrades."""
    found = []
    with suppress(OSError):
        for name in os.listdir(ledger.parent):  # noqa: PTH208 - names, not paths
            suffix = name.removeprefix(ledger.name)
            match = _OF_UPGRADE.fullmatch(suffix)
            if match is None or suffix == name:
                continue
            state = os.lstat(ledger.with_name(name))
            if stat.S_ISREG(state.st_mode):
                found.append(Before(ledger.with_name(name), match[1], state.st_mtime))
    return found


def _remove_staged(folder: Folder, name: str) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        folder.remove(f"{name}{suffix}", missing_ok=True)
