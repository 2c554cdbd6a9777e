"""The locks of a project.

Invariant: a lock is the kernel's, so a process that dies lets go of it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reflector.hooks import fast


@contextmanager
def held(state_dir: Path, name: str, *, wait: bool) -> Iterator[bool]:
    """Hold one of the project's locks; yields whether it is held.

    Under `drain.lock` the spool is taken in and playbook.json is written, under `model.lock` a model is asked. Who
    does not wait may leave at once when the lock is taken, provided that the holder looks for work once more after
    it let go: a delivery is on disk before its drain asks for the lock.
    """
    state_dir.parent.mkdir(parents=True, exist_ok=True)
    with fast.Folder(fast.private_folder(str(state_dir))) as folder:
        fd = folder.open(name, os.O_RDWR | os.O_CREAT)
    try:
        held = _lock(fd, wait=wait)
        try:
            yield held
        finally:
            if held:
                _unlock(fd)
    finally:
        os.close(fd)


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, *, wait: bool) -> bool:
        while True:
            try:
                msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
                return True
            except OSError:
                if not wait:
                    return False
                time.sleep(0.05)

    def _unlock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(fd: int, *, wait: bool) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)
