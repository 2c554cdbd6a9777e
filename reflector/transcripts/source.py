"""Opens a transcript.

Invariant: only a regular file is read, and opening one never waits.
"""

from __future__ import annotations

import os
import stat
from io import FileIO
from os import PathLike, fspath


class UnknownTranscript(ValueError):
    """The file is readable, and is not a transcript that reflector knows."""


def open_file(path: str | PathLike[str]) -> FileIO:
    """Open a regular file, unbuffered. Raises OSError, and `UnknownTranscript` for anything else."""
    file = open(path, "rb", buffering=0, opener=_open_at_once)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UnknownTranscript(f"{fspath(path)!r} is not a regular file; give the path of a transcript")
    return file


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: a hook may name any path, and opening a pipe waits for its other end."""
    return os.open(path, flags | os.O_NONBLOCK)
