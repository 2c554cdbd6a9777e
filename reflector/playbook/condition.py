"""Conditions on a bullet's counters, such as `harmful >= 3 and harmful > helpful`.

Invariant: a condition is an expression of Python's grammar made of comparisons, `and`, `or`, `not` and brackets; its
values are `helpful`, `harmful` and whole numbers. Anything else is refused when it is parsed. No text is run as code:
the syntax tree is walked.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from reflector.mistakes import Mistake

_TOKENS: Final = re.compile(r"(?:\s|helpful\b|harmful\b|and\b|or\b|not\b|\d{1,15}\b|[<>]=?|[!=]=|[()])*", re.ASCII)
_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[int, int], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_LONGEST: Final = 1_000
_DEEPEST: Final = 50
_WAY: Final = "a condition compares helpful, harmful and numbers, such as: harmful >= 3 and harmful > helpful"


class BadCondition(Mistake):
    """A text that is not a condition; its own text says where it goes wrong."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as it was written, and its syntax tree."""

    text: str
    _tree: ast.expr

    def holds(self, helpful: int, harmful: int) -> bool:
        """Return whether it holds for these counters."""
        return _holds(self._tree, {"helpful": helpful, "harmful": harmful})


def condition(text: str) -> Condition:
    """Parse a condition. Raises BadCondition."""
    if len(text) > _LONGEST:
        raise BadCondition(f"the condition is {len(text):,} characters long; {_WAY}")
    known = _TOKENS.match(text)
    strange = text[known.end() :] if known else text
    if strange:
        begin = f"{text!r}: " if strange[:20] != text else ""
        raise BadCondition(f"{begin}{strange[:20]!r} is not understood; {_WAY}")
    try:
        tree = ast.parse(" ".join(text.split()), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise BadCondition(f"{text!r}: {getattr(error, 'msg', 'it is nested too deeply')}; {_WAY}") from error
    _check(text, tree, 0)
    return Condition(text, tree)


def _check(text: str, tree: ast.expr, depth: int) -> None:
    """Raise BadCondition unless a tree compares values, or combines such comparisons."""
    if depth > _DEEPEST:
        raise BadCondition(f"{text!r}: it is nested too deeply; {_WAY}")
    if isinstance(tree, ast.BoolOp):
        for part in tree.values:
            _check(text, part, depth + 1)
    elif isinstance(tree, ast.UnaryOp):
        _check(text, tree.operand, depth + 1)
    elif not isinstance(tree, ast.Compare):
        raise BadCondition(f"{text!r}: {ast.unparse(tree)!r} compares nothing; {_WAY}")
    elif wrong := [one for one in (tree.left, *tree.comparators) if not isinstance(one, ast.Name | ast.Constant)]:
        raise BadCondition(f"{text!r}: {ast.unparse(wrong[0])!r} is not a value; {_WAY}")


def _holds(tree: ast.expr, counters: dict[str, int]) -> bool:
    if isinstance(tree, ast.BoolOp):
        parts = (_holds(part, counters) for part in tree.values)
        return all(parts) if isinstance(tree.op, ast.And) else any(parts)
    if isinstance(tree, ast.UnaryOp):
        return not _holds(tree.operand, counters)
    assert isinstance(tree, ast.Compare)  # `condition` lets nothing else pass
    values = [_value(one, counters) for one in (tree.left, *tree.comparators)]
    compares = (_COMPARISONS[type(op)] for op in tree.ops)
    return all(compare(*pair) for compare, pair in zip(compares, pairwise(values), strict=True))


def _value(tree: ast.expr, counters: dict[str, int]) -> int:
    return counters[tree.id] if isinstance(tree, ast.Name) else int(ast.literal_eval(tree))
