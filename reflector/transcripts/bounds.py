"""Whatever size goes in, a bounded text comes out.

Invariant: no function here returns more than its limit (plus one short mark that says what was left
out), and none costs more than a few passes of `str.find` over its input.
"""

from __future__ import annotations

import math
import re
from typing import Any

#: The model's own words. Above what a model can answer in one message, so no citation is ever cut.
MODEL_TEXT = 1024 * 1024
#: What people type, pasted logs included.
HUMAN_TEXT = 16 * 1024
#: Reminders, notifications, command output, compaction summaries.
INJECTED_TEXT = 4 * 1024
#: A tool's answer.
RESULT_TEXT = 4 * 1024
#: One string among a tool call's arguments, and all of them together.
ARGUMENT_TEXT = 2 * 1024
ARGUMENTS_TEXT = 16 * 1024

#: How far a cut moves to the end of a line, and to the end of a run of characters on a longer one.
_LINE, _RUN = 256, 8192
_REST_OF_RUN = re.compile(r"[^\s\"'`]{0,8192}+")

_ITEMS = 32
_DEPTH = 4

#: Parts of words, as `str.find` wants them. Few, because each is one pass over a tool's answer.
_ERROR_WORDS = ("rror", "ERR", "FAIL", "ailed", "xception")
_HITS_PER_WORD = 6
_ERROR_LINE = 240


def clean(text: str) -> str:
    """`text` without lone surrogates (JavaScript cuts emoji in two), which cannot be written as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def whole_end(text: str, at: int) -> int:
    """Where a text that is cut at `at` ends so that nothing in it is half a secret, or half of anything.

    The line that the cut divides goes; of a line that begins far away, what follows its last quote or space.
    """
    if at >= len(text):
        at = len(text)
    end = text.rfind("\n", max(0, at - _LINE), at)
    if end < 0:
        floor = max(0, at - _RUN)
        end = max(text.rfind('"', floor, at), text.rfind("'", floor, at), text.rfind(" ", max(0, at - _LINE), at), floor)
    return end


def whole_start(text: str, at: int) -> int:
    """Where a text whose beginning is cut off at `at` begins so that nothing in it has lost the name before it.

    A value may stand on the line below its name, so two lines go; of longer lines, as much as a name and a gap take,
    and the run of characters that it ends in.
    """
    for _ in range(2):
        line = text.find("\n", at, at + _LINE)
        if line < 0:
            run = _REST_OF_RUN.match(text, min(at + _LINE, len(text)))
            return run.end() if run else len(text)
        at = line + 1
    return at


def head_and_tail(text: str, limit: int) -> str:
    """`text` itself up to `limit` characters, else its first two thirds and last third of that."""
    if len(text) <= limit:
        return text if text.isascii() else clean(text)
    tail = limit // 3
    return clean(f"{text[: limit - tail]}\n[… {len(text) - limit} characters …]\n{text[-tail:]}")


def result_text(text: str) -> str:
    """A tool's answer: whole when short, else head, the lines that look like errors, and tail.

    The end of a test run says how it went and its errors stand in the middle, so a plain cut at
    either side would turn failures into silence.
    """
    return shortened_output(text, RESULT_TEXT)[0]


def shortened_output(text: str, limit: int) -> tuple[str, int]:
    """A tool's answer cut to about `limit` characters as `result_text` cuts it, and how many were left out."""
    if len(text) <= limit:
        return clean(text), 0
    head, tail = limit // 4, limit // 4
    first, last = head, len(text) - tail
    longest = min(_ERROR_LINE, limit // 4)
    lines: list[str] = []
    room = limit - head - tail
    done = first
    for start, end in _error_lines(text, first, last):
        # Of a line without an end the pieces around two words may overlap.
        if end <= done:
            continue
        start = max(start, done)
        done = min(end, start + longest)
        line = text[start:done]
        if len(line) >= room:
            break
        lines.append(line)
        room -= len(line) + 1
    middle = "\n".join(["[…]", *lines, "[…]"] if lines else ["[…]"])
    shown = clean(f"{text[:first]}\n{middle}\n{text[last:]}")
    return shown, last - first - sum(map(len, lines))


def _error_lines(text: str, first: int, last: int) -> list[tuple[int, int]]:
    spans: set[tuple[int, int]] = set()
    for word in _ERROR_WORDS:
        at = first
        for _ in range(_HITS_PER_WORD):
            at = text.find(word, at, last)
            if at < 0:
                break
            # A line of megabytes must not be searched to its ends: what stands near the word counts.
            start = text.rfind("\n", max(first, at - _ERROR_LINE // 2), at) + 1 or max(first, at - _ERROR_LINE // 2)
            end = text.find("\n", at, min(last, at + _ERROR_LINE))
            if end < 0:
                end = min(last, at + _ERROR_LINE)
            spans.add((start, end))
            at = end
    return sorted(spans)


def arguments(given: dict[Any, Any]) -> dict[str, Any]:
    """A tool call's arguments: strings, lists, nesting and the sum of all text bounded.

    Numbers that are not finite become None; nothing that is left needs more than JSON to write.
    """
    return given if _is_small(given) else _Arguments().mapping(given, 0)


def _is_small(given: dict[Any, Any]) -> bool:
    """True where nothing needs a cut, as in most calls: few short plain strings."""
    room = ARGUMENTS_TEXT
    for key, value in given.items():
        if type(key) is not str or len(key) > 128 or not key.isascii():
            return False
        room -= len(key) + 1
        if type(value) is str:
            if len(value) > ARGUMENT_TEXT or not value.isascii():
                return False
            room -= len(value) + 1
        elif value is not None and type(value) is not bool:
            return False
    return room > 0 and len(given) <= _ITEMS


class _Arguments:
    """The walk of `arguments`, with what is left of its budget."""

    def __init__(self) -> None:
        self._room = ARGUMENTS_TEXT

    def mapping(self, given: dict[Any, Any], depth: int) -> dict[str, Any]:
        bounded: dict[str, Any] = {}
        for key, value in given.items():
            if len(bounded) >= _ITEMS or self._room <= 0:
                break
            bounded[self._text(str(key), 128)] = self._value(value, depth + 1)
        return bounded

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, ARGUMENT_TEXT)
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, int) and value.bit_length() > 64:
            return None
        if depth < _DEPTH and isinstance(value, dict):
            return self.mapping(value, depth)
        if depth < _DEPTH and isinstance(value, list):
            items: list[Any] = []
            for item in value:
                if len(items) >= _ITEMS or self._room <= 0:
                    break
                items.append(self._value(item, depth + 1))
            return items
        return value if isinstance(value, (bool, int)) else None

    def _text(self, text: str, limit: int) -> str:
        bounded = head_and_tail(text, min(limit, max(self._room, 16)))
        self._room -= len(bounded) + 1
        return bounded
