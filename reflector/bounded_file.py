"""Opens files that somebody else may have put there, such as those that a cloned repository brings.

Invariant: reading one takes neither for ever nor more memory than was allowed. A repository can hold a link to
`/dev/zero`, and a pipe keeps whoever opens it waiting for its other end, the agent's hook too; only a regular
file is opened, and only so many bytes of it are read.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read. Raises OSError, for anything else as well."""
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is not a regular file; put one there, or remove it", str(path))
    return file


def read_bounded(path: Path, limit: int) -> bytes:
    """A regular file's bytes. Raises OSError, for one of more than `limit` bytes as well."""
    with open_regular(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"has more than {limit:,} bytes; make it smaller, or remove it", str(path))
    return content


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
