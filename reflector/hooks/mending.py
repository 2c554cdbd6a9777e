"""What `reflector doctor --fix` does: each a small change of what is ours, which a later run repeats without harm.

Invariant: nothing that a person wrote is touched. Permissions are taken away and never given, only temporary files are
removed, and of a settings file the hooks alone change.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reflector.hooks.settings_file import TEMPORARY
from reflector.project import Project
from reflector.sessions import spool


@dataclass(frozen=True, slots=True)
class Fix:
    """One thing that can be mended: what it does, as a sentence without a subject, and how."""

    told: str
    apply: Callable[[], object]


def open_to_others(path: Path) -> bool:
    """Return whether others than the owner may do anything with a file or folder; False for a link."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return not stat.S_ISLNK(found.st_mode) and bool(stat.S_IMODE(found.st_mode) & 0o077)


def close_to_others(*paths: Path) -> None:
    """Take files and folders, with all that is below them, from everybody but their owner. Raises OSError."""
    for top in paths:
        for folder, _, names in os.walk(top):
            for path in (Path(folder), *(Path(folder) / name for name in names)):
                _close(path)
        _close(top)


def _close(path: Path) -> None:
    if open_to_others(path):
        path.chmod(stat.S_IMODE(path.lstat().st_mode) & 0o700)


def left_behind(project: Project, settings: list[Path]) -> list[Path]:
    """Return the temporary files that killed commands left more than an hour ago."""
    oldest = time.time() - spool.LEFT_BEHIND_SECONDS
    return [path for path in _temporary(project, settings) if _changed_at(path) < oldest]


def remove(project: Project, paths: list[Path]) -> None:
    """Remove temporary files; a delivery that is whole in one becomes pending. Raises OSError."""
    spool.sweep(project.spool_dir)
    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()


def _temporary(project: Project, settings: list[Path]) -> Iterator[Path]:
    yield from (path.with_name(f".{path.name}{TEMPORARY}") for path in settings)
    yield project.playbook_json.with_name(f".{project.playbook_json.name}.tmp")
    if not project.state_dir.is_symlink():
        yield from project.state_dir.glob(".*.tmp")
        yield from project.spool_dir.glob(".*.json.tmp")


def _changed_at(path: Path) -> float:
    try:
        found = path.lstat()
    except OSError:
        return float("inf")
    return found.st_mtime if stat.S_ISREG(found.st_mode) else float("inf")
