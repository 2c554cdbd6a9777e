"""What is still there in a damaged answer: cut off, with a comma too many, quotes unescaped, braces forgotten.

Invariant: nothing is made up. A value comes out only as far as it stands in the text; a string that the
text breaks off is a `Cut`, so that a name or a verdict that was cut can be told from a whole one. The
reader moves forward only, each character is read a bounded number of times, and depth and size are bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_MAX_DEPTH = 64
_MAX_VALUES = 500_000

_KEY = re.compile(
    r"[\"'“](?:analysis|bullet_tags)[\"'”]\s{0,40}:"
    r"|(?<=[{,\n])\s{0,40}(?:analysis|bullet_tags)\s{0,40}:\s{0,40}[\"'\[]"
)
_TAG = re.compile(r"\{\s{0,200}[\"'“]?(?:name|tag|rationale)[\"'”]?\s{0,40}:")
_BLANK = re.compile(r"(?:[\s,;]++|//[^\n]*+|/\*[^*]{0,1000}\*/)+")
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}(?=\s{0,40}:)")
_LITERAL = re.compile(r"-?[0-9][0-9.eE+-]{0,63}|-?[A-Za-z_][A-Za-z0-9_-]{0,255}")
_JUNK = re.compile(r"[^\"'“{}\[\],\n]++|.", re.DOTALL)
_WORDS: dict[str, Any] = {"true": True, "True": True, "false": False, "False": False}
_NOTHING = frozenset({"null", "None", "undefined", "NaN", "Infinity", "-Infinity"})
_CLOSING = {'"': '"', "'": "'", "“": "”", "`": "`"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}

# A quote ends a string only where JSON could go on, so that an unescaped quote inside stays inside; and a line
# break ends one whose quote is missing, if JSON goes on after it.
_GOES_ON = (
    r"(?=\s{0,200}(?:[}\]]|,\s{0,200}(?:[\"'“{\[}\]]|[A-Za-z_]{1,40}\s{0,40}:|/[/*]|\Z)"
    r"|[\"'“][A-Za-z_]{1,40}[\"'”]\s{0,40}:|/[/*]|```|\Z))"
)
_NEXT_LINE = (
    r"\n(?=\s{0,200}(?:[}\]]\s{0,200}(?:[,}\]]|```|\Z)|\{\s{0,200}[\"']"
    r"|[\"'](?:name|tag|rationale|analysis|bullet_tags)[\"']\s{0,40}:))"
)


def _string_end(mark: str) -> re.Pattern[str]:
    return re.compile(rf"\\.|(?P<end>{mark}){_GOES_ON}|(?P<line>{_NEXT_LINE})", re.DOTALL)


_VALUE_END = {mark: _string_end(closing) for mark, closing in _CLOSING.items()}
_KEY_END = {
    mark: re.compile(rf"(?P<text>(?:[^{closing}\\\n]|\\.){{0,200}}){closing}", re.DOTALL)
    for mark, closing in _CLOSING.items()
}


class Cut(str):
    """A string whose end the text does not hold."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Salvaged:
    """`value` has the keys that could be read; `listed` says that the text was a bare list of tags."""

    value: dict[str, Any] | None
    listed: bool = False
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Frame:
    container: dict[str, Any] | list[Any]
    key: str | None = None


