"""Whether a watched file changed since the last look, by the states of the files and their folders.

Invariant: a place counts as changed if its next change could leave the same state, or if it changed
during the look. For an unchanged project, each place costs one system call: no file is read, and no
other module of this package is imported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.handover import PLACES, has_changed_places, read_own, state_of, write_own
from reflector.locate import own_folder
from reflector.project import Project

if TYPE_CHECKING:
    from reflector.attribution.files import Scope

_ABSENT = "-"
#: A value that differs from each state.
_UNSETTLED = "?"
#: If a file was written less than this before a look, it may be written again within the same tick
#: of the file system's clock.
_RACY_NS = 2_000_000_000


def scopes_of(project: Project) -> Sequence[Scope]:
    """Return the scopes whose changes are recorded in a project."""
    is_plain = not project.is_users and project.outer is None
    if not is_plain or project.config.memory == "off":
        return ()
    return ("project", "user") if project.config.memory_user else ("project",)


def has_changed(project: Project) -> bool:
    """Return whether there may be something to record. If not, keep the time of the check."""
    now = time.time()
    if has_changed_places(str(project.root), _words(project)):
        return True
    with suppress(OSError):
        os.utime(_path(project), (now, now))
    return False


def checked_at(project: Project) -> float:
    """Return the time of the last check without a change, or else of the last look at these scopes.

    Return 0 if there was none.
    """
    line = f"{_words(project)}\n".encode()
    with suppress(OSError):
        if read_own(str(project.root), PLACES, len(line)) == line:
            return _path(project).stat().st_mtime
    return 0.0


def leave_places(project: Project, places: Mapping[str, bool], began: float) -> None:
    """Write the states for the next check to compare, if they can be written.

    places  whether the look found something at each path
    began   the time at which the look began
    """
    states: dict[str, str] = {}
    for path, was_there in places.items():
        try:
            status = Path(path).stat()
        except OSError:
            states[path] = _UNSETTLED if was_there else _ABSENT
            continue
        changed_at = max(status.st_mtime_ns, status.st_ctime_ns)
        is_settled = changed_at + _RACY_NS < began * 1e9
        states[path] = state_of(status) if is_settled else _UNSETTLED
    lines = [_words(project), *(f"{state}\t{path}" for path, state in states.items())]
    text = "".join(f"{line}\n" for line in lines if "\n" not in line)
    with suppress(OSError):
        write_own(str(project.root), PLACES, os.fsencode(text))
        os.utime(_path(project), (began, began))


def _words(project: Project) -> str:
    return " ".join(scopes_of(project)) or "off"


def _path(project: Project) -> Path:
    return Path(own_folder(str(project.root)) or "/nonexistent", PLACES)
