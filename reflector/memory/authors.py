"""The change that wrote each line of a watched file, replayed from version to version.

Invariant: a change owns only lines that it added to the version before it. A version from which no
later one was made owns no line of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from reflector.events.memory import CHECKOUT, GIT, MERGE, STASH, UNDO, UNKNOWN, UNSEEN, YOU
from reflector.memory.changes import Change
from reflector.memory.lines import cut, hunks_of, kept_lines, masked_lines


class Writers(NamedTuple):
    """The change that brought a line, the commit that has it since, and if the line had gone
    before, the change that brought it first.
    """

    written: Change | None = None
    committed: Change | None = None
    first: Change | None = None


class _Line(NamedTuple):
    text: str
    writers: Writers


#: Stands for the writers of a line that a change adds, until they are found.
_ADDED = Writers()


class Authors:
    """The writers of the lines of a file after some changes.

    known  by a text, the writers of the line that was added last with it
    """

    def __init__(self, changes: Iterable[Change]) -> None:
        self.known: dict[str, Writers] = {}
        self._versions: dict[str, Sequence[_Line]] = {"": ()}
        self._latest: Sequence[_Line] = ()
        self._committed: Sequence[_Line] = ()
        self._gone: dict[str, Change] = {}
        for change in changes:
            self._add(change)

    def version(self, digest: str, content: bytes) -> Sequence[Writers]:
        """Return the writers of each line of a content with a digest of the ledger."""
        texts = [cut(line.text) for line in masked_lines(content)]
        version = self._versions.get(digest, ())
        if [line.text for line in version] != texts:
            version = self._found(texts)
        return [line.writers for line in version]

    def _found(self, texts: Sequence[str]) -> Sequence[_Line]:
        """Return the lines of a version to which no change led: those of the last commit, or else
        of the latest version, or else any that did not go.
        """
        committed = _writers_in(self._committed, texts)
        latest = _writers_in(self._latest, texts, {line.text for line in self._committed})
        counts = Counter(texts)
        known = {
            number: self.known[text]
            for number, text in enumerate(texts)
            if counts[text] == 1 and text in self.known and text not in self._gone
        }
        writers = {**known, **latest, **committed}
        return [_Line(text, writers.get(number, Writers())) for number, text in enumerate(texts)]

    def _add(self, change: Change) -> None:
        """Note the version after a change."""
        content = None
        if change.before not in self._versions:
            content = change.content("before").bytes
        if content is not None:
            texts = [cut(line.text) for line in masked_lines(content)]
            self._versions[change.before] = self._found(texts)
        before = self._versions.get(change.before, self._latest)
        lines, taken, is_exact = _replaced(change, before, change.before in self._versions)
        self._find_writers(change, lines, taken, {line.text for line in before})
        if not change.after:
            lines = []
        self._latest = lines
        if is_exact and change.after != UNSEEN:
            self._versions[change.after] = lines
        if change.fact("source") == GIT:
            self._committed = lines

    def _find_writers(
        self, change: Change, lines: list[_Line], taken: Iterable[_Line], before: Set[str]
    ) -> None:
        """Fill in the writers of the added lines; a line that is only moved keeps its own.

        before  the texts before the change
        """
        moved: dict[str, list[Writers]] = defaultdict(list)
        for line in taken:
            moved[line.text].append(line.writers)
        texts = [line.text for line in lines]
        alike = self._versions.get(change.after, self._latest)
        beside = _writers_in(alike, texts, before)
        for number, text in enumerate(texts):
            if lines[number].writers is not _ADDED:
                continue
            if moved[text]:
                writers = moved[text].pop(0)
            else:
                known = self.known.get(text) if text not in before else None
                writers = self._writers_of(change, text, known, beside.get(number, known))
            lines[number] = _Line(text, writers)
            self.known[text] = writers
        gone = [text for text, writers in moved.items() if writers]
        self._gone.update(dict.fromkeys(set(gone).difference(texts), change))
        for text in {*texts}.difference(before):
            self._gone.pop(text, None)

    def _writers_of(
        self, change: Change, text: str, known: Writers | None, there: Writers | None
    ) -> Writers:
        """Return the writers of a line that a change added. A checkout or an undo that brings back
        a line is not its writer.

        known  the writers of the same text in an earlier version
        there  of the same line in the version that git or an undo wrote again
        """
        removal = self._gone.get(text)
        if there is not None and removal is None and change.fact("source") == GIT:
            return there._replace(committed=there.committed or change)
        if there is not None and _brings_back(change, removal):
            return there
        return Writers(change, first=known and (known.first or known.written))


def _replaced(
    change: Change, before: Sequence[_Line], is_exact: bool
) -> tuple[list[_Line], list[_Line], bool]:
    """Return the lines after a change, the lines that it removed, and whether the lines after it
    are exactly those of the file. If they are not, the added lines come last.

    is_exact  whether the lines before the change are exactly those of the file
    """
    added, removed = change.whole_lines
    recorded = len(change.lines("added")) + len(change.lines("removed"))
    if change.event.facts.get("more") and len(added) + len(removed) == recorded:
        is_exact = False  # it has only the first ones
    lines = list(before)
    taken: list[_Line] = []
    hunks = hunks_of(removed, added)
    for hunk in hunks:
        start = hunk.after
        end = start + len(hunk.removed)
        texts = [cut(text) for text in hunk.removed]
        is_exact &= start >= 0 and [line.text for line in lines[start:end]] == texts
        if not is_exact:
            start, lines = _with_last(lines, texts)
            end = len(lines)
        taken += lines[start:end]
        lines[start:end] = [_Line(cut(text), _ADDED) for text in hunk.added]
    return lines, taken, is_exact and bool(hunks or change.before == change.after)


def _writers_in(
    version: Sequence[_Line], texts: Sequence[str], common: Set[str] = frozenset()
) -> dict[int, Writers]:
    """Return the known writers of lines that a version has, too, by their places from 0. Common
    texts, such as braces, are the same line only beside one that is not common.
    """
    return {
        new + at: version[old + at].writers
        for old, new, size in kept_lines([line.text for line in version], texts)
        if not common >= set(texts[new : new + size])
        for at in range(size)
        if version[old + at].writers.written is not None
    }


def _with_last(lines: Sequence[_Line], texts: Iterable[str]) -> tuple[int, list[_Line]]:
    """Return lines with the last line of each text moved to the end, and the index of the first
    moved one.
    """
    last = {line.text: number for number, line in enumerate(lines)}
    places = {last[text] for text in texts if text in last}
    others = [line for number, line in enumerate(lines) if number not in places]
    return len(others), others + [lines[number] for number in sorted(places)]


def _brings_back(change: Change, removal: Change | None) -> bool:
    """Return whether git or an undo writes a line again.

    Git does not record that a stash was taken back.

    removal  the change that removed the text from the file, None if none did
    """
    by = change.fact("by")
    is_popped = by in (YOU, UNKNOWN) and removal is not None and removal.fact("by") == STASH
    return by in (CHECKOUT, MERGE, STASH) or change.fact("source") == UNDO or is_popped
