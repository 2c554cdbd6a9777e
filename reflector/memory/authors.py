"""The change that wrote each line of a watched file, replayed from version to version.

Invariant: a change owns only lines that it added to the version before it. A version from which no
later one was made owns no line of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from reflector.events.memory import CHECKOUT, MERGE, STASH, UNDO, UNKNOWN, UNSEEN, YOU
from reflector.memory.changes import Change
from reflector.memory.lines import LineChange, cut, kept_lines, masked_lines


class Writers(NamedTuple):
    """The change that brought a line, the commit that has it since, and if the line had gone
    before, the change that brought it first.
    """

    written: Change | None = None
    committed: Change | None = None
    first: Change | None = None


class _Line(NamedTuple):
    """A line of a version; without writers if a change just added it."""

    text: str
    writers: Writers | None = None


_Version = Sequence[_Line]


class Authors:
    """The writers of the lines of a file after some changes.

    known  by a text, the writers of the line that was added last with it
    """

    def __init__(self, changes: Iterable[Change]) -> None:
        self.known: dict[str, Writers] = {}
        #: By their digests, the versions whose lines are known exactly.
        self._versions: dict[str, _Version] = {"": ()}
        self._latest: _Version = ()
        #: By a text that is not in the file any more, the change that removed it.
        self._gone: dict[str, Change] = {}
        #: The version in the newest commit.
        self._committed = UNSEEN
        for change in changes:
            self._add(change)

    def version(self, content: bytes, digests: Iterable[str]) -> Sequence[Writers]:
        """Return the writers of each line of a content, which has one of some digests in the
        ledger.
        """
        texts = _texts_in(content)
        replayed = filter(None, map(self._versions.get, digests))
        version = next(replayed, ())
        if _texts_of(version) != texts:
            version = self._found(texts)
        return [line.writers or Writers() for line in version]

    def _found(self, texts: Sequence[str]) -> _Version:
        """Return the lines of a version to which no change led: those of the latest version, or
        else any that did not go.
        """
        counts = Counter(texts)
        stayed = {
            new + at: self._latest[old + at]
            for old, new, size in kept_lines(_texts_of(self._latest), texts)
            for at in range(size)
        }
        lines = []
        for number, text in enumerate(texts):
            is_unique = counts[text] == 1 and text not in self._gone
            known = self.known.get(text, Writers()) if is_unique else Writers()
            lines.append(stayed.get(number, _Line(text, known)))
        return lines

    def _add(self, change: Change) -> None:
        """Replay a change on the version before it, and note the version after it."""
        before = self._before(change)
        lines_of_change = change.whole_lines
        is_known = change.before in self._versions
        exact = _replay(change, lines_of_change, before) if is_known else None
        replayed = _with_moved(*(exact or _replay_roughly(lines_of_change, before)))
        texts = set(_texts_of(before))
        lines = self._with_writers(change, replayed, texts) if change.after else ()
        self._note_gone(change, texts, set(_texts_of(lines)))
        self._latest = lines
        if change.is_gits:
            self._committed = change.after
        if exact and change.after != UNSEEN:
            self._versions[change.after] = lines

    def _before(self, change: Change) -> _Version:
        """Return the version before a change; the latest one if its lines are not known."""
        if change.before not in self._versions:
            content = change.content("before").bytes
            if content is not None:
                self._versions[change.before] = self._found(_texts_in(content))
        return self._versions.get(change.before, self._latest)

    def _with_writers(self, change: Change, lines: _Version, before: Set[str]) -> _Version:
        """Return lines with the writers of those that a change added.

        before  the texts before the change. An added copy of a line that is still in the file is
                new: it does not get the first author of that line.
        """
        earlier = self._versions.get(change.after, ())
        is_back = _texts_of(earlier) == _texts_of(lines)
        named = []
        for number, (text, writers) in enumerate(lines):
            if writers is None:
                known = self.known.get(text) if text not in before else None
                same_line = earlier[number].writers if is_back else known
                writers = self._writers_of(change, text, same_line)
                self.known[text] = writers
            named.append(_Line(text, writers))
        return named

    def _writers_of(self, change: Change, text: str, same_line: Writers | None) -> Writers:
        """Return the writers of a line that a change added. A checkout or an undo that brings back
        a line is not its writer. A commit only confirms a line that was there.

        same_line  the writers of the same line in an earlier version
        """
        removal = self._gone.get(text)
        if same_line is not None and removal is None and change.is_gits:
            return same_line._replace(committed=same_line.committed or change)
        is_restored = removal is not None and change.after == self._committed
        if same_line is not None and (is_restored or _brings_back(change, removal, same_line)):
            return same_line
        return Writers(change, first=same_line and (same_line.first or same_line.written))

    def _note_gone(self, change: Change, before: Set[str], after: Set[str]) -> None:
        """Note the texts that a change removed from the file and those that it brought."""
        self._gone.update(dict.fromkeys(before - after, change))
        for text in after - before:
            self._gone.pop(text, None)


def _texts_in(content: bytes) -> list[str]:
    return [cut(line.text) for line in masked_lines(content)]


def _texts_of(version: _Version) -> list[str]:
    return [line.text for line in version]


def _replay(
    change: Change, lines_of_change: LineChange, before: _Version
) -> tuple[list[_Line], list[_Line]] | None:
    """Return the lines after a change, and those that it took away.

    Return None if not all lines of the change are known, or if they do not fit to the version
    before it.
    """
    hunks = lines_of_change.hunks
    is_whole = sum(map(len, lines_of_change)) >= (change.event.facts.get("more") or 0)
    if not is_whole or (not hunks and change.before != change.after):
        return None
    lines = list(before)
    taken: list[_Line] = []
    for hunk in hunks:
        end = hunk.after + len(hunk.removed)
        replaced = lines[hunk.after : end]
        if hunk.after < 0 or _texts_of(replaced) != list(map(cut, hunk.removed)):
            return None
        taken += replaced
        lines[hunk.after : end] = map(_Line, map(cut, hunk.added))
    return lines, taken


def _replay_roughly(
    lines_of_change: LineChange, before: _Version
) -> tuple[list[_Line], list[_Line]]:
    """Return the same as `_replay` if the places of the lines are not known. The removed lines are
    all lines with their texts, and the added lines are at the end.
    """
    removed = {cut(line.text) for line in lines_of_change.removed}
    stayed = [line for line in before if line.text not in removed]
    taken = [line for line in before if line.text in removed]
    return [*stayed, *(_Line(cut(line.text)) for line in lines_of_change.added)], taken


def _with_moved(lines: Iterable[_Line], taken: Iterable[_Line]) -> _Version:
    """Return lines in which each added line with the text of a removed line is that removed line,
    with its writers: the change only moved it.

    taken  the removed lines
    """
    moved: dict[str, list[_Line]] = defaultdict(list)
    for line in taken:
        moved[line.text].append(line)
    return [
        moved[line.text].pop(0) if line.writers is None and moved[line.text] else line
        for line in lines
    ]


def _brings_back(change: Change, removal: Change | None, same_line: Writers) -> bool:
    """Return whether git or an undo writes a line again.

    Git does not record that a stash was taken back. A change between two looks may contain a pull:
    then the line was not removed, and its commit is older than the change.

    removal    the change that removed the text from the file, None if none did
    same_line  the writers of the line
    """
    by = change.fact("by")
    if by in (CHECKOUT, MERGE, STASH) or change.fact("source") == UNDO:
        return True
    if by not in (YOU, UNKNOWN):
        return False
    if removal is not None:
        return removal.fact("by") == STASH
    commit = same_line.written
    return commit is not None and commit.is_gits and _is_older(commit, change)


def _is_older(commit: Change, change: Change) -> bool:
    """Return whether a commit was made and recorded before a change. Your commit of the change is
    not older than the change.
    """
    is_recorded = commit.event.position < change.event.position
    return is_recorded and commit.second < change.second
