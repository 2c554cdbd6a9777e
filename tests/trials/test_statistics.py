"""How sure a comparison is: the closed form against numerical integration, one look against
Newcombe's interval.
"""

from math import exp, log, sqrt
from random import Random

import pytest
from hypothesis import given, strategies as st

from benchmarks.trials import WITH_PLACEBO, play_placebos
from reflector.trials import statistics
from reflector.trials.statistics import Arm, difference_interval, ends, log_wealth, trial_verdict

ARMS = st.builds(lambda good, bad: Arm(good + bad, good), st.integers(0, 400), st.integers(0, 400))


@pytest.mark.parametrize(
    ("s", "n", "mean"), [(0, 1, 0.5), (7, 10, 0.5), (31.25, 50, 0.4), (130, 200, 0.62)]
)
def test_wealth_is_the_integral_over_all_bets(s: float, n: int, mean: float) -> None:
    a, steps = statistics._PRIOR, 20_000
    places = [(place + 0.5) / steps for place in range(steps)]
    prior = [(a - 1) * log(t * (1 - t)) for t in places]
    won = [
        exp(p + s * log(t / mean) + (n - s) * log((1 - t) / (1 - mean)))
        for p, t in zip(prior, places, strict=True)
    ]
    assert exp(log_wealth(s, n, mean)) == pytest.approx(sum(won) / sum(map(exp, prior)), rel=1e-6)


def test_player_expects_no_win_against_the_truth() -> None:
    """The mean wealth after one session is at most what it was, for any sum before it."""
    for share in (0.5, 0.2, 0.7):
        weight = statistics._weight(share)
        for told, without, s, n in [(0.9, 0.4, 6.0, 10), (0.3, 0.35, 20.0, 50), (0.5, 0.5, 0.0, 0)]:
            mean = 0.5 + (told - without) / (2 * statistics._most(share))
            chances = [
                (
                    weight(is_told, is_good),
                    (1 - share if is_told else share) * (rate if is_good else 1 - rate),
                )
                for is_told, rate in ((True, told), (False, without))
                for is_good in (True, False)
            ]
            assert sum(x * p for x, p in chances) == pytest.approx(mean - 0.5)
            after = sum(p * exp(log_wealth(s + 0.5 + x, n + 1, mean, share)) for x, p in chances)
            assert after <= exp(log_wealth(s, n, mean, share)) * (1 + 1e-9)


def _newcombe(told: Arm, without: Arm) -> tuple[float, float]:
    def wilson(arm: Arm, z: float = 1.959964) -> tuple[float, float]:
        n, p = arm.sessions, arm.good / arm.sessions
        middle, half = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)

    (low1, high1), (low2, high2) = wilson(told), wilson(without)
    p1, p2 = told.good / told.sessions, without.good / without.sessions
    low = p1 - p2 - sqrt((p1 - low1) ** 2 + (high2 - p2) ** 2)
    return low, p1 - p2 + sqrt((high1 - p1) ** 2 + (p2 - low2) ** 2)


@pytest.mark.parametrize(("told", "without"), [(70, 50), (60, 60), (45, 62), (80, 40)])
def test_repeated_interval_contains_the_single_one(told: int, without: int) -> None:
    low, high = difference_interval(Arm(100, told), Arm(100, without), 0.5)
    once = _newcombe(Arm(100, told), Arm(100, without))
    assert low < once[0] < once[1] < high
    assert high - low < 2 * (once[1] - once[0])


@pytest.mark.parametrize("share", [0.2, 0.5, 0.7])
def test_interval_contains_the_truth_for_any_share(
    share: float,
) -> None:
    told, without = round(20_000 * (1 - share)), round(20_000 * share)
    low, high = difference_interval(Arm(told, told * 7 // 10), Arm(without, without // 2), share)
    assert 0.1 < low < 0.2 < high < 0.3


@given(ARMS, ARMS, st.sampled_from([0.5, 0.3, 0.8]))
def test_swapped_arms_turn_the_interval_around(told: Arm, without: Arm, share: float) -> None:
    low, high = difference_interval(told, without, share)
    assert -1 <= low <= high <= 1
    turned = difference_interval(without, told, 1 - share)
    assert turned == pytest.approx((-high, -low), abs=1e-5)


@pytest.mark.parametrize(
    ("told", "without", "low", "high", "shown"),
    [
        (Arm(20, 20), Arm(19, 0), 0.2, 1.0, "early"),
        (Arm(20, 20), Arm(20, 0), 0.2, 1.0, "helps"),
        (Arm(20, 0), Arm(20, 20), -1.0, -0.2, "harms"),
        (Arm(20, 10), Arm(20, 10), -0.15, 0.15, "no-difference"),
        (Arm(20, 10), Arm(20, 10), -0.15, 0.16, "undecided"),
        (Arm(20, 10), Arm(20, 10), 0.0, 0.1, "no-difference"),
    ],
)
def test_what_a_trial_shows(told: Arm, without: Arm, low: float, high: float, shown: str) -> None:
    assert trial_verdict(told, without, low, high) == shown


def test_simulated_trials_find_larger_effects_sooner() -> None:
    halves = [ends(effect, 0.6, 0.5, 2000)[200] for effect in (0.1, 0.2, 0.3, -0.2)]
    assert halves[0] > halves[1] > halves[2] >= statistics.LEAST
    assert halves[3] == pytest.approx(halves[1], rel=0.15)
    assert sum(end <= 2000 for end in ends(0.0, 0.6, 0.5, 2000)) <= 20
    begun = (Arm(50, 40), Arm(50, 25))
    assert all(end > 100 for end in ends(0.2, 0.6, 0.5, 2000, begun=begun))
    assert ends(0.3, 0.8, 0.5, 2000, begun=begun)[200] < halves[1]


def test_simulated_trial_ends_once_zero_is_outside() -> None:
    draw = Random(7)
    bounds = statistics._bounds(0.3, 400)
    counts = {True: [0, 0], False: [0, 0]}
    for n in range(1, 401):
        is_told = draw.random() >= 0.3
        counts[is_told][0] += 1
        counts[is_told][1] += draw.random() < (0.8 if is_told else 0.3)
        told, without = Arm(*counts[True]), Arm(*counts[False])
        low, high = difference_interval(told, without, 0.3)
        s = abs(statistics._sum(told, without, 0.3))
        assert (s >= bounds[n - 1]) <= (low > -1e-6 or high < 1e-6)
        assert (low > 0 or high < 0) <= (s >= bounds[n - 1] - 0.125)


@pytest.mark.slow
def test_simulated_trials_are_right_as_often_as_promised() -> None:
    """A fast part of `python -m benchmarks.trials`: docs/value.md has the figures of ten
    thousand.
    """
    from benchmarks.trials import play, report, whole

    for effect in (0.0, 0.2):
        found = whole([play(effect, 15, seed) for seed in (1, 2)])
        assert found.ever <= 4
        assert sum(end < 0 for end in found.ends) <= 2
        assert all(end > 0 for end in found.ends) == (effect > 0)
        assert len(report([found])) == 3


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("effect", "priming"), WITH_PLACEBO)
def test_advice_is_told_from_any_text(effect: float, priming: float) -> None:
    """docs/value.md has the figures of 10,000 ledgers a row."""
    played = play_placebos(effect, priming, 300)
    assert played.false_alarms <= 0.055 * played.ledgers
    assert played.covered >= 0.945 * played.ledgers
