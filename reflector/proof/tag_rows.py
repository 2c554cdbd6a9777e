"""The rows of the tag table, compared with the events while these are read.

Invariant: every row is looked at once, in the order of its key, and each one that is missing, surplus or different from
its event is a finding at its position. Where only one of the row and its event counts, the bullet is named as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reflector.mistakes import Finding
from reflector.proof.few import Few, differences

#: The columns that `TagRows` reads, in order.
COLUMNS: Final = "position, name, tag, session_id, reflection_id, active"
#: (position, name, 1, -1 or 0, session id, reflection id, 1 if it counts).
TagRow = tuple[int, str, int, str | None, str | None, int]
#: How many positions of a bullet are named.
_NAMED: Final = 10


class TagRows:
    """Takes the table's rows in step with the tags of the events."""

    def __init__(self, rows: Iterator[TagRow]) -> None:
        self._rows = rows
        self._row = next(rows, None)
        self._differ = Few("tags are not what the events say")
        #: The first positions that count in the table or by the events, not in both, by name.
        self.unlike: dict[str, list[int]] = {}

    def sound(self, upto: int) -> bool:
        """Whether the rows up to a position, whose event is next, say what their events say, but for what counts."""
        return self._differ.count == 0 and (self._row is None or self._row[0] > upto)

    def take(self, expected: TagRow) -> None:
        """Compare the next row with that of a tag."""
        if self._row == expected:
            self._row = next(self._rows, None)
        else:
            self._compare(expected)

    def findings(self) -> Iterator[Finding]:
        """Yield what was found, when all events were read."""
        while self._row is not None:
            self._surplus(self._row)
        yield from self._differ.findings()

    def _compare(self, expected: TagRow) -> None:
        position = expected[0]
        row = self._at(position)
        counts = None
        if row is not None:
            self._row = next(self._rows, None)
            counts = row[5]
            if row[:5] != expected[:5] or not (counts == 1 or counts == 0) or (counts and not expected[2]):
                apart = differences(COLUMNS.split(", ")[1:], row[1:], expected[1:])
                self._differs(position, f"is another one than the events make: {', '.join(apart)}")
                counts = None
        if expected[5] != (counts or 0):
            named = self.unlike.setdefault(expected[1], [])
            if len(named) < _NAMED:
                named.append(position)

    def _at(self, position: int) -> TagRow | None:
        while self._row is not None and self._row[0] < position:
            self._surplus(self._row)
        if self._row is None or self._row[0] != position:
            self._differs(position, "is missing in the table")
            return None
        return self._row

    def _surplus(self, row: TagRow) -> None:
        self._differs(row[0], f"is of {row[1]!r} in the table, and the events have none there")
        self._row = next(self._rows, None)

    def _differs(self, position: int, what: str) -> None:
        self._differ.add(f"the tag at {position} {what[:300]}", position)
