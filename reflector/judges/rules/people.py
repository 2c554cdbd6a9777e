"""What a person's message says about the work before it, and of which words it speaks for or
against.

Invariant: a message is read by a few short wordings, never word by word. What was pasted is not
read, of a long message only the opening is, and words that are not English are neither consent nor
silence. Words are compared by their stems: one in singular, plural, -ing or -ed is the same, and
the commonest of this trade are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from reflector.judges.rules.wordings import expression, found, listed, wordings

Kind = Literal["objects", "approves", "agrees", "other", "unread"]

#: Characters of a message that are looked at, and of its opening that are read; a brief is longer
#: than `_BRIEF` words.
_LOOKED_AT, _OPENING, _OPENING_OF_BRIEF, _BRIEF = 4000, 300, 120, 60
#: Words: a go-ahead or a commit with more behind it is the next task; of so few, one that is known
#: makes them English.
_MOST_AGREEING, _MOST_SHIPPING, _FEW = 5, 25, 3
#: Characters: praise, and the agent's concession, stand at the beginning.
_PRAISE_BEFORE, _CONCESSION_BEFORE = 20, 120

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TAG = re.compile(
    r"<([\w-]+)[^<>]*>.*?</\1>|\[[Ii]mage[^\]]*\]|\[Pasted text[^\]]*\]|https?://\S+",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


@dataclass(frozen=True, slots=True)
class Remark:
    """What one message says.

    kind     what the message is, as far as its own words tell
    signs    the wordings that were found, of objection and then of approval
    about    its words by stem, with whether it speaks against them
    faulty   the words of the clauses that report a fault; None where they report one of "this" or
             "it"
    quote    how it begins, as the person wrote it, at most 200 characters
    """

    kind: Kind
    signs: tuple[str, ...]
    about: Mapping[str, bool]
    faulty: frozenset[str] | None
    quote: str


def read_remark(text: str, *, refuses: bool = False, answers: bool = False) -> Remark:
    """Return what a message says.

    refuses  it is the reason given with a refused call, which is a sign by itself
    answers  the agent had asked something: a no at the start answers it
    """
    written = _own_words(text[:_LOOKED_AT])
    quote = " ".join((written or text[:_LOOKED_AT]).split())[:200]
    prose = expression("hurried").sub(
        lambda match: "'".join(filter(None, match.groups())), written.replace("’", "'")
    )
    words = prose.split()
    opening = " ".join(words)[: _OPENING if len(words) <= _BRIEF else _OPENING_OF_BRIEF]
    reported = expression("supposed").sub(" ", opening)
    signs = {row.id: match.start() for row, match in found(wordings("sign"), opening)}
    if answers:
        signs.pop("starts-with-no", None)
    if not expression("fault").search(reported):
        signs.pop("fault", None)
    if refuses and opening:
        signs["refused"] = 0
    kind, sign = _kind(opening, len(words), signs)
    about = stance(expression("bare-no").sub("", opening))
    return Remark(kind, (*signs, *filter(None, [sign])), about, _faulty(reported), quote)


def _kind(opening: str, count: int, signs: Mapping[str, int]) -> tuple[Kind, str]:
    """Return what a message is, and the wording by which it approves."""
    said = {row.id: match for row, match in found(wordings("person"), opening)}
    is_short = bool(said or signs) and opening.isascii() and len(_WORD.findall(opening)) <= _FEW
    if opening and not is_short and not is_english(opening):
        return "unread", ""
    works, praise = said.get("works"), said.get("praise")
    is_early = works is not None and not any(at < works.start() for at in signs.values())
    if works is not None and is_early and not expression("unreal").search(opening[: works.start()]):
        return "approves", "works"
    if signs:
        return "objects", ""
    if "ships" in said and count <= _MOST_SHIPPING:
        return "approves", "ships"
    if praise is not None and praise.start() <= _PRAISE_BEFORE and "?" not in opening:
        return "approves", "praise"
    return "agrees" if "go-ahead" in said and count <= _MOST_AGREEING else "other", ""


def _faulty(reported: str) -> frozenset[str] | None:
    """Return the words of the clauses that report a fault, without those of the report itself."""
    words: set[str] = set()
    fault = expression("fault")
    for clause in expression("clause").split(reported):
        if (match := fault.search(clause)) and not expression("you").search(clause):
            if expression("deictic").match(clause):
                return None
            words |= content_words(clause[: match.start()] + " " + clause[match.end() :])
    return frozenset(words)


def stance(text: str) -> dict[str, bool]:
    """Return the words of a text by stem, with whether it speaks against them where it first names
    them; those of which that cannot be said are left out.
    """
    points: dict[str, bool] = {}
    for clause in expression("clause").split(text[:6000]):
        start, end = _scope(clause)
        for match in _TOPIC.finditer(clause):
            word = match[0].strip(".-_").lower()
            if word not in listed("common") and match.start() < end:
                points.setdefault(_stem(word), match.start() >= start)
    return points


def _scope(clause: str) -> tuple[int, int]:
    """Return where a clause begins to speak against what it names, and where that cannot be said
    any more.
    """
    if expression("omits").search(clause):
        return len(clause), len(clause)
    negation = expression("blames").search(clause) or expression("against").search(clause)
    if negation is None:
        return len(clause), len(clause)
    if expression("twofold").search(clause, negation.end()):
        return len(clause), len(clause)
    for preposition in expression("preposition").finditer(clause, negation.end()):
        if content_words(clause[negation.end() : preposition.start()]):
            return negation.start(), preposition.start()
    return negation.start(), len(clause)


def is_english(prose: str) -> bool:
    """Return whether a text seems to be English: a seventh of its words are among the commonest,
    others not foreign.
    """
    words: list[str] = _WORD.findall(prose.lower())
    if not words:
        return not any(character.isalpha() for character in prose)
    known = sum(word in listed("english") or word.endswith("n't") for word in words)
    foreign = sum(not word.isascii() for word in words)
    return 7 * (known - 2 * foreign) >= len(words)


def concedes(said: str) -> bool:
    """Return whether the agent's first words after a message take it as a correction."""
    conceding = [row for row in wordings("agent") if row.says == "concedes"]
    return any(
        match.start() < _CONCESSION_BEFORE
        for _, match in found(conceding, " ".join(said[:600].split()))
    )


