"""Files that somebody else may have put there, such as those that a clone brings: read, replaced whole, and locked.

Invariant: a read ends, is bounded and follows no link to other places. A repository can hold a link to `/dev/zero`, and
opening a pipe waits for its other end, so only regular files are opened and a limited number of bytes is read. No link
below a project's `.claude` is followed (`folders.Folder`).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from reflector import folders

Folder = folders.Folder


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read, links followed. Raises OSError, also for anything else."""
    return _regular(os.open(path, os.O_RDONLY | folders.NO_WAIT | folders.BINARY), path)


def open_ours(path: Path) -> BinaryIO:
    """Open a regular file of a project to read. Raises OSError, for a link and for anything else as well."""
    with folder_of(path) as folder:
        return _regular(folder.open(path.name), path)


def read_bounded(path: Path, limit: int) -> bytes:
    """Return a regular file's bytes. Raises OSError, for one of more than `limit` bytes as well."""
    return _bounded(open_regular(path), path, limit)


def read_ours(path: Path, limit: int) -> bytes:
    """The bytes of a regular file of a project. Raises OSError, for a link and more than `limit` bytes as well."""
    return _bounded(open_ours(path), path, limit)


class Changed(Exception):
    """A file was written by somebody else since it was read; it is left as it is."""


def replace_read(path: Path, read: bytes | None, content: bytes) -> None:
    """Replace a file of a project by what was made of its bytes, None where there was none. Raises Changed, OSError.

    People save their files at any time: it is read once more when all but the name is on disk.
    """

    def last_look() -> None:
        try:
            with open_ours(path) as file:
                now = file.read(len(read or b"") + 1)
        except FileNotFoundError:
            now = None
        if now != read:
            raise Changed(f"{path} was changed since it was read, and is left as it is; try again")

    replace_file(path, content, last_look=last_look)


def replace_file(
    path: Path, content: bytes, mode: int | None = None, *, last_look: Callable[[], None] | None = None
) -> None:
    """Write a file whole or not at all, surviving a crash; what is there is replaced and keeps its mode.

    The temporary file has one name, so that what a killed writer left behind goes with the next write; the
    project's lock keeps writers apart. What `last_look` raises, right before, leaves what is there.
    Raises OSError, for anything but a regular file in its place as well.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = f".{path.name}.tmp"
    with folder_of(path) as folder:
        with suppress(FileNotFoundError):
            there = folder.stat(path.name).st_mode
            if not stat.S_ISREG(there):
                raise _not_regular(path)
            mode = mode or there & 0o777
        with suppress(FileNotFoundError):
            folder.remove(temporary)
        folders.replace_file(folder, temporary, path.name, content, mode or 0o644, last_look)


def folder_of(path: Path) -> Folder:
    """Return the folder of a file, open: reached through no link below a `.claude`. Raises OSError."""
    return Folder(os.path.abspath(path.parent))  # noqa: PTH100 - resolve() would follow the links


def make_state(root: Path) -> None:
    """Create a project's state folder, private and ignored by git, where it is missing. Raises OSError."""
    folders.open_state(os.path.abspath(root))  # noqa: PTH100


def private_folder(path: Path) -> Path:
    """Make a folder for this user alone where it is missing. Raises OSError if a link or anything else is there."""
    return Path(folders.private_folder(os.path.abspath(path)))  # noqa: PTH100


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, on systems that can sync folders."""
    folders.sync_folder(os.path.abspath(path))  # noqa: PTH100


def _regular(fd: int, path: Path) -> BinaryIO:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _not_regular(path)
    return open(fd, "rb")


def _not_regular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "is not a regular file; put one there, or remove it", str(path))


def _bounded(opened: BinaryIO, path: Path, limit: int) -> bytes:
    with opened as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"has more than {limit:,} bytes; make it smaller, or remove it", str(path))
    return content


if sys.platform == "win32":
    import msvcrt

    def lock(fd: int, *, wait: bool, shared: bool = False) -> bool:
        """Lock an open file for this process, and return whether it is locked. Raises OSError where none can be."""
        while not shared:
            try:
                msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
                break
            except OSError:
                if not wait:
                    return False
                time.sleep(0.05)
        return True

    def unlock(fd: int) -> None:
        """Let go of a file's lock; closing the file does so too."""
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def lock(fd: int, *, wait: bool, shared: bool = False) -> bool:
        """Lock an open file for this process, and return whether it is locked. Raises OSError where none can be."""
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Let go of a file's lock; closing the file does so too."""
        fcntl.flock(fd, fcntl.LOCK_UN)
