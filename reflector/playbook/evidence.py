"""The share of helpful votes of a bullet: its interval, its words, and the strength of the
evidence.

Invariant: nothing looks more certain than it is. The interval is Jeffreys' 90 % interval of a
Beta(helpful + ½, harmful + ½) distribution. Its ends are set to 0 and 1 without a helpful or a
harmful vote, so it always contains the share itself: Brown, Cai, DasGupta, "Interval Estimation for
a Binomial Proportion" (Statistical Science, 2001). Below `FEWEST` votes no percentage is shown.
Votes may be fractions. A judge that finds help less often than harm makes good advice look bad. So
a bullet is not called harmful if such a judge could explain the result.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log, log1p
from typing import NamedTuple

from reflector.text.phrases import short_number

#: The probability of a share on either side of an interval.
_TAIL = 0.05
#: A rule is called harmful if a share below one half is this many times likelier than even chances.
#: By Ville's inequality, a rule at even chances ever reaches this in at most one of fifty cases,
#: however often you check.
HARMS = 50.0
#: The label of a share that is not the plain share of the votes.
CORRECTED = "corrected for cases that the judge misses"
#: The fewest votes for which a percentage is shown.
FEWEST = 5
#: The digits of a share, and the most steps that find them.
_DIGITS = 6
_BISECTIONS = 40
#: Replaces 0 in a divisor (Lentz's method).
_TINY = 1e-300


class FindingRates(NamedTuple):
    """The number of sessions that a judge finds, of 100 that a rule helped and of 100 that it
    harmed.
    """

    helpful: int
    harmful: int

    @property
    def even(self) -> float:
        """The share of helpful votes on a rule that helps as often as it harms."""
        return self.helpful / (self.helpful + self.harmful)

    def corrected(self, share: float) -> float:
        """Return the share of sessions that were helped, from the share of votes."""
        helped = share / self.helpful
        harmed = (1 - share) / self.harmful
        return round(helped / (helped + harmed), _DIGITS)


class Votes(NamedTuple):
    """The votes of sessions on a rule, which may be fractions.

    undecided  sessions that used the rule and have no vote
    rates      of the judge, if they were measured
    """

    helpful: float = 0
    harmful: float = 0
    undecided: float = 0
    rates: FindingRates | None = None

    @property
    def total(self) -> float:
        return self.helpful + self.harmful

    @property
    def share(self) -> float | None:
        """The share of sessions that were helped; None without a vote."""
        if not self.total:
            return None
        return self._corrected(round(self.helpful / self.total, _DIGITS))

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 90 % interval of that share."""
        low, high = share_interval(self.helpful, self.harmful)
        return self._corrected(low), self._corrected(high)

    @property
    def harm(self) -> float:
        """How many times likelier the votes are than for a rule that helps as often as it harms; 0
        if they do not show harm.

        Without measured rates, each undecided session counts as helped, because a lower finding
        rate of help cannot explain more than that.
        """
        if self.rates is None:
            return against(self.helpful + self.undecided, self.harmful)
        return against(self.helpful, self.harmful, self.rates.even)

    @property
    def help(self) -> float:
        """The same number for votes that show help; undecided sessions do not count."""
        even = 0.5 if self.rates is None else self.rates.even
        return against(self.harmful, self.helpful, 1 - even)

    @property
    def words(self) -> str:
        """The share with its interval; without a percentage for fewer than `FEWEST` votes, and ""
        without any vote.
        """
        share = self.share
        if share is None:
            return ""
        total = short_number(self.total)
        if self.total < FEWEST:
            noun = "session" if self.total == 1 else "sessions"
            return f"{short_number(self.helpful)} of {total} {noun}, too few to tell"
        low, high = self.interval
        corrected = f", {CORRECTED}" if self.rates else ""
        interval = f"90% interval: {low:.0%} to {high:.0%}"
        return f"{share:.0%} of {total} sessions ({interval}{corrected})"

    def _corrected(self, share: float) -> float:
        return share if self.rates is None else self.rates.corrected(share)


@lru_cache(maxsize=4096)
def share_interval(helpful: float, harmful: float) -> tuple[float, float]:
    """Return the ends of the 90 % interval of the share of helpful votes."""
    low = _quantile(_TAIL, helpful + 0.5, harmful + 0.5) if helpful else 0.0
    high = _quantile(1 - _TAIL, helpful + 0.5, harmful + 0.5) if harmful else 1.0
    return low, high


def against(helpful: float, harmful: float, even: float = 0.5) -> float:
    """Return how many times likelier the votes are if every share is possible than if the share is
    `even`. It is 0 if the votes do not show a share below `even`.
    """
    total = helpful + harmful
    if helpful >= even * total:
        return 0.0
    at_any_share = lgamma(helpful + 1) + lgamma(harmful + 1) - lgamma(total + 2)
    at_even = helpful * log(even) + harmful * log(1 - even)
    return exp(min(700.0, at_any_share - at_even))


def _quantile(probability: float, a: float, b: float) -> float:
    """Return the share below which Beta(a, b) has this probability, rounded."""
    low = 0.0
    high = 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _below(middle, a, b) < probability:
            low = middle
        else:
            high = middle
        if round(low, _DIGITS) == round(high, _DIGITS):
            break  # no further step changes a digit
    return round((low + high) / 2, _DIGITS)


def _below(x: float, a: float, b: float) -> float:
    """Return the probability of a share below `x` under Beta(a, b): the incomplete beta function,
    by its continued fraction (DLMF 8.17.22), evaluated by Lentz's method.
    """
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _below(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    c = 1.0
    d = 1 / (1 - (a + b) * x / (a + 1) or _TINY)
    fraction = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or _TINY)
            c = 1 + term / c or _TINY
            fraction *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return front * fraction
