"""The lines that a change of a file added and removed, and the file without them.

Invariant: a line is taken back only where it is, unchanged, beside the same lines. Nothing is
guessed: without that, the answer is None. Line ends stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

#: Pairs of lines that are compared at most.
_MOST_COMPARED = 4_000_000
#: A numbered line of an event, from 1.
Numbered = Sequence[tuple[int, str]]


@dataclass(slots=True)
class Hunk:
    """Lines beside each other that a change replaced.

    before, after    the numbers of their first lines, from 0, in the file before and after
    removed, added   the lines
    """

    before: int
    after: int
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


def hunks_of(removed: Numbered, added: Numbered) -> list[Hunk]:
    """Return the hunks of a change from its numbered lines."""
    old = dict(removed)
    new = dict(added)
    hunks = []
    if 0 in old or 0 in new:  # the numbers are not known
        return [Hunk(-1, -1, [text for _, text in removed], [text for _, text in added])]
    shift = 0  # of a line that stayed, from before to after
    while old or new:
        first = min([*old, *(number - shift for number in new)])
        hunk = Hunk(first - 1, first + shift - 1)
        while first + len(hunk.removed) in old:
            hunk.removed.append(old.pop(first + len(hunk.removed)))
        while first + shift + len(hunk.added) in new:
            hunk.added.append(new.pop(first + shift + len(hunk.added)))
        if not hunk.removed and not hunk.added:
            return []  # the numbers contradict each other
        shift += len(hunk.added) - len(hunk.removed)
        hunks.append(hunk)
    return hunks


def hunks_between(before: bytes, after: bytes) -> list[Hunk]:
    """Return the hunks of a change from both versions of a file."""
    old = split(before)
    new = split(after)
    hunks = []
    old_at = new_at = 0
    for old_start, new_start in [*_places(old, new), (len(old), len(new))]:
        if old_at < old_start or new_at < new_start:
            hunks.append(Hunk(old_at, new_at, old[old_at:old_start], new[new_at:new_start]))
        old_at = old_start + 1
        new_at = new_start + 1
    return hunks


def split(content: bytes) -> list[str]:
    """Return the lines of a file with their ends; any bytes are kept."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def join(lines: Sequence[str]) -> bytes:
    """Return the bytes of lines that `split` returned."""
    return "".join(lines).encode("utf-8", "surrogateescape")


def without_change(before: bytes, after: bytes, now: bytes) -> bytes | None:
    """Return a file without a change that was made to an earlier version of it, None if its lines
    are not there any more.
    """
    lines = split(now)
    middle = split(after)
    places = dict(_places(middle, lines))
    for hunk in reversed(hunks_between(before, after)):
        start = _start_of(hunk, places, len(middle), len(lines))
        if start is None:
            return None
        lines[start : start + len(hunk.added)] = hunk.removed
    return join(lines)


def _places(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the number of each line that stayed, in both versions. Between the first and the last
    difference of large files, none did.
    """
    most = min(len(old), len(new))
    same = [here == there for here, there in zip(old, new, strict=False)]
    first = same.index(False) if False in same else most
    last = 0
    while last < most - first and old[-1 - last] == new[-1 - last]:
        last += 1
    yield from zip(range(first), range(first), strict=True)
    changed_old = old[first : len(old) - last]
    changed_new = new[first : len(new) - last]
    if len(changed_old) * len(changed_new) <= _MOST_COMPARED:
        matcher = SequenceMatcher(None, changed_old, changed_new, autojunk=False)
        for block in matcher.get_matching_blocks():
            for offset in range(first, first + block.size):
                yield block.a + offset, block.b + offset
    for offset in range(last, 0, -1):
        yield len(old) - offset, len(new) - offset


def _start_of(
    hunk: Hunk, places: Mapping[int, int], old_length: int, new_length: int
) -> int | None:
    """Return the line at which the added lines of a hunk begin now; None if they are not whole, or
    if a removal has not the same lines above and below it.
    """
    end = hunk.after + len(hunk.added)
    if hunk.added:
        now = [places.get(number) for number in range(hunk.after, end)]
        start = now[0]
        is_whole = start is not None and now == list(range(start, start + len(now)))
        return start if is_whole else None
    above = places.get(hunk.after - 1) if hunk.after else -1
    below = places.get(end) if end < old_length else new_length
    return below if above is not None and below == above + 1 else None


def without_lines(hunks: Sequence[Hunk], now: bytes) -> bytes | None:
    """Return a file without the lines of a change of which only the lines are known; None if they
    are not there exactly once.
    """
    lines = split(now)
    for hunk in reversed(hunks):
        bare = [line.rstrip("\r\n") for line in lines]
        size = len(hunk.added)
        starts = [at for at in range(len(bare) - size + 1) if bare[at : at + size] == hunk.added]
        if not size or len(starts) != 1:
            return None
        lines[starts[0] : starts[0] + size] = [f"{line}\n" for line in hunk.removed]
    return join(lines)


def reversed_at(hunks: Sequence[Hunk], now: bytes) -> Iterator[bytes]:
    """Yield the versions that a file may have had before a change, by its numbered lines alone: the
    last line may have had an end or not.
    """
    lines = split(now)
    for hunk in reversed(hunks):
        there = lines[hunk.after : hunk.after + len(hunk.added)]
        if [line.rstrip("\r\n") for line in there] != hunk.added:
            return
        lines[hunk.after : hunk.after + len(hunk.added)] = [f"{line}\n" for line in hunk.removed]
    earlier = join([line if line.endswith("\n") else f"{line}\n" for line in lines])
    yield earlier
    yield earlier[:-1]
