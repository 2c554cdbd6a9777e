"""What verdicts show: intervals that are those of the exact distribution, and a test that may be
looked at always.
"""

import random
from math import comb

import pytest
from hypothesis import given, strategies as st

from reflector.playbook.evidence import HARMS, against, share_interval


def below(x: float, helpful: int, harmful: int) -> float:
    """The exact probability of a share below x, as a binomial sum."""
    total = helpful + harmful + 1
    return sum(
        comb(total, n) * x**n * (1 - x) ** (total - n) for n in range(helpful + 1, total + 1)
    )


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_true_share_lies_below_either_end_of_an_interval_in_one_case_of_twenty(
    helpful: int, harmful: int
) -> None:
    low, high = share_interval(helpful, harmful)
    assert (below(low, helpful, harmful), below(high, helpful, harmful)) == pytest.approx(
        (0.05, 0.95), abs=1e-4
    )
    assert share_interval(helpful + 1, harmful)[0] > low > share_interval(helpful, harmful + 1)[0]


def test_counts_of_any_size_have_an_interval_and_the_evidence_of_eight_to_seven_is_none() -> None:
    assert share_interval(0, 0) == (0.05, 0.95)
    assert all(
        0 <= low < high <= 1
        for low, high in (
            share_interval(10**6, 10**6),
            share_interval(0, 10**6),
            share_interval(0.5, 2.5),
        )
    )
    assert (against(8, 7), against(7, 8) < 1, against(0, 8) < HARMS <= against(0, 9)) == (
        0,
        True,
        True,
    )
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
