"""The wordings of users, agents and tools, read from `wordings.tsv`.

Invariant: every expression about the texts of users, agents or tools, and about the commands of
agents, is one row of that file, with an example that it finds and a counter-example that it does
not find. No expression was made for one message: each matches texts from several sources.
`sessions/crediting.py` and `steps.py` read the rows too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

from reflector.text.lazy import lazy_pattern

#: In the output of tools and in commands, case counts (`FAIL`, `fail`). The texts of users and
#: agents are read without regard to case.
_PRINTED = frozenset({"counted", "check", "line", "mechanics", "part"})
#: The id of a row in the pattern of another row.
_ROW_NAME = lazy_pattern(r"\{([a-z-]+)\}")
#: The ideas that a text must contain, at the beginning of a pattern.
_FIRST_IDEAS = lazy_pattern(r"\\A(?:\(\?=\.\*\{[a-z-]+\}\))+")


@dataclass(frozen=True)
class Wording:
    """One row.

    kind  the name of its list: sign (of an objection), correction (in an outcome only), person,
          agent, reading (how words are split), part (how commands and other texts are split),
          counted, check, line, mechanics, command, wish, ask (of a user, over sessions), aim (of a
          wish, in other words), joint (an aim that needs several ideas), idea (a part of those),
          piece (a part of any pattern). A pattern names an idea or a piece as `{id}`
    says  passes, fails or expected; the purpose of a command; the kind, section and first word of a
          wish; the subject of an ask; or the form of an aim. Empty if the list itself shows it
    """

    kind: str
    says: str
    id: str
    looks_for: str
    pattern: str
    example: str
    counter: str

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The compiled expression. Most sessions need only a few of them."""
        flags = re.MULTILINE if self.kind in _PRINTED else re.MULTILINE | re.IGNORECASE
        return re.compile(_filled(self.pattern), flags)

    def may_be_in(self, text: str) -> bool:
        """Return whether a text contains the ideas with which a joint aim begins. Other wordings
        may be in any text. The ideas are compiled once for all aims.
        """
        return all(expression(idea).search(text) for idea in self._first_ideas)

    @cached_property
    def _first_ideas(self) -> list[str]:
        begin = _FIRST_IDEAS.match(self.pattern)
        return _ROW_NAME.findall(begin[0]) if begin else []


def _filled(pattern: str) -> str:
    """Return a pattern with the patterns of the rows that it names."""
    return _ROW_NAME.sub(lambda match: f"(?:{_filled(_row(match[1]).pattern)})", pattern)


@lru_cache(maxsize=1)
def all_wordings() -> tuple[Wording, ...]:
    """Return every row, in the order of the file."""
    text = Path(__file__).with_name("wordings.tsv").read_text(encoding="utf-8")
    rows: list[Wording] = []
    for line in text.splitlines()[1:]:
        kind, says, id, looks_for, pattern, *examples = line.split("\t")
        rows.append(Wording(kind, says, id, looks_for, pattern, *map(_unescaped, examples)))
    return tuple(rows)


@cache
def expression(id: str) -> re.Pattern[str]:
    """Return the expression of one row."""
    return _row(id).expression


def _row(id: str) -> Wording:
    return next(row for row in all_wordings() if row.id == id)


@cache
def words_of(id: str) -> frozenset[str]:
    """Return the words of a row that is a list of words."""
    return frozenset(_row(id).pattern.split("|"))


@lru_cache(maxsize=16)
def wordings(*kinds: str) -> tuple[Wording, ...]:
    """Return the rows of these lists, in the order of the file: the first one found decides."""
    return tuple(row for row in all_wordings() if row.kind in kinds)


def first(rows: Sequence[Wording], text: str) -> tuple[Wording, re.Match[str]] | None:
    """Return the first row whose wording is in the text, and its place; None without one."""
    return next(matches_in(rows, text), None)


def matches_in(rows: Sequence[Wording], text: str) -> Iterator[tuple[Wording, re.Match[str]]]:
    """Yield the rows whose wording is in the text, with the place of its first occurrence. All rows
    disregard case, or none does.
    """
    for row in rows:
        if match := row.expression.search(text):
            yield row, match


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
