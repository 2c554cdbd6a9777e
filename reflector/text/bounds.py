"""Text from outside, cut to a bounded size and made safe to show: without characters that control a
terminal or hide text.

Invariant: the shown text cannot move the cursor, change a line's direction or hide a letter. No
function that bounds a text returns more than its limit plus one short mark for the omitted part,
and none costs more than a few passes of `str.find`. A text that is cut while it is read is cut at a
place that halves no secret. Megabytes that are dropped are not redacted, and no rule recognises
half a key.
"""

from __future__ import annotations

import re
from typing import Any

from reflector.text.lazy import lazy_pattern

#: The model's own words. The limit is above the longest answer of a model in one message, so no
#: citation is ever cut.
MODEL_TEXT = 1024 * 1024
#: Text that users type, including pasted logs.
HUMAN_TEXT = 16 * 1024
#: Reminders, notifications, command output, compaction summaries.
INJECTED_TEXT = 4 * 1024
#: A tool's answer.
RESULT_TEXT = 4 * 1024
#: One string in a tool call's arguments, and all of them together.
ARGUMENT_TEXT = 2 * 1024
ARGUMENTS_TEXT = 16 * 1024

#: The end of a line, plain or escaped, and the beginning of the next one: a line number or a sign
#: of a diff.
BREAK = r"(?:\\{1,4}n|\n)(?:[ ]{0,8}[0-9]{1,6}(?:→|\\{1,4}t|[\t:|])|[+>-])?[ \t]{0,40}"
#: The most characters by which a cut moves to the end of a line, and on a longer line to the end of
#: a run of characters.
_LINE = 256
_RUN = 8192
_TOKEN = "".join(filter(str.isalnum, map(chr, range(128)))) + "+/=_.~%-"
_REST_OF_RUN = lazy_pattern(r"[A-Za-z0-9+/=_.~%-]{0,8192}+")

_MAX_ITEMS = 32
_MAX_DEPTH = 4
_LARGE = 1 << 63

#: Parts of words for `str.find`. They are few, because each is one pass over a tool's answer.
_ERROR_WORDS = ("rror", "ERR", "FAIL", "ailed", "xception")
_HITS_PER_WORD = 6
_ERROR_LINE = 240
_ERROR_WORD = 40


