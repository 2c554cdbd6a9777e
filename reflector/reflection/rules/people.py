"""What a person's message says about the work before it: an objection, praise, acceptance, or nothing; and its topic.

Invariant: a message is read by a few short wordings, never word by word. What was pasted is not read, of a long
message only the opening is, and words that are not English are neither consent nor silence. Topics are
compared by their words: one in singular, plural, -ing or -ed is the same word, and the commonest of this trade are left
out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from reflector.reflection.rules.wordings import first, found, wordings

Kind = Literal["objects", "mixed", "praises", "ships", "agrees", "other", "unread"]

#: Characters of a message that are looked at, and of its opening that are read; a brief is longer than `_BRIEF` words.
_LOOKED_AT, _OPENING, _OPENING_OF_BRIEF, _BRIEF = 4000, 300, 120, 60
#: A go-ahead or a commit with much behind it is the next task.
_MOST_AGREEING, _MOST_SHIPPING = 5, 25

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TAG = re.compile(r"<([\w-]+)[^<>]*>.*?</\1>|\[Image[^\]]*\]|\[Pasted text[^\]]*\]|https?://\S+", re.DOTALL)
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
    r"\b(?:if|whether|make sure|ensure|so that|until|once|unless|check(?:ing)?|verify|test|see|when|how|why|should"
    r"|would|could|must|may|might|does|did|is|are|to)\b[^.!?,;]{0,30}$|(?:n't|\bnot|\bnever) [^.!?,;]{0,20}$",
    re.IGNORECASE,
)
_BUT = re.compile(r"\b(?:but|however|except|although|though)\b|\?", re.IGNORECASE)
#: Without those that are common in other languages as well, such as "no", "so" and "to".
_COMMONEST = """
    about again also and any because been but can check could did does doing don't done each every few fix from
    get give go going good has here how i i'd i'll i'm i've if instead into isn't it it's its just know let's like
    look looks make more need not now only our out please run same see set should show some still sure that that's
    the them then there these they thing this too try up use using want were what what's when where which while
    why with work works would write yes you your"""
_ENGLISH = frozenset(_COMMONEST.split())
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


@dataclass(frozen=True, slots=True)
class Remark:
    """What one message says.

    signs   the wordings of objection that were found
    kind    what the message is, as far as its own words tell
    about   the words to compare its topic by
    quote   how it begins, as the person wrote it, at most 200 characters
    """

    signs: tuple[str, ...]
    kind: Kind
    about: frozenset[str]
    quote: str


def read_remark(text: str, *, refuses: bool = False, answers: bool = False) -> Remark:
    """Return what a message says.

    refuses  it is the reason given with a refused call, which is a sign by itself
    answers  the agent had asked something: a no at the start answers it
    """
    written, pasted = _own_words(text[:_LOOKED_AT])
    quote = " ".join((written or text[:_LOOKED_AT]).split())[:200]
    prose = _HURRIED.sub(lambda match: "'".join(filter(None, match.groups())), written.replace("’", "'"))
    words = prose.split()
    opening = " ".join(words)[: _OPENING if len(words) <= _BRIEF else _OPENING_OF_BRIEF]
    signs = [row.id for row, _ in found(wordings("sign"), opening)]
    if answers and "starts-with-no" in signs:
        signs.remove("starts-with-no")
    if pasted and len(words) < _BRIEF:
        signs.append("pasted-error")
    if refuses:
        signs.append("refused")
    return Remark(tuple(signs), _kind(opening, len(words), signs), content_words(text), quote)


def _kind(opening: str, count: int, signs: list[str]) -> Kind:
    said = {row.id: match for row, match in found(wordings("person"), opening)}
    works = said.get("works")
    if works is not None and not _UNREAL.search(opening[: works.start()]):
        return "mixed" if signs else "praises"
    if "ships" in said and count <= _MOST_SHIPPING and len(signs) < 2:
        return "ships"
    praise = said.get("praise")
    if praise is not None and praise.start() < 3 and len(signs) == 1 and not _BUT.search(opening):
        return "mixed"  # "Perfect, that found the broken migration!"
    if signs:
        return "objects"
    if praise is not None and "?" not in opening:
        return "praises"
    if not is_english(opening):
        return "unread"
    return "agrees" if said.keys() & {"go-ahead", "picks"} and count <= _MOST_AGREEING else "other"


def is_english(prose: str) -> bool:
    """Return whether a text seems to be English: a seventh of its words are among the commonest, others not foreign.

    Of up to three words, plain letters are enough.
    """
    words = _WORD.findall(prose.lower())
    if len(words) <= 3:
        return prose.isascii() or (not words and not any(character.isalpha() for character in prose))
    return 7 * sum((word in _ENGLISH) - 2 * (not word.isascii()) for word in words) >= len(words)


def concedes(text: str) -> bool:
    """Return whether the agent's first words after a message take it as a correction."""
    conceding = [row for row in wordings("agent") if row.says == "concedes"]
    conceded = first(conceding, " ".join(text[:600].split())[:400])
    return conceded is not None and conceded[1].start() < (120 if conceded[0].id == "concedes" else 250)


def _own_words(text: str) -> tuple[str, bool]:
    """Return what the person wrote themselves, and whether they pasted an error."""
    kept: list[str] = []
    dropped = "\n".join(_FENCE.findall(text))
    for line in _FENCE.sub("\n", _TAG.sub(" ", text)).splitlines():
        if len(line) > 12 and _LOG_LINE.match(line):
            dropped += "\n" + line
        elif line.strip():
            kept.append(line.strip())
    return "\n".join(kept), first(wordings("line"), dropped) is not None


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
    return frozenset(
        _stem(word)
        for word in (match.strip(".-_").lower() for match in _TOPIC.findall(text[:6000]))
        if word not in _COMMON
    )


def _stem(word: str) -> str:
    """Plural, -ing and -ed off, so that "buttons" meets "button"; names with dots or digits stay."""
    if not word.isalpha() or len(word) < 5:
        if len(word) != 4 or not word.isalpha():
            return word
        return word[:-1] if word[-1] == "s" and word[-2] not in "sui" else word.rstrip("e")
    for ending in ("ings", "ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)].rstrip("e") or word
    return word.rstrip("e") if len(word) > 4 else word
