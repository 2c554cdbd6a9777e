"""The files whose changes are recorded: those that agents load or write by themselves.

Invariant: only a regular file of at most 1 MB is read, reached through no link that leaves its
folder. Everything else is named, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

#: PROJECT: below the project, for its ledger. USER: the user's own, for the user's ledger.
Scope = Literal["project", "user"]
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Watched:
    """A file whose changes are recorded; it may be gone.

    path    absolute
    scope   whose ledger records it
    file    its name in the ledger: `CLAUDE.md`, or `~/.claude/CLAUDE.md` of the user's
    agents  the names of the agents that load or write it
    limit   how many of its lines the agent loads, 0 for all
    """

    path: Path
    scope: Scope
    file: str
    agents: tuple[str, ...] = ()
    limit: int = 0

    @property
    def shown(self) -> str:
        """The name on a screen: `MEMORY.md` of a memory folder."""
        return self.file


@dataclass(frozen=True, slots=True)
class Unwatched:
    """A file that is not read, and the reason."""

    file: str
    why: str

    def __str__(self) -> str:
        return f"not watched: {self.file!a}: {self.why}"


def watched(root: Path, *, user: bool = True) -> tuple[list[Watched], list[Unwatched]]:
    """Return the files whose changes are recorded, and those that cannot be.

    user  whether the user's own files are included
    """
    raise NotImplementedError(root, user)
