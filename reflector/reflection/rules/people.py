"""What a person's message says about the work before it, and of which words it speaks for or against.

Invariant: a message is read by a few short wordings, never word by word. What was pasted is not read, of a long message
only the opening is, and words that are not English are neither consent nor silence. Words are compared by
their stems: one in singular, plural, -ing or -ed is the same, and the commonest of this trade are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from reflector.reflection.rules.wordings import found, wordings

Kind = Literal["objects", "approves", "agrees", "other", "unread"]

#: Characters of a message that are looked at, and of its opening that are read; a brief is longer than `_BRIEF` words.
_LOOKED_AT, _OPENING, _OPENING_OF_BRIEF, _BRIEF = 4000, 300, 120, 60
#: A go-ahead or a commit with much behind it is the next task.
#: Praise and the agent's concession stand at the beginning.
_EARLY_WORDS = 120
_MOST_AGREEING, _MOST_SHIPPING, _EARLY = 5, 25, 20
#: So few words are English where one of the wordings is found in them.
_FEW = 3

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TAG = re.compile(r"<([\w-]+)[^<>]*>.*?</\1>|\[[Ii]mage[^\]]*\]|\[Pasted text[^\]]*\]|https?://\S+", re.DOTALL)
_LOG_LINE = re.compile(
    r"\s*(?:at \S+ ?\(|File \"|[\d:TZ.\-/ ]{8,}[\[ ]|[$>❯%] |[│┌└├╭╰━═─|]{1,2} |\S+:\d+:\d+"
    r"|(?:\w+\.)*\w*(?:Error|Exception): |(?:error|warning|fatal)\b.*:|npm |\[\w+\] |[+-]{3} |@@ "
    r"|diff --git|Traceback|Caused by|[⏺⎿✗✘×]|FAIL|ERR!)",
    re.IGNORECASE,
)
_HURRIED = re.compile(
    r"\b(that|there|here|what|who|(?:do|does|did|is|are|was|were|wo|ca|could|should|would|have|has|had)n)(s|t)\b"
    r"|\b(you|they)(re)\b|\b(i|you|we)(ve)\b|\b(i)(m)\b",
    re.IGNORECASE,
)
#: "make sure that it works", "does it work": not a word of praise.
_UNREAL = re.compile(
    r"\b(?:if|whether|make sure|ensure|so that|until|once|unless|check(?:ing)?|verify|test(?:s|ing)?|see|when|how|why"
    r"|should|would|could|must|may|might|does|did|is|are|to)\b[^.!?,;]{0,30}$|(?:n't|\bnot|\bnever) [^.!?,;]{0,20}$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.,;:!?()]+(?=\s|$)|\s[-–—]+\s|\n|\b(?:but|although|though|however)\b", re.IGNORECASE)
#: What may be, or what is asked, is no report of what is.
_SUPPOSED = re.compile(
    r"\b(?:if|when(?:ever)?|unless|in case|so that|until|once|make sure|ensure|whether|since|because)\b[^.,;:!?\n]*"
    r"|(?:\A|[.,;:!?\n])\s*(?:(?:and|ok|so)\W+)*(?:what|which|where|who|how|is|are|does|do|did|can|could|should|would)\b"
    r"[^.,;:!?\n]*",
    re.IGNORECASE,
)
#: Behind these, what is spoken against is done with, and "don't commit before the tests ran" is for both.
#: What is said of the agent is no report of the work.
_YOU = re.compile(r"\byou\b", re.IGNORECASE)
_DEICTIC = re.compile(r"\W*(?:(?:and|hmm?|well|ok|no|nope|yes)\W+)*(?:this|that|it|still|same|seems)\b", re.IGNORECASE)
_PREPOSITION = re.compile(r"\b(?:in|on|at|for|to|from|with|of|by|into|onto|under|over|as|via|per)\b", re.IGNORECASE)
_TWOFOLD = re.compile(r"\b(?:without|until|unless|before)\b", re.IGNORECASE)
#: "no use cents": whether that no belongs to what follows cannot be known.
_BARE_NO = re.compile(r"\A\W*(?:no|nope|nah)\s+[^\s,.!;:]+[^.,;!?]*", re.IGNORECASE)
#: Without those that are common in other languages as well, such as "no", "so" and "to".
_COMMONEST = """
    about again also and any are because been but can check could did does doing don't done each every few fix
    from get give go going good great has here how i i'd i'll i'm i've if instead into isn't it it's its just
    know let's like look looks make more need never not now only our out please run same see set should show
    some still sure thank thanks that that's the them then there these they thing this too try up use using want
    were what what's when where which while why with work works would write yes you your"""
_ENGLISH = frozenset(_COMMONEST.split())
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


