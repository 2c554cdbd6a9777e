"""SIGKILL at a step of a process that it takes itself: right before a call that leaves a trace."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

#: Calls into C that leave a trace on the disk or in a database, or are about to.
_CALLS = frozenset(
    {
        "open",
        "write",
        "fsync",
        "replace",
        "rename",
        "unlink",
        "mkdir",
        "flock",
        "execute",
        "executemany",
        "commit",
    }
)
#: Where the client of PostgreSQL has its calls in Python.
_CLIENT = f"{os.sep}psycopg{os.sep}"


def die_before(step: int) -> None:
    """Kill this process right before the `step`th call that could leave a trace, counted from 1."""
    left = step

    def count(frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        if event == "c_call":
            is_step = called.__name__ in _CALLS
        elif event == "call":
            code = frame.f_code
            is_step = code.co_name in ("execute", "commit") and _CLIENT in code.co_filename
        else:
            return
        left -= is_step
        if is_step and not left:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
