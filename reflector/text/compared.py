"""Compares the lines of two versions of a text in bounded time."""

from collections import Counter
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

_Line = TypeVar("_Line", bound=Hashable)

#: The most pairs of lines to compare. If there are more, only lines at the beginning are the same.
_MOST_COMPARED = 100_000_000
#: Up to this number of pairs of equal lines, lines that repeat, such as braces, are compared, too.
#: The time grows with this number and with the number of changes.
_MOST_REPEATED = 50_000


def compared(old: Sequence[_Line], new: Sequence[_Line]) -> SequenceMatcher[_Line]:
    """Return the comparison of two versions."""
    junk = set(new) if len(old) * len(new) > _MOST_COMPARED else set[_Line]()
    of_old = Counter(old)
    equal_pairs = sum(of_old[line] * count for line, count in Counter(new).items())
    return SequenceMatcher(junk.__contains__, old, new, autojunk=equal_pairs > _MOST_REPEATED)
