"""Changes to files that git made, or that its commits contain.

Invariant: git is only read. A change is git's only if the content before and after it is that of
the commits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from reflector.attribution.files import MAX_BYTES
from reflector.attribution.steps import (
    NO_FILE,
    UNSEEN_CONTENT,
    Author,
    Content,
    Difference,
    Step,
    content_of,
)
from reflector.events.memory import CHECKOUT, COMMIT, MERGE, STASH
from reflector.files import read_bounded
from reflector.git import GitUnavailable, git_says, read_blobs, repository
from reflector.text.bounds import clean

_MOST_MOVES = 500
#: The most commits whose changes are read, newest first, and the most bytes of all their files.
_MOST_COMMITS = 1_000
_MOST_BYTES = 1 << 24
_MAX_AUTHOR = 120
_MOVE = r"(?m)^(\w+) (\w+) [^\n\t]*> (\d+) [+-]\d{4}\t?([^\n]*)$"
_MAX_REFLOG = 1 << 24
#: The beginnings of reflog lines that bring new commits to HEAD, made here or elsewhere. All other
#: lines are checkouts. Some checkouts write a file regardless of its content.
_BRINGS_COMMITS = (
    r"commit|cherry-pick|revert|am:|merge|pull|rebase[^:]*\((?:pick|continue|reword|fixup|squash)"
)
_FORCES = ("reset", "checkout", "rebase")
_LOG = (
    *("log", "--topo-order", "--name-only", "-c", "-z", "--relative", "--no-renames"),
    *(f"--max-count={_MOST_COMMITS}", "--format=%x01%x00%H%x00%P%x00%ct%x00%an%x00%cn%x00"),
)
#: The output of `_LOG` before the parts of a commit. Parts end with a null byte, because neither a
#: name nor a path can contain one.
_COMMIT = b"\x01"
#: Contents with the line ends of this machine, by those with the line ends of git.
_Here = Mapping[bytes | None, bytes | None]


class _Entry(NamedTuple):
    """An entry of a reflog: a move from one commit to another."""

    old: str
    new: str
    time: int
    subject: str


class Move(NamedTuple):
    """A move of HEAD to a commit that changes one file.

    author   of a change without commits: the git command
    forces   whether git writes the file regardless of its content
    commits  commits that the move brought to HEAD and that changed the file
    """

    file: str
    author: Author
    time: float
    before: Content
    after: Content
    forces: bool = False
    commits: tuple[Step, ...] = ()


class Repository:
    """The repository of a project.

    root  None for files that are not in a project
    """

    def __init__(self, root: Path | None) -> None:
        self._root = root
        folder = repository(root)[1] if root is not None else None
        self._logs = folder / "logs" if folder is not None else None

    def tracked(self, places: Collection[str]) -> set[str]:
        """Return the files at some places, as pathspecs of git, that git tracks."""
        listed = self._ask("ls-files", "-z", "--", *places) if places else b""
        return {os.fsdecode(name) for name in listed.split(b"\0") if name}

    def _ask(self, *arguments: str) -> bytes:
        """Return the output of git; nothing if there is no repository or git fails."""
        if self._root is None or self._logs is None:
            return b""
        return git_says(self._root, *arguments) or b""

    def _reflog(self, name: str) -> bytes:
        """Return the log of a reference; nothing if it cannot be read."""
        with suppress(OSError):
            return read_bounded(self._logs / name, _MAX_REFLOG) if self._logs else b""
        return b""

    @property
    def reflog_size(self) -> int:
        """The size of the reflog of HEAD in bytes; 0 without a reflog."""
        return len(self._reflog("HEAD"))

    def moves(self, differences: Sequence[Difference], start: int) -> list[Move]:
        """Return the moves of HEAD that may explain differences, oldest first.

        A move brings commits if HEAD was never at its new commit, and if the subject is that of a
        command that makes or fetches commits. Every other move is a checkout.

        start  the size of the reflog at the last look
        """
        files = [difference.file for difference in differences]
        contents_here = (content for each in differences for content in (each.before, each.after))
        reflog = self._reflog("HEAD")
        start = start if start <= len(reflog) else 0
        heads = {commit for entry in _entries(reflog[:start]) for commit in entry[:2]}
        entries = _entries(reflog[start:])
        here = {_unix(content.bytes): content.bytes for content in contents_here}
        here |= dict.fromkeys(self._links(files), NO_FILE.bytes)
        names = (
            _name(commit, file)
            for entry in reversed(entries)
            for commit in (entry.new, entry.old)
            for file in files
        )
        contents = self._contents(names, here)
        moves: list[Move] = []
        for entry in entries:
            brings_commits = entry.new not in heads and re.match(_BRINGS_COMMITS, entry.subject)
            heads |= {entry.old, entry.new}
            author = self._author(entry)
            forces = not brings_commits and entry.subject.startswith(_FORCES)
            for file in files:
                before = contents.get(_name(entry.old, file))
                after = contents.get(_name(entry.new, file))
                if before is None or after is None:
                    continue
                move = Move(file, author, entry.time, before, after, forces)
                if brings_commits and before != after:
                    moves.append(self._with_commits(move, entry, here))
                elif before != after or _rewrites(move, entry, moves):
                    moves.append(move)
        return moves

    def _links(self, files: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents in git of the files that are links: the paths that they lead to."""
        if self._root is None:
            return
        for file in files:
            with suppress(OSError):
                yield os.fsencode((self._root / file).readlink())

    def _author(self, entry: _Entry) -> Author:
        """Return the author of a move without commits: a stash or a checkout."""
        if entry.old == entry.new:  # a stash moves HEAD to its current commit, a second later
            for stash in _entries(self._reflog("refs/stash")):
                if 0 <= entry.time - stash.time <= 1:
                    return Author(STASH, commit=stash.new)
        return Author(CHECKOUT, commit=entry.new)

    def _with_commits(self, move: Move, entry: _Entry, here: _Here) -> Move:
        """Return a move with the commits that it brought, if they lead to the content after it."""
        has_old = entry.old.strip("0")
        revisions = f"{entry.old}..{entry.new}" if has_old else entry.new
        commits = tuple(self.commits([f":(literal){move.file}"], revisions, here=here))
        is_whole = bool(commits) and commits[-1].after == move.after
        return move._replace(commits=commits) if is_whole else move

    def commits(
        self,
        places: Iterable[str],
        revisions: str = "HEAD",
        known: Collection[tuple[str, ...]] = (),
        here: _Here = MappingProxyType({}),
    ) -> list[Step]:
        """Return the newest changes to files in commits, oldest first.

        A merge counts as a change only if the file differs from all of its parents.

        places    the files, as pathspecs of git
        known     the files and commits to skip
        here      contents with the line ends of this machine, by those with the line ends of git
        """
        listed = self._ask(*_LOG, revisions, "--", *places)
        changes = [
            change
            for change in _changes(listed)
            if (change.file, change.author.commit) not in known
        ]
        contents = self._contents((name for change in changes for name in _names(change)), here)
        with_contents = []
        for change in reversed(changes):
            after, before = map(contents.get, _names(change))
            # Contents that are too large are missing.
            if after is not None and before is not None:
                with_contents.append(change._replace(after=after, before=before))
        return with_contents

    def _contents(self, names: Iterable[str], here: _Here) -> dict[str, Content]:
        """Return the contents of files in commits, such as `HEAD:./CLAUDE.md`.

        Contents above 1 MB are omitted. So are the last ones if all together have too many bytes.
        """
        asked = {os.fsencode(name): name for name in names}
        if self._root is None or not asked:
            return {}
        blobs: Mapping[bytes, bytes | None] = {}
        with suppress(GitUnavailable):
            blobs = read_blobs(self._root, asked, MAX_BYTES, _MOST_BYTES)
        return {
            asked[name]: content_of(here.get(_unix(content), content))
            for name, content in blobs.items()
        }


