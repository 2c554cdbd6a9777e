"""A Markdown text by its parts: the heading above a line, and the text without some of its rules.

Invariant: `without_rules` removes whole lines and changes no other byte. It removes list items and
table rows, the headings that are left without a text, and blank lines that met at a cut.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.playbook.markdown import without_front_matter

if TYPE_CHECKING:
    from markdown_it.token import Token

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_ONE_RULE = ("list_item_open", "tr_open")
#: Of numbered steps that are one rule, which begins with "1. ".
_STEPS = ("ordered_list_open",)


@dataclass(frozen=True, slots=True)
class _Heading:
    """A heading: its level, its text, and the lines from it to the one before the next part."""

    level: int
    title: str
    lines: range
    own_lines: range


class Outline:
    """A Markdown text and its parts; lines are counted from 1."""

    def __init__(self, text: str) -> None:
        from markdown_it import MarkdownIt

        self._lines: list[str] = _LINE.findall(text)
        parser = MarkdownIt("commonmark").enable("table")
        self._tokens = parser.parse(without_front_matter(text))
        self._headings = list(self._found_headings())

    def heading(self, number: int) -> str:
        """Return the nearest heading above a line, "" if there is none."""
        above = bisect_left(self._headings, number, key=lambda heading: heading.own_lines.start)
        return self._headings[above - 1].title if above else ""

    def begins_of_blocks(self, rules: Mapping[int, str]) -> set[int]:
        """Return the lines at which one of these rules is a whole block that can be removed."""
        return {number for number in rules if self._lines_of_rules({number: rules[number]})}

    def without_rules(self, rules: Mapping[int, str]) -> str:
        """Return the text without these rules, which are by the lines at which they begin."""
        gone = self._lines_of_rules(rules)
        for heading in reversed(self._headings):
            rest = [number for number in heading.lines if number not in gone]
            is_cut = len(rest) < len(heading.lines)
            if is_cut and not any(self._has_text(n) for n in rest if n not in heading.own_lines):
                gone.update(heading.own_lines)
        return "".join(self._kept(gone))

    def _kept(self, gone: Collection[int]) -> Iterator[str]:
        """Yield the lines that are not gone; of blank lines around a cut only those before it."""
        is_after_cut = False
        is_blank_before = True
        blank: list[str] = []
        for number, line in enumerate(self._lines, start=1):
            if number in gone:
                is_after_cut = True
            elif self._has_text(number):
                yield from blank
                blank = []
                yield line
                is_after_cut = is_blank_before = False
            elif not (is_after_cut and is_blank_before):
                blank.append(line)
                is_blank_before = True
        if not is_after_cut:
            yield from blank

    def _has_text(self, number: int) -> bool:
        return bool(self._lines[number - 1].strip())

    def _lines_of_rules(self, rules: Mapping[int, str]) -> set[int]:
        """Return the lines of the rules, and of the items that only lead to them."""
        gone: set[int] = set()
        for token in self._tokens:
            number = token.map[0] + 1 if token.map else 0
            types = _STEPS if rules.get(number, "").startswith("1. ") else _ONE_RULE
            if number in rules and token.type in types:
                gone.update(self._span(token))
        for at in reversed(range(len(self._tokens))):  # an item after those that are nested in it
            token = self._tokens[at]
            if token.type == "list_item_open" and self._is_emptied(at, gone):
                gone.update(self._span(token))
        return gone

    def _is_emptied(self, at: int, gone: Collection[int]) -> bool:
        """Return whether an item only leads to nested items that are gone, as "Tests:" does."""
        inline = self._tokens[at + 2] if at + 2 < len(self._tokens) else None
        if inline is None or inline.type != "inline" or not inline.content.rstrip().endswith(":"):
            return False
        own = range(inline.map[0] + 1, inline.map[1] + 1) if inline.map else range(0)
        nested = [n for n in self._span(self._tokens[at]) if n not in own and self._has_text(n)]
        return bool(nested) and all(number in gone for number in nested)

    def _span(self, token: Token) -> range:
        """Return the lines of a block without the blank ones at its end."""
        first, end = token.map or (0, 0)
        while end > first and not self._has_text(end):
            end -= 1
        return range(first + 1, end + 1)

    def _found_headings(self) -> Iterator[_Heading]:
        starts = [
            (at, token)
            for at, token in enumerate(self._tokens)
            if token.type == "heading_open" and token.level == 0
        ]
        for place, (at, token) in enumerate(starts):
            level = int(token.tag[1])
            first, end = token.map or (0, 0)
            following = (
                other.map for _, other in starts[place + 1 :] if int(other.tag[1]) <= level
            )
            next_start = next(filter(None, following), [len(self._lines)])[0]
            title = " ".join(self._tokens[at + 1].content.split())
            lines = range(first + 1, next_start + 1)
            yield _Heading(level, title, lines, range(first + 1, end + 1))