#: Compiled when a text first needs them, because most texts are plain.
_ESCAPES = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor movement
    # OSC, DCS, …
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,8}[0-~]"
)
_INVISIBLE = (
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SURROGATES = "[\ud800-\udfff]"


def clean(text: str, limit: int) -> str:
    """Return `text` on one line of at most `limit` characters, safe for a terminal, a prompt and
    UTF-8.

    Escape sequences, control, bidirectional and invisible characters are removed. Line breaks and
    runs of white space become one space, and a lone surrogate becomes U+FFFD. A cut text ends in
    `…`.
    """
    line = " ".join(visible(text).split())
    if len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…" if limit > 0 else ""


def visible(text: str) -> str:
    """Return `text` without escape sequences, control, bidirectional and invisible characters; line
    breaks stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_SURROGATES, "\ufffd", re.sub(_INVISIBLE, "", re.sub(_ESCAPES, "", text)))


def encodable(text: str) -> str:
    """Return `text` without lone surrogates, which cannot be written as UTF-8. JavaScript makes
    them when it cuts emoji in two.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def whole_end(text: str, at: int, start: int = 0) -> int:
    """Return the end of the piece from `start` to a cut at or before `at`. The piece does not end
    in half a secret.

    The line that the cut divides is omitted. If that line begins far away, only the part after its
    last quote or space is omitted.
    """
    if at > len(text):
        return len(text)
    near = max(start, at - _LINE)
    for marks in ("\n", "\"'", " "):
        end = max(text.rfind(mark, near, at) for mark in marks)
        if end >= 0:
            return end
    run = text[max(start, at - _RUN) : at]
    return at - len(run) + len(run.rstrip(_TOKEN))


def whole_start(text: str, at: int) -> int:
    """Return the start of the piece after a cut at or after `at`, so that the piece contains no
    value without its name.

    A value may be on the line below its name, so the line that the cut divides and the next line
    are omitted. Of a longer line, the length of a name and a phrase is omitted, and the run of
    characters at its end.
    """
    for _ in range(2):
        line = text.find("\n", at, at + _LINE)
        if line < 0:
            run = _REST_OF_RUN.match(text, min(at + _LINE, len(text)))
            return run.end() if run else len(text)
        at = line + 1
    return at


def head_and_tail(text: str, limit: int, *, whole: bool = False) -> str:
    """Return `text` itself if it has at most `limit` characters. Otherwise return its head of two
    thirds of that and its tail of one third. With `whole`, the cuts do not halve a secret.
    """
    if len(text) <= limit:
        return encodable(text)
    first = limit - limit // 3
    last = len(text) - limit // 3
    if whole:
        first = whole_end(text, first)
        last = whole_start(text, last)
    return encodable(f"{text[:first]}\n[… {last - first} characters …]\n{text[last:]}")


def whole_excerpt(text: str, limit: int) -> str:
    """Return `head_and_tail` with `whole`."""
    return head_and_tail(text, limit, whole=True)


def result_text(text: str) -> str:
    """Return a tool's answer: whole if it is short, else its head, the lines that look like errors,
    and its tail.

    The end of a test run shows its result, and the middle shows its errors. So a plain cut at
    either side would hide failures.
    """
    if len(text) <= RESULT_TEXT:
        return encodable(text)
    quarter = RESULT_TEXT // 4
    return with_errors(
        text, whole_end(text, quarter), whole_start(text, len(text) - quarter), RESULT_TEXT
    )


def with_errors(text: str, first: int, last: int, limit: int) -> str:
    """Return the text up to `first` and from `last`, with the lines between that look like errors,
    in about `limit` characters.
    """
    longest = min(_ERROR_LINE, limit // 4)
    lines: list[str] = []
    room = limit - 2 * (limit // 4)
    reached = first
    for line_start, end in _error_lines(text, first, last):
        # On a line without an end, the pieces around two words may overlap.
        if end <= reached:
            continue
        start = max(line_start, reached)
        reached = end if end <= start + longest else whole_end(text, start + longest, start)
        line = text[start:reached]
        if len(line) >= room:
            break
        if line:
            lines.append(line)
            room -= len(line) + 1
    middle = "\n".join(["[…]", *lines, "[…]"] if lines else ["[…]"])
    return encodable(f"{text[:first]}\n{middle}\n{text[last:]}")


def _error_lines(text: str, first: int, last: int) -> list[tuple[int, int]]:
    """Return the places of the lines between two offsets that contain a word of an error, in order.
    Of a long line, only the part near the word is returned.
    """
    spans: set[tuple[int, int]] = set()
    for word in _ERROR_WORDS:
        at = first
        for _ in range(_HITS_PER_WORD):
            at = text.find(word, at, last)
            if at < 0:
                break
            # A line of megabytes must not be searched to its ends: only the text near the word
            # counts.
            near = max(first, at - _ERROR_LINE // 2)
            start = text.rfind("\n", near, at) + 1 or text.rfind(" ", near, at) + 1 or at
            end = text.find("\n", at, min(last, at + _ERROR_LINE))
            if end < 0:
                end = whole_end(text, min(last, at + _ERROR_LINE), start)
            # A long line of ASCII without a space is not a message: the word is part of a key, a
            # digest or an address.
            if (
                end - start <= _ERROR_WORD
                or text.find(" ", start, end) >= 0
                or not text[start:end].isascii()
            ):
                spans.add((start, end))
            at = max(end, at + len(word))
    return sorted(spans)


def arguments(call: dict[Any, Any]) -> dict[str, Any]:
    """Return a tool call's arguments with bounded strings, lists, nesting and sum of all text.

    Numbers of 64 bits and more become None, because not every JSON parser reads them as the same
    number. Every value that remains can be written as JSON.
    """
    room = ARGUMENTS_TEXT

    def shortened(text: str, limit: int) -> str:
        nonlocal room
        is_plain = len(text) <= limit and len(text) < room and text.isascii()
        bounded = text if is_plain else whole_excerpt(text, min(limit, max(room, 16)))
        room -= len(bounded) + 1
        return bounded

    def mapping(items: dict[Any, Any], depth: int) -> dict[str, Any]:
        bounded: dict[str, Any] = {}
        for key, value in items.items():
            if len(bounded) >= _MAX_ITEMS or room <= 0:
                break
            bounded[shortened(str(key), 128)] = bounded_value(value, depth + 1)
        return bounded

    def bounded_value(value: Any, depth: int) -> Any:
        """Return a value within the bounds; None for one that cannot be shortened."""
        if isinstance(value, str):
            return shortened(value, ARGUMENT_TEXT)
        if isinstance(value, float):
            # also None for a value that is not a number
            return value if abs(value) < _LARGE else None
        if isinstance(value, int) and abs(value) >= _LARGE:
            return None
        if depth < _MAX_DEPTH and isinstance(value, dict):
            return mapping(value, depth)
        if depth < _MAX_DEPTH and isinstance(value, list):
            items: list[Any] = []
            for member in value[:_MAX_ITEMS]:
                if room <= 0:
                    break
                items.append(bounded_value(member, depth + 1))
            return items
        return value if isinstance(value, (bool, int)) else None

    return mapping(call, 0)