def salvage(text: str) -> Salvaged:
    """Read from the first `analysis` or `bullet_tags` on, or from the first tag where there is neither."""
    if '\\"bullet_tags\\"' in text or '\\"analysis\\"' in text:
        text = _unescape(text)  # an answer inside a JSON string
    if key := _KEY.search(text):
        value: dict[str, Any] = {}
        notes = _read(text, key.start(), value)
        return Salvaged(value or None, notes=notes)
    if tag := _TAG.search(text):
        tags: list[Any] = []
        notes = _read(text, tag.start(), tags)
        kept = [one for one in tags if isinstance(one, dict) and "name" in one and "tag" in one]
        if kept:
            return Salvaged({"bullet_tags": kept}, listed=True, notes=("a list of tags without an object", *notes))
    return Salvaged(None)


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] == "u" and len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _ESCAPES.get(escape, escape)

    # Escaped surrogate pairs become one character; a lone one is replaced.
    return _ESCAPED.sub(plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(slots=True)
class _Reader:
    text: str
    position: int
    stack: list[_Frame]
    values: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        if what not in self.notes:
            self.notes.append(what)

    def put(self, value: Any) -> None:
        """Give the value to the innermost container. A list that comes again under its key goes on."""
        self.values += 1
        top = self.stack[-1]
        if isinstance(top.container, list):
            top.container.append(value)
        elif top.key is not None:
            old = top.container.get(top.key)
            if not (isinstance(old, list) and isinstance(value, list)):
                top.container[top.key] = value
            top.key = None

    def open(self, container: dict[str, Any] | list[Any]) -> None:
        top = self.stack[-1]
        if isinstance(top.container, dict) and isinstance(container, list) and top.key is not None:
            old = top.container.get(top.key)
            container = old if isinstance(old, list) else container
        self.put(container)
        self.stack.append(_Frame(container))
        self.position += 1

    def close(self, bracket: str) -> None:
        """Close the innermost container of this kind and those in it that were left open."""
        kind: type = dict if bracket == "}" else list
        self.position += 1
        if not any(isinstance(frame.container, kind) for frame in self.stack):
            self.note(f"a {bracket} too many")
            return
        while self.stack:
            frame = self.stack.pop()
            if isinstance(frame.container, kind):
                return
            self.note("a bracket was missing")

    def string(self) -> None:
        """A string in the place of a value."""
        mark = self.text[self.position]
        start = self.position + 1
        end = _VALUE_END[mark]
        at = start
        while found := end.search(self.text, at):
            if found.lastgroup == "end":
                self.position = found.end()
                self.put(_unescape(self.text[start : found.start()]))
                return
            if found.lastgroup == "line":
                self.note("a closing quote was missing")
                self.position = found.end()
                self.put(_unescape(self.text[start : found.start()].rstrip(" \t\r,}]")))
                return
            at = found.end()
        self.position = len(self.text)
        self.put(Cut(_unescape(self.text[start:])))

    def key_or_junk(self, top: _Frame) -> None:
        mark = self.text[self.position]
        if mark in _KEY_END and (quoted := _KEY_END[mark].match(self.text, self.position + 1)):
            rest = _BLANK.match(self.text, quoted.end())
            after = rest.end() if rest else quoted.end()
            self.position = quoted.end()
            if self.text[after : after + 1] == ":":
                top.key = _unescape(quoted["text"])
                self.position = after + 1
            return
        if bare := _BARE_KEY.match(self.text, self.position):
            top.key = bare[0]
            self.position = self.text.index(":", bare.end()) + 1
            return
        self.junk()

    def literal(self) -> None:
        found = _LITERAL.match(self.text, self.position)
        if found is None:
            self.junk()
            return
        self.position = found.end()
        word = found[0]
        if word in _NOTHING:
            self.put(None)
        elif word in _WORDS:
            self.put(_WORDS[word])
        elif word[0] in "-0123456789":
            self.put(_number(word))
        elif isinstance(self.stack[-1].container, dict):
            self.put(word)  # "tag": helpful
        else:
            self.note("text between the tags")

    def junk(self) -> None:
        skipped = _JUNK.match(self.text, self.position)
        self.position = skipped.end() if skipped else self.position + 1
        self.note("text between the values")


def _number(word: str) -> Any:
    try:
        return int(word) if len(word) <= 20 else None
    except ValueError:
        return word


def _read(text: str, start: int, root: dict[str, Any] | list[Any]) -> tuple[str, ...]:
    """Fill `root` with what stands from `start` on; returns what was wrong with it."""
    reader = _Reader(text, start, [_Frame(root)])
    while reader.stack and reader.values < _MAX_VALUES:
        if blank := _BLANK.match(text, reader.position):
            reader.position = blank.end()
            if reader.stack[-1].key is not None and "," in blank[0]:
                reader.put(None)  # "tag": , "name": …
        if reader.position >= len(text):
            reader.note("it is cut off")
            break
        char = text[reader.position]
        top = reader.stack[-1]
        if char in "}]":
            reader.close(char)
        elif char == "`" and text.startswith("```", reader.position):
            reader.note("it is cut off")
            break
        elif isinstance(top.container, dict) and top.key is None:
            if char == "{" and len(reader.stack) > 1 and isinstance(reader.stack[-2].container, list):
                reader.note("a bracket was missing")
                reader.stack.pop()  # the next tag begins before this one was closed
            elif char in "{[":
                reader.junk()
            else:
                reader.key_or_junk(top)
        elif char in "{[":
            if len(reader.stack) >= _MAX_DEPTH:
                reader.note("it is nested too deeply")
                break
            reader.open({} if char == "{" else [])
        elif char in _CLOSING:
            reader.string()
        else:
            reader.literal()
    if reader.values >= _MAX_VALUES:
        reader.note("it is too long")
    return tuple(reader.notes)
