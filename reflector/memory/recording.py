"""Recording the changes of watched files: the drain compares them at a session's start and end.

Invariant: every difference between two looks is recorded once, whenever the drain is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reflector.project import Project

#: Returns the transcripts of sessions that ran since a time, in seconds since the epoch.
FindTranscripts = Callable[[float], Sequence[Path]]


@dataclass(slots=True)
class Changes:
    """The result of a comparison.

    recorded  the number of new events
    notes     one line for each file that could not be read
    """

    recorded: int = 0
    notes: list[str] = field(default_factory=list)


def record_changes(project: Project, find: FindTranscripts, *, user: bool = False) -> Changes:
    """Compare the watched files with the last look, and record the differences: in the project's
    ledger, and those of the user's files in the user's ledger.

    user  whether the user's own files are included
    """
    raise NotImplementedError(project, find, user)
