"""Waits for the lock of a file, for a bounded time, and names the process that holds it.

Invariant: the wait always ends, because the holder may be stopped (Ctrl-Z).
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from reflector.files import lock


def wait_for(handle: int, seconds: float) -> bool:
    """Wait for the lock of an open file, and return whether it came in time.

    The system gives the lock to waiting processes in turn. Repeated attempts would come too late,
    because the process that releases it wants it back within a millisecond. Only a thread can wait
    without a limit, and a lock that comes too late ends with the thread's own descriptor.

    Raises: OSError.
    """
    if lock(handle, wait=False):
        return True
    if not seconds:
        return False
    own = os.dup(handle)

    def wait() -> None:
        try:
            lock(own, wait=True)
        finally:
            os.close(own)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive() and lock(handle, wait=False)


class Holder(NamedTuple):
    """The process that holds a lock."""

    process: int
    command: str
    is_stopped: bool


def holder_of(handle: int, path: str) -> str:
    """Return the text about the process that holds the lock of an open file, with the commands that
    resume or stop it.
    """
    process = holder(handle)
    if process is None:
        return (
            f"another process: find the process with `lsof {quote(path)}`, then resume "
            "the process or stop it"
        )
    number = process.process
    name = f"process {number} ({process.command})"
    if process.is_stopped:
        go_on = f"kill -CONT {number}"
        end = f"kill -KILL {number}"
        return (
            f"{name}, which is suspended: `{go_on}` resumes the process, `{end}` stops the process"
        )
    return f"{name}: wait until this process ends, or stop it with `kill {number}`"


def holder(handle: int) -> Holder | None:
    """Return the process that holds the lock of an open file; None if the system does not show
    it.
    """
    with suppress(OSError, ValueError):
        inode = str(os.fstat(handle).st_ino)
        for line in Path("/proc/locks").read_text("ascii", "replace").splitlines():
            number = _locking_process(line.split(), inode)
            if number is not None:
                return _process(number)
    return None


def _locking_process(words: list[str], inode: str) -> int | None:
    """Return the process that a line of /proc/locks shows as the writer of a file."""
    # The line of a waiting process has an arrow before its kind.
    if len(words) <= 5 or words[1] != "FLOCK" or words[3] != "WRITE":
        return None
    return int(words[4]) if words[5].endswith(f":{inode}") else None


def _process(number: int) -> Holder | None:
    """Return a process of this machine; None if this process cannot see it, for example in a
    container.
    """
    folder = Path(f"/proc/{number}")
    try:
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        # The state follows the name of the program, which is in brackets and may contain some.
        state = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, LookupError):
        return None
    shown = " ".join(word for word in words if word.isprintable())
    return Holder(number, shown[:80].strip() or "unknown", state in ("T", "t"))
