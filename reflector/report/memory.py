"""The changes of the files in which agents find their memory and rules, for a report.

Invariant: only the project's ledger is read. No report contains your own files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from reflector.attribution.files import Table, Watched
from reflector.events.memory import COMMIT
from reflector.ledger.store import Ledger
from reflector.memory.changes import Change, Store, changes_in
from reflector.project import Project

#: A file is near the limit if it has this share of the lines that its agent loads.
_NEAR = 0.8


@dataclass(slots=True)
class FileLines:
    """The numbers of lines added to a file, removed from it, and added again after that."""

    file: str
    came: int = 0
    went: int = 0
    returned: int = 0
    _gone: Counter[str] = field(default_factory=Counter)

    def add(self, change: Change) -> None:
        """Count the lines of a change."""
        for _, text in change.lines.removed:
            self.went += 1
            self._gone[text] += 1
        for _, text in change.lines.added:
            is_back = self._gone[text] > 0
            self.came += 1
            self.returned += is_back
            self._gone[text] -= is_back


class NearLimit(NamedTuple):
    """A file with nearly as many lines as its agent loads, or more."""

    file: str
    lines: int
    limit: int


class Memory(NamedTuple):
    """The changed files of a period, the number of undone changes, and the files near their limit.

    A report of a past moment has no files near their limit.
    """

    files: Sequence[FileLines]
    undone: int
    near_limit: Sequence[NearLimit]


def memory_of(project: Project, ledger: Ledger, first: int, last: int, *, is_past: bool) -> Memory:
    """Return the changes to watched files after position `first`, up to `last`.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    files: dict[str, FileLines] = {}
    undone = 0
    for change in changes_in([Store(project, ledger, last)]):
        # A commit repeats the lines that an agent or the user wrote before it.
        is_repeated = change.is_gits and change.fact("by") == COMMIT
        if change.event.position > first and change.file and not is_repeated:
            files.setdefault(change.file, FileLines(change.file)).add(change)
            undone += bool(change.undone_at)
    watched = () if is_past else Table(project.root, "project").files.values()
    return Memory(list(files.values()), undone, _near_limit(watched))


def _near_limit(files: Iterable[Watched]) -> list[NearLimit]:
    near = []
    for watched in files:
        with suppress(OSError):
            lines = len(watched.read().splitlines()) if watched.limit else 0
            if lines and lines >= _NEAR * watched.limit:
                near.append(NearLimit(watched.file, lines, watched.limit))
    return near
