"""Sets that outgrow the memory, kept in a file while a ledger is verified.

Invariant: at most `_HELD` members of a set are in memory. A small set never makes a file; the file is readable by its
owner only, and is removed in the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Self

from reflector.ledger.sqlite_file import sqlite_module

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

_HELD: Final = 1 << 16


class Scratch:
    """A database of our own beside the ledger's, made when something does not fit into memory."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._connection: Any = None
        self._tables = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._folder is not None:
            self._folder.cleanup()

    def table(self, columns: str, key: str) -> tuple[Any, str]:
        """Make a table with a primary key; return the connection that it is on, and its name."""
        if self._connection is None:
            from tempfile import TemporaryDirectory

            self._folder = TemporaryDirectory(prefix="reflector-verify-")
            path = os.path.join(self._folder.name, "scratch.db")  # noqa: PTH118
            self._connection = sqlite_module().connect(path, isolation_level=None, check_same_thread=False)
            for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-8000", "locking_mode=EXCLUSIVE"):
                self._connection.execute(f"PRAGMA {pragma}")
        self._tables += 1
        name = f"scratch_{self._tables}"
        self._connection.execute(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key})) WITHOUT ROWID")
        return self._connection, name


class SortedSet:
    """A set of rows, given out in order. `columns` and their types are those of a table of SQLite."""

    def __init__(self, scratch: Scratch, **columns: str) -> None:
        self._scratch = scratch
        self._columns = columns
        self._new: list[tuple[Any, ...]] = []
        self._kept: tuple[Any, str] | None = None

    def update(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows, those again that are there already."""
        self._new.extend(rows)
        if len(self._new) >= _HELD:
            self._flush()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if self._kept is None:
            yield from sorted(set(self._new))
            return
        self._flush()
        connection, table = self._kept
        yield from connection.execute(f"SELECT * FROM {table} ORDER BY {', '.join(self._columns)}")  # noqa: S608

    def _flush(self) -> None:
        if self._kept is None:
            columns = ", ".join(f"{name} {type_} NOT NULL" for name, type_ in self._columns.items())
            self._kept = self._scratch.table(columns, ", ".join(self._columns))
        connection, table = self._kept
        marks = ", ".join("?" * len(self._columns))
        connection.execute("BEGIN")
        # In order: then each page of the table is written once for a thousand rows.
        connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", sorted(self._new))  # noqa: S608
        connection.execute("COMMIT")
        self._new.clear()
