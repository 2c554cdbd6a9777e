"""Sentences that you repeat in several sessions and that no rule contains: similar ones, and
requests with the same aim or on the same topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from reflector.counts.likeness import Likeness, features_of
from reflector.counts.sentences import lasting_topics_of
from reflector.judges.reading.aims import aims_of, is_choice
from reflector.text.lazy import lazy_pattern

_FEWEST_SESSIONS = 3
#: The fewest sessions with "use this, not that", which is clear enough.
_FEWEST_WITH_CHOICE = 2
#: The most spaces of a sentence that you may type twice; a longer one was pasted.
_MOST_TYPED = 9
#: A line that a program printed: it begins with a number, a path or a difference.
_OUTPUT = lazy_pattern(r"\W*\d|[^\w\s]*[\w.-]*[/\\#→]")


class Sentence(NamedTuple):
    """A sentence of yours, with its time as written and its session."""

    words: str
    timestamp: str
    session_id: str


class Repeated(NamedTuple):
    """Sentences of some sessions.

    said   the newest sentence of each session, the newest first
    topic  the topic that they share; "" if they are alike
    """

    said: Mapping[str, str]
    topic: str


def repeated(sentences: Sequence[Sentence]) -> list[Repeated]:
    """Return the sentences that you repeated in three sessions or more, the most repeated first.
    Two sessions are enough for "use this, not that". Each sentence is in one row. A fork of a
    session does not count as a repetition. A long sentence that is repeated word for word was
    pasted, so it counts once.
    """
    ordered = sorted(sentences, key=lambda sentence: sentence.timestamp)
    different = {_identity(sentence): sentence for sentence in ordered}
    newest_first = [each for each in different.values() if not _OUTPUT.match(each.words)][::-1]
    taken: set[int] = set()
    rows: list[Repeated] = []
    for topic, fewest, places in _groups(newest_first):
        said: dict[str, str] = {}
        for place in sorted(places - taken):
            said.setdefault(newest_first[place].session_id, newest_first[place].words)
        if len(said) >= fewest:
            taken |= places
            rows.append(Repeated(said, topic))
    return sorted(rows, key=lambda row: -len(row.said))


def _identity(sentence: Sentence) -> tuple[str, str]:
    is_long = sentence.words.count(" ") > _MOST_TYPED
    return sentence.words, "" if is_long else sentence.timestamp


def _groups(sentences: Sequence[Sentence]) -> Iterator[tuple[str, int, Set[int]]]:
    """Yield the topic, the fewest sessions and the places of groups of sentences. They have the
    same aim, the same topic, or are similar; only a topic has a name.
    """
    for aim, places in _places_by(sentences, aims_of).items():
        yield "", _FEWEST_WITH_CHOICE if is_choice(aim) else _FEWEST_SESSIONS, places
    for topic, places in _places_by(sentences, lasting_topics_of).items():
        yield topic, _FEWEST_SESSIONS, places
    likeness = Likeness([features_of(sentence.words) for sentence in sentences])
    for place, sentence in enumerate(sentences):
        yield "", _FEWEST_SESSIONS, {place, *likeness.places_like(sentence.words)}


def _places_by(
    sentences: Sequence[Sentence], subjects_of: Callable[[str], Iterable[str]]
) -> Mapping[str, Set[int]]:
    """Return the places of the sentences about each subject."""
    places: dict[str, set[int]] = {}
    for place, sentence in enumerate(sentences):
        for subject in subjects_of(sentence.words):
            places.setdefault(subject, set()).add(place)
    return places
