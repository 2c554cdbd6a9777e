"""Sentences that are alike: they share their rarer words, and both speak for a thing or both
against it. Sentences with the same aim, such as "no comments", are alike in any words.

Invariant: the result depends only on the two texts and on the list of all texts, so a repeated
count gives the same result. Words are compared as `people.stance` reads them. Scripts without
spaces are compared by their grams.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from reflector.judges.reading.aims import aims_of
from reflector.judges.reading.people import stance
from reflector.text.words import grams, is_unspaced

#: The least share of the weight of a text, and of that of a sentence, that their common words have.
_OF_TEXT = 0.6
_OF_SENTENCE = 0.45
#: Two words in common must be nearly the whole text, because many texts share two.
_MANY_SHARED = 3
_FEWEST_SHARED = 2
_OF_TEXT_WITH_FEW = 0.8
#: Words that any rule may have, by their stems, and their weight.
_USUALS = frozenset(
    "start begin finish done change file code project work task add make check first again new"
    " everyth follow show".split()
)
_USUAL = 0.5
_AGAINST_UNSPACED = re.compile(r"不|别|別|勿|禁止|避免|ない(?!と|け|なら)|ません|なしで|ห้าม|อย่า|ไม่")
_HIRAGANA = re.compile(r"[ぁ-ゖ]+")


def features_of(text: str) -> dict[str, bool]:
    """Return the words and the aims of a text by which it is compared, each with whether the text
    speaks against it.
    """
    return _words_in(text) | dict.fromkeys(aims_of(text), False)


def _words_in(text: str) -> dict[str, bool]:
    features = stance(text)
    if is_unspaced(text):
        is_against = _AGAINST_UNSPACED.search(text) is not None
        pairs = (gram for gram in grams(text) if not _HIRAGANA.fullmatch(gram))
        ascii_words = {word: against for word, against in features.items() if word.isascii()}
        return dict.fromkeys(pairs, is_against) | dict.fromkeys(ascii_words, is_against)
    return features


class Likeness:
    """A list of texts, as their features, for comparison with sentences."""

    def __init__(self, features: Sequence[Mapping[str, bool]]) -> None:
        self._features = features
        holders = Counter(chain.from_iterable(features))
        self._rarest = math.log(len(features) + 1) + 1
        self._weights = {
            word: (math.log((len(features) + 1) / count) + 1) * (_USUAL if word in _USUALS else 1)
            for word, count in holders.items()
        }
        self._totals = [self._weight_of(words) for words in features]
        self._places: dict[str, list[int]] = {}
        for place, words in enumerate(features):
            for word in words:
                self._places.setdefault(word, []).append(place)

    def _weight_of(self, features: Mapping[str, bool]) -> float:
        words = (feature for feature in features if not _is_aim(feature))
        return math.fsum(self._weights.get(word, self._rarest) for word in words)

    def places_like(self, sentence: str) -> set[int]:
        """Return the places of the texts that are like a sentence."""
        features = features_of(sentence)
        total = self._weight_of(features)
        aims = filter(_is_aim, features)
        shared = Counter(place for word in features for place in self._places.get(word, ()))
        same_aim = {place for aim in aims for place in self._places.get(aim, ())}
        return same_aim | {
            place
            for place, count in shared.items()
            if count >= _FEWEST_SHARED and self._is_like(place, features, total)
        }

    def _is_like(self, place: int, features: Mapping[str, bool], total: float) -> bool:
        own = self._features[place]
        shared = own.keys() & features.keys()
        if any(own[word] != features[word] for word in shared):
            return False
        weight = math.fsum(self._weights[word] for word in shared)
        least = _OF_TEXT if len(shared) >= _MANY_SHARED else _OF_TEXT_WITH_FEW
        return weight >= least * self._totals[place] and weight >= _OF_SENTENCE * total


def _is_aim(feature: str) -> bool:
    return " " in feature
