"""Write `needles.json`: of each wording, plain strings of which every match holds one; `make docs` runs it.

Invariant: nothing that a wording finds is missed. Where it cannot be shown that each match holds one of the strings,
the wording has none and is always tried. Strings of wordings that disregard case are in lower case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import reflector.reflection.rules
from reflector.reflection.rules.steps import COMMANDS
from reflector.reflection.rules.wordings import all_wordings

FILE = Path(reflector.reflection.rules.__file__).with_name("needles.json")
#: As many strings as a part of a pattern may stand for; one that stands for more may be anything.
_MOST = 64
#: As many letters as a class of them may have.
_MOST_LETTERS = 8
_RARE = 8

Strings = frozenset[str]
_NOTHING: Strings = frozenset({""})


def written() -> str:
    """Return the file as it should be."""
    found: dict[str, dict[str, list[str]]] = {"folded": {}, "printed": {}, "commands": {}}
    for row in all_wordings():
        if strings := needles(row.pattern, fold=row.folds):
            found["folded" if row.folds else "printed"][row.id] = strings
    for kind, pattern in COMMANDS:
        if strings := needles(pattern, fold=True):
            found["commands"][kind] = strings
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def needles(pattern: str, *, fold: bool) -> list[str]:
    """Return strings of which each match of a pattern holds one; none where that cannot be shown.

    Single characters are in every text, and none is better than they.
    """
    found = _sequence(parser.parse(pattern, re.IGNORECASE if fold else 0), fold=fold)[1]
    return _shortest(found) if found and min(map(len, found)) > 1 else []


def _shortest(strings: Iterable[str]) -> list[str]:
    """Leave out those that hold another one."""
    kept: list[str] = []
    for string in sorted(strings, key=lambda one: (len(one), one)):
        if not any(other in string for other in kept):
            kept.append(string)
    return kept


def _sequence(items: Any, *, fold: bool) -> tuple[Strings | None, Strings | None]:
    """(all that parts in a row stand for, strings of which every match holds one), None for unknown.

    A run of parts whose strings are known makes longer strings; any other part ends the run. The best run or part
    speaks for the whole.
    """
    run, exact = _NOTHING, True
    best: Strings | None = None
    for kind, of in items:
        stands_for, needs = _part(kind, of, fold=fold)
        if stands_for is None:
            best, run, exact = _better(_better(best, run), needs), _NOTHING, False
        elif len(run) * len(stands_for) <= _MOST:
            run = frozenset(a + b for a in run for b in stands_for)
        else:
            best, run, exact = _better(best, run), stands_for, False
    return (run if exact else None), _better(best, run)


def _better(one: Strings | None, other: Strings | None) -> Strings | None:
    """Return which strings are rarer in texts: the commonest of them tells, then how many they are."""
    known = [strings for strings in (one, other) if strings and "" not in strings]
    return max(known, key=lambda strings: (min(_RARE, *map(_rarity, strings)), -len(strings)), default=None)


def _rarity(string: str) -> int:
    """Small letters and spaces are what most of a text is made of, signs what least of it is."""
    return sum(1 if letter.islower() or letter == " " else 2 if letter.isascii() else 4 for letter in string)


def _part(kind: Any, of: Any, *, fold: bool) -> tuple[Strings | None, Strings | None]:
    if kind is op.LITERAL:
        return _letter(of, fold=fold), None
    if kind in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return _NOTHING, None  # matches no characters of its own
    if kind is op.IN:
        letters = [_letter(of, fold=fold) for kind, of in of if kind is op.LITERAL]
        if len(letters) == len(of) <= _MOST_LETTERS and None not in letters:
            return frozenset[str]().union(*filter(None, letters)), None
        return None, None
    if kind is op.SUBPATTERN:
        _, added, removed, inner = of
        return (None, None) if added or removed else _sequence(inner, fold=fold)
    if kind is op.ATOMIC_GROUP:
        return _sequence(of, fold=fold)
    if kind is op.BRANCH:
        ways = [_sequence(branch, fold=fold) for branch in of[1]]
        exact = _union(way[0] for way in ways)
        return (exact, None) if exact is not None and len(exact) <= _MOST else (None, _union(way[1] for way in ways))
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, most, inner = of
        exact, needs = _sequence(inner, fold=fold)
        if exact is not None and most == 1:
            return (exact if least else exact | _NOTHING), None
        return None, needs if least else None
    return None, None


def _union(parts: Iterable[Strings | None]) -> Strings | None:
    known = list(parts)
    return None if None in known else frozenset[str]().union(*filter(None, known))


def _letter(code: int, *, fold: bool) -> Strings | None:
    letter = chr(code).lower() if fold else chr(code)
    return frozenset({letter}) if len(letter) == 1 else None


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
