"""Changes of watched files that git made, or that its commits hold.

Invariant: git is only asked. A file counts as changed by git only if its content before and after
is that of the commits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from reflector.events.memory import CHECKOUT, COMMIT, MERGE
from reflector.files import read_bounded
from reflector.git import git_says, repository
from reflector.memory.files import MAX_BYTES
from reflector.text.bounds import clean

_MOST_MOVES = 500
_MAX_AUTHOR = 120
_MOVE = re.compile(rb"^(\w+) (\w+) [^\n\t]*> (\d+) [+-]\d{4}\t?([^\n]*)$", re.MULTILINE)
_MAX_REFLOG = 1 << 24
#: Openings of a line of the reflog, and whether git took the content from a commit that was made
#: with it, or from commits of others; everything else is a checkout.
_COMMITS = re.compile(rb"commit|cherry-pick|revert|am:|rebase[^:]*\((?:pick|continue|reword|fixup)")
_MERGES = re.compile(rb"merge|pull")
_FORCES = re.compile(rb"reset|checkout|rebase|stash")
_LOG = (
    *("log", "--reverse", "--topo-order", "--raw", "-r", "-z", "--no-abbrev", "--no-renames"),
    "--format=%x01%x00%H%x00%ct%x00%an%x00%cn%x00",
)
#: What `_LOG` prints before the four parts of a commit, and before the path of a file. Parts end
#: with a null byte, which neither a name nor a path contains.
_COMMIT = b"\x01"
_RAW_FILE = re.compile(rb":\d{6} \d{6} (\w+) (\w+) \w")


class Commit(NamedTuple):
    """A change of one file in one commit; None for no file.

    author  and the committer if that is another person
    time    of the commit, in seconds since the epoch
    """

    file: str
    commit: str
    author: str
    time: float
    before: bytes | None
    after: bytes | None


class Move(NamedTuple):
    """A move of HEAD that changes one file, None for no file.

    by      commit, checkout or merge
    forces  whether git writes the file whatever it contained
    """

    file: str
    by: str
    commit: str
    author: str
    time: float
    before: bytes | None
    after: bytes | None
    forces: bool = False


class Repository:
    """The repository of a project, as far as it concerns watched files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        top, folder = repository(root)
        self.exists = folder is not None
        self._reflog = Path(folder or top, "logs/HEAD")
        below = root.relative_to(top).as_posix()
        self._prefix = "" if below == "." else f"{below}/"

    def tracked(self, files: Sequence[str]) -> set[str]:
        """Return the files that git tracks."""
        listed = git_says(self.root, "ls-files", "-z", "--", *_literal(files)) if files else b""
        return {os.fsdecode(name) for name in (listed or b"").split(b"\0") if name}

    @property
    def reflog_size(self) -> int:
        """The size of the reflog of HEAD in bytes, 0 without one."""
        with suppress(OSError):
            return self._reflog.stat().st_size
        return 0

    def moves(self, files: Sequence[str], start: int) -> list[Move]:
        """Return the moves of HEAD that change one of some files, oldest first.

        start  the size of the reflog at the last look
        """
        reflog = b""
        with suppress(OSError):
            reflog = read_bounded(self._reflog, _MAX_REFLOG)
        entries = _MOVE.findall(reflog, start if start <= len(reflog) else 0)[-_MOST_MOVES:]
        return [
            move
            for old, new, time, subject in entries
            for file in files
            for move in self._move(file, old.decode(), new.decode(), float(time), subject)
        ]

    def commits(self, places: Sequence[str], revisions: str = "HEAD") -> list[Commit]:
        """Return the changes of files in commits without merges, oldest first.

        places  the files, as pathspecs of git
        """
        listed = git_says(self.root, *_LOG, revisions, "--", *places) or b""
        changes = list(_changed_files(listed))
        oids = {oid for changed in changes for oid in (changed.old, changed.new)}
        contents = self._contents(oids)
        return [
            Commit(
                os.fsdecode(changed.path).removeprefix(self._prefix),
                changed.head.commit.decode(),
                _author(changed.head.author, changed.head.committer),
                float(changed.head.time),
                contents.get(changed.old),
                contents.get(changed.new),
            )
            for changed in changes
        ]

    def _move(self, file: str, old: str, new: str, time: float, subject: bytes) -> Iterable[Move]:
        names = [f"{commit}:{self._prefix}{file}" for commit in (old, new)]
        contents = self._contents(names)
        before, after = (contents.get(name) for name in names)
        by = CHECKOUT
        if _COMMITS.match(subject):
            by = COMMIT
        elif _MERGES.match(subject):
            by = MERGE
        if by == MERGE:
            commits = self.commits([*_literal([file])], f"{old}..{new}")
            if _are_a_chain(commits, before, after):
                return [_as_move(commit, time) for commit in commits]
        forces = by == CHECKOUT and _FORCES.match(subject) is not None
        if before == after and (before is None or not forces):
            return []
        author = self._author_of(new) if by != CHECKOUT else ""
        return [Move(file, by, new, author, time, before, after, forces)]

    def _author_of(self, commit: str) -> str:
        names = git_says(self.root, "log", "-1", "--format=%an%x02%cn", commit) or b""
        author, _, committer = names.strip().partition(b"\x02")
        return _author(author, committer)

    def _contents(self, names: Collection[str]) -> dict[str, bytes]:
        """Return the contents of blobs by the names that git has for them."""
        asked = [name for name in names if "\n" not in name]
        lines = "".join(f"{name}\n" for name in asked)
        output = git_says(self.root, "cat-file", "--batch", given=os.fsencode(lines)) or b""
        contents: dict[str, bytes] = {}
        place = 0
        for name in asked:
            end = output.find(b"\n", place)
            head = output[place:end].split(b" ")
            place = end + 1
            if end < 0 or head[-1] in (b"missing", b"ambiguous"):
                continue
            size = int(head[-1])
            if head[1] == b"blob" and size <= MAX_BYTES:
                contents[name] = output[place : place + size]
            place += size + 1
        return contents


