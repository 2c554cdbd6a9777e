"""What a pattern cannot match without: a few plain strings, looked for before the pattern is tried.

Invariant: nothing that a pattern matches is missed. Where it cannot be shown that every match holds one of the
strings, there are none and the pattern is always tried. To look for a string takes a tenth of a microsecond, to try
a pattern of the table took up to 0.3 ms for each paragraph of an agent: nine tenths of the time of a judgement.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

try:  # the standard library's own reader of patterns; without it every pattern is tried
    _op: Any = import_module("re._constants")
    _parser: Any = import_module("re._parser")
except ImportError:
    _op = _parser = None

#: Bytes, as many as a native number has.
_GRAM = 4
#: As many strings as a part of a pattern may stand for; one that stands for more may be anything.
_MOST = 48
#: Characters that a pattern regardless of case matches with others than those that `str.lower` makes equal.
_ODD = (
    "İıſµ\u0345\u0390\u03b0ςσΣ\u03d0\u03d1\u03d5\u03d6\u03f0\u03f1\u03f5\u1c80-\u1c88"
    "\u1e9b\u1fbe\u1fd3\u1fe3\ufb05\ufb06"
)
_IS_ODD = re.compile(f"[{_ODD}]")

_Strings = frozenset[str]
_EMPTY: _Strings = frozenset({""})


class Needles:
    """The strings of one pattern, one of which stands in every text that it matches; perhaps none are known."""

    __slots__ = ("_fold", "_known", "_long", "_short")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._fold = bool(flags & re.IGNORECASE)
        found = _needed(pattern, flags, fold=self._fold)
        self._known = bool(found)
        self._short = tuple(sorted(string for string in found or () if len(string) < _GRAM))
        #: By how they begin, which is looked up in all that the text has.
        self._long: dict[int, list[str]] = {}
        for string in sorted(found or ()):
            if len(string) >= _GRAM:
                self._long.setdefault(_gram(string), []).append(string)

    def missing(self, text: str) -> bool:
        """True where the pattern cannot match in `text`."""
        if not self._known:
            return False
        if self._fold:
            if not text.isascii() and _is_odd(text):
                return False
            text = _lower(text)
        for string in self._short:
            if string in text:
                return False
        grams = _grams(text)
        if grams.isdisjoint(self._long):
            return True
        return not any(string in text for start, strings in self._long.items() if start in grams for string in strings)


#: A hundred patterns are asked about the same text, or about the same few clauses in turn.
_lower = lru_cache(maxsize=32)(str.lower)


@lru_cache(maxsize=32)
def _grams(text: str) -> set[int]:
    """Each four bytes that stand side by side in a text, as numbers.

    To look all of a pattern's beginnings up in these takes 1 µs, to look for each of them in a text of a thousand
    letters took 30 µs. As numbers they are made four times as fast as by cutting strings out.
    """
    data = memoryview(text.encode("utf-8", "surrogatepass"))
    grams: set[int] = set()
    for start in range(min(_GRAM, len(data))):
        whole = (len(data) - start) // _GRAM * _GRAM
        grams.update(data[start : start + whole].cast("I"))
    return grams


def _gram(string: str) -> int:
    return int.from_bytes(string.encode("utf-8", "surrogatepass")[:_GRAM], sys.byteorder)


@lru_cache(maxsize=32)
def _is_odd(text: str) -> bool:
    return _IS_ODD.search(text) is not None


def _needed(pattern: str, flags: int, *, fold: bool) -> _Strings | None:
    if _parser is None:
        return None
    tree = _parser.parse(pattern, flags)
    found = _sequence(tree, fold=fold)[1]
    if found is None or any(fold and _IS_ODD.search(string) for string in found):
        return None
    return _shortest(found)


def _shortest(strings: Iterable[str]) -> _Strings:
    """Without those that hold another one."""
    kept: list[str] = []
    for string in sorted(strings, key=len):
        if not any(other in string for other in kept):
            kept.append(string)
    return frozenset(kept)


def _sequence(items: Any, *, fold: bool) -> tuple[_Strings | None, _Strings | None]:
    """(all that it stands for, strings of which every match holds one) of parts in a row, None for unknown.

    A run of parts whose strings are known makes longer strings; any other part ends the run. The best run or part
    speaks for the whole.
    """
    run, exact = _EMPTY, True
    best: _Strings | None = None
    for op, of in items:
        stands_for, needs = _part(op, of, fold=fold)
        if stands_for is not None:
            longer = frozenset(a + b for a in run for b in stands_for) if len(run) * len(stands_for) <= _MOST else None
            if longer is not None:
                run = longer
                continue
            best, run, exact = _better(best, run), stands_for, False
            continue
        best, run, exact = _better(_better(best, run), needs), _EMPTY, False
    return (run if exact else None), _better(best, run)


def _better(one: _Strings | None, other: _Strings | None) -> _Strings | None:
    """Which strings are rarer in texts: the shortest of them tells, then how many they are."""
    known = [strings for strings in (one, other) if strings and "" not in strings]
    return max(known, key=lambda strings: (min(4, min(map(len, strings))), -len(strings)), default=None)


def _part(op: Any, of: Any, *, fold: bool) -> tuple[_Strings | None, _Strings | None]:
    """As `_sequence`, of one part."""
    if op is _op.LITERAL:
        return _letter(of, fold=fold), None
    if op is _op.AT or op is _op.ASSERT or op is _op.ASSERT_NOT:
        return _EMPTY, None  # matches no characters of its own
    if op is _op.IN:
        if 0 < len(of) <= 4 and all(kind is _op.LITERAL for kind, _ in of):
            letters = [_letter(code, fold=fold) for _, code in of]
            if all(letter is not None for letter in letters):
                return frozenset().union(*(letter for letter in letters if letter is not None)), None
        return None, None
    if op is _op.SUBPATTERN:
        _, added, removed, inner = of
        return (None, None) if added or removed else _sequence(inner, fold=fold)
    if op is _op.ATOMIC_GROUP:
        return _sequence(of, fold=fold)
    if op is _op.BRANCH:
        return _branch([_sequence(branch, fold=fold) for branch in of[1]])
    if op in (_op.MAX_REPEAT, _op.MIN_REPEAT, _op.POSSESSIVE_REPEAT):
        least, most, inner = of
        stands_for, needs = _sequence(inner, fold=fold)
        if stands_for is not None and most == 1:
            return (stands_for if least else stands_for | _EMPTY), None
        return None, needs if least else None
    return None, None


def _branch(ways: list[tuple[_Strings | None, _Strings | None]]) -> tuple[_Strings | None, _Strings | None]:
    exact: _Strings | None = _union([way[0] for way in ways])
    needs = _union([way[1] for way in ways])
    if exact is not None and len(exact) <= _MOST:
        return exact, None
    return None, needs


def _union(parts: list[_Strings | None]) -> _Strings | None:
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _letter(code: int, *, fold: bool) -> _Strings | None:
    letter = chr(code)
    if not fold:
        return frozenset({letter})
    lower = letter.lower()
    return frozenset({lower}) if len(lower) == 1 else None
