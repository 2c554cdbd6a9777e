"""Bullets that say something about a question.

Invariant: the order depends on the bullets and the question alone: more of the question's words first, then the
better bullet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .bullet import Bullet, best_first

_WORD = re.compile(r"\w+")


def search(bullets: Iterable[Bullet], query: str) -> list[Bullet]:
    """Return the bullets that hold a word of the query, or a word that begins with one; all of them for no words."""
    words = set(_WORD.findall(query.casefold()))
    ranked: list[tuple[int, tuple[float, int, str], Bullet]] = []
    for bullet in bullets:
        own = set(_WORD.findall(f"{bullet.name} {bullet.text}".casefold()))
        hits = sum(any(one.startswith(word) for one in own) for word in words)
        if hits or not words:
            ranked.append((-hits, best_first(bullet), bullet))
    return [bullet for _, _, bullet in sorted(ranked, key=lambda entry: entry[:2])]
