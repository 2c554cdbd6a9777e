"""Differences between a table and the events in words, and the first of many: a table that was emptied is one trouble,
not a million."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

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


def differences(columns: Iterable[str], stored: Iterable[Any], made: Iterable[Any]) -> Iterator[str]:
    """Yield each column of a row whose value in the table is not the one that the events make."""
    for column, got, wanted in zip(columns, stored, made, strict=True):
        if got != wanted:
            yield f"{column} is {_shown(got)} in the table, {_shown(wanted)} by the events"


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(str(value)[:60])