class _Head(NamedTuple):
    """The parts of a commit, as `_LOG` prints them."""

    commit: bytes
    time: bytes
    author: bytes
    committer: bytes


class _Changed(NamedTuple):
    """A file of a commit, with the names of its contents before and after."""

    head: _Head
    path: bytes
    old: str
    new: str


def _changed_files(listed: bytes) -> Iterator[_Changed]:
    """Yield the files of the commits that `_LOG` printed."""
    parts = iter(listed.split(b"\0"))
    head: _Head | None = None
    for part in parts:
        if part.lstrip(b"\n") == _COMMIT:
            head = _Head(*(next(parts, b"") for _ in _Head._fields))
        elif head is not None and (raw := _RAW_FILE.fullmatch(part.lstrip(b"\n"))):
            yield _Changed(head, next(parts, b""), raw[1].decode(), raw[2].decode())


def _as_move(commit: Commit, time: float) -> Move:
    return Move(
        commit.file, COMMIT, commit.commit, commit.author, time, commit.before, commit.after
    )


def _are_a_chain(commits: Sequence[Commit], before: bytes | None, after: bytes | None) -> bool:
    """Return whether each commit begins with the content with which the one before ends."""
    contents = [before, *(commit.after for commit in commits)]
    begins = [commit.before for commit in commits]
    return bool(commits) and contents[-1] == after and contents[:-1] == begins


def _author(author: bytes, committer: bytes) -> str:
    names = [clean(name.decode("utf-8", "replace"), _MAX_AUTHOR) for name in (author, committer)]
    return names[0] if names[0] == names[1] else f"{names[0]} (committed by {names[1]})"


def _literal(files: Sequence[str]) -> Iterator[str]:
    return (f":(literal){file}" for file in files)
