"""A JSON document as a text: where its values are, and how to change one of them.

Invariant: a change touches the characters of the value that it is about and the comma beside it, nothing else.
What comes in looks like its neighbours: their indentation, line ends and spaces. Taking the last member or item
out again gives the text from before, character by character, unless its container had been empty.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

_BLANK = re.compile(r"[ \t\r\n]*")
#: A string, or one of the words that Python's parser takes for numbers and JSON does not know.
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|(NaN|-?Infinity)')
#: A string, or a number with more digits than Python reads.
_LONG_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|(\d{4301,})')
#: How many characters show how a document is written.
_SAMPLE = 65_536
_DECODER = json.JSONDecoder()


class MalformedJson(Exception):
    """A text that is not a JSON document, or not the expected one; says where and why."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        self.line = text.count("\n", 0, position) + 1
        self.column = position - (text.rfind("\n", 0, position) + 1) + 1
        self.reason = reason
        super().__init__(f"line {self.line}, column {self.column}: {reason}")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place: `text[start:end]`; `begin` is the place of its key, or `start` in an array."""

    key: str
    begin: int
    start: int
    end: int
    value: Any


def root(text: str) -> Node:
    """Return the document's value. Raises MalformedJson for anything that JSON.parse would refuse."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except _NotANumber:
        found = next(match for match in _NO_NUMBER.finditer(text) if match[1])
        raise MalformedJson(text, found.start(), f"{found[1]} is not a JSON number") from None
    except json.JSONDecodeError as error:
        comment = text[error.pos : error.pos + 2] in ("//", "/*") or text[error.pos : error.pos + 1] == "#"
        reason = "JSON has no comments" if comment else f"not JSON: {error.msg}"
        raise MalformedJson(text, error.pos, reason) from None
    except ValueError:  # of Python's own limit: the text is JSON
        found = next(match for match in _LONG_NUMBER.finditer(text) if match[1])
        raise MalformedJson(text, found.start(), "a number has thousands of digits") from None
    except RecursionError:
        raise MalformedJson(text, 0, "nested too deeply") from None
    start = _skip(text, 0)
    return Node("", start, start, len(text.rstrip(" \t\r\n")), value)


class _NotANumber(Exception):
    pass


def _refuse(constant: str) -> NoReturn:
    raise _NotANumber(constant)


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    assert match is not None  # it matches nothing, too
    return match.end()


def children(text: str, container: Node) -> list[Node]:
    """Return the members of an object or the items of an array, in the order of the text; none of any other value."""
    found: list[Node] = []
    if not isinstance(container.value, dict | list):
        return found
    position = container.start + 1
    while text[position := _skip(text, position)] not in "]}":
        if text[position] == ",":
            position = _skip(text, position + 1)
        begin, key = position, ""
        if isinstance(container.value, dict):
            key, position = _DECODER.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)  # over the colon
        value, end = _DECODER.raw_decode(text, position)
        found.append(Node(key, begin, position, end, value))
        position = end
    return found


def member(text: str, container: Node, key: str) -> Node | None:
    """Return a member of an object, or None. Raises MalformedJson if the key appears twice: readers would differ."""
    found = [child for child in children(text, container) if child.key == key]
    if len(found) > 1:
        raise MalformedJson(text, found[1].begin, f"{json.dumps(key)} appears here a second time; remove one")
    return found[0] if found and isinstance(container.value, dict) else None


def without(text: str, container: Node, child: Node) -> str:
    """Return the text without a child of a container."""
    siblings = children(text, container)
    at = siblings.index(child)
    if len(siblings) == 1:
        start, end = container.start + 1, container.end - 1
    elif at == len(siblings) - 1:
        start, end = siblings[at - 1].end, child.end
    else:
        start, end = child.begin, siblings[at + 1].begin
    return text[:start] + text[end:]


def replaced(text: str, child: Node, value: Any) -> str:
    """Return the text with another value in a child's place."""
    style = _Style.of(text)
    if "\n" not in text[child.start : child.end] and isinstance(child.value, dict | list):
        style = style.inline()
    return text[: child.start] + style.write(value, _indentation(text, child.start)) + text[child.end :]


def appended(text: str, container: Node, value: Any, key: str = "") -> str:
    """Return the text with a value at the end of an array, or of an object under a key that is not in it."""
    style = _Style.of(text)
    name = json.dumps(key, ensure_ascii=False) + style.colon if key else ""
    siblings = children(text, container)
    if not siblings:
        outer = style.newline + _indentation(text, container.start)
        inner = outer + style.unit if style.newline else ""
        written = (
            inner + name + style.write(value, inner.removeprefix(style.newline)) + (outer if style.newline else "")
        )
        return text[: container.start + 1] + written + text[container.end - 1 :]
    last = siblings[-1]
    gap = text[len(text[: last.begin].rstrip(" \t\r\n")) : last.begin]
    if "\n" not in gap:
        style = style.inline()
        gap = style.space
    written = gap + name + style.write(value, _indentation(text, last.begin))
    return text[: last.end] + "," + written + text[last.end :]


def _indentation(text: str, position: int) -> str:
    """Return the blanks that the line of a position begins with."""
    match = re.compile(r"[ \t]*").match(text, text.rfind("\n", 0, position) + 1)
    assert match is not None  # it matches nothing, too
    return match[0]


@dataclass(frozen=True, slots=True)
class _Style:
    """How a document is written."""

    newline: str
    """What ends a line; "" where values share one line."""
    unit: str
    """One step of indentation."""
    space: str
    """What follows a colon, and a comma on one line."""

    @property
    def colon(self) -> str:
        return ":" + self.space

    @classmethod
    def of(cls, text: str) -> _Style:
        colon = re.search(r'":([ \t]?)', re.sub(r"\\.", "", text[:_SAMPLE]))
        space = colon[1] if colon else " "
        body = text.strip(" \t\r\n")
        if "\n" not in body and colon:
            return cls("", "", space)
        base = _indentation(text, _skip(text, 0))
        lines = re.finditer(r"\n([ \t]*)(?=[^ \t\r\n}\]])", body[:_SAMPLE])
        steps = [match[1].removeprefix(base) for match in lines]
        unit = min((step for step in steps if step), key=len, default="" if steps else "  ")
        return cls("\r\n" if "\r\n" in text else "\n", unit, space)

    def inline(self) -> _Style:
        return _Style("", "", self.space)

    def write(self, value: Any, indentation: str) -> str:
        """Return a value that begins on a line with this indentation."""
        if not self.newline:
            return json.dumps(value, ensure_ascii=False, separators=("," + self.space, self.colon))
        written = json.dumps(value, ensure_ascii=False, indent=self.unit, separators=(",", self.colon))
        return written.replace("\n", self.newline + indentation)
