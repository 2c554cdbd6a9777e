"""What verdicts show: intervals that are those of the exact distribution, and a test that may be
looked at always.
"""

import random
from math import comb
from statistics import mean

import pytest
from hypothesis import given, strategies as st

from reflector.playbook.evidence import HARMS, FindingRates, Votes, against, share_interval

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
    assert Votes(yes, no).words == words


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
def test_noise_is_rarely_named_and_harm_mostly(
    projects: int,
) -> None:
    chance = random.Random(projects)
    noise = sum(found(chance, 0.5, 100, chance.randint(1, 5)) for _ in range(projects))
    planted = sum(found(chance, 0.2, 50) for _ in range(projects))
    assert noise <= projects * 0.02
    assert planted >= projects * 0.8


RATES = FindingRates(helpful=36, harmful=73)


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_correction_recovers_the_true_share(helped: int, harmed: int) -> None:
    votes = Votes(helped * 0.36, harmed * 0.73, rates=RATES)
    assert votes.share == pytest.approx(helped / (helped + harmed), abs=1e-4)


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 100), st.integers(1, 100))
def test_corrected_share_lies_inside_its_interval(
    yes: int, no: int, helpful: int, harmful: int
) -> None:
    votes = Votes(yes, no, rates=FindingRates(helpful, harmful))
    low, high = votes.interval
    assert low - 1e-6 <= (0.5 if votes.share is None else votes.share) <= high + 1e-6


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 100))
def test_equal_finding_rates_correct_nothing(yes: int, no: int, rate: int) -> None:
    corrected = Votes(yes, no, rates=FindingRates(rate, rate))
    assert corrected.share == pytest.approx(Votes(yes, no).share)
    assert corrected.interval == pytest.approx(Votes(yes, no).interval)
    assert corrected.harm == pytest.approx(Votes(yes, no).harm)


def test_corrected_share_has_its_label() -> None:
    words = Votes(5, 5, rates=RATES).words
    assert words == (
        "67% of 10 sessions (90% interval: 42% to 85%, corrected for cases that the judge misses)"
    )


def test_undecided_sessions_excuse_harm() -> None:
    assert Votes(0, 9, undecided=1).harm < HARMS <= Votes(0, 9).harm
    assert Votes(0, 9, undecided=1, rates=RATES).harm >= HARMS / 50


def looked_at(chance: random.Random, true_share: float, sessions: int, *, measured: bool) -> bool:
    """Whether a rule is ever called harmful by a judge that finds 40 % of help and 80 % of harm,
    looked at after each session.
    """
    rates = FindingRates(40, 80) if measured else None
    helpful = harmful = undecided = 0
    for _ in range(sessions):
        helped = chance.random() < true_share
        is_found = chance.random() < (0.4 if helped else 0.8)
        helpful += helped and is_found
        harmful += not helped and is_found
        undecided += not is_found
        if Votes(helpful, harmful, undecided, rates).harm >= HARMS:
            return True
    return False


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("rules", [200, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_judge_that_misses_help_condemns_few(rules: int, measured: bool) -> None:
    """A rule that helps as often as it harms was called harmful in 19 % by 50 sessions."""
    chance = random.Random(46)
    condemned = sum(looked_at(chance, 0.5, 50, measured=measured) for _ in range(rules))
    assert condemned <= rules * 0.02


def test_measured_rates_still_find_harm() -> None:
    chance = random.Random(46)
    assert sum(looked_at(chance, 0.1, 50, measured=True) for _ in range(200)) >= 0.8 * 200
