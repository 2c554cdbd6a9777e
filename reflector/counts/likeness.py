"""Sentences that are alike: they share their rarer words, and both speak for a thing or both
against it. Sentences with the same aim, such as "no comments", are alike in any words. So are those
with the same words in another order, and those that reject the same.

Invariant: the result depends only on the two texts and on the list of all texts, so a repeated
count gives the same result. Words are compared as `people.stance` reads them. Scripts without
spaces are compared by their grams.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from reflector.judges.reading.aims import aims_of
from reflector.judges.reading.people import stance
from reflector.text.lazy import lazy_pattern
from reflector.text.synonyms import usual_word
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
_AGAINST_UNSPACED = lazy_pattern(
    r"不|别|別|勿|禁止|避免|ない(?!と|け|なら)|ません|なしで|ห้าม|อย่า|ไม่"
)
_HIRAGANA = lazy_pattern(r"[ぁ-ゖ]+")
#: "Prefer this over that" rejects that, as "rather than" does.
_OVER = lazy_pattern(r"(\bprefer\w*\b[^.;:]*?)\bover\b", re.IGNORECASE)
#: "Files below `api/migrations/`" are the migrations.
_FILES_IN = lazy_pattern(
    r"\b(?:(?:the|any|existing) )?files? (?:below|under|in|inside|within)"
    r" `?(?:[\w.-]+/)*([\w-]+)/`?(?=\W*\Z|[.,;:!?()\s])",
    re.IGNORECASE,
)
#: The occasion after "before". Its words are not what the text asks for.
_OCCASION = lazy_pattern(r"\bbefore\b([^,.;:!?]*)", re.IGNORECASE)
_BEFORE = "before:"
#: What a whole text forbids, or rejects for something else.
_REJECTED = lazy_pattern(
    r"(?:\A\W*(?:(?:no|and|but|so|again|please)\b[, ]*)*(?:never|avoid|stop|don't|dont|do not)"
    r"|\brather than|\binstead of|, not) ([^,.;:!?]*)\W*\Z",
    re.IGNORECASE,
)
#: The parts of a text: a negation, "before", the end of a clause, or a word.
_PARTS = lazy_pattern(
    r"\b(?:(?P<not>never|not|don't|dont|avoid|stop|without|rather than|instead of|no)"
    r"|(?P<before>before))\b|(?P<end>[.,;:!?()]+(?=\s|$))|(?P<word>[^\W_][\w.'-]*\w)",
    re.IGNORECASE,
)
#: Words that leave the meaning of a request as it is.
_FUNCTION_WORDS = frozenset(
    "always ever again please just also the an this that these those them they it its you your"
    " me my our us we to of in on at is are be do did should must have has need want use prefer"
    " any every each and or for with by as so from now".split()
)
#: A request that lasts limits something or has an occasion. A plain order, such as "run the tests",
#: is the task at hand.
_LASTS = lazy_pattern(
    r"\b(?:only|before|always|never|avoid|prefer|not|instead|don't)\b", re.IGNORECASE
)
_FEWEST_WORDS = 3


def features_of(text: str) -> dict[str, bool]:
    """Return the words and the aims of a text by which it is compared, each with whether the text
    speaks against it.
    """
    return _words_in(_plain(text)) | dict.fromkeys(all_aims_of(text), False)


def all_aims_of(text: str) -> frozenset[str]:
    """Return the aims of a text, its lasting request as a whole, and its rejected part. Two texts
    that share one of these ask for the same.
    """
    plain = _plain(text)
    return aims_of(text).union(_rejected(plain), _whole(plain))


def _plain(text: str) -> str:
    with_things = _FILES_IN.sub(r"\1", text.replace("’", "'"))
    return _OVER.sub(r"\1rather than", with_things)


def _rejected(text: str) -> Iterator[str]:
    """Yield the rejected part of a text as an aim, without the order of its words."""
    match = _REJECTED.search(text)
    words = stance(match[1], usual_word) if match else ()
    if len(words) >= _FEWEST_SHARED:
        yield f"not {' '.join(sorted(words))}"


def _whole(text: str) -> Iterator[str]:
    """Yield all that a lasting request says as an aim, in which the order of the words does not
    count.
    """
    if is_unspaced(text) or not _LASTS.search(text):
        return
    role = ""
    words: set[str] = set()
    for match in _PARTS.finditer(text):
        if match["word"] is None:
            role = "" if match["end"] else f"{match.lastgroup}:"
        elif (word := match[0].lower()) not in _FUNCTION_WORDS:
            words.add(role + usual_word(word))
    if len(words) >= _FEWEST_WORDS:
        yield f"all {' '.join(sorted(words))}"


def _words_in(text: str) -> dict[str, bool]:
    occasion = stance(" ".join(_OCCASION.findall(text)), usual_word)
    features = {
        _BEFORE + word if word in occasion else word: against
        for word, against in stance(text, usual_word).items()
    }
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
