"""The share of helpful votes of a bullet: its interval, its words, and how strong the evidence is.

Invariant: nothing looks surer than it is. The interval is Jeffreys' 90 % interval, of a
Beta(helpful + ½, harmful + ½) distribution, with its ends set to 0 and 1 without a helpful or a
harmful vote, so it always holds the share itself: Brown, Cai, DasGupta, "Interval Estimation for a
Binomial Proportion" (Statistical Science, 2001). Below `FEWEST` votes no percentage is shown. Votes
may be fractions.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log, log1p

#: The probability of a share on either side of an interval.
_TAIL = 0.05
#: How many times likelier than even chances a share below one half has to be, to say that a bullet
#: harms. By Ville's inequality a bullet at even chances ever comes to that in one of fifty cases at
#: most, however often one looks.
HARMS = 50.0
#: The fewest votes of which a percentage is shown.
FEWEST = 5
#: The digits of a share, and the steps that find more of them.
_DIGITS = 6
_BISECTIONS = 40
#: Stands for 0 in a divisor (Lentz's method).
_TINY = 1e-300


@lru_cache(maxsize=4096)
def share_interval(helpful: float, harmful: float) -> tuple[float, float]:
    """Return the ends of the 90 % interval of the share of yes."""
    low = _quantile(_TAIL, helpful + 0.5, harmful + 0.5) if helpful else 0.0
    high = _quantile(1 - _TAIL, helpful + 0.5, harmful + 0.5) if harmful else 1.0
    return low, high


def share_words(helpful: float, harmful: float) -> str:
    """Return the share of yes with its 90 % interval in words; no percentage of fewer than
    `FEWEST` votes, and "" of none.
    """
    votes = helpful + harmful
    if not votes:
        return ""
    if votes < FEWEST:
        noun = "session" if votes == 1 else "sessions"
        return f"{helpful:.3g} of {votes:.3g} {noun}, too few to tell"
    low, high = share_interval(helpful, harmful)
    share = helpful / votes
    return f"{share:.0%} of {votes:.3g} sessions (90% interval: {low:.0%} to {high:.0%})"


def against(helpful: float, harmful: float) -> float:
    """Return how many times likelier verdicts are where any share may be the true one than at even
    chances.

    0 if they do not say that the bullet harms more often than it helps.
    """
    if harmful <= helpful:
        return 0.0
    total = helpful + harmful
    at_any_share = lgamma(helpful + 1) + lgamma(harmful + 1) - lgamma(total + 2)
    return exp(min(700.0, at_any_share + total * log(2)))


def _quantile(probability: float, a: float, b: float) -> float:
    """Return the share below which Beta(a, b) has a probability, rounded."""
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
