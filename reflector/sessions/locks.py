"""The locks of a project.

Invariant: a lock is the kernel's, so a process that dies lets go of it. On a file system without locks (some that come
over a network) a temporary file of this machine is locked instead of the project's. It does not exclude processes of
other machines: a delivery may then be read twice, and is still recorded once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from reflector import files
from reflector.files import lock
from reflector.ledger.lock import NO_LOCKS
from reflector.sessions.fallback import open_temporary


@contextmanager
def held(state_dir: Path, name: str, *, wait: bool) -> Iterator[bool]:
    """Hold one of the project's locks; yields whether it is held.

    Under `drain.lock` the spool is processed and playbook.json is written, under `model.lock` a model is asked. Who
    does not wait may leave at once when the lock is taken, provided that the holder looks for work once more after
    it let go: a delivery is on disk before its drain asks for the lock.
    """
    state_dir.parent.mkdir(parents=True, exist_ok=True)
    fd = _open(files.private_folder(str(state_dir)), name)
    try:
        try:
            held = lock(fd, wait=wait)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            os.close(fd)
            fd = _open(open_temporary(), _stand_in(state_dir, name))
            held = lock(fd, wait=wait)
        yield held
    finally:
        os.close(fd)


def why_none(folder: Path) -> str:
    """Why no file can be locked in a folder, in the system's words; "" if it can, or if that is unknown."""
    try:
        fd = os.open(folder, os.O_RDONLY)
        try:
            lock(fd, wait=False, shared=True)
        finally:
            os.close(fd)
    except OSError as error:
        return os.strerror(error.errno) if error.errno in NO_LOCKS else ""
    return ""


def _open(folder: str, name: str) -> int:
    with files.Folder(folder) as held:
        return held.open(name, os.O_RDWR | os.O_CREAT)


def _stand_in(state_dir: Path, name: str) -> str:
    """Return the name of the file that is locked instead of one that cannot be."""
    return f"{sha256(os.fsencode(state_dir.resolve())).hexdigest()[:24]}.{name}"
