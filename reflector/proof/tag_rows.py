"""The rows of the tag table, compared with the events while these are read.

Invariant: every row is looked at once, in the order of its key, and each one that is missing, too many or other than
its event says is a finding at its position. Which rows count is kept for the fold to judge at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from reflector.mistakes import Finding
from reflector.proof.remedies import REBUILD

#: The columns that `TagRows` reads, in order.
COLUMNS: Final = "position, name, tag, session_id, reflection_id, active"
#: A table that was emptied is one trouble, not a million.
_MOST: Final = 20


class TagRows:
    """Takes the table's rows in step with the tags of the events."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows = rows
        self._row = next(rows, None)
        self._found: list[tuple[int, str]] = []
        self._count = 0
        #: Positions that count, by name, in order.
        self.active: dict[str, list[int]] = {}

    def take(self, position: int, expected: tuple[Any, ...]) -> None:
        """Compare the next row with that of a tag: `expected` is (position, name, 1, -1 or 0, session, reflection)."""
        row = self._row
        if row is None or row[0] != position:
            row = self._at(position)
            if row is None:
                return
        self._row = next(self._rows, None)
        active = row[5]
        if row[:5] != expected or not (active == 1 or active == 0) or (active and not expected[2]):
            self._differs(position, f"is {row[1:]} in the table, {expected[1:]} by the events")
        elif active:
            if row[1] in self.active:
                self.active[row[1]].append(position)
            else:
                self.active[row[1]] = [position]

    def findings(self) -> Iterator[Finding]:
        """Yield what was found, when all events were read."""
        while self._row is not None:
            self._surplus(self._row)
        for position, what in self._found:
            yield Finding("projection", position, f"the tag at {position} {what}", REBUILD)
        if self._count > len(self._found):
            more = f"{self._count - len(self._found)} more tags are not what the events say"
            yield Finding("projection", None, more, REBUILD)

    def _at(self, position: int) -> tuple[Any, ...] | None:
        while self._row is not None and self._row[0] < position:
            self._surplus(self._row)
        if self._row is None or self._row[0] != position:
            self._differs(position, "is missing in the table")
            return None
        return self._row

    def _surplus(self, row: tuple[Any, ...]) -> None:
        self._differs(row[0], f"is {row[1:]} in the table, and the events have none there")
        self._row = next(self._rows, None)

    def _differs(self, position: int, what: str) -> None:
        self._count += 1
        if self._count <= _MOST:
            self._found.append((position, what[:300]))
