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
from reflector.text.lazy import lazy_pattern

#: The text of a token about tests, which no command names.
TESTS = "tests"

_EDITING = r"(?:edit|modify|chang|touch|writ)\w*"
_FILE = (
    r"(?:(?:an?|the|any|each|every|all|whole|entire|existing|source|target|relevant)\s+)*files?"
    rf"(?:\s+you\s+{_EDITING})?"
)
_OBJECT = r"(?:\s+(?:an?|any|the|to|it|them|that|this|file|files|changes|edits))*"
_END = r"\W*(?:\Z|[.;:,(—–](?!\s*(?:unless|except|if|when|but|only)\b))"
_READ_FIRST = lazy_pattern(
    rf"\bread\s+{_FILE}(?:\s+(?:first|fully|completely|contents?|in\s+full)){{0,2}},?\s+before"
    r"\s+(?:you\s+)?"
    rf"(?:{_EDITING}|mak(?:e|ing)\s+(?:any\s+)?(?:changes|edits)){_OBJECT}{_END}"
    rf"|\bbefore\s+(?:you\s+)?{_EDITING}\s+{_FILE},\s+(?:always\s+|first\s+)?read\s+"
    rf"(?:it|them|the\s+file)(?:\s+(?:first|fully|in\s+full|completely))*{_END}"
    rf"|\b(?:never|do not|don['’]?t)\s+{_EDITING}\s+{_FILE}\s+(?:without\s+(?:first\s+)?reading"
    r"|before\s+(?:you\s+)?(?:have\s+)?read(?:ing)?"
    r"|(?:that\s+)?you\s+have(?:\s+not|n['’]t)\s+read)"
    rf"{_OBJECT}(?:\s+(?:first|yet))?{_END}",
    re.IGNORECASE,
)

_PASSES = r"(?:pass(?:es|ed|ing)?|succeeds?|(?:is|are|be|stay)\s+green)"
_MUST = r"(?:\s+(?:must|should|(?:has|have|needs?)\s+to|all|always))*"
_CHECK = r"(?:(?P<{0}>`[^`\n]+`)|(?P<{0}_tests>(?:all\s+|the\s+|unit\s+|your\s+){{0,4}}tests))"
_ACT = r"(?P<{0}>commit|push)(?:ting|ing|s)?\b"
_NEVER = r"(?:never|do not|don['’]?t)"
#: Orders to commit or push only after a check passed. The groups of the last one name its failure.
_CHECKED = [
    lazy_pattern(
        pattern.format(check=_CHECK.format("check"), act=_ACT.format("act")), re.IGNORECASE
    )
    for pattern in (
        r"\bbefore\s+(?:you\s+)?{act}(?:\s+\w+)?,\s+"
        rf"(?:(?:make\s+sure|ensure|verify)\s+(?:that\s+)?)?{{check}}{_MUST}\s+{_PASSES}",
        rf"{{check}}{_MUST}\s+{_PASSES}\s+before\s+(?:(?:you|each|every|any|an?)\s+)*{{act}}",
        rf"\bonly\s+{{act}}(?:\s+\w+)?\s+(?:if|when|after|once)\s+{{check}}(?:\s+all)?\s+{_PASSES}",
        rf"{{act}}(?:\s+\w+)?\s+only\s+(?:if|when|after|once)\s+{{check}}(?:\s+all)?\s+{_PASSES}",
        rf"{_NEVER}\s+{{act}}(?:\s+\w+)?\s+(?:unless|until|before)\s+{{check}}(?:\s+all)?"
        rf"\s+{_PASSES}",
        rf"{_NEVER}\s+{{act}}(?:\s+\w+)?\s+(?:if|when|while)\s+{{check}}\s+(?:fails?|(?:is|are)"
        r"\s+(?:failing|red|broken))",
        rf"{_NEVER}\s+{{act}}(?:\s+\w+)?(?:\s+(?:with|on))?\s+(?:failing|broken|red)\s+"
        r"(?P<check>(?!))?(?P<check_tests>tests)",
    )
]

#: Words that restrict the order after them.
_CASE = lazy_pattern(r"\b(?:when(?:ever)?|if|on|in|for|while|during|after|unless)\b", re.IGNORECASE)

_BRANCH = r"(?:(?:an?|your|own|new|separate|dedicated|feature|topic)\s+)+branch(?:es)?\b"
_SPAN = lazy_pattern(r"`([^`\n]+)`")
#: Commands in a row, up to the last one.
_LISTED = lazy_pattern(r"(?:`[^`\n]+`(?:,|,?\s+and)\s+){0,8}`[^`\n]+`\Z")

