"""Conditions on a bullet's counters, such as `harmful >= 3 and harmful > helpful`.

Invariant: a condition is parsed by this grammar and nothing else; no text of a person is ever run as code. It reads
two numbers and answers yes or no, whatever it says.

    either     = both { "or" both }
    both       = one { "and" one }
    one        = "not" one | "(" either ")" | comparison
    comparison = value { ("<" | "<=" | ">" | ">=" | "==" | "!=") value }-
    value      = "helpful" | "harmful" | digits
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

Test = Callable[[int, int], bool]

_TOKEN: Final = re.compile(r"\s*(?:([a-z]+|\d{1,15})|(<=|>=|==|!=|<|>)|([()]))", re.ASCII)
_COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_MOST: Final = 1_000
_WAY: Final = "a condition compares helpful, harmful and numbers, such as: harmful >= 3 and harmful > helpful"


class BadCondition(ValueError):
    """A text that is no condition; its own text says where it goes wrong."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as it was written, ready to be asked."""

    text: str
    _test: Test

    def holds(self, helpful: int, harmful: int) -> bool:
        """Return whether it holds for these counters."""
        return self._test(helpful, harmful)


def condition(text: str) -> Condition:
    """Parse a condition. Raises BadCondition."""
    if len(text) > _MOST:
        raise BadCondition(f"the condition is {len(text):,} characters long; {_WAY}")
    parser = _Parser(text, list(_tokens(text)))
    test = parser.either()
    if parser.next is not None:
        raise parser.error(f"{parser.next!r} is too much")
    return Condition(text, test)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise BadCondition(f"{text!r}: {text[at:].lstrip()[:20]!r} is not understood; {_WAY}")
        yield found[0].strip()
        at = found.end()


class _Parser:
    def __init__(self, text: str, tokens: list[str]) -> None:
        self.text = text
        self.tokens = tokens
        self.depth = 0

    @property
    def next(self) -> str | None:
        return self.tokens[0] if self.tokens else None

    def error(self, what: str) -> BadCondition:
        return BadCondition(f"{self.text!r}: {what}; {_WAY}")

    def either(self) -> Test:
        tests = [self.both()]
        while self.next == "or":
            self.tokens.pop(0)
            tests.append(self.both())
        return tests[0] if len(tests) == 1 else lambda up, down: any(test(up, down) for test in tests)

    def both(self) -> Test:
        tests = [self.one()]
        while self.next == "and":
            self.tokens.pop(0)
            tests.append(self.one())
        return tests[0] if len(tests) == 1 else lambda up, down: all(test(up, down) for test in tests)

    def one(self) -> Test:
        if self.next not in ("not", "("):
            return self.comparison()
        self.depth += 1
        if self.depth > 50:
            raise self.error("it is nested too deeply")
        opened = self.tokens.pop(0)
        if opened == "not":
            inner = self.one()
            self.depth -= 1
            return lambda up, down: not inner(up, down)
        test = self.either()
        if self.next != ")":
            raise self.error("a bracket is not closed")
        self.tokens.pop(0)
        self.depth -= 1
        return test

    def comparison(self) -> Test:
        values, compares = [self.value()], list[Callable[[int, int], bool]]()
        while self.next in _COMPARISONS:
            compares.append(_COMPARISONS[self.tokens.pop(0)])
            values.append(self.value())
        if not compares:
            raise self.error("nothing is compared")

        def test(up: int, down: int) -> bool:
            given = [value(up, down) for value in values]
            return all(compare(*pair) for compare, pair in zip(compares, pairwise(given), strict=True))

        return test

    def value(self) -> Callable[[int, int], int]:
        token = self.next
        if token is None:
            raise self.error("it ends where a value is wanted")
        if token == "helpful":
            found: Callable[[int, int], int] = lambda up, _: up  # noqa: E731
        elif token == "harmful":
            found = lambda _, down: down  # noqa: E731
        elif token.isdigit():
            number = int(token)
            found = lambda *_: number  # noqa: E731
        else:
            raise self.error(f"{token!r} is no value")
        self.tokens.pop(0)
        return found