def _entries(reflog: bytes) -> list[_Entry]:
    """Return the newest entries of a reflog."""
    entries = re.findall(_MOVE, reflog.decode("utf-8", "replace"))[-_MOST_MOVES:]
    return [_Entry(old, new, int(time), subject) for old, new, time, subject in entries]


def _rewrites(move: Move, entry: _Entry, earlier: Iterable[Move]) -> bool:
    """Return whether a move writes a file that is equal in both of its commits.

    `reset --hard` does this. It need not write a file that was just committed.
    """
    is_committed = any(
        (each.file, each.after) == (move.file, move.after) and not each.forces for each in earlier
    )
    return entry.subject.startswith("reset") and move.after != NO_FILE and not is_committed


def _changes(listed: bytes) -> Iterator[Step]:
    """Yield the changes in the output of `_LOG`, without contents."""
    parts = (part.lstrip(b"\n") for part in listed.split(b"\0"))
    author = Author(COMMIT)
    time = 0.0
    for part in parts:
        if part == _COMMIT:
            texts = [next(parts, b"").decode("utf-8", "replace") for _ in range(5)]
            by = MERGE if " " in texts[1] else COMMIT
            author = Author(by, commit=texts[0], author=_people(*texts[3:]))
            time = float(texts[2])
        elif part:
            yield Step(os.fsdecode(part), UNSEEN_CONTENT, UNSEEN_CONTENT, author, time)


def _people(author: str, committer: str) -> str:
    names = [clean(name, _MAX_AUTHOR) for name in (author, committer)]
    return names[0] if names[0] == names[1] else f"{names[0]} (committed by {names[1]})"


def _name(commit: str, file: str) -> str:
    return f"{commit}:./{file}"


def _names(change: Step) -> list[str]:
    """Return the names of the contents after and before a commit."""
    commit = change.author.commit
    return [_name(commit, change.file), _name(f"{commit}^", change.file)]


def _unix(content: bytes | None) -> bytes | None:
    return content and content.replace(b"\r\n", b"\n")
