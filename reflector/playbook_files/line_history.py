"""The history of lines of advice in git: the content of HEAD of this clone over time, and the dates
of the commits that brought each line.

Invariant: git is only read, and runs no program of a repository. The states of HEAD are those of
its reflog, or without one those of its first parents by the dates of their commits. A rewording
keeps the history of its line, unless it demands the opposite. So does a line that moves between two
files that agents load. Everything that git does not show is unknown. The number of git commands
does not depend on the length of the history.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from reflector.files import read_bounded, read_ours, write_durably
from reflector.git import GitUnavailable, ask_git, read_blobs
from reflector.instructions.units import units_of
from reflector.locate import AGENT_FILES
from reflector.playbook.admissible import same_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.duplicates import near
from reflector.playbook_files.watching import likeness
from reflector.text.lazy import lazy_pattern
from reflector.text.words import terms

MAX_BYTES = 1 << 20
#: From this likeness on, a text has the history of the text that it replaces.
_LEAST_LIKENESS = 0.8
#: The maximum size of the newest versions of the files that are read: a few seconds' work.
_MAX_BYTES_OF_ALL = 1 << 22
_MAX_REFLOG_BYTES = 1 << 24
_MOST_STATES = 5_000
#: Files, and folders of rules, that agents load automatically in a project.
_LOADED = (
    *AGENT_FILES,
    ".claude/CLAUDE.md",
    ".claude/rules",
    ".github/instructions",
    ".cursor/rules",
)
#: Other files from which a line may have come.
_PROSE = (".md", ".mdc", ".txt", "rules")
_PLACES = ("rev-parse", "--show-toplevel", "--show-prefix", "--git-path", "logs/HEAD", "HEAD")
_RAW = ("-r", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-relative")
_LOG = (
    *("log", *_RAW, "--full-history", "--full-diff", "--diff-merges=separate"),
    "--format=%x01%H %at %P%x01",
)
_FIRST_PARENTS = ("log", "--first-parent", "--format=%H %ct")
_TREES = ("cat-file", "--batch-check=%(objectname)")
#: A check asks about all lines of the files, and about the lines that it shows.
_MOST_ANSWERS = 4
#: The tree without files, by the length of a repository's hashes.
_EMPTY_TREES = {
    40: b"4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: b"6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_NO_COMMIT = b""
#: The version of the answers. It changes if a history would give another answer.
_VERSION = "2"
_CHANGED_FILE = lazy_pattern(rb":\d{6} \d{6} (\w+) (\w+) \w\0([^\0]+)\0")
_REFLOG_ENTRY = lazy_pattern(rb"^(\w+) (\w+) .*> (\d+) [+-]\d{4}", re.MULTILINE)


class State(NamedTuple):
    """HEAD from a time on. `has_line` is whether it contains a line, None if that is not known."""

    time: float
    has_line: bool | None


@dataclass(frozen=True, slots=True)
class Past:
    """The states of HEAD, and the time of each commit that brought the line. The time is -inf if
    the line may be older than that commit.
    """

    states: Sequence[State] = (State(-inf, None),)
    written: Sequence[float] = ()

    def has_line_at(self, time: float) -> bool | None:
        """Return whether HEAD contained the line at a time; None if that is not known."""
        later = bisect_right(self.states, time, key=itemgetter(0))
        return self.states[later - 1].has_line if later else False

    def is_coming(self, time: float) -> bool:
        """Return whether a commit with the line existed but was not in this clone yet."""
        return any(written <= time < self._arrival(written) for written in self.written)

    def _arrival(self, written: float) -> float:
        """Return when a commit with the line came into HEAD; inf if it never did."""
        if self.has_line_at(written):
            return written
        arrivals = (state.time for state in self.states if state.has_line and state.time > written)
        return next(arrivals, inf)


def pasts_of(
    root: Path, files: Collection[Path], texts: Collection[str], kept: Path | None = None
) -> Mapping[str, Past]:
    """Return the history of each text, in the form of `same_words`, in these files of a project and
    in those that agents load.

    kept  a file with the answers to the last questions
    """
    try:
        git = _Git(root, files)
        digest = git.digest(texts)
        pasts = _read_pasts(kept, digest)
        if pasts is None:
            history = _History(git, texts)
            pasts = {text: history.past(text) for text in texts}
            _keep_pasts(kept, digest, pasts)
    except GitUnavailable:
        return dict.fromkeys(texts, Past())
    return pasts


def _read_pasts(kept: Path | None, digest: str) -> Mapping[str, Past] | None:
    """Return the kept answer; None if there is none for this question."""
    try:
        return {
            text: Past([State(*state) for state in states], written)
            for text, (states, written) in _kept_answers(kept)[digest].items()
        }
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def _kept_answers(kept: Path | None) -> dict[str, Any]:
    """Return the answers by the digests of their questions, the newest last."""
    try:
        answers = json.loads(read_ours(kept, _MAX_BYTES_OF_ALL) if kept else b"")
    except (OSError, ValueError, RecursionError):
        return {}
    return answers if isinstance(answers, dict) else {}


def _keep_pasts(kept: Path | None, digest: str, pasts: Mapping[str, Past]) -> None:
    if kept is not None and kept.parent.is_dir():
        answer = {text: (past.states, past.written) for text, past in pasts.items()}
        answers = dict(list(_kept_answers(kept).items())[1 - _MOST_ANSWERS :])
        content = json.dumps({**answers, digest: answer}).encode()
        with suppress(OSError):
            write_durably(str(kept.parent), content, kept.name)


def texts_in(content: bytes) -> Set[str]:
    """Return the advice in a file, in the form of `same_words`."""
    return {same_words(unit.text) for unit in units_of(content.decode("utf-8", "replace"))}


@dataclass(frozen=True, slots=True)
class _Change:
    """The blobs before and after a commit.

    before, after  of the files of advice
    others         of other files before the commit, from which a line may have come
    """

    before: set[bytes]
    after: set[bytes]
    others: set[bytes]

    @property
    def blobs(self) -> Set[bytes]:
        return self.before | self.after | self.others

    def brings(self, blobs: Set[bytes]) -> bool:
        """Return whether the change adds a line that is in these blobs."""
        return self.before.isdisjoint(blobs) and not self.after.isdisjoint(blobs)


@dataclass(slots=True)
class _Commit:
    """A commit that changed the files, with the change to each of its parents."""

    written: float
    parents: int
    changes: list[_Change] = field(default_factory=list)

    def brings(self, blobs: Set[bytes]) -> bool:
        """Return whether the commit adds a line that is in these blobs and in no parent."""
        return sum(change.brings(blobs) for change in self.changes) == max(1, self.parents)

    def born(self, blobs: Set[bytes]) -> float:
        """Return when the line was written; -inf if it may be older than the commit."""
        is_moved = any(not change.others.isdisjoint(blobs) for change in self.changes)
        return -inf if is_moved or not self.parents else self.written


class _Head(NamedTuple):
    """HEAD from a time on: one of the commits. `_NO_COMMIT` is any commit."""

    time: float
    commits: Set[bytes]


class _Git:
    """Questions to git about files of advice. Each raises GitUnavailable."""

    def __init__(self, root: Path, files: Iterable[Path]) -> None:
        self._top = root
        top, prefix, reflog, self._head = self._ask(*_PLACES).splitlines()
        self._top = Path(os.fsdecode(top))
        self._reflog = _read_reflog(root / os.fsdecode(reflog))
        loaded = [os.fsdecode(prefix) + name for name in _LOADED]
        named = [file.relative_to(self._top) for file in files if file.is_relative_to(self._top)]
        self._paths = {*loaded, *map(str, named)}
        self._only = ["--", *(f":(literal){path}" for path in self._paths)]

    def _ask(self, *arguments: str, given: Iterable[bytes] = ()) -> bytes:
        answer = ask_git(self._top, *arguments, given=b"".join(line + b"\n" for line in given))
        if answer is None:
            raise GitUnavailable(f"the command `git {arguments[0]}` did not answer")
        return answer

    def digest(self, texts: Iterable[str]) -> str:
        """Return a digest of everything that determines the history of these texts."""
        question = [_VERSION, *sorted(self._paths), "", *sorted(texts)]
        return sha256(
            b"\0".join([self._head, self._reflog, *map(os.fsencode, question)])
        ).hexdigest()

    def commits(self) -> Collection[_Commit]:
        """Return the commits in HEAD's history that changed the files."""
        commits: dict[bytes, _Commit] = {}
        _, *pieces = self._ask(*_LOG, "HEAD", *self._only).split(b"\1")
        for header, difference in zip(pieces[::2], pieces[1::2], strict=True):
            name, written, *parents = header.split()
            commit = commits.setdefault(name, _Commit(float(written), len(parents)))
            commit.changes.append(self._change(difference, has_parent=bool(parents)))
        return commits.values()

    def _change(self, difference: bytes, *, has_parent: bool) -> _Change:
        """Return the blobs of the files in the raw difference of a commit. Without a parent, no
        line came from another file.
        """
        change = _Change(set(), set(), set())
        for before, after, name in _CHANGED_FILE.findall(difference):
            path = os.fsdecode(name)
            if not self._paths.isdisjoint((path, *map(str, PurePosixPath(path).parents))):
                change.before.add(before)
                change.after.add(after)
            elif has_parent and path.endswith(_PROSE):
                change.others.add(before)
        return change

    def heads(self) -> list[_Head]:
        """Return the states of HEAD from its reflog, or else from the dates of its commits."""
        if entries := _REFLOG_ENTRY.findall(self._reflog):
            heads = _heads(entries[-_MOST_STATES:])
            if self._head not in heads[-1].commits:
                heads[-1] = heads[-1]._replace(commits={_NO_COMMIT})
            return heads
        log = self._ask(*_FIRST_PARENTS, "HEAD", *self._only).splitlines()
        return _heads((b"", *line.split()) for line in reversed(log))

    def blobs_at(self, commits: Collection[bytes]) -> Mapping[bytes, Set[bytes]]:
        """Return the blobs of the files in each commit that this clone has."""
        names = self._ask(*_TREES, given=(commit + b"^{tree}" for commit in commits)).splitlines()
        trees = dict(zip(commits, names, strict=True))
        # Compared with the empty tree, a tree has all of its files. Of a missing commit, git prints
        # the question and the word `missing`.
        empty = _EMPTY_TREES[len(self._head)]
        pairs = (empty + b" " + tree for tree in set(names) if b" " not in tree)
        answer = self._ask("diff-tree", "--stdin", *_RAW, *self._only, given=pairs)
        blobs: dict[bytes, Set[bytes]] = {}
        for piece in answer.split(empty + b" ")[1:]:
            tree, _, difference = piece.partition(b"\n")
            blobs[tree] = self._change(difference, has_parent=False).after
        return {commit: blobs[tree] for commit, tree in trees.items() if tree in blobs}

    def texts_of(self, blobs: Iterable[bytes]) -> Mapping[bytes, Set[str]]:
        """Return the advice in each readable blob."""
        contents = read_blobs(self._top, blobs, MAX_BYTES, _MAX_BYTES_OF_ALL)
        return {
            blob: texts_in(content) for blob, content in contents.items() if content is not None
        }


