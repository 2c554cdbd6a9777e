"""The first of many differences: a table that was emptied is one trouble, not a million."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reflector.mistakes import Finding
from reflector.proof.remedies import REBUILD

_MOST: Final = 20


class Few:
    """Takes the differences of one kind, and keeps the first of them."""

    def __init__(self, more: str) -> None:
        self._more = more
        self._found: list[tuple[int | None, str]] = []
        self.count = 0

    def add(self, what: str, position: int | None = None) -> None:
        """Take one more difference."""
        self.count += 1
        if self.count <= _MOST:
            self._found.append((position, what))

    def findings(self) -> Iterator[Finding]:
        """Yield the first ones, and how many more there are."""
        for position, what in self._found:
            yield Finding("projection", position, what, REBUILD)
        if self.count > len(self._found):
            yield Finding("projection", None, f"{self.count - len(self._found)} more {self._more}", REBUILD)
