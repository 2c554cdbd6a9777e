"""The words by which two texts are compared: what a remark is about, and what a piece of advice is about.

Invariant: the same word in singular, plural, -ing or -ed is one word, whichever text it stands in, and a
word that stands in most texts of this trade is none.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Za-zÀ-ÿЀ-ӿ][\w.-]{2,}|\b(?:[A-Z][A-Z0-9]|ip|ui|db|id|js|ts|s3|io|qa|k8s)\b|[぀-ヿ㐀-鿿가-힯]{2}")
_COMMON_WORDS = """
    the and for with that this from have has had not you your are was were will would should could can but all any
    into out our its it's they them then than there here what when where which who why how also just only now please
    need want like make made use used using see get got let lets add added new one two some more most very much does
    doesn did don isn aren still again about after before same other each every file files code change changes thing
    things work works working run running test tests check fix fixed error errors issue problem wrong right good great
    thanks thank yes okay sure look looks think know said asked claude agent user step steps time first last way really
    actually instead because since while being been show shows showing shown say says sure maybe able there's that's
    i'm you're we're don't doesn't isn't it'll i'll avoid always never prefer keep ensure rather without when before
    bug bugs"""
_COMMON = frozenset(_COMMON_WORDS.split())


def content_words(text: str) -> frozenset[str]:
    """Lower-cased words of three letters or more without the commonest; pairs of characters in CJK."""
    return frozenset(
        _stem(word)
        for word in (match.strip(".-_").lower() for match in _WORD.findall(text[:6000]))
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
