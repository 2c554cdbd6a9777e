"""Which wordings a text cannot hold: plain strings of which every match has one, looked for in one pass.

Invariant: no wording that a text holds is passed over. The pass costs less than most wordings alone; where its library
is not installed, every wording is tried. `make docs` writes `needles.json` from the wordings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

#: Letters that expressions take for others regardless of case, and `str.lower` does not.
_ALIKE = str.maketrans("İıſ\u212a\u1c80\u1c82\u1c84\u1c85", "iiskвотт")


@lru_cache(maxsize=4)
def absent(text: str, table: str) -> frozenset[str]:
    """Return the ids of the wordings of a table (`printed`, `folded`: read regardless of case) that are not in a text.

    Of the table `commands`, the kinds that a segment of a command is not of.
    """
    known, find = _finder(table)
    return known.difference(*find(text if table == "printed" else folded(text)))


def folded(text: str) -> str:
    """Return a text in which letters that are the same regardless of case are the same."""
    return (text if text.isascii() else text.translate(_ALIKE)).lower()


@lru_cache(maxsize=3)
def _finder(table: str) -> tuple[frozenset[str], Callable[[str], Iterable[frozenset[str]]]]:
    """Return all ids that have strings, and what finds those whose strings are in a text."""
    try:
        from ahocorasick import Automaton
    except ImportError:
        return frozenset(), lambda _: ()
    strings: dict[str, list[str]] = json.loads(Path(__file__).with_name("needles.json").read_bytes())[table]
    ids: dict[str, set[str]] = {}
    for id, needles in strings.items():
        for needle in needles:
            ids.setdefault(needle, set()).add(id)
    automaton = Automaton()
    for needle, those in ids.items():
        automaton.add_word(needle, frozenset(those))
    automaton.make_automaton()
    return frozenset(strings), lambda text: {those for _, those in automaton.iter(text)}
