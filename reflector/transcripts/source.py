"""Opens a transcript and says whose it is.

Invariant: a format is recognised by what its records hold, never by its name or place, and what is
not recognised is refused. A hook copied from another agent hands over that agent's files.
"""

from __future__ import annotations

import os
import stat
from io import BufferedReader, FileIO
from os import PathLike, fspath
from typing import Any, BinaryIO

from reflector.transcripts.message import Tally
from reflector.transcripts.records import parse_line, read_lines

#: How far to look for a record that is recognised. A first prompt with images has megabytes.
_SNIFF_LINES = 200
_SNIFF_BYTES = 64 * 1024 * 1024

_BUFFER = 64 * 1024

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


def open_transcript(path: str | PathLike[str], limit: int | None = None) -> FileIO:
    """Open a transcript of Claude Code, unbuffered, at its first byte.

    Raises OSError as `open` does, and `UnknownTranscript` for what is empty, not a regular file or
    of another format within its first `limit` bytes.
    """
    file = open_file(path)
    try:
        buffered = BufferedReader(file, _BUFFER)
        _recognise(buffered, fspath(path), limit)
        buffered.detach()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def open_file(path: str | PathLike[str]) -> FileIO:
    """Open a file of any content, unbuffered. Raises OSError, and `UnknownTranscript` for what is no regular file."""
    file = open(path, "rb", buffering=0, opener=_open_at_once)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UnknownTranscript(f"{fspath(path)!r} is not a regular file; give the path of a transcript")
    return file


def _open_at_once(path: str, flags: int) -> int:
    """A hook may hand over any path, and opening a pipe would wait for its other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _recognise(file: BinaryIO, name: str, limit: int | None) -> None:
    budget = _SNIFF_BYTES if limit is None else min(limit, _SNIFF_BYTES)
    tally = Tally()
    for _, line in read_lines(file, budget, tally):
        for record, _ in parse_line(line, tally):
            if is_claude_code(record):
                return
        if tally.lines >= _SNIFF_LINES:
            break
    if tally.lines == 0:
        state = f"holds {tally.unfinished_bytes} bytes of an unfinished line" if tally.unfinished_bytes else "is empty"
        raise UnknownTranscript(f"{name!r} {state}: there is no record in it yet")
    if tally.records == 0:
        raise UnknownTranscript(f"{name!r} is not a transcript: no line of its first {tally.lines} holds a JSON object")
    raise UnknownTranscript(
        f"{name!r} is not a transcript of Claude Code: none of its first {tally.records} records has one of its types"
    )


def is_claude_code(record: dict[str, Any]) -> bool:
    """Whether a record can be of Claude Code and of no other agent that is read."""
    kind = record.get("type")
    if kind in ("user", "assistant"):
        return isinstance(record.get("message"), dict) or ("uuid" in record and "sessionId" in record)
    if kind in ("system", "attachment", "progress"):
        return "parentUuid" in record or "sessionId" in record
    if kind == "summary":
        return "leafUuid" in record
    return isinstance(kind, str) and (kind in _OWN_TYPES or (kind == "mode" and "sessionId" in record))
