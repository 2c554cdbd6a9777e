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

from reflector.files import read_bounded
from reflector.git import git_says, repository
from reflector.memory.files import MAX_BYTES
from reflector.text.bounds import clean

_MOST_MOVES = 500
#: The newest commits whose changes are read, the bytes of their files together, and how many
#: changes are read at once.
_MOST_COMMITS = 1_000
_MOST_BYTES = 1 << 24
_AT_ONCE = 32
#: The object id of no file, as `_LOG` prints it.
_NO_OID = "0" * 40
_MAX_AUTHOR = 120
_MOVE = re.compile(rb"^(\w+) (\w+) [^\n\t]*> (\d+) [+-]\d{4}\t?([^\n]*)$", re.MULTILINE)
_MAX_REFLOG = 1 << 24
#: Openings of a line of the reflog: HEAD has commits that it did not have before, made here or by
#: others; everything else is a checkout. Some checkouts write a file whatever it contained.
_BRINGS_COMMITS = re.compile(
    rb"commit|cherry-pick|revert|am:|merge|pull|rebase[^:]*\((?:pick|continue|reword|fixup|squash)"
)
_FORCES = re.compile(rb"reset|checkout|rebase|stash")
_LOG = (
    *("log", "--reverse", "--topo-order", "--raw", "-c", "-r", "-z", "--no-abbrev"),
    *("--no-renames", f"--max-count={_MOST_COMMITS}"),
    "--format=%x01%x00%H%x00%ct%x00%an%x00%cn%x00",
)
_BLOB = re.compile(rb"([0-9a-f]+) blob (\d+)")
#: What `_LOG` prints before the four parts of a commit, and before the path of a file. Parts end
#: with a null byte, which neither a name nor a path contains.
_COMMIT = b"\x01"
#: A merge has a part for each parent, and a file only if it differs from all of them.
_RAW_FILE = re.compile(rb":+(?:\d{6} )+(\w+) (?:\w+ )*?(\w+) \w+")


class Commit(NamedTuple):
    """A change of one file in one commit, from its first parent; None for no file.

    author    and the committer if that is another person
    time      of the commit, in seconds since the epoch
    is_merge  whether it has several parents, and the file differs from all of them
    """

    file: str
    commit: str
    author: str
    time: float
    is_merge: bool
    before: bytes | None
    after: bytes | None


class Move(NamedTuple):
    """A move of HEAD to a commit that changes one file, None for no file.

    forces   whether git writes the file whatever it contained
    commits  those that HEAD has since, and that changed the file; none for a checkout
    """

    file: str
    commit: str
    time: float
    before: bytes | None
    after: bytes | None
    forces: bool = False
    commits: tuple[Commit, ...] = ()

    def with_line_ends(self, contents: Iterable[bytes | None]) -> Move:
        """Return the move with the line ends that some contents have on this machine."""
        here = {_unix(content): content for content in contents}
        return self._replace(
            before=here.get(_unix(self.before), self.before),
            after=here.get(_unix(self.after), self.after),
            commits=tuple(
                commit._replace(
                    before=here.get(_unix(commit.before), commit.before),
                    after=here.get(_unix(commit.after), commit.after),
                )
                for commit in self.commits
            ),
        )


def _unix(content: bytes | None) -> bytes | None:
    return content and content.replace(b"\r\n", b"\n")


class _Blob(NamedTuple):
    oid: str
    size: int


_NO_FILE = _Blob(_NO_OID, 0)


