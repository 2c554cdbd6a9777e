"""Sentences that you repeat in several sessions and that no rule contains: similar ones, and
requests on the same topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from reflector.counts.likeness import Likeness, features_of
from reflector.counts.sentences import topics_of

_FEWEST_SESSIONS = 3
#: The most spaces of a sentence that you may type twice; a longer one was pasted.
_MOST_TYPED = 9
#: A line that a program printed: it begins with a number, a path or a difference.
_OUTPUT = re.compile(r"\W*\d|[^\w\s]*[\w.-]*[/\\#→]")


class Sentence(NamedTuple):
    """A sentence of yours, with its time as written and its session."""

    words: str
    timestamp: str
    session_id: str


class Repeated(NamedTuple):
    """Sentences of some sessions.

    said   the newest sentence of each session, the newest first
    topic  what they ask for; "" if they are only alike
    """

    said: Mapping[str, str]
    topic: str


def repeated(sentences: Sequence[Sentence]) -> list[Repeated]:
    """Return the sentences that you repeated in three sessions or more, the most repeated first.
    Each sentence is in one row. A fork of a session does not count as a repetition. A long sentence
    that is repeated word for word was pasted, so it counts once.
    """
    ordered = sorted(sentences, key=lambda sentence: sentence.timestamp)
    different = {_identity(sentence): sentence for sentence in ordered}
    newest_first = [each for each in different.values() if not _OUTPUT.match(each.words)][::-1]
    taken: set[int] = set()
    rows: list[Repeated] = []
    for topic, places in _groups(newest_first):
        said: dict[str, str] = {}
        for place in sorted(places - taken):
            said.setdefault(newest_first[place].session_id, newest_first[place].words)
        if len(said) >= _FEWEST_SESSIONS:
            taken |= places
            rows.append(Repeated(said, topic))
    return sorted(rows, key=lambda row: -len(row.said))


def _identity(sentence: Sentence) -> tuple[str, str]:
    is_long = sentence.words.count(" ") > _MOST_TYPED
    return sentence.words, "" if is_long else sentence.timestamp


def _groups(sentences: Sequence[Sentence]) -> Iterator[tuple[str, Set[int]]]:
    """Yield each topic with the places of its sentences, then "" with the places of similar
    sentences, for each sentence.
    """
    by_topic: dict[str, set[int]] = {}
    for place, sentence in enumerate(sentences):
        for topic in topics_of(sentence.words):
            by_topic.setdefault(topic, set()).add(place)
    yield from by_topic.items()
    likeness = Likeness([features_of(sentence.words) for sentence in sentences])
    for place, sentence in enumerate(sentences):
        yield "", {place, *likeness.places_like(sentence.words)}
