"""Facts about the files of a project from git: their last edits, and the paths of a rule that are
not in the project any more.

Invariant: without git nothing is claimed. git prints no difference, so no program that a repository
names runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from reflector.git import git_says

#: A path in backquotes. It contains a slash, but not a pattern, placeholder or address.
_PATH = re.compile(r"`(?:\./)?((?:[\w.-]+/)+[\w.-]*)`")
#: The most paths that git is asked about. A file of rules usually has few missing paths.
_MOST_ASKED = 20


def last_edit(root: Path, files: Sequence[str]) -> datetime | None:
    """Return the time of the last edit of these files; None if git does not know.

    It is the time of the last commit or, if a file has uncommitted changes, of its last change.
    """
    if not files:
        return None
    if git_says(root, "status", "--porcelain", "--", *files):
        paths = [root / file for file in files]
        changed = max((path.stat().st_mtime for path in paths if path.exists()), default=None)
        return None if changed is None else datetime.fromtimestamp(changed, UTC)
    printed = git_says(root, "log", "-1", "--format=%ct", "--", *files)
    return datetime.fromtimestamp(int(printed), UTC) if printed else None


def missing_paths(root: Path, texts: Iterable[str]) -> Mapping[str, str]:
    """Return by text its first path that once was in the repository and no longer exists."""
    gone: dict[str, str] = {}
    asked: dict[str, bool] = {}
    for text in texts:
        for path in _PATH.findall(text):
            # Path.exists raises for a name that is too long.
            is_there = os.path.exists(root / path)  # noqa: PTH110
            if is_there or ".." in path or len(asked) >= _MOST_ASKED:
                continue
            if path not in asked:
                asked[path] = bool(git_says(root, "log", "-1", "--format=%h", "--", path))
            if asked[path]:
                gone.setdefault(text, path)
    return gone
