"""The bullets that a text cites.

Invariant: a citation is written by the model, in its own words. `extract_cited_ids` is the plain
contract of the classic reflector. The ledger uses `citations_of`, which ignores code, links and a
repeated playbook, and also reads `[pat-001 wrong: why]`, `[pat-001, mis-001]` and `[pat-001: why]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reflector.text.lazy import lazy_pattern
from reflector.transcripts.message import Message

CITATION = lazy_pattern(r"\[((?:pat|mis|pref|ctx|oth)-\d+|kpt_\d+)\]", re.ASCII)

#: A citation. It may be followed by `wrong` and a reason, if the model found the advice wrong or
#: not applicable. Brackets in the reason are in pairs.
CITED = lazy_pattern(
    r"\[((?:pat|mis|pref|ctx|oth)-\d+|kpt_\d+)"
    r"(?:\]| +wrong\b((?:[^\[\]\n]++|\[[^\[\]\n]*+\])*+)\])",
    re.ASCII,
)

_NAME = r"(?:(?:pat|mis|pref|ctx|oth)-\d+|kpt_\d+)"
#: Several names in one pair of brackets, or words after a name: `[pat-001, mis-001]`, `[pat-001:
#: tests first]`. Brackets in the words are in pairs. The text at a start gives the form `[pat-001:
#: why]`, so a repetition of it is not a citation.
_AND = r"(?:\s{0,8}[,;/&+、，；]\s{0,8}|,?\s{1,8}and\s{1,8})"
_WORDS = r"(?:[:：](?![ \t]*why\])|\s[-–—])[ \t]{0,8}((?:[^\[\]\n]++|\[[^\[\]\n]*+\])++)"
_JOINED = lazy_pattern(
    rf"\[({_NAME}(?:{_AND}{_NAME}){{0,64}}+)(?:{_WORDS})?\](?!\(|\[(?!{_NAME}))",
    re.ASCII,
)

#: A citation is judged by this number of records of its session after it, and by the checks in this
#: number of records before it.
FOLLOWED, BEFORE = 700, 100

#: The beginning of a reason that rests on the agent's own word.
CALLED_WRONG = "the agent said that the rule was wrong"

#: A longer name is not a bullet's name, and events must stay small.
_MAX_NAME = 64

_NAMES = lazy_pattern(_NAME, re.ASCII)
_FENCE = lazy_pattern(r"[ \t>]*(`{3,}|~{3,})(.*)")
_LIST_MARKS = r"[ \t]*(?:[-*+>•]+[ \t]+|\d+[.)][ \t]+)*[*_`]*"
#: `[pat-001] helpful=3 harmful=0 :: text`, as a hook prints the playbook.
_BULLET_LINE = lazy_pattern(
    _LIST_MARKS + r"\[[\w-]+\][*_`]*[ \t]*(?:helpful=\d+[ ,]*harmful=\d+|:: )"
)
#: `[pat-001]: https://…` or `[pat-001]: docs/pat-001.md`: the target of a link, not a citation.
_LABEL = lazy_pattern(r"[ \t]{0,3}\[[\w-]+\]:")
_FILE_NAME = lazy_pattern(r"\.\w{1,5}\Z")
#: A character directly after a name: `(` opens a link's target, `[label]` names a target, and
#: `[mis-002]` is the next citation.
_LINK_TAIL = lazy_pattern(rf"\(|(?!{CITED.pattern})\[[^\]\n]+\]", re.ASCII)


def extract_cited_ids(messages: list[dict[str, Any]]) -> list[str]:
    """Return the cited names in messages with role "assistant" and string content, in order of
    first appearance. Other messages are ignored (requirements A-01 to A-06).
    """
    names: dict[str, None] = {}
    for message in messages:
        if not isinstance(message, dict) or message.get("role") != "assistant":
            continue
        content = message.get("content")
        if isinstance(content, str):
            names.update(dict.fromkeys(CITATION.findall(content)))
    return list(names)


def citations_of(message: Message) -> list[str]:
    """Return the names that a message of the model cites, first those of its thinking. Return []
    for another origin.
    """
    return list(dict.fromkeys(citation[1] for citation in _citations_in(message)))


def called_wrong(message: Message) -> dict[str, str]:
    """Return the reasons why a message of the model calls bullets wrong, by name; {} for another
    origin. A reason may be "".

    If a bullet is called wrong twice, the last reason counts. The example in the text at a start,
    `[pat-001 wrong: why]`, is not a reason.
    """
    wrong: dict[str, str] = {}
    for citation in _citations_in(message):
        reason = citation[2]
        if reason not in (None, ": why"):
            wrong[citation[1]] = reason.strip(" :,.-–—")
    return wrong


def spread(text: str) -> str:
    """Return a text in which each citation has its own brackets, because models join names and add
    words to a name.
    """
    return _JOINED.sub(_apart, text) if "[" in text else text


def _apart(match: re.Match[str]) -> str:
    """Return each name of a match in its own brackets, and the match's other words after them."""
    names = _NAMES.findall(match[1])
    words = match[2]
    if len(names) == 1 and words is None:
        return match[0]
    apart = ", ".join(f"[{name}]" for name in names)
    return apart if words is None else f"{apart} ({words.strip()})"


def cited_names(text: str, form: re.Pattern[str] = CITED) -> list[str]:
    """Return the names that prose cites in this form, in order of first appearance. Names are
    compared as written, so `[pat-1]` is not pat-001.
    """
    return list(dict.fromkeys(citation[1] for citation in _citations(text, form)))


def _citations_in(message: Message) -> Iterator[re.Match[str]]:
    if message.origin == "model":
        yield from _citations(message.thinking, CITED)
        yield from _citations(message.text, CITED)


def _citations(text: str, form: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the citations in prose and inline code.

    Citations are ignored in fenced code, in links whose text is a name, and in lines that repeat a
    bullet with its counters.
    """
    if "[" not in text:
        return
    text = spread(text)
    if form.search(text) is None:
        return
    for line in _unfenced_lines(text):
        without_reasons = CITED.sub(r"[\1]", line)
        if _BULLET_LINE.match(without_reasons) or _is_link_target(without_reasons):
            continue
        for citation in form.finditer(line):
            is_name = len(citation[1]) <= _MAX_NAME
            if is_name and not _LINK_TAIL.match(line, citation.end()):
                yield citation


def _unfenced_lines(text: str) -> Iterator[str]:
    """Yield the lines outside fenced code. A fence that is never closed reaches to the end."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and _closes(mark, fence):
                fence = ""
        elif mark and _opens(mark):
            fence = mark[1]
        else:
            yield line


def _closes(mark: re.Match[str], fence: str) -> bool:
    is_long_enough = mark[1][0] == fence[0] and len(mark[1]) >= len(fence)
    return is_long_enough and not mark[2].strip()


def _opens(mark: re.Match[str]) -> bool:
    # Backticks after backticks on one line are inline code, not the start of a block.
    return not (mark[1][0] == "`" and "`" in mark[2])


def _is_link_target(line: str) -> bool:
    """Return whether a line defines the target of a link in Markdown: `[pat-001]: docs/a.md`."""
    label = _LABEL.match(line)
    if label is None:
        return False
    target, _, title = line[label.end() :].strip().partition(" ")
    is_address = target.startswith("<") or "/" in target or "#" in target
    is_file = _FILE_NAME.search(target) is not None
    is_title = title == "" or title.lstrip().startswith(("'", '"', "("))
    return (is_address or is_file) and is_title
