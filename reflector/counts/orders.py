"""Rules about the course of a session: read before an edit, a check before a commit, a branch.

Invariant: only well-known wordings are read. Another word in one may restrict it, so that no call
shows whether it was broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reflector.counts.forms import (
    DEED,
    FAILED_COMMIT,
    FAILED_PUSH,
    PASSED,
    READ_FIRST,
    UNREAD,
)

#: The text of a token about tests, which no command names.
TESTS = "tests"

_FILE = r"(?:(?:an?|the|any|each|every|all|whole|entire|existing|source|target|relevant)\s+)*files?"
_EDITING = r"(?:edit|modify|chang|touch|writ)\w*"
_OBJECT = r"(?:\s+(?:an?|any|the|to|it|them|that|this|file|files|changes|edits))*"
_END = r"\W*(?:\Z|[.;:,(—–])"
_READ_FIRST = re.compile(
    rf"\bread\s+{_FILE}(?:\s+(?:first|fully|completely|contents?)){{0,2}},?\s+before\s+(?:you\s+)?"
    rf"(?:{_EDITING}|mak(?:e|ing)\s+(?:any\s+)?(?:changes|edits)){_OBJECT}{_END}"
    rf"|\b(?:never|do not|don['’]?t)\s+{_EDITING}\s+{_FILE}\s+(?:without\s+(?:first\s+)?reading"
    rf"|before\s+(?:you\s+)?(?:have\s+)?read(?:ing)?|(?:that\s+)?you\s+have(?:\s+not|n['’]t)\s+read)"
    rf"{_OBJECT}(?:\s+(?:first|yet))?{_END}",
    re.IGNORECASE,
)

_PASSES = r"(?:pass(?:es|ed|ing)?|succeeds?|(?:is|are|be|stay)\s+green)"
_CHECK = r"(?:(?P<{0}>`[^`\n]+`)|(?P<{0}_tests>(?:all\s+|the\s+|unit\s+|your\s+)*tests))"
_ACT = r"(?P<{0}>commit|push)(?:ting|ing|s)?\b"
_NEVER = r"(?:never|do not|don['’]?t)"
#: Orders to commit or push only after a check passed. The groups of the last one name its failure.
_CHECKED = [
    re.compile(pattern.format(check=_CHECK.format("check"), act=_ACT.format("act")), re.IGNORECASE)
    for pattern in (
        rf"{{check}}(?:\s+(?:must|should|has\s+to|have\s+to|needs?\s+to|all|always)){{{{0,3}}}}"
        rf"\s+{_PASSES}\s+before\s+(?:you\s+|each\s+|every\s+|any\s+|an?\s+)*{{act}}",
        rf"\bonly\s+{{act}}(?:\s+\w+)?\s+(?:if|when|after|once)\s+{{check}}(?:\s+all)?\s+{_PASSES}",
        rf"{{act}}(?:\s+\w+)?\s+only\s+(?:if|when|after|once)\s+{{check}}(?:\s+all)?\s+{_PASSES}",
        rf"{_NEVER}\s+{{act}}(?:\s+\w+)?\s+(?:unless|until|before)\s+{{check}}(?:\s+all)?\s+{_PASSES}",
        rf"{_NEVER}\s+{{act}}(?:\s+\w+)?\s+(?:if|when|while)\s+{{check}}\s+(?:fails?|(?:is|are)"
        r"\s+(?:failing|red|broken))",
        rf"{_NEVER}\s+{{act}}(?:\s+\w+)?(?:\s+(?:with|on))?\s+(?:failing|broken|red)\s+"
        r"(?P<check>(?!))?(?P<check_tests>tests)",
    )
]

_ON_A_BRANCH = re.compile(
    r"\W*(?:always\s+|please\s+|only\s+)*(?:work|commit|develop)(?:\s+only|\s+always)?\s+(?:on|in|to)"
    r"\s+(?:(?:an?|your|own|new|separate|dedicated|feature|topic)\s+)+branch(?:es)?\b"
    rf"{_END}",
    re.IGNORECASE,
)

#: Code that may stay in a session, but not in the project.
_LEAVES = re.compile(
    r"\b(?:leave|leaving|left|commit|committing|merge|merging|ship|shipping)\b", re.IGNORECASE
)
_CODE = re.compile(r"[\w$]+(?:\.\w+)*\(|[\w$]+(?:\.[a-zA-Z]\w*)+|debugger|dbg!\(?")
_REMOVES = re.compile(
    r"\b(?:remove|delete|strip|drop)\s+(?:(?:all|any|every|each|the|your|debug|stray|temporary)\s+)*\Z",
    re.IGNORECASE,
)
_BEFORE_ACT = re.compile(
    r"`?(?:\s+(?:calls?|statements?|lines?|logs?|and|or|`[^`\n]*`)|,)*\s+before\s+(?:you\s+|each\s+"
    r"|every\s+|any\s+|an?\s+)*(?:commit|push|merg|open)",
    re.IGNORECASE,
)


def orders_in(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the text and the form of each token of a rule about the course of a session, and
    whether the rule is against the act.
    """
    if _READ_FIRST.search(text):
        yield "edit", UNREAD, True
        yield "read", READ_FIRST, False
    for pattern in _CHECKED:
        for order in pattern.finditer(text):
            check = (order["check"] or "").strip("`")
            is_push = order["act"].casefold() == "push"
            yield check or TESTS, FAILED_PUSH if is_push else FAILED_COMMIT, True
            if not check and not is_push:
                yield TESTS, PASSED, False
    if _ON_A_BRANCH.match(text):
        yield "git commit main", DEED, True


def leaves_code(written: str, reach: str) -> bool:
    """Return whether a rule forbids to leave this code in the project, after these words."""
    return _LEAVES.search(reach) is not None and _CODE.fullmatch(written) is not None


def removes_code(written: str, before: str, after: str) -> bool:
    """Return whether a rule asks to remove this code before a commit, between these words."""
    is_order = _REMOVES.search(before) is not None and _BEFORE_ACT.match(after) is not None
    return is_order and _CODE.fullmatch(written) is not None


def without_leaving(words: str) -> str:
    """Return words against code that is left without those that do not restrict the ban."""
    return re.sub(rf"{_LEAVES.pattern}|\b(?:debug|behind|stray|temporary)\b", "", words, flags=re.I)
