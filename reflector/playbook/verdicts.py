"""The three verdicts on a bullet, and how several of one reader become one.

Invariant: a verdict beats neutral, and verdicts that contradict each other become neutral: both are true of
different moments, and it is unknown which weighs more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeVar, get_args

Verdict = Literal["helpful", "harmful", "neutral"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

Said = TypeVar("Said")


def decisive(said: Iterable[Said], verdict: Callable[[Said], str]) -> list[Said]:
    """What decides: nothing where all are neutral, the first verdict where the others agree with it, else the first
    and the first that contradicts it."""
    decided: dict[str, Said] = {}
    for one in said:
        decided.setdefault(verdict(one), one)
    decided.pop("neutral", None)
    return list(decided.values())
