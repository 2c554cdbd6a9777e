"""How sure a comparison of two arms is, however often one looks.

Invariant: the interval holds at every look at once. Of each session, the good or bad end is weighed
by the arm's known share, so that the weights' mean is the difference of the arms whatever kind of
sessions come. Each is a number x from 0 to 1 with a mean that the difference fixes; for each
possible difference a player bets on x by a beta prior, and what they own after n sessions,

    B(a + S, a + n - S) / B(a, a) / (m^S (1 - m)^(n - S))        S the sum of x, m the mean under
                                                                 that difference

grows beyond 20 at any time at all in at most one of twenty runs where that difference is the true
one (Ville's inequality; a bet on x between 0 and 1 wins no more than one on a coin). The interval
holds the differences that stand.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import lgamma, log
from typing import Final, Literal

Verdict = Literal["early", "helps", "harms", "no-difference", "undecided"]

#: How often an interval may fail to hold the true difference at some look.
ALPHA: Final = 0.05
#: Sessions before which nothing is said.
LEAST: Final = 40
#: A difference within so much either way is none that matters.
MARGIN: Final = 0.15
_BOUND: Final = log(1 / ALPHA)
#: The prior's a, for arms of one size: differences of 10 to 30 points are looked for.
_PRIOR: Final = 15.0


@dataclass(frozen=True, slots=True)
class Arm:
    """The sessions of one arm, those of them that ended well, and their share; null without a
    session.
    """

    sessions: int
    good: int
    rate: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", self.good / self.sessions if self.sessions else None)


def interval(told: Arm, without: Arm, share: float) -> tuple[float, float]:
    """Return the differences (told minus without, from -1 to 1) that stand, by their ends;
    `share` go without.
    """
    n = told.sessions + without.sessions
    if not n:
        return -1.0, 1.0
    middle = min(1.0, max(-1.0, 2 * _sum(told, without, share) * _most(share) / n))
    low, high = (
        _edge(lambda one: stands(told, without, share, one), middle, end) for end in (-1.0, 1.0)
    )
    return low, high


def stands(told: Arm, without: Arm, share: float, difference: float) -> bool:
    """Return whether a difference is still one that may be the true one."""
    n = told.sessions + without.sessions
    mean = 0.5 + difference / (2 * _most(share))
    return log_wealth(n / 2 + _sum(told, without, share), n, mean, share) < _BOUND


def log_wealth(s: float, n: int, mean: float, share: float = 0.5) -> float:
    """Return the logarithm of what the player owns who bets against a mean, after n numbers with
    the sum s.
    """
    a = _PRIOR * _most(share) ** 2
    if (mean <= 0 and s > 0) or (mean >= 1 and s < n):
        return float("inf")
    stake = (s * log(mean) if s else 0.0) + ((n - s) * log(1 - mean) if s < n else 0.0)
    return _log_beta(a + s, a + n - s) - _log_beta(a, a) - stake


def verdict(told: Arm, without: Arm, low: float, high: float) -> Verdict:
    """Return what a trial shows: helps, harms, no-difference, undecided; early where too few
    sessions came.
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
    """Return after how many sessions simulated trials find a difference, in order; `most` + 1 for
    one that does not.

    effect  the true difference
    rate    of good ends among sessions that are told the playbook
    begun   the arms that each trial goes on from
    """
    rate = min(1 + min(effect, 0.0), max(max(effect, 0.0), rate))  # as near as the effect allows
    draw, chances, weight = random.Random(28), (rate - effect, rate), _weight(share)
    known = sum(arm.sessions for arm in begun or ())
    begins, bounds = _sum(*begun, share) if begun else 0.0, _bounds(share, most)[known:]
    found = []
    for _ in range(runs):
        s, end = begins, most + 1
        for n, bound in enumerate(bounds, start=known + 1):
            is_told = draw.random() >= share
            s += weight(is_told, draw.random() < chances[is_told])
            if abs(s) >= bound and n >= LEAST:
                end = n
                break
        found.append(end)
    return sorted(found)


def _sum(told: Arm, without: Arm, share: float) -> float:
    """Return S minus n/2 of two arms."""
    weight = _weight(share)
    arms = ((True, told), (False, without))
    return sum(weight(is_told, True) * (2 * arm.good - arm.sessions) for is_told, arm in arms)


def _weight(share: float) -> Callable[[bool, bool], float]:
    """Return x minus one half of a session, from its arm and its end."""
    most = _most(share)
    told, without = 1 / (4 * most * (1 - share)), 1 / (4 * most * share)
    return lambda is_told, is_good: (
        (told if is_told else without) * (1 if is_told == is_good else -1)
    )


@lru_cache(maxsize=4)
def _bounds(share: float, most: int) -> tuple[float, ...]:
    """Return for each n, from 1 on, how far S must be from n/2 that no difference is out."""
    bound, found = 0.0, list[float]()
    for n in range(1, most + 1):
        while bound < n / 2 and log_wealth(n / 2 + bound, n, 0.5, share) < _BOUND:
            bound += 0.125
        found.append(bound if bound <= n / 2 else float("inf"))
    return tuple(found)


def _most(share: float) -> float:
    """Return the largest weight of a session."""
    return 0.5 / min(share, 1 - share)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _edge(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return where a range that begins inside ends on the way outside, to a thousandth of a
    point.
    """
    if holds(outside):
        return outside
    for _ in range(20):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return outside
