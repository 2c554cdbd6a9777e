"""Which turns are kept, by their sizes and marks alone."""

from __future__ import annotations

from array import array
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from reflector.reflection.selection import (
    CITES,
    HUMAN,
    NARROW,
    REFUSAL,
    WIDE,
    Shape,
    Survey,
    core,
    one_part,
    parts,
    thinned,
)
from reflector.reflection.turns import ELSEWHERE, GAP

LIMIT = 30_000


def _turns(seed: int, most: int, biggest: int, kinds: list[int]) -> list[tuple[int, int]]:
    random = Random(seed)
    return [(random.randint(200, biggest), random.choice(kinds)) for _ in range(random.randint(1, most))]


#: Windows of many turns; drawn one by one they would be short.
TURNS = st.builds(
    _turns,
    st.integers(0, 10**9),
    st.sampled_from([5, 30, 400]),
    st.sampled_from([300, 2_000, LIMIT // 3]),
    st.sampled_from([[CITES], [0, CITES], [0, 0, CITES, HUMAN, REFUSAL], [0] * 40 + [CITES, HUMAN, HUMAN], [0, HUMAN]]),
)


def surveyed(turns: list[tuple[int, int]]) -> Survey:
    marks = bytearray(mark for _, mark in turns)
    citing = [turn for turn, mark in enumerate(marks) if mark == CITES]
    latest = {"pat-001": citing[-1]} if citing else {}
    task = next((turn for turn, mark in enumerate(marks) if mark == HUMAN), None)
    return Survey(array("q", [size for size, _ in turns]), marks, latest, task)


def used(survey: Survey, kept: bytearray, start: int, stop: int) -> int:
    """Units of a part with everything that may stand in it: turns, gaps, the task and what is elsewhere."""
    shown = kept[start:stop]
    total = sum(size for size, is_kept in zip(survey.sizes[start:stop], shown, strict=True) if is_kept)
    total += GAP * (shown.count(b"\x01\x00") + shown.startswith(b"\x00"))
    if start > 0:
        total += ELSEWHERE
        if survey.task is not None and survey.task < start:
            total += survey.sizes[survey.task]
    return total + (ELSEWHERE if stop < len(kept) else 0)


def is_cover(ranges: tuple[tuple[int, int], ...], turns: int) -> bool:
    return [start for start, _ in ranges] + [turns] == [0] + [stop for _, stop in ranges]


@given(TURNS, st.sampled_from([WIDE, NARROW]), st.integers(1, 30))
def test_parts_cover_the_window_and_fit_to_the_last_unit(turns: list[tuple[int, int]], shape: Shape, most: int) -> None:
    survey = surveyed(turns)
    kept = core(survey, shape)
    ranges = parts(survey, kept, shape.before, LIMIT, most)
    if ranges is not None:
        assert len(ranges) <= most
        assert is_cover(ranges, len(turns))
        assert all(used(survey, kept, start, stop) <= LIMIT for start, stop in ranges)


@given(TURNS, st.integers(1, 5))
def test_what_is_thinned_always_fits_and_keeps_the_latest_citation(turns: list[tuple[int, int]], most: int) -> None:
    survey = surveyed(turns)
    kept = thinned(survey, LIMIT, most)
    ranges = parts(survey, kept, 0, LIMIT, most)
    assert ranges is not None
    assert len(ranges) <= most
    assert all(kept[turn] for turn in survey.latest.values())


@given(TURNS, st.integers(LIMIT // 3, 40 * LIMIT))
def test_one_part_keeps_what_it_was_given_and_fits(turns: list[tuple[int, int]], limit: int) -> None:
    survey = surveyed(turns)
    needed = core(survey, WIDE)
    kept = one_part(survey, needed, limit)
    if kept is None:
        assert used(survey, needed, 0, len(turns)) > limit
    else:
        assert all(now >= before for now, before in zip(kept, needed, strict=True))
        assert used(survey, kept, 0, len(turns)) <= limit


def test_a_part_ends_between_two_citations_rather_than_between_one_and_its_evidence() -> None:
    turns = [(1_000, CITES if turn % 20 == 10 else 0) for turn in range(100)]
    survey = surveyed(turns)
    kept = core(survey, WIDE)
    ranges = parts(survey, kept, WIDE.before, LIMIT, 10)
    assert ranges is not None
    for start, stop in ranges:
        assert not any(turn - 4 < start <= turn + 12 and start for turn in survey.all_with(CITES)), (start, stop)


def test_gaps_that_the_fill_opens_are_paid_for() -> None:
    turns = [(300, HUMAN if turn % 10 == 5 else CITES if turn == 390 else 0) for turn in range(400)]
    survey = surveyed(turns)
    needed = core(survey, WIDE)
    least = used(survey, needed, 0, len(turns))
    for limit in range(least, least + 60_000, 500):
        kept = one_part(survey, needed, limit)
        assert kept is not None
        assert limit - 2 * (300 + GAP) < used(survey, kept, 0, len(turns)) <= limit
