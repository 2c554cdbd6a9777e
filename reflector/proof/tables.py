"""Compares the tables with the events: the projector fills the tables of a scratch database from
the same events, and the two are compared row by row.

Invariant: a ledger without a finding equals its own rebuild. The scratch database is a file in the
folder for temporary files. The file's name is removed before the file gets any content. Nothing is
written to the ledger.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path
from tempfile import mkstemp
from typing import Any, Final

from reflector.events.event import (
    BULLET_ASSERTED,
    BULLET_RECOUNTED,
    BULLET_TAGGED,
    EVIDENCE_RETRACTED,
    POLICY_ADOPTED,
    Event,
)
from reflector.ledger.columns import NUMBER_COLUMNS
from reflector.ledger.counters import ENTRY_COLUMNS
from reflector.ledger.migration import EARLIER, made_digest, schema
from reflector.ledger.projection import REBUILDABLE, Projector, odd_checkpoints
from reflector.ledger.reader import of_types
from reflector.ledger.sqlite_file import sqlite_module
from reflector.ledger.statements import TABLES, Statements, set_checkpoint
from reflector.ledger.usage import is_row_sound
from reflector.mistakes import Finding
from reflector.playbook.bullet import DEFAULT
from reflector.proof.reading import REBUILD, stream

_PAGE = 4000
#: The maximum number of differences that are named for a table. An emptied table is one problem,
#: not a million.
_MOST = 20
#: The columns of events that the projector reads.
_HEADER = ("position", "event_id", "type", "session_id", "reflection_id", "target_id")
_EVENTS = (
    f"CREATE TABLE event (playbook_id INTEGER, {', '.join(_HEADER)}, PRIMARY KEY (playbook_id, "
    "position))"
    " WITHOUT ROWID",
    "CREATE INDEX event_by_id ON event (playbook_id, event_id)",
    "CREATE INDEX event_by_target ON event (playbook_id, target_id) WHERE target_id IS NOT NULL",
)
_COUNT_AGAIN = of_types((EVIDENCE_RETRACTED, POLICY_ADOPTED, BULLET_RECOUNTED))
_COUNTS_AGAIN = (
    "SELECT 1 FROM event"  # noqa: S608
    f" WHERE playbook_id = ? AND {_COUNT_AGAIN} LIMIT 1"
)
#: The columns of each table, its key first.
_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "tag": ("position", "name", "tag", "session_id", "reflection_id", "active"),
    "session_window": ("position", "event_id", "session_id", "state", "attempts", "changed_at"),
    "record": ("key",),
    "retraction": ("event_id", "target_id", "active"),
    "bullet": (*ENTRY_COLUMNS, "helpful", "harmful"),
    "projection": ("name", "code_version", "policy_id", "position", "updated_at"),
}


class Rebuilt:
    """The tables as a rebuild would fill them. It takes each event once, in order."""

    def __init__(self, ledger: Statements) -> None:
        # The wheel's SQLite is built to keep its own temporary database in memory.
        handle, path = mkstemp(prefix="reflector-")
        try:
            os.close(handle)
            self._connection = sqlite_module().connect(
                path, isolation_level=None, check_same_thread=False
            )
            for setting in (
                "cache_size=-64000",
                "journal_mode=OFF",
                "synchronous=OFF",
                "locking_mode=EXCLUSIVE",
            ):
                self._connection.execute(f"PRAGMA {setting}")
            self._connection.execute("BEGIN EXCLUSIVE")
        finally:
            Path(path).unlink()
        for name, statement in schema("sqlite").items():
            if name in (*REBUILDABLE, "projection", "tag_count", "retraction_by_target"):
                self._connection.execute(statement)
        for statement in _EVENTS:
            self._connection.execute(statement)
        self.sql = Statements(self._connection.cursor(), "sqlite", ledger.id)
        #: Whether the events of tags are needed. These are most events, and only counting tags
        #: again reads them.
        self._counts_again = ledger.row(_COUNTS_AGAIN) is not None
        set_checkpoint(self.sql, TABLES, DEFAULT, 0, "")
        self._projector = Projector(self.sql)
        self._page: list[Event] = []

    def close(self) -> None:
        """Close the scratch database, which removes it."""
        self._connection.close()

    def take(self, event: Event) -> Finding | None:
        """Take an event, and return the finding about a wrong assertion.

        Raises: one of `MALFORMED` for data that no event has.
        """
        self._page.append(event)
        if event.type == BULLET_ASSERTED and event.data:
            self._project()
            return self._assertion(event.position, event.data)
        if len(self._page) >= _PAGE:
            self._project()
        return None

    def _project(self) -> None:
        page = self._page
        self._page = []
        rare = (
            page if self._counts_again else [event for event in page if event.type != BULLET_TAGGED]
        )
        self.sql.insert("event", _HEADER, [attrgetter(*_HEADER)(event) for event in rare])
        self._projector.project(page)

    def _assertion(self, position: int, data: Any) -> Finding | None:
        """Return a finding if recorded counters differ from those that the events give."""
        name = data["name"]
        wanted = (data["helpful"], data["harmful"])
        row = self.sql.row(
            "SELECT helpful, harmful FROM bullet WHERE playbook_id = ? AND name = ?", name
        )
        if row is None:
            return Finding(
                "assertion",
                position,
                f"this event records counters of {name}, but this rule does not exist",
                "see `reflector log`",
            )
        if tuple(row) == wanted:
            return None
        what = (
            f"this event records {wanted[0]} helpful, {wanted[1]} harmful for {name}, but the "
            f"sum of the earlier events is {row[0]} helpful, {row[1]} harmful"
        )
        return Finding("assertion", position, what, f"see `reflector blame {name}`")

    def findings(self, ledger: Statements) -> Iterator[Finding]:
        """Yield the rows in which the ledger's tables differ from these."""
        self._project()
        for table, columns in _COLUMNS.items():
            names = ", ".join(f'"{column}"' for column in columns)
            only = f" AND name = '{TABLES}'" if table == "projection" else ""
            there, made = (
                map(tuple, stream(sql, table, names, only, _order(sql, columns[0])))
                for sql in (ledger, self.sql)
            )
            found = _differences(table, columns, there, made)
            for position, what in islice(found, _MOST):
                yield Finding("projection", position, what, REBUILD)
            if table == "projection":
                yield from _odd_checkpoints(ledger)
            if more := sum(1 for _ in found):
                yield Finding(
                    "projection",
                    None,
                    f"{more} more rows of the table {table} differ from the events",
                    REBUILD,
                )


