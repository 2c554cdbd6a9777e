"""The rows of the table of windows, compared with the events while these are read.

Invariant: every row is looked at once, beside the event that opened its window, and compared when the window's state
is final. A window that was judged stays so, and is forgotten then; those that wait are few, or in the scratch file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from reflector.mistakes import Finding
from reflector.proof.few import Few, differences
from reflector.proof.scratch import Scratch

#: The columns that `WindowRows` reads, in order.
COLUMNS: Final = "position, event_id, session_id, state, attempts, changed_at"
_COMPARED: Final = ("position", "session_id", "state", "attempts", "changed_at")
_HELD: Final = 1 << 12

#: A window: (position, session id, state, attempts, when its state last changed).
Window = tuple[int, str | None, str, int, str]


class WindowRows:
    """Takes the table's rows in step with the windows of the events."""

    def __init__(self, rows: Iterator[Any], scratch: Scratch) -> None:
        self._rows = rows
        self._row = next(rows, None)
        self._scratch = scratch
        #: By the window's event id: what the events say so far, and its row.
        self._open: dict[str, tuple[Window, Window | None]] = {}
        self._kept: tuple[Any, str] | None = None
        self._differ = Few("windows are not what the events say")

    def open(self, position: int, event_id: str, session_id: str | None, recorded_at: str) -> None:
        """Take a window that an event opens."""
        while self._row is not None and self._row[0] < position:
            self._surplus(self._row)
        stored = None
        if self._row is not None and self._row[0] == position:
            if self._row[1] == event_id:
                stored = _window(self._row)
                self._row = next(self._rows, None)
            else:
                self._surplus(self._row)
        self._open[event_id] = ((position, session_id, "pending", 0, recorded_at), stored)
        if len(self._open) > _HELD:
            self._keep()

    def move(self, event_id: str | None, state: str, attempts: int, recorded_at: str) -> None:
        """Take an event that brings a window to a state."""
        waiting = self._open.get(event_id or "") or self._take(event_id)
        if waiting is None or event_id is None:
            return
        (position, session_id, _, before, _), stored = waiting
        window = (position, session_id, state, before + attempts, recorded_at)
        if state == "completed":
            self._open.pop(event_id, None)
            self._compare(event_id, window, stored)
        else:
            self._open[event_id] = (window, stored)

    def findings(self) -> Iterator[Finding]:
        """Yield what was found, when all events were read."""
        while self._row is not None:
            self._surplus(self._row)
        for event_id, (window, stored) in self._open.items():
            self._compare(event_id, window, stored)
        if self._kept is not None:
            connection, table = self._kept
            for event_id, text in connection.execute(f"SELECT * FROM {table}"):  # noqa: S608
                self._compare(event_id, *_pair(text))
        yield from self._differ.findings()

    def _compare(self, event_id: str, window: Window, stored: Window | None) -> None:
        if stored is None:
            self._differ.add(f"window {event_id} is missing in the table")
        elif window != stored:
            self._differ.add(f"window {event_id}: {', '.join(differences(_COMPARED, stored, window))}")

    def _surplus(self, row: Any) -> None:
        self._differ.add(f"window {row[1]} is in the table at {row[0]}, and the events have none there")
        self._row = next(self._rows, None)

    def _keep(self) -> None:
        """Move the windows that wait into the scratch file."""
        if self._kept is None:
            self._kept = self._scratch.table("event_id TEXT NOT NULL, window TEXT NOT NULL", "event_id")
        connection, table = self._kept
        rows = sorted((event_id, json.dumps(pair)) for event_id, pair in self._open.items())
        connection.execute("BEGIN")
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", rows)  # noqa: S608
        connection.execute("COMMIT")
        self._open.clear()

    def _take(self, event_id: str | None) -> tuple[Window, Window | None] | None:
        """Return a window out of the scratch file."""
        if self._kept is None:
            return None
        connection, table = self._kept
        row = connection.execute(f"SELECT window FROM {table} WHERE event_id = ?", (event_id,)).fetchone()  # noqa: S608
        if row is None:
            return None
        connection.execute(f"DELETE FROM {table} WHERE event_id = ?", (event_id,))  # noqa: S608
        return _pair(row[0])


def _window(row: Any) -> Window:
    return (row[0], *row[2:])


def _pair(text: str) -> tuple[Window, Window | None]:
    window, stored = json.loads(text)
    return tuple(window), tuple(stored) if stored is not None else None
