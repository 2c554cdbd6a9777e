"""A token's place in its rule: the words around it, and whether the rule speaks against it.

Invariant: the last cue before a token decides. In Japanese and Korean, a cue after it decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reflector.counts.clauses import Clause, is_for_a_case, without_code
from reflector.text.lazy import lazy_pattern

#: "A is not B" only describes.
_NOT = r"(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bbe )not"
#: In "use A to avoid B", the words only name the reason.
_AVOID = (
    r"(?:(?<!to )|(?<=\btry to )|(?<=\bhard to )|(?<=\bsure to )|(?<=\bcareful to ))avoid(?:ing)?"
)
#: The last cue before a token decides; a negation includes the two words after it. "There is no A"
#: only describes.
_CUE = lazy_pattern(
    r"\b(?P<about>(?:is|are|was|has|have|had|with|there['’]s"
    r"|(?:accept|contain|declare|need|require|return|set|take|use)s)"
    r" no)\b"
    rf"|(?P<against>(?<![\w-])(?:never|{_NOT}|don['’]?t|{_AVOID}|no|nunca|jam[aá]s|evit[ae]r?"
    r"|não|nao"
    r"|(?:prefer(?:red)?|favou?r|choose)\b[^.;]*?\bover"
    r"|instead of|rather than|in favou?r of not|en vez de|en lugar de|em vez de"
    r"|forbid\w*|prohibit\w*|banned)\b"
    r"(?:[ \t*_]+(?!without|until|unless|before)[\w'’]+){0,2}"
    r"|n['’]t\b(?:[ \t]+[\w'’]+){0,1}|不要|不得|不能|不可|禁止|严禁|避免|请勿|勿|别|而不是)"
    r"|\b(?:use|using|prefer|run|running|search|grep|but|without|until|unless|before|always|usa"
    r"|utiliza|use"
    r"|prefiere|prefira|sin|sem)\b|改用|请|必须|应",
    re.IGNORECASE,
)
#: Words after the token that a rule prefers to another one.
_PREFERRED = lazy_pattern(r"`?[ \t]*(?:instead of|rather than|over)\b", re.IGNORECASE)
#: A remark in parentheses that ends before a token.
_ASIDE = lazy_pattern(r"\([^()`]*\)")
_BOUNDARY = lazy_pattern(
    r"(?<!e\.g)(?<!i\.e)[.!?:;][\s]|[。！？；：\n]|[ \t][-–—][ \t]|—"
    r"|,[ \t]+(?:it|they|this|that|these|we|there|because|since|as|so|which)\b",
    re.IGNORECASE,
)
#: A ban before a list: "Never run: `a`, `b`".
_BAN_BEFORE_LIST = lazy_pattern(
    r"\b(?P<ban>(?:never|do not|don['’]?t|avoid|forbidden|prohibited|banned|not allowed)"
    r"(?:[ \t]+(?:ever|run|use|using|running|call|do|commit|edit|touch|read|import))*[*_]*)"
    r"(?::|[ \t]+[-–—])(?=[ \t])",
    re.IGNORECASE,
)
#: A heading or a lead-in against all that follows it: "Do not", "Never run these commands".
_TITLE_OF_BANS = lazy_pattern(
    r"\W*(?:please )?(?:do ?n[o'’]?t['’]?s?|do not|never|avoid|forbidden|prohibited|banned|must not"
    r"|not allowed|what not to do|things? to avoid)"
    r"(?: (?:ever|do|run|use|using|the|following|this|these|any|of|things|commands|actions))*\W*",
    re.IGNORECASE,
)
#: The title of bans in short.
BANS = "Never"
_CROSS = "❌"
#: In Japanese and Korean, a negation follows its token.
_AGAINST_AFTER = lazy_pattern(
    r"[^。．、，(（)）\n`]{0,24}?"
    r"(?:(?<!なければなら)(?<!なければいけ)ない|ません|禁止|避け|하지 ?마|금지|않)"
)
_AFTER = lazy_pattern(r"[ぁ-ゖ가-힣]|[ \t]?[ぁ-ゖ가-힣]")
#: With these words, your own words decide whether the rule is broken.
_ASKS_YOU = lazy_pattern(
    r"\b(?:without|unless|before|sin|sem)[ \t]+(?:\w+[ \t]+){0,2}?"
    r"(?:ask\w*|approv\w*|permission|confirm\w*|consent|told|request\w*"
    r"|pregunt\w*|permiso|pergunt\w*|permissão)\b",
    re.IGNORECASE,
)


_AGAINST = "against"


class Around(NamedTuple):
    """A part of a rule's text that names a token.

    before      the words before it in its sentence
    span        its code without the backquotes; "" if it is not code
    cue         "against" if the rule speaks against it, "about" if the rule only describes
    reach       the words from the cue against it to the part; "" without such a cue
    conditions  the conditions of the rule
    """

    text: str
    start: int
    end: int
    before: str
    span: str
    cue: str
    reach: str
    conditions: Sequence[Clause]

    @property
    def negated(self) -> bool:
        """Whether the rule speaks against it."""
        return self.cue == _AGAINST

    @property
    def after(self) -> str:
        """The rest of the rule."""
        return self.text[self.end :]

    @property
    def whole_before(self) -> str:
        """The words before it in the rule, without the code in them."""
        return without_code(self.text)[: self.start]

    def earlier_conditions(self) -> Iterator[Clause]:
        """Yield the conditions in its sentence that begin before it."""
        begin = self.start - len(self.before)
        return (each for each in self.conditions if begin <= each.start < self.start)

    def is_in_condition(self) -> bool:
        """Return whether it is a part of a condition."""
        return any(clause.start <= self.start < clause.end for clause in self.conditions)

    def is_in_case(self, *, is_run: bool) -> bool:
        """Return whether an order against it is only for the case that its sentence begins with:
        "when you review, never use `sed`". A choice between commands names its case itself.
        """
        return is_for_a_case(self.text) or any(
            clause.end <= self.start
            and not (is_run and "`" in self.text[clause.end : self.start].strip("`"))
            for clause in self.earlier_conditions()
        )

    def asks_you(self) -> bool:
        """Return whether your own words decide whether the rule is broken."""
        return _ASKS_YOU.search(self.text) is not None

    def is_choice(self) -> bool:
        """Return whether the rule asks for another token before it speaks against this one."""
        cues = _CUE.finditer(re.sub(r"`[^`\n]*`", "`", self.before))
        return any(cue.lastgroup is None for cue in cues)


def around(text: str, match: re.Match[str], conditions: Sequence[Clause]) -> Around:
    """Return the place of a match of a token in a rule."""
    before = _sentence_before(text[: match.start()])
    cue, reach = _cue_before(text, match)
    span = match["span"] or ""
    return Around(text, match.start(), match.end(), before, span, cue, reach, conditions)


def bans_in(*titles: str) -> str:
    """Return `BANS` if one of the titles is against all that follows it; "" if none is."""
    return BANS if any(map(_TITLE_OF_BANS.fullmatch, titles)) else ""


def with_ban(text: str, title: str) -> str:
    """Return the text of a rule with the ban of its title, or of the cross before it. A text that
    also speaks for something has no meaning there.
    """
    if title != BANS and not text.startswith(_CROSS):
        return text
    words = text.lstrip(f"{_CROSS}*_ ")
    bans = (cue for cue in _CUE.finditer(without_code(words)) if cue.lastgroup == _AGAINST)
    ban = next(bans, None)
    if ban is None:
        return f"{BANS} {words}"
    return words if words[: ban.start()].casefold() in ("", "do ") else ""


def _sentence_before(text: str) -> str:
    """Return the end of a text that is in one sentence. A ban and the list after it are one."""
    joined = _BAN_BEFORE_LIST.sub(lambda ban: ban["ban"].ljust(len(ban[0])), without_code(text))
    return _BOUNDARY.split(joined)[-1]


def _cue_before(text: str, match: re.Match[str]) -> tuple[str, str]:
    """Return the kind of the last cue before a token, or of a Japanese or Korean cue after it. The
    words from the cue to the token follow.
    """
    before = _sentence_before(_ASIDE.sub("", text[: match.start()]))
    before = re.sub(r"`[^`\n]*`", "`", before)
    cues = list(_CUE.finditer(before))
    rest = text[match.end() :]
    if cues and not _PREFERRED.match(rest):
        cue = cues[-1]
        start = cue.start() + max(0, cue[0].casefold().rfind(" over"))
        return cue.lastgroup or "", before[start:]
    is_against = _AFTER.match(rest) is not None and _AGAINST_AFTER.match(rest) is not None
    return _AGAINST if is_against else "", ""
