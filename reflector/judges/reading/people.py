"""Reads a user's message: its opinion of the work before it, and the words for or against which it
speaks.

Invariant: a few short wordings read a message, never single words. Pasted text is not read, and of
a long message only the opening is. Words that are not English are neither consent nor silence.
Words are compared by their stems, so a singular, a plural, -ing and -ed are the same word, and the
most common words of the trade are ignored. `trials/outcome.py` reads messages with this module too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from reflector.judges.reading.wordings import expression, matches_in, wordings, words_of

Kind = Literal["objects", "approves", "agrees", "other", "unread"]

#: The characters of a message that are used, and those of its opening that are read. A brief is a
#: message of more than `_BRIEF_WORDS` words.
_LOOKED_AT = 4000
_OPENING = 300
_OPENING_OF_BRIEF = 120
_BRIEF_WORDS = 60
#: In words: a longer go-ahead or a longer request to commit is the next task. A message of at most
#: `_FEW_WORDS` words is English if one of its wordings is known.
_MAX_WORDS_OF_GO_AHEAD = 5
_MAX_WORDS_OF_COMMIT = 25
_FEW_WORDS = 3
#: The most characters before praise at the beginning of a message.
_PRAISE_BEFORE = 20

#: Endings that a stem does not have.
_ENDINGS = ("ings", "ing", "ies", "ed", "es", "s")


class Remark(NamedTuple):
    """The meaning of one message.

    kind     the kind of the message, as far as its own words show it
    signs    the wordings that were found, of objection and then of approval
    about    its words by stem, with whether it speaks against them
    faulty   the words of the clauses that report a fault; None if they report one of "this" or "it"
    harms    the words of the things that it says do harm, such as "type hints" in "type hints break
             the code"
    quote    its beginning, as the user wrote it, at most 200 characters
    """

    kind: Kind
    signs: tuple[str, ...]
    about: Mapping[str, bool]
    faulty: frozenset[str] | None
    harms: frozenset[str]
    quote: str


class _Reading(NamedTuple):
    """The kind of a message, and the wording of its approval."""

    kind: Kind
    approval: str = ""


def read_remark(text: str, *, refuses: bool = False, answers: bool = False) -> Remark:
    """Return the meaning of a message.

    refuses  whether the message is the reason of a refused call, which is a sign of an objection
    answers  whether the agent had asked something, so that a "no" at the start is only an answer
    """
    looked_at = text[:_LOOKED_AT]
    own_words = _own_words(looked_at)
    words = with_apostrophes(own_words).split()
    most = _OPENING if len(words) <= _BRIEF_WORDS else _OPENING_OF_BRIEF
    opening = " ".join(words)[:most]
    reported = expression("supposed").sub(" ", opening)
    signs = {row.id: match.start() for row, match in matches_in(wordings("sign"), opening)}
    if answers:
        signs.pop("starts-with-no", None)
    if not expression("fault").search(reported):
        signs.pop("fault", None)
    if refuses and opening:
        signs["refused"] = 0
    reading = _read_kind(opening, len(words), signs)
    all_signs = (*signs, reading.approval) if reading.approval else tuple(signs)
    quote = " ".join((own_words or looked_at).split())[:200]
    faulty = _faulty_words(reported)
    return Remark(reading.kind, all_signs, stance(opening), faulty, _harming_words(opening), quote)


def with_apostrophes(text: str) -> str:
    """Return a text with `don't` for `dont` and for `don’t`."""
    return expression("hurried").sub(
        lambda match: "'".join(filter(None, match.groups())), text.replace("’", "'")
    )


def _read_kind(opening: str, count: int, signs: Mapping[str, int]) -> _Reading:
    """Return the kind of a message. "It works" approves, if no sign of an objection comes before
    it. Otherwise each sign makes the message an objection.

    count  the number of its words
    signs  the places of the signs of an objection
    """
    spoken = {row.id: match for row, match in matches_in(wordings("person"), opening)}
    is_short = bool(spoken or signs) and _is_short(opening)
    if opening and not is_short and not is_english(opening):
        return _Reading("unread")
    works = spoken.get("works")
    if works is not None and _is_report(opening, works.start(), signs.values()):
        return _Reading("approves", "works")
    if signs:
        return _Reading("objects")
    return _read_calm(opening, count, spoken)


def _read_calm(opening: str, count: int, spoken: Mapping[str, re.Match[str]]) -> _Reading:
    """Return the kind of a message without an objection."""
    if "ships" in spoken and count <= _MAX_WORDS_OF_COMMIT:
        return _Reading("approves", "ships")
    praise = spoken.get("praise")
    is_question = "?" in opening
    if praise is not None and praise.start() <= _PRAISE_BEFORE and not is_question:
        return _Reading("approves", "praise")
    is_go_ahead = "go-ahead" in spoken and count <= _MAX_WORDS_OF_GO_AHEAD
    return _Reading("agrees" if is_go_ahead else "other")


def _is_short(opening: str) -> bool:
    return opening.isascii() and len(expression("word").findall(opening)) <= _FEW_WORDS


def _is_report(opening: str, place: int, signs: Iterable[int]) -> bool:
    """Return whether "it works" is a report: no objection and no "make sure" precedes its place."""
    is_first = all(sign >= place for sign in signs)
    return is_first and not expression("unreal").search(opening[:place])


def _faulty_words(reported: str) -> frozenset[str] | None:
    """Return the words of the clauses that report a fault, without the words of the report itself.
    Return None if a clause reports a fault of "this" or "it".
    """
    words: set[str] = set()
    for clause in expression("clause").split(reported):
        match = expression("fault").search(clause)
        if match is None or expression("you").search(clause):
            continue
        if expression("deictic").match(clause):
            return None
        words.update(stance(clause[: match.start()]), stance(clause[match.end() :]))
    return frozenset(words)


def _harming_words(opening: str) -> frozenset[str]:
    """Return the words of the things that a message says do harm."""
    clauses = map(expression("harms").match, expression("clause").split(opening))
    return frozenset(word for match in clauses if match for word in stance(match["thing"]))


def stance(text: str, stem: Callable[[str], str] | None = None) -> dict[str, bool]:
    """Return the words of a text by stem, each with whether the text speaks against it at its first
    mention. Words for which this is unclear are omitted. In the scripts of Chinese, Japanese and
    Korean, a word is a pair of characters.

    stem  returns the stem of a word; None for one without plural, -ing and -ed
    """
    points: dict[str, bool] = {}
    for clause in expression("clause").split(text[:6000]):
        negated = _negated_part(clause)
        # It is unclear whether the text speaks against the words after the negated part.
        for word, start in _topics(clause[: negated.stop]):
            points.setdefault((stem or _stem)(word), start >= negated.start)
    return points


def _topics(clause: str) -> Iterator[tuple[str, int]]:
    """Yield the words of a clause that are not common, each with its index."""
    for match in expression("topic").finditer(clause):
        word = match[0].strip(".-_").lower()
        if word not in words_of("common"):
            yield word, match.start()


def _negated_part(clause: str) -> range:
    """Return the part of a clause that it speaks against. It is unclear for the words after it."""
    size = len(clause)
    negation = expression("blames").search(clause) or expression("against").search(clause)
    if negation is None or expression("omits").search(clause):
        return range(size, size)
    end = negation.end()
    if expression("twofold").search(clause, end):
        return range(size, size)
    for preposition in expression("preposition").finditer(clause, end):
        if any(_topics(clause[end : preposition.start()])):
            return range(negation.start(), preposition.start())
    return range(negation.start(), size)


def is_english(prose: str) -> bool:
    """Return whether a text seems to be English. At least a seventh of its words must be among the
    commonest, with two subtracted for each foreign word.
    """
    words: list[str] = expression("word").findall(prose.lower())
    if not words:
        return not any(character.isalpha() for character in prose)
    common = sum(word in words_of("english") or word.endswith("n't") for word in words)
    foreign = sum(not word.isascii() for word in words)
    return 7 * (common - 2 * foreign) >= len(words)


def _own_words(text: str) -> str:
    """Return the words that the user wrote themselves, without pasted text."""
    without_code = expression("fence").sub("\n", expression("tag").sub(" ", text))
    lines = [line for line in without_code.splitlines() if line.strip()]
    pasted = expression("log-line")
    return "\n".join(line.strip() for line in lines if not (len(line) > 12 and pasted.match(line)))


def _stem(word: str) -> str:
    """Return a word without plural, -ing and -ed, so that "buttons" and "button" are the same;
    names with dots or digits stay.
    """
    if not word.isalpha() or len(word) < 4:
        return word
    if len(word) == 4:
        is_plural = word[-1] == "s" and word[-2] not in "sui"
        return word[:-1] if is_plural else word.rstrip("e")
    endings = [ending for ending in _ENDINGS if word.endswith(ending)]
    ending = next((ending for ending in endings if len(word) - len(ending) >= 3), "")
    stem = word.removesuffix(ending) + ("y" if ending == "ies" else "")
    return stem.rstrip("e") or word