class Repository:
    """The repository of a project, as far as it concerns watched files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        top, folder = repository(root)
        self.exists = folder is not None
        self._reflog = Path(folder or top, "logs/HEAD")
        below = root.relative_to(top).as_posix()
        self._prefix = "" if below == "." else f"{below}/"

    def tracked(self, files: Collection[str]) -> set[str]:
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
        names = {
            f"{commit.decode()}:{self._prefix}{file}"
            for old, new, *_ in entries
            for commit in (old, new)
            for file in files
        }
        blobs = self._blobs(names)
        contents = self._contents({_NO_OID, *(blob.oid for blob in blobs.values())})
        moves = []
        for old, new, time, subject in entries:
            forces = _FORCES.match(subject) is not None and not _BRINGS_COMMITS.match(subject)
            for file in files:
                name = f"{self._prefix}{file}"
                before = blobs.get(f"{old.decode()}:{name}", _NO_FILE).oid
                after = blobs.get(f"{new.decode()}:{name}", _NO_FILE).oid
                is_changed = before != after or (forces and after != _NO_OID)
                if is_changed and before in contents and after in contents:
                    move = Move(
                        file, new.decode(), float(time), contents[before], contents[after], forces
                    )
                    moves.append(self._with_commits(move, old.decode(), subject))
        return moves

    def _with_commits(self, move: Move, old: str, subject: bytes) -> Move:
        """Return a move with the commits that it brought, if they lead to the content after it."""
        if move.before == move.after or not _BRINGS_COMMITS.match(subject):
            return move
        revisions = f"{old}..{move.commit}" if old.strip("0") else move.commit
        commits = tuple(self.commits(_literal([move.file]), revisions))
        is_whole = bool(commits) and commits[-1].after == move.after
        return move._replace(commits=commits) if is_whole else move

    def commits(
        self,
        places: Iterable[str],
        revisions: str = "HEAD",
        known: Collection[tuple[str, str]] = (),
    ) -> Iterator[Commit]:
        """Yield the newest changes of files in commits, oldest first. A merge is one only if the
        file differs from all its parents.

        places  the files, as pathspecs of git
        known   the files and commits that are passed over
        """
        listed = git_says(self.root, *_LOG, revisions, "--", *places) or b""
        changes = [
            changed
            for changed in self._newest(list(_changed_files(listed)))
            if (self._file(changed), changed.head.commit.decode()) not in known
        ]
        for first in range(0, len(changes), _AT_ONCE):
            few = changes[first : first + _AT_ONCE]
            contents = self._contents(
                {oid for changed in few for oid in (changed.old, changed.new)}
            )
            for changed in few:
                if changed.old in contents and changed.new in contents:
                    yield Commit(
                        self._file(changed),
                        changed.head.commit.decode(),
                        _author(changed.head.author, changed.head.committer),
                        float(changed.head.time),
                        changed.is_merge,
                        contents[changed.old],
                        contents[changed.new],
                    )

    def _newest(self, changes: Sequence[_Changed]) -> Sequence[_Changed]:
        """Return the newest changes whose contents together are not too long."""
        blobs = self._blobs({changed.new for changed in changes})
        size = 0
        for place in range(len(changes) - 1, -1, -1):
            size += min(blobs.get(changes[place].new, _NO_FILE).size, MAX_BYTES)
            if size > _MOST_BYTES:
                return changes[place + 1 :]
        return changes

    def _file(self, changed: _Changed) -> str:
        return os.fsdecode(changed.path).removeprefix(self._prefix)

    def _blobs(self, names: Collection[str]) -> dict[str, _Blob]:
        """Return the blobs that some names have, such as `HEAD:CLAUDE.md`."""
        asked = [name for name in names if "\n" not in name]
        lines = "".join(f"{name}\n" for name in asked)
        output = git_says(self.root, "cat-file", "--batch-check", given=os.fsencode(lines)) or b""
        heads = map(_BLOB.fullmatch, output.splitlines())
        return {
            name: _Blob(head[1].decode(), int(head[2]))
            for name, head in zip(asked, heads, strict=False)
            if head
        }

    def _contents(self, oids: Collection[str]) -> dict[str, bytes | None]:
        """Return the contents of blobs by their object ids, without those above 1 MB; None for no
        file.
        """
        lines = "".join(f"{oid}\n" for oid in oids)
        output = git_says(self.root, "cat-file", "--batch", given=os.fsencode(lines)) or b""
        contents: dict[str, bytes | None] = {oid: None for oid in oids if not oid.strip("0")}
        place = 0
        for oid in oids:
            end = output.find(b"\n", place)
            head = output[place:end].split(b" ")
            place = end + 1
            if end < 0 or head[-1] == b"missing":
                continue
            size = int(head[-1])
            if head[1] == b"blob" and size <= MAX_BYTES:
                contents[oid] = output[place : place + size]
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
    is_merge: bool


def _changed_files(listed: bytes) -> Iterator[_Changed]:
    """Yield the files of the commits that `_LOG` printed."""
    parts = iter(listed.split(b"\0"))
    head: _Head | None = None
    for part in parts:
        if part.lstrip(b"\n") == _COMMIT:
            head = _Head(*(next(parts, b"") for _ in _Head._fields))
        elif head is not None and (raw := _RAW_FILE.fullmatch(part.lstrip(b"\n"))):
            is_merge = raw[0].startswith(b"::")
            yield _Changed(head, next(parts, b""), raw[1].decode(), raw[2].decode(), is_merge)


def _author(author: bytes, committer: bytes) -> str:
    names = [clean(name.decode("utf-8", "replace"), _MAX_AUTHOR) for name in (author, committer)]
    return names[0] if names[0] == names[1] else f"{names[0]} (committed by {names[1]})"


def _literal(files: Iterable[str]) -> Iterator[str]:
    return (f":(literal){file}" for file in files)
