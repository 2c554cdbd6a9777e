"""What verdicts show: intervals that are those of the exact distribution, and a test that may be
looked at always.
"""

import random
from math import comb
from statistics import mean

import pytest
from hypothesis import given, strategies as st

from reflector.playbook.evidence import HARMS, against, share_interval, share_words

SHARES = [number / 100 for number in range(1, 100)]


def coverage(votes: int) -> dict[float, float]:
    """The exact probability that the interval of so many votes holds the true share, by the
    share.
    """
    ends = [share_interval(yes, votes - yes) for yes in range(votes + 1)]
    ways = [comb(votes, yes) for yes in range(votes + 1)]
    return {
        share: sum(
            way * share**yes * (1 - share) ** (votes - yes)
            for yes, (way, (low, high)) in enumerate(zip(ways, ends, strict=True))
            if low <= share <= high
        )
        for share in SHARES
    }


@given(st.integers(0, 200), st.integers(0, 200))
def test_the_share_lies_inside_its_interval(yes: int, no: int) -> None:
    low, high = share_interval(yes, no)
    assert low <= (yes / (yes + no) if yes + no else 0.5) <= high


@given(st.integers(0, 40), st.integers(0, 40))
def test_more_votes_for_move_the_interval_up(yes: int, no: int) -> None:
    low, high = share_interval(yes, no)
    assert share_interval(yes + 1, no) >= (low, high)
    assert share_interval(yes, no + 1) <= (low, high)


@pytest.mark.parametrize(
    ("yes", "no", "ends"),
    [(1, 0, (23, 100)), (3, 0, (56, 100)), (9, 1, (67, 98)), (0, 0, (0, 100)), (0, 3, (0, 44))],
)
def test_the_interval_is_that_of_jeffreys(yes: int, no: int, ends: tuple[int, int]) -> None:
    assert tuple(round(100 * end) for end in share_interval(yes, no)) == ends


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_interval_holds_in_nine_cases_of_ten() -> None:
    cells = {votes: coverage(votes) for votes in range(1, 201)}
    assert mean(held for found in cells.values() for held in found.values()) >= 0.9
    edges = [
        held
        for votes in range(1, 21)
        for share, held in cells[votes].items()
        if share <= 0.05 or share >= 0.95
    ]
    assert mean(edges) >= 0.93


@pytest.mark.parametrize(
    ("yes", "no", "words"),
    [
        (0, 0, ""),
        (1, 0, "1 of 1 session, too few to tell"),
        (2.5, 0.5, "2.5 of 3 sessions, too few to tell"),
        (9, 1, "90% of 10 sessions (90% interval: 67% to 98%)"),
    ],
)
def test_few_votes_show_no_percentage(yes: float, no: float, words: str) -> None:
    assert share_words(yes, no) == words


def test_nine_harmful_votes_are_evidence() -> None:
    assert against(0, 8) < HARMS <= against(0, 9)
    assert against(8, 7) == 0
    assert against(0, 10**6) > HARMS


def found(chance: random.Random, rate: float, verdicts: int, shared: int = 1) -> bool:
    """Whether a bullet of this true rate is ever named, looked at after each verdict; a sentence
    speaks of `shared`.
    """
    counts = [[0, 0] for _ in range(shared)]
    for _ in range(verdicts):
        helped = chance.random() < rate
        for one in counts:
            one[not helped] += 1
            if against(*one) >= HARMS:
                return True
    return False


@pytest.mark.parametrize("projects", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_noise_is_hardly_ever_named_and_a_bullet_that_harms_four_times_of_five_mostly_is(
    projects: int,
) -> None:
    chance = random.Random(projects)
    noise = sum(found(chance, 0.5, 100, chance.randint(1, 5)) for _ in range(projects))
    planted = sum(found(chance, 0.2, 50) for _ in range(projects))
    assert noise <= projects * 0.02
    assert planted >= projects * 0.8
