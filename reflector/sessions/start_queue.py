"""Of many drains that hooks start at once, one loads the code; the others leave their deliveries to it.

Invariant: a drain that leaves here leaves to one that has not looked into the spool yet. The turn is held
only while the drain's modules load, which takes most of a short drain's time, and is given up before the
spool is read; a delivery is on disk before its drain asks for the turn. Eight sessions that end together
then cost one start instead of eight.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from reflector import folders
from reflector.files import lock


def load_in_turn(project: str, load: Callable[[], object]) -> bool:
    """Call `load` while holding the project's turn; False, without calling it, where another process holds it."""
    try:
        with folders.Folder(folders.state_folder(project)) as folder:
            fd = folder.open("drain.turn", os.O_RDWR | os.O_CREAT)
    except OSError:  # no state folder: nothing was left there by others either
        load()
        return True
    try:
        with suppress(OSError):  # without locks each drain loads for itself, and the drain's own lock decides
            if not lock(fd, wait=False):
                return False
        load()
        return True
    finally:
        os.close(fd)
