"""What so many helpful and harmful verdicts show of a bullet, as probabilities.

Invariant: nothing looks surer than it is. Before any verdict, every share helpful is as likely as
any other (a uniform prior), so after `helpful` and `harmful` ones the share has a Beta(helpful + 1,
harmful + 1) distribution: Gelman et al., Bayesian Data Analysis (3rd ed., 2013), 2.1. Counts may be
fractions.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log, log1p
from typing import Final

#: What lies on either side of an interval.
_TAIL: Final = 0.05
#: So many times likelier than even chances a share below one half has to be, to say that a bullet
#: harms. By Ville's inequality a bullet at even chances ever comes to that in one of fifty cases at
#: most, however often one looks.
HARMS: Final = 50.0


@lru_cache(maxsize=4096)
def interval(helpful: float, harmful: float) -> tuple[float, float]:
    """Return between which shares helpful the true one lies in nine of ten cases."""
    return _quantile(_TAIL, helpful + 1, harmful + 1), _quantile(
        1 - _TAIL, helpful + 1, harmful + 1
    )


def against(helpful: float, harmful: float) -> float:
    """Return how many times likelier verdicts are where any share may be the true one than at even
    chances.

    0 where they do not say that the bullet harms more often than it helps.
    """
    if harmful <= helpful:
        return 0.0
    total = helpful + harmful
    return exp(
        min(700.0, lgamma(helpful + 1) + lgamma(harmful + 1) - lgamma(total + 2) + total * log(2))
    )


def _quantile(probability: float, a: float, b: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if _below(middle, a, b) < probability:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, 6)


def _below(x: float, a: float, b: float) -> float:
    """Return the probability of a share below `x` under Beta(a, b): the incomplete beta function,
    by its continued fraction (DLMF 8.17.22), evaluated by Lentz's method.
    """
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _below(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    c, d = 1.0, 1 / _off_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 / _off_zero(1 + term * d), _off_zero(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return front * fraction


def _off_zero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300
