"""The certainty of a comparison of two arms, however often it is looked at.

Invariant: the interval holds at all looks at once. The good or bad end of each session is weighed
by the arm's known share, so the mean of the weights is the difference of the arms, whatever kind of
sessions come. Each weight is a number x from 0 to 1 with a mean that the difference determines. For
each possible difference a player bets on x by a beta prior, and their wealth after n sessions,

    B(a + S, a + n - S) / B(a, a) / (m^S (1 - m)^(n - S))        S the sum of x, m the mean under
                                                                 that difference

ever grows beyond 20 in at most one of twenty runs if that difference is the true one (Ville's
inequality; a bet on x between 0 and 1 wins no more than one on a coin). The interval contains the
differences whose player stays below.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import lgamma, log
from typing import Literal

Verdict = Literal["early", "helps", "harms", "no-difference", "undecided"]

#: The probability that an interval does not contain the true difference at some look.
ALPHA = 0.05
#: The fewest sessions of a trial with a verdict.
LEAST = 40
#: A difference of at most this, in either direction, does not matter.
MARGIN = 0.15
_BOUND = log(1 / ALPHA)
#: The prior's a, for arms of one size: it looks for differences of 10 to 30 points.
_PRIOR = 15.0


@dataclass(frozen=True, slots=True)
class Arm:
    """The number of sessions of one arm, and the number and the share of those that ended well. The
    share is null without a session.
    """

    sessions: int
    good: int
    rate: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", self.good / self.sessions if self.sessions else None)


def difference_interval(told: Arm, without: Arm, share: float) -> tuple[float, float]:
    """Return the ends of the range of differences that may be true: told minus without, from -1 to
    1. `share` is the share of all sessions that go without.
    """
    n = told.sessions + without.sessions
    if not n:
        return -1.0, 1.0

    def holds(difference: float) -> bool:
        return stands(told, without, share, difference)

    observed = 2 * _sum(told, without, share) * _most(share) / n
    middle = min(1.0, max(-1.0, observed))
    return _edge(holds, middle, -1.0), _edge(holds, middle, 1.0)


def stands(told: Arm, without: Arm, share: float, difference: float) -> bool:
    """Return whether a difference may still be the true one."""
    n = told.sessions + without.sessions
    mean = 0.5 + difference / (2 * _most(share))
    return log_wealth(n / 2 + _sum(told, without, share), n, mean, share) < _BOUND


def log_wealth(s: float, n: int, mean: float, share: float = 0.5) -> float:
    """Return the logarithm of the wealth of a player who bets against a mean, after n numbers with
    the sum s.
    """
    a = _PRIOR * _most(share) ** 2
    if (mean <= 0 and s > 0) or (mean >= 1 and s < n):
        return float("inf")
    of_ones = s * log(mean) if s else 0.0
    of_zeros = (n - s) * log(1 - mean) if s < n else 0.0
    return _log_beta(a + s, a + n - s) - _log_beta(a, a) - (of_ones + of_zeros)


def trial_verdict(told: Arm, without: Arm, low: float, high: float) -> Verdict:
    """Return the verdict of a trial whose interval has these ends; "early" if it has too few
    sessions.
    """
    if told.sessions + without.sessions < LEAST:
        return "early"
    if low > 0:
        return "helps"
    if high < 0:
        return "harms"
    return "no-difference" if low >= -MARGIN and high <= MARGIN else "undecided"


def ends(
    effect: float,
    rate: float,
    share: float,
    most: int,
    runs: int = 400,
    begun: tuple[Arm, Arm] | None = None,
) -> list[int]:
    """Return the number of sessions after which each simulated trial finds a difference, in order.
    It is `most` + 1 for a trial that finds none.

    effect  the true difference
    rate    of good ends among sessions that are shown the playbook
    begun   the arms with which each trial begins
    """
    rate = min(1 + min(effect, 0.0), max(max(effect, 0.0), rate))  # as near as the effect allows
    rate_without = rate - effect
    weight = _weight(share)
    n_before = sum(arm.sessions for arm in begun or ())
    sum_before = _sum(*begun, share) if begun else 0.0
    bounds = _bounds(share, most)[n_before:]
    draw = random.Random(28).random  # always the same trials

    def simulated_end() -> int:
        distance = sum_before  # of S from n/2, as in `_bounds`
        for n, bound in enumerate(bounds, start=n_before + 1):
            is_told = draw() >= share
            is_good = draw() < (rate if is_told else rate_without)
            distance += weight(is_told, is_good)
            if abs(distance) >= bound and n >= LEAST:
                return n
        return most + 1

    return sorted(simulated_end() for _ in range(runs))


def _sum(told: Arm, without: Arm, share: float) -> float:
    """Return S minus n/2 for two arms."""
    weight = _weight(share)
    arms = ((True, told), (False, without))
    return sum(weight(is_told, True) * (2 * arm.good - arm.sessions) for is_told, arm in arms)


def _weight(share: float) -> Callable[[bool, bool], float]:
    """Return the function that returns x minus one half for a session, from its arm and its end."""
    of_told = 1 / (4 * _most(share) * (1 - share))
    of_without = 1 / (4 * _most(share) * share)

    def weight(is_told: bool, is_good: bool) -> float:
        size = of_told if is_told else of_without
        return size if is_told == is_good else -size

    return weight


@lru_cache(maxsize=4)
def _bounds(share: float, most: int) -> tuple[float, ...]:
    """Return for each n from 1 the distance of S from n/2 at which the true difference cannot be
    zero.
    """
    bound = 0.0
    bounds: list[float] = []
    for n in range(1, most + 1):
        while bound < n / 2 and log_wealth(n / 2 + bound, n, 0.5, share) < _BOUND:
            bound += 0.125
        bounds.append(bound if bound <= n / 2 else float("inf"))
    return tuple(bounds)


def _most(share: float) -> float:
    """Return the largest weight of a session."""
    return 0.5 / min(share, 1 - share)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _edge(holds: Callable[[float], bool], inside: float, limit: float) -> float:
    """Return the end of a range on the side of a limit, to a thousandth of a point.

    It is a point just outside of the range, so that the range is never shown too narrow, or the
    limit if the range contains it.

    inside  a point in the range
    """
    if holds(limit):
        return limit
    outside = limit
    for _ in range(20):
        middle = (inside + outside) / 2
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return outside