def _read_reflog(path: Path) -> bytes:
    try:
        return read_bounded(path, _MAX_REFLOG_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise GitUnavailable(str(error)) from error


def _heads(entries: Iterable[Sequence[bytes]]) -> list[_Head]:
    """Return the states of HEAD from entries: the commit before (empty for any), the commit after,
    the time.

    The state before a gap is unknown. If the clock went back, HEAD may have been each commit of the
    time that came twice. Until the next entry, it may have been the new commit or the one before.
    At the end it is the last commit.
    """
    heads: list[_Head] = []
    last = _NO_COMMIT
    for before, after, written in entries:
        time = float(written)
        if before not in (b"", last) and heads:
            heads[-1] = heads[-1]._replace(commits={_NO_COMMIT})
        last = after
        if not heads or time >= heads[-1].time:
            heads.append(_Head(time, {after}))
            continue
        until, latest = heads[-1]
        possible = {after}
        while heads and heads[-1].time > time:
            possible |= heads.pop().commits
        possible |= heads[-1].commits if heads else {_NO_COMMIT}
        heads += [_Head(time, possible), _Head(until, {*latest, after})]
    if heads and len(heads[-1].commits) > 1:
        heads.append(_Head(inf, {last}))
    return heads


class _History:
    """The history of texts in the files of advice of a project."""

    def __init__(self, git: _Git, texts: Collection[str]) -> None:
        self._commits = git.commits()
        self._heads = git.heads()
        commits = [*chain.from_iterable(head.commits for head in reversed(self._heads))]
        self._blobs_at = git.blobs_at({*commits} - {_NO_COMMIT})
        at_heads = (self._blobs_at.get(commit, ()) for commit in commits)
        in_changes = (change.blobs for commit in self._commits for change in commit.changes)
        newest_first = dict.fromkeys(chain.from_iterable(chain(at_heads, in_changes)))
        self._texts = git.texts_of(newest_first)
        self._blobs = _blobs_of(texts, self._texts)

    def past(self, text: str) -> Past:
        """Return the history of one of the texts."""
        blobs = self._blobs[text]
        states: list[State] = []
        for head in self._heads:
            answers = {self._has_line(commit, blobs) for commit in head.commits}
            has_line = answers.pop() if len(answers) == 1 else None
            if not states or states[-1].has_line is not has_line:
                states.append(State(head.time, has_line))
        born = [commit.born(blobs) for commit in self._commits if commit.brings(blobs)]
        return Past(states, born)

    def _has_line(self, commit: bytes, blobs: Set[bytes]) -> bool | None:
        """Return whether a commit contained a line that is in these blobs; None if the commit is
        not known, or one of its files cannot be read.
        """
        blobs_then = self._blobs_at.get(commit)
        if blobs_then is None:
            return None
        if blobs_then.isdisjoint(blobs):
            return False if blobs_then <= self._texts.keys() else None
        return True


def _blobs_of(
    texts: Collection[str], contents: Mapping[bytes, Set[str]]
) -> Mapping[str, Set[bytes]]:
    """Return for each text the blobs that contain the text or an earlier version of it."""
    blobs: dict[str, set[bytes]] = defaultdict(set)
    for blob, texts_there in contents.items():
        for text in texts_there:
            blobs[text].add(blob)
    families = {text: blobs.pop(text, set()) for text in texts}
    earlier_texts = _Texts(blobs)
    nearest = [row for text in texts for row in earlier_texts.like(text, text)]
    heapify(nearest)
    while nearest:
        _, earlier, text = heappop(nearest)
        if earlier in blobs and families[text].isdisjoint(blobs[earlier]):
            families[text] |= blobs.pop(earlier)
            for row in earlier_texts.like(earlier, text):
                heappush(nearest, row)
    return families


class _Texts:
    """Texts indexed by their words, so that few of them are compared."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._sizes = {text: len(terms(text)) for text in texts}
        self._with_word: dict[str, list[str]] = defaultdict(list)
        for text in self._sizes:
            for word in terms(text):
                self._with_word[word].append(text)

    def like(self, member: str, line: str) -> Iterator[tuple[float, str, str]]:
        """Yield the texts that a member of a line's family may have replaced, with the line. The
        nearest text has the lowest number.
        """
        words = terms(member)
        shared = Counter(chain.from_iterable(self._with_word.get(word, ()) for word in words))
        for text, count in shared.items():
            most = 2 * count / (len(words) + self._sizes[text])
            if most < _LEAST_LIKENESS or text == member:
                continue
            alike = likeness(text, member)
            if alike >= _LEAST_LIKENESS and not _is_opposite(text, member):
                yield -alike, text, line


def _is_opposite(text: str, other: str) -> bool:
    return any(pair.kind == "contradiction" for pair in near(text, "", [Bullet("", "", other)]))
