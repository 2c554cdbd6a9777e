"""Which bullets a text cites, and which a session was told by our hook.

Invariant: a citation is written by the model, in its own words. `extract_cited_ids` is the plain
contract of the classic reflector; the ledger asks `citations_of`, which leaves out code, links and
a playbook that is merely repeated, and reads `[pat-001 wrong: why]`, `[pat-001, mis-001]` and
`[pat-001: why]`, too. What was told is read only from what the agent's own records call a hook's
output, or its own instructions: the same lines in a person's words, in a tool's answer or in the
model's are nobody's telling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from reflector.transcripts.message import Message

CITATION = re.compile(r"\[((?:pat|mis|pref|ctx|oth)-\d+|kpt_\d+)\]", re.ASCII)

#: The same, or with the model's word that the advice was wrong or did not fit, and why: brackets in
#: it are in pairs.
CITED = re.compile(
    (
        r"\[((?:pat|mis|pref|ctx|oth)-\d+|kpt_\d+)(?:\]| "
        r"+wrong\b((?:[^\[\]\n]++|\[[^\[\]\n]*+\])*+)\])"
    ),
    re.ASCII,
)

_NAME = r"(?:(?:pat|mis|pref|ctx|oth)-\d+|kpt_\d+)"
#: Several names in one pair of brackets, or words behind a name, in which brackets are in pairs:
#: `[pat-001, mis-001]`, `[pat-001: tests first]`. The start's text gives the form `[pat-001: why]`,
#: and who repeats that cites nothing.
_AND = r"(?:\s{0,8}[,;/&+、，；]\s{0,8}|,?\s{1,8}and\s{1,8})"
_WORDS = r"(?:[:：](?![ \t]*why\])|\s[-–—])[ \t]{0,8}((?:[^\[\]\n]++|\[[^\[\]\n]*+\])++)"
_JOINED = re.compile(
    rf"\[({_NAME}(?:{_AND}{_NAME}){{0,64}}+)(?:{_WORDS})?\](?!\(|\[(?!{_NAME}))",
    re.ASCII,
)

#: A citation is judged by so many records of its session after it, and by what the checks said in
#: so many before it.
FOLLOWED, BEFORE = 700, 100

#: How a reason begins that rests on the agent's own word.
CALLED_WRONG = "the agent said it was wrong"

#: Longer digit strings are no bullet's number, and events must stay small.
_NAME_LIMIT = 64

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})(.*)")
_LIST_MARKS = r"[ \t]*(?:[-*+>•]+[ \t]+|\d+[.)][ \t]+)*[*_`]*"
#: `[pat-001] helpful=3 harmful=0 :: text`, as the playbook is injected.
_BULLET_LINE = re.compile(_LIST_MARKS + r"\[[\w-]+\][*_`]*[ \t]*helpful=\d+[ ,]*harmful=\d+")
#: `[pat-001]: https://…` or `[pat-001]: docs/pat-001.md`: where a link leads, not what was applied.
_LABEL = re.compile(r"[ \t]{0,3}\[[\w-]+\]:")
_FILE_NAME = re.compile(r"\.\w{1,5}\Z")
#: Directly behind a name: `(` opens a link's target, `[label]` names one; `[mis-002]` is the next
#: citation.
_LINK_TAIL = re.compile(rf"\(|(?!{CITED.pattern})\[[^\]\n]+\]", re.ASCII)

#: A bullet and a lesson as the hook prints them (requirements A-08), and the seed of the draw where
#: some are left out.
_BULLET = re.compile(
    r"^\[((?:pat|mis|pref|ctx|oth)-\d{1,20}|kpt_\d{1,20})\] helpful=\d{1,20} harmful=\d{1,20} :: ",
    re.ASCII | re.MULTILINE,
)
_LESSON = re.compile(r"^\[lesson ([0-9a-f]{8})\] ", re.MULTILINE)
_SEED = re.compile(
    r"^\(\d+ more (?:bullet|key point)s? w\w+ left out here for length, by draw ([0-9a-f]{8});",
    re.MULTILINE,
)
#: The longest text that a hook prints for the agent, twice: nothing longer is ours.
_LONGEST = 20_000


def extract_cited_ids(messages: list[dict[str, Any]]) -> list[str]:
    """Names cited by `messages` of role "assistant" with string content, in order of first
    appearance; everything else is ignored (requirements A-01 to A-06).
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
    """Names that a message of the model cites, thinking before text; [] for any other origin."""
    return list(dict.fromkeys(match[1] for match in _of_model(message)))


