"""Which turns of a window that is too big are kept, and the part of each.

Invariant: a plan's parts fit their limit, cover the window in order without overlap, and depend on nothing but
sizes and marks of the turns. Words are of no concern here.

Kept first is what a verdict needs: the turns around each citation (more behind than before it, because evidence
follows), what a person says near one, refusals, the task, and the end of the window. What is left of the limit is
filled from the latest turn backwards. Where even the first does not fit, the window is split into parts, at
places between two citations' surroundings if it can be; where that makes too many parts, surroundings are narrow
and words are cut; where that does not do, lone citations are left, the latest of each name first.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from reflector.reflection.turns import ELSEWHERE, GAP, Strength

HUMAN, REFUSAL, ERROR, CITES = 1, 2, 4, 8


@dataclass(slots=True)
class Survey:
    """What was seen of a window: one entry for each turn. Sizes are in units, at one strength.

    latest  of each cited name the last turn that cites it
    task    the turn that says what was asked for: the first human one, else the first of the user's side
    """

    sizes: array[int] = field(default_factory=lambda: array("q"))
    marks: bytearray = field(default_factory=bytearray)
    latest: dict[str, int] = field(default_factory=dict)
    task: int | None = None

    def all_with(self, mark: int) -> list[int]:
        """Return the turns that carry one of these marks, in order."""
        return [turn for turn, marks in enumerate(self.marks) if marks & mark]


class Shape(NamedTuple):
    """How much around a citation is kept, in turns, and of the end of the window."""

    before: int
    after: int
    human_before: int
    human_after: int
    end: int


WIDE = Shape(4, 12, 10, 40, 12)
NARROW = Shape(1, 3, 2, 8, 4)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is shown: each kept turn (`kept` has a byte for each) cut by the strength and to at most `cap` units.

    `ranges` are the turns from and up to which each part goes; those behind the `task` begin with it.
    """

    strength: Strength
    cap: int | None
    kept: bytearray
    task: int | None
    ranges: tuple[tuple[int, int], ...]


def core(survey: Survey, shape: Shape) -> bytearray:
    """The turns that a verdict needs, as a byte each. Without citations: each human turn and what is next to it."""
    size = len(survey.marks)
    kept = bytearray(size)
    cited = survey.all_with(CITES)
    if cited:
        near = bytearray(size)
        for turn in cited:
            _mark(kept, turn - shape.before, turn + shape.after)
            _mark(near, turn - shape.human_before, turn + shape.human_after)
        for turn in survey.all_with(HUMAN):
            kept[turn] |= near[turn]
        for turn in survey.all_with(REFUSAL):
            kept[turn] = 1
    else:
        for turn in survey.all_with(HUMAN | REFUSAL):
            _mark(kept, turn - 1, turn + 2)
    if survey.task is not None:
        kept[survey.task] = 1
    _mark(kept, size - shape.end, size - 1)
    return kept


def one_part(survey: Survey, kept: bytearray, limit: int) -> bytearray | None:
    """The kept turns and as many of the others as fit the limit, in units; None where the kept alone do not fit."""
    total = sum(survey.sizes[turn] for turn, is_kept in enumerate(kept) if is_kept) + GAP * _gaps(kept)
    if total > limit:
        return None
    kept = bytearray(kept)
    preferred = bytearray(len(kept))
    if survey.latest:
        for turn in survey.all_with(HUMAN):
            preferred[turn] = 1
    else:
        for turn in survey.all_with(ERROR):
            _mark(preferred, turn - 1, turn + 1)
    left = limit - total
    for turn in range(len(kept) - 1, -1, -1):
        if preferred[turn] and not kept[turn] and (cost := _cost(survey, kept, turn)) <= left:
            kept[turn] = 1
            left -= cost
    for turn in range(len(kept) - 1, -1, -1):
        if kept[turn]:
            continue
        cost = _cost(survey, kept, turn)
        if cost <= left:
            kept[turn] = 1
            left -= cost
        elif survey.sizes[turn] <= limit // 8:
            # Smaller turns further back would fit, and make a patchwork of gaps; only a giant is passed over.
            break
    return kept


def parts(
    survey: Survey, kept: bytearray, lead: int, limit: int, most_parts: int
) -> tuple[tuple[int, int], ...] | None:
    """Ranges of turns whose kept ones fit the limit each, beside the task; None where it takes too many.

    `lead` is how many turns before a citation belong to it.
    """
    turns = [turn for turn, is_kept in enumerate(kept) if is_kept and turn != survey.task]
    room = _room(survey, limit)
    for gently in (True, False):
        starts = _starts(survey, turns, lead if gently else None, room)
        if starts is not None and len(starts) <= most_parts:
            edges = [0, *(turns[at - 1] + 1 for at in starts[1:]), len(kept)]
            return tuple(pairwise(edges))
    return None


def thinned(survey: Survey, limit: int, most_parts: int) -> bytearray:
    """As many of the citing turns (without citations: of the human ones) as surely fit that many parts."""
    candidates = survey.all_with(CITES) or survey.all_with(HUMAN | REFUSAL)
    last = set(survey.latest.values())
    order = sorted(last, reverse=True) + [turn for turn in reversed(candidates) if turn not in last]
    kept = bytearray(len(survey.marks))
    biggest = max((survey.sizes[turn] for turn in candidates), default=0) + GAP
    room = _room(survey, limit)
    left = (most_parts - 1) * (room - biggest) + room
    for turn in order:
        left -= survey.sizes[turn] + GAP
        if left < 0:
            break
        kept[turn] = 1
    if survey.task is not None:
        kept[survey.task] = 1
    return kept


def _starts(survey: Survey, turns: Sequence[int], lead: int | None, room: int) -> list[int] | None:
    """Places in `turns` at which the parts start, each filled before the next one; None where a turn is too big.

    With a `lead` a part ends early rather than between a citation and what follows it, up to half of its room.
    """
    starts = [0]
    used = 0
    cut: int | None = None
    cut_is_gap = False
    at = 0
    while at < len(turns):
        turn = turns[at]
        is_gap = at == starts[-1] or turn != turns[at - 1] + 1
        cost = survey.sizes[turn] + (GAP if is_gap else 0)
        if lead is not None and at > starts[-1] and used >= room // 2:
            led = turn + lead
            begins = led < len(survey.marks) and bool(survey.marks[led] & CITES)
            if is_gap or (begins and not cut_is_gap):
                cut, cut_is_gap = at, is_gap
        if used + cost > room:
            if at == starts[-1]:
                return None
            at = at if cut is None else cut
            starts.append(at)
            used, cut, cut_is_gap = 0, None, False
            continue
        used += cost
        at += 1
    return starts


def _room(survey: Survey, limit: int) -> int:
    """Return what a part has beside the task, the notes around it and what was left out after its last turn."""
    return limit - 2 * (ELSEWHERE + GAP) - (0 if survey.task is None else survey.sizes[survey.task])


def _cost(survey: Survey, kept: bytearray, turn: int) -> int:
    """Units that one more turn takes: its own, and those of gaps that it opens or closes."""
    before = turn > 0 and not kept[turn - 1]
    after = turn + 1 < len(kept) and not kept[turn + 1]
    return survey.sizes[turn] + GAP * (before + after - 1)


def _gaps(kept: bytearray) -> int:
    return kept.count(b"\x01\x00") + kept.startswith(b"\x00")


def _mark(marks: bytearray, first: int, last: int) -> None:
    """Marks the turns from `first` to `last`, as far as there are such."""
    first, last = max(0, first), min(len(marks) - 1, last)
    if last >= first:
        marks[first : last + 1] = b"\x01" * (last - first + 1)
