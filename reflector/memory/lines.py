"""The lines that a change to a file added and removed, without secrets, and the file without them.

Invariant: a line is taken back only if it is unchanged beside the same lines. Otherwise the answer
is None, and nothing is guessed. Line ends stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import Match
from functools import lru_cache
from typing import Any, NamedTuple

from reflector.text.bounds import visible
from reflector.text.compared import compared
from reflector.text.secrets import redact

#: The most lines of an event, and characters of a line.
_MOST_LINES = 200
_MAX_LINE = 1_000
_HIDDEN = "[redacted]"
#: These represent the lines above the first one and below the last one.
_START = "\0start"
_END = "\0end"


class Numbered(NamedTuple):
    """A line of a file with its number from 1; 0 if the number is unknown."""

    number: int
    text: str


class Hunk(NamedTuple):
    """Consecutive lines that a change replaced.

    after            the number of the first one in the file after the change, from 0; -1 if it is
                     unknown
    removed, added   the lines
    """

    after: int
    removed: list[str]
    added: list[str]


class LineChange(NamedTuple):
    """The lines that a change adds and removes."""

    added: Sequence[Numbered] = ()
    removed: Sequence[Numbered] = ()

    @classmethod
    def recorded(cls, facts: Mapping[str, Any]) -> LineChange:
        """Return the lines of an event."""
        added, removed = (
            [Numbered(line["line"], line["text"]) for line in facts.get(name) or ()]
            for name in ("added", "removed")
        )
        return cls(added, removed)

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of an event. `more` is the number of all lines, if the event omits some."""
        facts: dict[str, Any] = {"added": _bounded(self.added), "removed": _bounded(self.removed)}
        if max(len(self.added), len(self.removed)) > _MOST_LINES:
            facts["more"] = len(self.added) + len(self.removed)
        return facts

    @property
    def hunks(self) -> list[Hunk]:
        """The lines in hunks."""
        if any(line.number == 0 for line in (*self.added, *self.removed)):
            texts = ([line.text for line in lines] for lines in (self.removed, self.added))
            return [Hunk(-1, *texts)]
        removed = _by_unchanged(self.removed)
        added = _by_unchanged(self.added)
        hunks = []
        added_before = 0
        for unchanged in sorted({*removed, *added}):
            hunks.append(Hunk(unchanged + added_before, removed[unchanged], added[unchanged]))
            added_before += len(added[unchanged])
        return hunks


def _by_unchanged(lines: Sequence[Numbered]) -> defaultdict[int, list[str]]:
    """Return the texts of lines by the number of unchanged lines before them."""
    texts = defaultdict(list)
    for lines_up_to_it, (number, text) in enumerate(lines, 1):
        texts[number - lines_up_to_it].append(text)
    return texts


def _changed(old: Sequence[str], new: Sequence[str]) -> list[tuple[slice, slice]]:
    """Return the parts of two versions that differ."""
    return [
        (slice(start, end), slice(new_start, new_end))
        for tag, start, end, new_start, new_end in compared(old, new).get_opcodes()
        if tag != "equal"
    ]


def kept_lines(old: Sequence[str], new: Sequence[str]) -> list[Match]:
    """Return the blocks of lines that stayed between two versions."""
    return compared(old, new).get_matching_blocks()


def line_change(before: bytes | None, after: bytes | None) -> LineChange:
    """Return the lines that differ between two contents of a file; None is a missing file."""
    old = masked_lines(before)
    new = masked_lines(after)
    changed = _changed(_bare(before), _bare(after))
    return LineChange(
        [line for _, part in changed for line in new[part]],
        [line for part, _ in changed for line in old[part]],
    )


@lru_cache(maxsize=2)  # the version after one commit is before the next
def masked_lines(content: bytes | None) -> Sequence[Numbered]:
    """Return the lines of a file without secrets; None is a missing file.

    A key may have several lines, so the whole text is redacted, without its invisible characters. A
    line that is missing afterwards is hidden.
    """
    lines = _bare(content)
    seen = [visible(line) for line in lines]
    shown = set(redact("\n".join(seen)).split("\n"))
    return [
        Numbered(number, line if as_seen in shown else _masked(as_seen))
        for number, (line, as_seen) in enumerate(zip(lines, seen, strict=True), 1)
    ]


def _masked(line: str) -> str:
    redacted = redact(line)
    return redacted if redacted != line else _HIDDEN