@dataclass(frozen=True, slots=True)
class Remark:
    """What one message says.

    kind     what the message is, as far as its own words tell
    signs    the wordings that were found, of objection and then of approval
    about    its words by stem, with whether it speaks against them
    faulty   the words of the clauses that report a fault; None where they report one of "this" or "it"
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
    prose = _HURRIED.sub(lambda match: "'".join(filter(None, match.groups())), written.replace("’", "'"))
    words = prose.split()
    opening = " ".join(words)[: _OPENING if len(words) <= _BRIEF else _OPENING_OF_BRIEF]
    reported = _SUPPOSED.sub(" ", opening)
    signs = {row.id: match.start() for row, match in found(wordings("sign"), opening)}
    if answers:
        signs.pop("starts-with-no", None)
    if not _sign("fault").search(reported):
        signs.pop("fault", None)
    if refuses and opening:
        signs["refused"] = 0
    kind, sign = _kind(opening, len(words), signs)
    about = stance(_BARE_NO.sub("", opening))
    return Remark(kind, (*signs, *filter(None, [sign])), about, _faulty(reported), quote)


def _kind(opening: str, count: int, signs: Mapping[str, int]) -> tuple[Kind, str]:
    """Return what a message is, and the wording by which it approves."""
    said = {row.id: match for row, match in found(wordings("person"), opening)}
    is_short = bool(said or signs) and opening.isascii() and len(_WORD.findall(opening)) <= _FEW
    if opening and not is_short and not is_english(opening):
        return "unread", ""
    works, praise = said.get("works"), said.get("praise")
    is_early = works is not None and not any(at < works.start() for at in signs.values())
    if works is not None and is_early and not _UNREAL.search(opening[: works.start()]):
        return "approves", "works"
    if signs:
        return "objects", ""
    if "ships" in said and count <= _MOST_SHIPPING:
        return "approves", "ships"
    if praise is not None and praise.start() <= _EARLY and "?" not in opening:
        return "approves", "praise"
    return "agrees" if "go-ahead" in said and count <= _MOST_AGREEING else "other", ""


def _faulty(reported: str) -> frozenset[str] | None:
    """Return the words of the clauses that report a fault, without those of the report itself."""
    words: set[str] = set()
    expression = _sign("fault")
    for clause in _CLAUSE.split(reported):
        if (match := expression.search(clause)) and not _YOU.search(clause):
            if _DEICTIC.match(clause):
                return None
            words |= content_words(clause[: match.start()] + " " + clause[match.end() :])
    return frozenset(words)


def stance(text: str) -> dict[str, bool]:
    """Return the words of a text by stem, with whether it speaks against them where it first names them.

    Left out are those of which that cannot be said.
    """
    points: dict[str, bool] = {}
    for clause in _CLAUSE.split(text[:6000]):
        start, end = _scope(clause)
        for match in _TOPIC.finditer(clause):
            word = match[0].strip(".-_").lower()
            if word not in _COMMON and match.start() < end:
                points.setdefault(_stem(word), match.start() >= start)
    return points


def _scope(clause: str) -> tuple[int, int]:
    """Return where a clause begins to speak against what it names, and where that cannot be said any more."""
    if _sign("omits").search(clause):
        return len(clause), len(clause)
    negation = _sign("blames").search(clause) or _sign("against").search(clause)
    if negation is None:
        return len(clause), len(clause)
    if _TWOFOLD.search(clause, negation.end()):
        return len(clause), len(clause)
    for preposition in _PREPOSITION.finditer(clause, negation.end()):
        if content_words(clause[negation.end() : preposition.start()]):
            return negation.start(), preposition.start()
    return negation.start(), len(clause)


@cache
def _sign(id: str) -> re.Pattern[str]:
    return next(row.expression for row in wordings("sign") if row.id == id)


def is_english(prose: str) -> bool:
    """Return whether a text seems to be English: a seventh of its words are among the commonest, others not foreign."""
    words = _WORD.findall(prose.lower())
    if not words:
        return not any(character.isalpha() for character in prose)
    return 7 * sum((word in _ENGLISH or word.endswith("n't")) - 2 * (not word.isascii()) for word in words) >= len(
        words
    )


def concedes(said: str) -> bool:
    """Return whether the agent's first words after a message take it as a correction."""
    conceding = [row for row in wordings("agent") if row.says == "concedes"]
    return any(match.start() < _EARLY_WORDS for _, match in found(conceding, " ".join(said[:600].split())))


def _own_words(text: str) -> str:
    """Return what the person wrote themselves, without what they pasted."""
    lines = _FENCE.sub("\n", _TAG.sub(" ", text)).splitlines()
    return "\n".join(line.strip() for line in lines if line.strip() and not (len(line) > 12 and _LOG_LINE.match(line)))


_TOPIC = re.compile(r"[A-Za-zÀ-ÿЀ-ӿ][\w.-]{2,}|\b(?:[A-Z][A-Z0-9]|ip|ui|db|id|js|ts|s3|io|qa|k8s)\b|[぀-ヿ㐀-鿿가-힯]{2}")
_COMMON_TOPICS = """
    the and for with that this from have has had not you your are was were will would should could can but all any
    into out our its it's they them then than there here what when where which who why how also just only now please
    need want like make made use used using see get got let lets add added new one two some more most very much does
    doesn did don isn aren still again about after before same other each every file files code change changes thing
    things work works working run running test tests check fix fixed error errors issue problem wrong right good great
    thanks thank yes okay sure look looks think know said asked claude agent user step steps time first last way really
    actually instead because since while being been show shows showing shown say says sure maybe able there's that's
    i'm you're we're don't doesn't isn't it'll i'll avoid always never prefer keep ensure rather without when before
    bug bugs"""
_COMMON = frozenset(_COMMON_TOPICS.split())


def content_words(text: str) -> frozenset[str]:
    """Lower-cased words of three letters or more without the commonest; pairs of characters in CJK."""
    words = (match.strip(".-_").lower() for match in _TOPIC.findall(text[:6000]))
    return frozenset(_stem(word) for word in words if word not in _COMMON)


def _stem(word: str) -> str:
    """Plural, -ing and -ed off, so that "buttons" meets "button"; names with dots or digits stay."""
    if not word.isalpha() or len(word) < 5:
        if len(word) != 4 or not word.isalpha():
            return word
        return word[:-1] if word[-1] == "s" and word[-2] not in "sui" else word.rstrip("e")
    for ending in ("ings", "ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return (word[: -len(ending)] + "y" * (ending == "ies")).rstrip("e") or word
    return word.rstrip("e") if len(word) > 4 else word
