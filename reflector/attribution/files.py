"""The files whose changes are recorded: those that agents load or write on their own.

Invariant: only a regular file of at most 1 MB is read, and no link out of its folder is followed.
Every other file is reported with the reason.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from reflector.files import Folder, expanded, read_bounded
from reflector.locate import home_folder
from reflector.transcripts.building import Load
from reflector.transcripts.readers import readers

#: The most bytes of a file that is read.
MAX_BYTES = 1 << 20
#: `project`: files below the project, for its ledger. `user`: the user's, for the user's ledger.
Scope = Literal["project", "user"]
_MOST_FILES = 2_000
_MAX_SLUG = 200
_MEMORY_FOLDER = r"/(?:memory|memories)/"


class Watched(NamedTuple):
    """A file whose changes are recorded. It may be missing.

    path    absolute, without links
    folder  the folder in which the file must be
    file    its name in the ledger: `CLAUDE.md`, or `~/.claude/CLAUDE.md` for the user's
    limit   the number of its lines that the agent loads; 0 for all
    """

    path: Path
    folder: Path
    file: str
    limit: int = 0

    def read(self) -> bytes:
        """Return the bytes of the file, reached without links.

        Raises: OSError if it cannot be read.
        """
        with Folder(str(self.path.parent), str(self.folder)) as folder:
            return read_bounded(self.path, MAX_BYTES, lambda path: folder.reader(path.name))


def shown_name(file: str) -> str:
    """Return the name of a file on a screen, relative to its memory folder if it is in one."""
    folder = re.search(_MEMORY_FOLDER, file) if file.startswith(("~", "/")) else None
    return file[folder.end() :] if folder else file


class _Pattern(NamedTuple):
    """The files below a folder that one agent loads or writes.

    real  the folder without links
    """

    folder: Path
    real: Path
    load: Load

    @property
    def start(self) -> Path:
        """The one file, or the folder of the files."""
        fixed, wildcard, _ = self.load.pattern.partition("*")
        return self.folder / (fixed.rpartition("/")[0] if wildcard else fixed)

    def matches(self, below: str) -> bool:
        """Return whether a path below the folder matches the pattern."""
        return fnmatchcase(below, self.load.pattern.replace("**/", "*"))


class Table:
    """The files of one scope that agents load or write in a project, including missing ones.

    in_any  whether the user's memory of any project counts, not only that of this project
    """

    def __init__(self, root: Path, scope: Scope, *, in_any: bool = False) -> None:
        self.root = root
        self.scope = scope
        self._home = Path(home_folder() or "/nowhere")
        self._patterns = _patterns_of(root, scope, in_any=in_any)
        #: The folders that were searched for files.
        self._folders: list[str] = []
        #: The reason for each file or folder that cannot be read.
        self.unwatched: dict[str, str] = {}

    @cached_property
    def endings(self) -> tuple[str, ...]:
        """The suffixes of the names of all files."""
        return tuple({Path(each.load.pattern).suffix for each in self._patterns})

    def watch_of(self, path: str, base: str = "") -> Watched | None:
        """Return the file of a path from a tool call or an event; None if it is not watched.

        The disk is not read.

        base  the folder of a relative path; "" for the project
        """
        whole = os.path.normpath(self.root / base / expanded(path))
        for pattern in self._patterns:
            for folder in {pattern.folder, pattern.real}:
                below = whole.removeprefix(f"{folder}/")
                if below != whole and below.isprintable() and pattern.matches(below):
                    file = self._name_of(pattern.folder / below)
                    watched = Watched(pattern.real / below, pattern.real, file)
                    return None if self._is_users(whole) else watched
        return None

    def name_of(self, path: str, base: str = "") -> str | None:
        """Return the name in the ledger of the file that `watch_of` returns; None without one."""
        watched = self.watch_of(path, base)
        return watched.file if watched is not None else None

    def _is_users(self, path: str) -> bool:
        """Return whether a path is one of the user's own files, which no project's table has."""
        return self._users is not None and self._users.watch_of(path) is not None

    @cached_property
    def _users(self) -> Table | None:
        """The table of the user's own files, which may be in a project."""
        return Table(self.root, "user") if self.scope == "project" else None

    def is_inside(self, file: str) -> bool:
        """Return whether a watched file is in its folder, even after links, and is not the user's
        own.
        """
        watched = self.watch_of(file)
        if watched is None:
            return False
        real = os.path.realpath(watched.path)
        return Path(real).is_relative_to(watched.folder) and not self._is_users(real)

    @cached_property
    def tools(self) -> dict[str, str]:
        """The files that tools write without naming them, by the tool."""
        return {
            tool: file
            for loads in (reader.loads for reader in readers())
            for tool, name in loads.tools.items()
            if (file := self.name_of(str(loads.own.folder / name)))
        }

    @cached_property
    def files(self) -> dict[str, Watched]:
        """The files that exist, by their names in the ledger, at the time of the first use."""
        files: dict[str, Watched] = {}
        names: dict[Path, str] = {}
        paths = [(path, pattern) for pattern in self._patterns for path in self._paths_of(pattern)]
        # A link to another watched file counts as that file.
        for path, pattern in sorted(paths, key=lambda each: each[0].is_symlink()):
            real = self._admitted(pattern, path)
            if real is not None and not self._is_users(str(real)):
                file = names.setdefault(real, self._name_of(path))
                before = files.get(file)
                # Of several patterns for a file, one with a limit decides.
                limit = pattern.load.lines or (before.limit if before else 0)
                files[file] = Watched(real, pattern.real, file, limit)
        return files

    @property
    def notes(self) -> list[str]:
        """A line for each file that cannot be read."""
        return [
            f"not watched: {ascii(file)[1:-1]}, because it {why}"
            for file, why in self.unwatched.items()
        ]

    def places(self) -> dict[str, bool]:
        """Return the paths whose state changes if a watched file is added, changed or removed.

        The value is whether there was something at the path.
        """
        there = [*(str(watched.path) for watched in self.files.values()), *self._folders]
        starts = [str(pattern.start) for pattern in self._patterns]
        unread = [str(self._path_of(file)) for file in self.unwatched]
        return {**dict.fromkeys([*starts, *unread], False), **dict.fromkeys(there, True)}

    def pathspecs(self) -> list[str]:
        """Return the patterns of the files in a project as pathspecs of git."""
        return [f":(glob){pattern.load.pattern}" for pattern in self._patterns]

    def _path_of(self, file: str) -> Path:
        return self._home / file[2:] if file.startswith("~/") else self.root / file

    def _name_of(self, path: Path) -> str:
        if self.scope == "project":
            return path.relative_to(self.root).as_posix()
        is_below = path.is_relative_to(self._home)
        return f"~/{path.relative_to(self._home).as_posix()}" if is_below else str(path)

    def _paths_of(self, pattern: _Pattern) -> Iterator[Path]:
        """Yield the paths that match a pattern. Note a folder that cannot be read. Stop, with a
        note, if too many files match.
        """
        if "*" not in pattern.load.pattern:
            if os.path.lexists(pattern.start):
                yield pattern.start
            return

        def refuse(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                reason = f"cannot be read ({error.strerror})"
                self.unwatched[self._name_of(Path(error.filename))] = reason

        files = 0
        for folder, folders, names in os.walk(pattern.start, onerror=refuse):
            self._folders.append(folder)
            folders.sort()
            for name in sorted(names):
                path = Path(folder, name)
                if pattern.matches(path.relative_to(pattern.folder).as_posix()):
                    files += 1
                    yield path
            if files > _MOST_FILES:
                start = self._name_of(pattern.start)
                self.unwatched[start] = f"has more than {_MOST_FILES:,} files"
                return

    def _admitted(self, pattern: _Pattern, path: Path) -> Path | None:
        """Return the path of a file without links; None if it is not read.

        The reason is recorded in `unwatched`.
        """
        file = self._name_of(path)
        real = Path(os.path.realpath(path))  # unlike `resolve`, also works for a loop of links
        try:
            status = real.stat()
        except OSError as error:
            self.unwatched[file] = f"cannot be read ({error.strerror})"
            return None
        if stat.S_ISDIR(status.st_mode):
            return None
        fault = ""
        if not file.isprintable():
            fault = "has an invisible character in its name, such as a line break"
        elif not real.is_relative_to(pattern.real):
            fault = f"is a symbolic link that points outside {pattern.folder}"
        elif not stat.S_ISREG(status.st_mode):
            fault = "is not a regular file"
        elif status.st_size > MAX_BYTES:
            fault = "has more than 1 MB"
        if fault:
            self.unwatched[file] = fault
        return None if fault else real


def _patterns_of(root: Path, scope: Scope, *, in_any: bool) -> list[_Pattern]:
    """Return the patterns of all agents, without duplicates."""
    every_load = [reader.loads for reader in readers()]
    if scope == "project":
        loaded = [load for loads in every_load for load in loads.project]
        return _patterns_below(root, loaded)
    slug = re.sub(r"[^A-Za-z0-9]", "-", str(root))
    name = "*" if in_any else slug if len(slug) <= _MAX_SLUG else f"{slug[:_MAX_SLUG]}*"
    patterns = []
    for loads in every_load:
        memory = [
            load._replace(pattern=load.pattern.replace("{slug}", name)) for load in loads.memory
        ]
        patterns += _patterns_below(loads.own.folder, [*loads.user, *memory])
    return list(dict.fromkeys(patterns))


def _patterns_below(folder: Path, every_load: Iterable[Load]) -> list[_Pattern]:
    """Return the patterns of the files that are loaded from a folder, without duplicates."""
    real = folder.resolve()
    watched = [Load(load.pattern, lines=load.lines) for load in every_load]
    return [_Pattern(folder, real, load) for load in dict.fromkeys(watched)]
