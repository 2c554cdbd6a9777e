"""The sessions of a project that was moved or renamed: those of a folder that resembles it.

Invariant: nothing is written. A folder resembles a project if it is a clone of the same repository.
It also does if it is gone and had the name of the project, or its place and one of its files. Only
the folder with the most sessions is named.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from reflector.files import open_regular
from reflector.git import GitUnavailable, ask_git
from reflector.project import project_of
from reflector.sessions import checks
from reflector.sessions.found_transcripts import FoundTranscript, every_transcript

_RENAMED = "a folder that no longer exists and had this project's files"
#: The number of first bytes of a transcript that are searched for paths.
_MOST_BYTES = 1 << 20


class Elsewhere(NamedTuple):
    """The sessions of another folder.

    why    the reason why the folder is similar to the project
    files  the transcripts of the sessions, as arguments of a shell command
    """

    folder: Path
    sessions: int
    why: str
    files: str


def sessions_elsewhere(root: Path) -> Elsewhere | None:
    """Return the sessions of the folder that is most likely a project's former place; None if there
    is no such folder.
    """
    found: dict[tuple[Path, str], list[FoundTranscript]] = defaultdict(list)
    likes: dict[str, tuple[Path, str] | None] = {}
    for file in every_transcript():
        if file.cwd not in likes:
            likes[file.cwd] = _like(Path(file.cwd), root.resolve())
        if like := likes[file.cwd]:
            found[like].append(file)
    for folder, why in [*found]:
        files = found[folder, why]
        if why == _RENAMED and not any(_names_file_of(root, folder, file) for file in files):
            del found[folder, why]
    if not found:
        return None
    (folder, why), files = max(found.items(), key=lambda row: len(row[1]))
    sessions = len({checks.session_of(file) for file in files})
    return Elsewhere(folder, sessions, why, _in_shell([file.path for file in files]))


def _like(cwd: Path, root: Path) -> tuple[Path, str] | None:
    """Return a session's folder that is similar to a project, and the reason; None if none is."""
    with suppress(OSError, ValueError):
        if cwd.is_dir():
            clone = project_of(cwd)
            is_clone = clone != root and not _first_commits(root).isdisjoint(_first_commits(clone))
            return (clone, "another clone of this repository") if is_clone else None
        gone = [folder for folder in (cwd, *cwd.parents) if not folder.exists()]
        for folder in gone:
            if folder.name == root.name:
                return folder, "a folder that no longer exists and had this project's name"
        if gone and cwd.parent == root.parent:
            return cwd, _RENAMED
    return None


def _names_file_of(root: Path, folder: Path, file: FoundTranscript) -> bool:
    """Return whether a session in a folder names a file that the project now contains."""
    path = re.compile(re.escape(os.fsencode(folder)) + rb"/([\w./-]*\w)")
    with suppress(OSError), open_regular(file.path) as opened:
        names = {os.fsdecode(name) for name in path.findall(opened.read(_MOST_BYTES))}
        return any((root / name).is_file() for name in names if ".." not in name)
    return False


@cache
def _first_commits(root: Path) -> frozenset[bytes]:
    with suppress(GitUnavailable):
        return frozenset((ask_git(root, "rev-list", "--max-parents=0", "HEAD") or b"").split())
    return frozenset()


def _in_shell(paths: Sequence[Path]) -> str:
    """Return files as arguments for a shell. All files of a folder are one pattern."""
    words = []
    for folder in sorted({path.parent for path in paths}):
        own = sorted(path for path in paths if path.parent == folder)
        endings = {path.suffix for path in own}
        every = [path for path in folder.iterdir() if path.suffix in endings]
        if len(endings) == 1 and len(every) == len(own) > 1:
            words.append(f"{quote(str(folder))}/*{own[0].suffix}")
        else:
            words += (quote(str(path)) for path in own)
    return " ".join(words)