def called_wrong(message: Message) -> dict[str, str]:
    """Return why a message of the model calls bullets wrong, by name, "" where it does not say; {}
    for another origin.

    Of a bullet that it calls wrong twice, the last reason. Who repeats the form that a start's text
    gives says nothing.
    """
    said = (match for match in _of_model(message) if match[2] not in (None, ": why"))
    return {match[1]: match[2].strip(" :,.-–—") for match in said}


def spread(text: str) -> str:
    """Return a text in which each citation has brackets of its own: models join names, and add
    words to a name.
    """
    return _JOINED.sub(_apart, text) if "[" in text else text


def _apart(match: re.Match[str]) -> str:
    names = re.findall(_NAME, match[1], re.ASCII)
    if len(names) == 1 and match[2] is None:
        return match[0]
    apart = ", ".join(f"[{name}]" for name in names)
    return apart if match[2] is None else f"{apart} ({match[2].strip()})"


def cited_names(text: str, form: re.Pattern[str] = CITED) -> list[str]:
    """Names cited in prose in this form, in order of first appearance, as written: `[pat-1]` is
    not pat-001.
    """
    return list(dict.fromkeys(match[1] for match in _citations(text, form)))


def _of_model(message: Message) -> Iterator[re.Match[str]]:
    if message.origin == "model":
        yield from _citations(message.thinking, CITED)
        yield from _citations(message.text, CITED)


def _citations(text: str, form: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the citations in prose, inline code included. Left out are fenced code (to the end,
    where the fence is never closed), links whose text is a name, and lines that repeat a bullet
    with its counters.
    """
    if "[" not in text:
        return
    text = spread(text)
    if form.search(text) is None:
        return
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            if (
                mark
                and mark[1][0] == fence[0]
                and len(mark[1]) >= len(fence)
                and not mark[2].strip()
            ):
                fence = ""
            continue
        # Backticks behind backticks on one line are inline code, not the start of a block.
        if mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
            continue
        plain = CITED.sub(r"[\1]", line)
        if _BULLET_LINE.match(plain) or _is_link_target(plain):
            continue
        for match in form.finditer(line):
            if len(match[1]) <= _NAME_LIMIT and not _LINK_TAIL.match(line, match.end()):
                yield match


def _is_link_target(line: str) -> bool:
    label = _LABEL.match(line)
    if label is None:
        return False
    target, _, title = line[label.end() :].strip().partition(" ")
    leads = (
        target.startswith("<")
        or "/" in target
        or "#" in target
        or _FILE_NAME.search(target) is not None
    )
    return leads and (not title or title.lstrip()[:1] in ("'", '"', "("))


class Telling(NamedTuple):
    """What one text told: names of bullets, the first 8 digits of lessons' ids, SHA-256 of the text
    in hex, and the seed of the draw by which it was chosen, "" where nothing was left out.
    """

    bullets: tuple[str, ...]
    lessons: tuple[str, ...]
    digest: str
    seed: str


def telling_of(text: str) -> Telling | None:
    """Return what a text of a hook told; None for the text of somebody else's."""
    if len(text) > _LONGEST or ("] helpful=" not in text and "[lesson " not in text):
        return None
    text = text.replace("\r\n", "\n").strip()
    bullets, lessons = _BULLET.findall(text), _LESSON.findall(text)
    if not bullets and not lessons:
        return None
    seed = _SEED.search(text)
    digest = sha256(text.encode("utf-8", "replace")).hexdigest()
    return Telling(
        tuple(dict.fromkeys(bullets)),
        tuple(dict.fromkeys(lessons)),
        digest,
        seed[1] if seed else "",
    )
