"""Opens a transcript, and tells the records of Claude Code from those of other agents.

Invariant: a format is recognised by what its records hold, never by its name or place, and what is
not recognised is refused. A hook copied from another agent hands over that agent's files.
"""

from __future__ import annotations

import os
import stat
from io import FileIO
from os import PathLike, fspath
from typing import Any

#: Types of Claude Code that no other agent's format uses.
_OWN_TYPES = frozenset(
    {
        "file-history-snapshot",
        "queue-operation",
        "last-prompt",
        "custom-title",
        "ai-title",
        "permission-mode",
        "frame-link",
        "pr-link",
    }
)


class UnknownTranscript(ValueError):
    """The file is there and readable, and is no transcript that reflector knows."""


def open_file(path: str | PathLike[str]) -> FileIO:
    """Open a file of any content, unbuffered. Raises OSError, and `UnknownTranscript` for what is no regular file."""
    file = open(path, "rb", buffering=0, opener=_open_at_once)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UnknownTranscript(f"{fspath(path)!r} is not a regular file; give the path of a transcript")
    return file


def _open_at_once(path: str, flags: int) -> int:
    """Return a hook may hand over any path, and opening a pipe would wait for its other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def is_claude_code(record: dict[str, Any]) -> bool:
    """Return whether a record can be of Claude Code and of no other agent that is read."""
    kind = record.get("type")
    if kind in ("user", "assistant"):
        return isinstance(record.get("message"), dict) or ("uuid" in record and "sessionId" in record)
    if kind in ("system", "attachment", "progress"):
        return "parentUuid" in record or "sessionId" in record
    if kind == "summary":
        return "leafUuid" in record
    return isinstance(kind, str) and (kind in _OWN_TYPES or (kind == "mode" and "sessionId" in record))