def _order(sql: Statements, key: str) -> str:
    """Return the SQL order of a key; texts are ordered by their bytes."""
    is_text = key not in NUMBER_COLUMNS
    return f'"{key}" COLLATE "C"' if is_text and sql.postgres else f'"{key}"'


def _odd_checkpoints(sql: Statements) -> Iterator[Finding]:
    """Yield the checkpoints that reflector did not write, and a fault of `cached_usage`."""
    made = sql.rows("SELECT state_hash FROM projection WHERE playbook_id = ? AND name = ?", TABLES)
    for name in [
        TABLES for (digest,) in made if digest not in (*EARLIER, made_digest())
    ] + odd_checkpoints(sql):
        yield Finding(
            "projection",
            None,
            f"reflector did not write the row {name!r} in the ledger's table `projection`",
            REBUILD,
        )
    if not is_row_sound(sql):
        yield Finding("projection", None, "the table cached_usage differs from the events", REBUILD)


def _differences(
    table: str, columns: Sequence[str], left: Iterator[Any], right: Iterator[Any]
) -> Iterator[tuple[int | None, str]]:
    """Yield (position, message) of each row that is in only one of two sorted streams, or that
    differs in a column. `left` has the rows of the table, `right` those of the events.
    """
    got = next(left, None)
    wanted = next(right, None)
    while got is not None or wanted is not None:
        if got == wanted:
            got = next(left, None)
            wanted = next(right, None)
            continue
        too_many = wanted is None or (got is not None and got[0] < wanted[0])
        row = got if too_many else wanted
        assert row is not None
        position = row[0] if columns[0] == "position" and isinstance(row[0], int) else None
        name = f"{table} {str(row[0])[:100]}"
        if wanted is None or too_many:
            yield position, f"{name} is in the table but not in the events"
            got = next(left, None)
        elif got is None or wanted[0] < got[0]:
            yield position, f"{name} is missing from the table"
            wanted = next(right, None)
        else:
            apart = [
                f"{column} is {_shown(one)} in the table but {_shown(other)} in the events"
                for column, one, other in zip(columns, got, wanted, strict=True)
                if one != other
            ]
            yield position, f"{name}: {', '.join(apart)}"
            got = next(left, None)
            wanted = next(right, None)


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(str(value)[:60])
