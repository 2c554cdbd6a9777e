"""Conditions on a bullet's counters, such as `harmful >= 3 and harmful > helpful`.

Invariant: a condition is comparisons of `helpful`, `harmful` and whole numbers, joined by `and`. Anything else is
refused when it is parsed, and no text is run as code.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from reflector.mistakes import Mistake

_VALUE: Final = r"(helpful|harmful|[0-9]{1,15})"
_COMPARISON: Final = re.compile(rf"\s*{_VALUE}\s*([<>]=?|[!=]=)\s*{_VALUE}\s*")
_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class BadCondition(Mistake):
    """A text that is not a condition; its own text says where it goes wrong."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Comparisons that must all hold, each as (value, operator, value)."""

    comparisons: tuple[tuple[str, str, str], ...]

    def holds(self, helpful: int, harmful: int) -> bool:
        """Return whether it holds for these counters."""
        counters = {"helpful": helpful, "harmful": harmful}
        return all(
            _COMPARE[how](*(counters[one] if one in counters else int(one) for one in (left, right)))
            for left, how, right in self.comparisons
        )


def condition(text: str) -> Condition:
    """Parse a condition. Raises BadCondition."""
    comparisons = []
    for part in re.split(r"\band\b", text):
        found = _COMPARISON.fullmatch(part)
        if found is None:
            raise BadCondition(
                f"{part.strip()[:40]!r} is not a comparison; a condition compares helpful, harmful and numbers and "
                "joins comparisons by `and`, such as: harmful >= 3 and harmful > helpful"
            )
        comparisons.append((found[1], found[2], found[3]))
    return Condition(tuple(comparisons))