def are_exact(lines: Iterable[str]) -> bool:
    """Return whether lines of an event equal those of the file: none is masked, cut or damaged."""
    return not any(
        len(line) > _MAX_LINE or "[redacted" in line or "\ufffd" in line for line in lines
    )


def difference(change: LineChange) -> Iterator[str]:
    """Yield the lines of a change as a difference."""
    for hunk in change.hunks:
        if hunk.after >= 0:
            yield f"@@ line {hunk.after + 1} @@"
        yield from (f"-{line}" for line in hunk.removed)
        yield from (f"+{line}" for line in hunk.added)


def _bare(content: bytes | None) -> list[str]:
    """Return the lines of a file without their ends."""
    lines = (content or b"").decode("utf-8", "replace").split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def _bounded(lines: Sequence[Numbered]) -> list[dict[str, Any]]:
    return [{"line": line.number, "text": cut(line.text)} for line in lines[:_MOST_LINES]]


def cut(text: str) -> str:
    """Return a line, cut to the length of lines in an event."""
    return text if len(text) <= _MAX_LINE else f"{text[:_MAX_LINE]}…"


def hunks_between(before: bytes, after: bytes) -> list[Hunk]:
    """Return the hunks of a change from both versions of a file."""
    old = split(before)
    new = split(after)
    return [Hunk(to.start, old[part], new[to]) for part, to in _changed(old, new)]


def split(content: bytes) -> list[str]:
    """Return the lines of a file with their ends. Bytes that are not text are kept."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def join(lines: Sequence[str]) -> bytes:
    """Return the bytes of lines that `split` returned."""
    return "".join(lines).encode("utf-8", "surrogateescape")


def without_change(before: bytes, after: bytes, now: bytes) -> bytes | None:
    """Return a file without a change that was made to an earlier version of it.

    Return None if the lines of the change are no longer in the file.
    """
    lines = split(now)
    versions = ([_START, *split(content), _END] for content in (after, now))
    places = {
        start + offset: now_start + offset
        for start, now_start, size in kept_lines(*versions)
        for offset in range(size)
    }
    for hunk in reversed(hunks_between(before, after)):
        numbers = _numbers_of(hunk, places)
        if numbers is None:
            return None
        lines = _with_hunk_reversed(lines, hunk, numbers)
    return join(lines)


def _numbers_of(hunk: Hunk, places: Mapping[int, int]) -> Sequence[int] | None:
    """Return the present numbers of the added lines of a hunk, from 0; of a removal, the number of
    the line below it.

    Return None if some of them are missing, or if a removal has other lines above and below it now.
    Lines that replaced others must be together.

    places  the lines that stayed, each one higher because of `_START`
    """
    first = hunk.after + 1  # because of `_START`
    end = first + len(hunk.added)
    # A removal left no line: then the line above it and the one below it.
    lines = range(first, end) if hunk.added else range(first - 1, end + 1)
    now = [places[line] for line in lines if line in places]
    is_together = now[-1:] == [now[0] + len(lines) - 1] if now else False
    if len(now) < len(lines) or (hunk.removed and not is_together):
        return None
    return [number - 1 for number in now] if hunk.added else [now[0]]


def without_lines(hunks: Sequence[Hunk], now: bytes) -> bytes | None:
    """Return a file without the lines of a change, if only the lines of the change are known.

    Return None unless the lines are in the file exactly once. Lines that replaced others must be
    together. New lines get the line end of the file's first line.
    """
    lines = split(now)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    for hunk in reversed(hunks):
        added, removed = ([f"{line}{end}" for line in part] for part in (hunk.added, hunk.removed))
        size = len(added)
        starts = [at for at in range(len(lines) - size + 1) if lines[at : at + size] == added]
        numbers = [at for start in starts for at in range(start, start + size)]
        if not starts and not removed and all(lines.count(line) == 1 for line in added):
            numbers = [lines.index(line) for line in added]
        if not size or len(numbers) != size or added == removed:
            return None
        lines = _with_hunk_reversed(lines, Hunk(-1, removed, added), numbers)
    return join(lines)


def _with_hunk_reversed(lines: Sequence[str], hunk: Hunk, numbers: Sequence[int]) -> list[str]:
    """Return lines with those that a hunk removed instead of those that it added.

    numbers  of the added lines, or of the line below a removal
    """
    start = numbers[0]
    gone = set(numbers) if hunk.added else set()
    rest = [line for number, line in enumerate(lines) if number not in gone]
    return [*rest[:start], *hunk.removed, *rest[start:]]