def _own_words(text: str) -> str:
    """Return what the person wrote themselves, without what they pasted."""
    lines = [line for line in _FENCE.sub("\n", _TAG.sub(" ", text)).splitlines() if line.strip()]
    pasted = expression("log-line")
    return "\n".join(line.strip() for line in lines if not (len(line) > 12 and pasted.match(line)))


_TOPIC = re.compile(
    r"[A-Za-zÀ-ÿЀ-ӿ][\w.-]{2,}|\b(?:[A-Z][A-Z0-9]|ip|ui|db|id|js|ts|s3|io|qa"
    r"|k8s)\b|[぀-ヿ㐀-鿿가-힯]{2}"
)


def content_words(text: str) -> frozenset[str]:
    """Lower-cased words of three letters or more without the commonest; pairs of characters in
    CJK.
    """
    words = (match.strip(".-_").lower() for match in _TOPIC.findall(text[:6000]))
    return frozenset(_stem(word) for word in words if word not in listed("common"))


def _stem(word: str) -> str:
    """Plural, -ing and -ed off, so that "buttons" meets "button"; names with dots or digits
    stay.
    """
    if not word.isalpha() or len(word) < 5:
        if len(word) != 4 or not word.isalpha():
            return word
        return word[:-1] if word[-1] == "s" and word[-2] not in "sui" else word.rstrip("e")
    for ending in ("ings", "ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return (word[: -len(ending)] + "y" * (ending == "ies")).rstrip("e") or word
    return word.rstrip("e") if len(word) > 4 else word