_ON_A_BRANCH = lazy_pattern(
    r"\W*(?:always\s+|please\s+|only\s+)*(?:"
    r"(?:work|commit|develop|do\s+all\s+(?:your\s+)?work)(?:\s+only|\s+always)?\s+(?:on|in|to)"
    rf"\s+{_BRANCH}|(?:create|make|open|use)\s+{_BRANCH}\s+for\s+"
    rf"(?:(?:each|every|all|any|your|new)\s+)*(?:changes?|features?|tasks?|fix(?:es)?|work)){_END}",
    re.IGNORECASE,
)
#: The texts of tokens about the main branch.
_OF_MAIN = frozenset(("main", "master", "git commit main", "git push main"))

#: Code that may stay in a session, but not in the project.
_LEAVES = lazy_pattern(
    r"\b(?:(?P<leaves>leave|leaving|left)|commit|committing|merge|merging|ship|shipping)\b", re.I
)
_CODE = lazy_pattern(r"[\w$]+(?:\.\w+)*\(|[\w$]+(?:\.[a-zA-Z]\w*)+|debugger|dbg!\(?")
#: Code that is only written for a while. Another name, such as `debug.log`, may be that of a file.
_DEBUGGING = lazy_pattern(
    r"console(?:\.\w+\(?)?|debugger|(?:it|test|describe|context)\.(?:only|skip)\(?"
    r"|[fx](?:it|describe)\(?"
    r"|(?:p?print|breakpoint|pdb\.set_trace|var_dump|dd|puts|println!|dbg!)\(?|binding\.pry"
    r"|System\.out\.\w+\(?|fmt\.Print\w*\(?",
    re.IGNORECASE,
)
_REMOVES = lazy_pattern(
    r"\b(?:remove|delete|strip|drop)\s+"
    r"(?:(?:all|any|every|each|the|your|debug|stray|temporary)\s+)*\Z",
    re.IGNORECASE,
)
_BEFORE_ACT = lazy_pattern(
    r"`?(?:\s+(?:calls?|statements?|lines?|logs?|and|or|`[^`\n]*`)|,)*\s+before\s+(?:you\s+|each\s+"
    r"|every\s+|any\s+|an?\s+)*(?:commit|push|merg|open)",
    re.IGNORECASE,
)


def orders_in(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the text and the form of each token of a rule about the course of a session, and
    whether the rule is against the act.
    """
    reading = _READ_FIRST.search(text)
    if reading and _is_general(text[: reading.start()]):
        yield "edit", UNREAD, True
        yield "read", READ_FIRST, False
    for pattern in _CHECKED:
        for order in pattern.finditer(text):
            if not _is_general(text[: order.start()]):
                continue
            is_push = order["act"].casefold() == "push"
            form = FAILED_PUSH if is_push else FAILED_COMMIT
            listed = _LISTED.search(text[: order.end("check")]) if order["check"] else None
            checks = _SPAN.findall(listed[0]) if listed else [TESTS]
            yield from ((check, form, True) for check in checks)
            if checks == [TESTS] and not is_push:
                yield TESTS, PASSED, False
    if _ON_A_BRANCH.match(text):
        yield "git commit main", DEED, True


def _is_general(before: str) -> bool:
    """Return whether the words before an order do not restrict it to a case."""
    return _CASE.search(re.split(r"[.;!?\n]", before)[-1]) is None


def is_of_main(text: str) -> bool:
    """Return whether a token is about the main branch."""
    return text in _OF_MAIN


def leaves_code(written: str, reach: str) -> bool:
    """Return whether a rule forbids to leave this code in the project, after these words."""
    leaves = _LEAVES.search(reach)
    if leaves is None:
        return False
    return (_CODE if leaves["leaves"] else _DEBUGGING).fullmatch(written) is not None


def removes_code(written: str, before: str, after: str) -> bool:
    """Return whether a rule asks to remove this code before a commit, between these words."""
    is_order = _REMOVES.search(before) is not None and _BEFORE_ACT.match(after) is not None
    return is_order and _DEBUGGING.fullmatch(written) is not None


def without_leaving(words: str) -> str:
    """Return words against code that is left without those that do not restrict the ban."""
    return re.sub(
        rf"{_LEAVES.pattern}|\b(?:debug(?:ging)?|behind|stray|temporary)\b", "", words, flags=re.I
    )
