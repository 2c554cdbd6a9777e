"""Sentences that you repeat in several sessions and that no rule contains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reflector.counts.likeness import Likeness, features_of

_FEWEST_SESSIONS = 3


class Sentence(NamedTuple):
    """A sentence of yours that instructs, its time as written and its session."""

    words: str
    timestamp: str
    session_id: str


class Repeated(NamedTuple):
    """Sentences that are alike: the newest one and the number of sessions."""

    newest: Sentence
    sessions: int


def repeated(sentences: Sequence[Sentence]) -> list[Repeated]:
    """Return the sentences that you said in three sessions or more, the most repeated first. Each
    sentence is in one row.
    """
    newest_first = sorted(sentences, key=lambda sentence: sentence.timestamp, reverse=True)
    likeness = Likeness([features_of(sentence.words) for sentence in newest_first])
    taken: set[int] = set()
    rows: list[Repeated] = []
    for place, sentence in enumerate(newest_first):
        if place in taken:
            continue
        alike = {place, *likeness.places_like(sentence.words)} - taken
        sessions = {newest_first[other].session_id for other in alike}
        if len(sessions) >= _FEWEST_SESSIONS:
            taken |= alike
            rows.append(Repeated(sentence, len(sessions)))
    return sorted(rows, key=lambda row: -row.sessions)
