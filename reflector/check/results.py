"""Results over a file as a whole: which rules are followed, broken, helpful or harmful. Of all
results, at most 3.5 % are expected to be false, however often you check.

Invariant: without an influence, the expected evidence of each share is at most 1. Sessions of one
branch within a day count as one vote, the mean of their answers, because they repeat each other.
The evidence is a mean over bets on that vote: most of it on two strong shares, the rest uniform
over all shares. Results are chosen by e-BH (Wang and Ramdas, 2022), which does not need
independence between rules. If nothing has an influence, a result needs a mean evidence of at least
28, which by Ville's inequality ever happens in at most 3.5 % of files.

`benchmarks/noise.py` measures the power. Ten votes or fewer can hardly give a result in a file of
150 rules, because ten votes can show at most 2^10.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from math import exp, log, log1p
from statistics import fmean
from typing import NamedTuple, TypeVar

from reflector.check.facts import RuleFacts
from reflector.text.phrases import counted

K = TypeVar("K", bound=Hashable)

#: The share of results that may be false. It has a margin to the promised 5 %.
FALSE_SHARE = 0.035
#: Sessions of one branch that began within this time of the first one are one task.
TASK = timedelta(hours=24)
#: The number of bets on shares from 0 to 1. Each is 2 × share - 1 at the middle of a step.
_STEPS = 100
_BETS = tuple((2 * step + 1) / _STEPS - 1 for step in range(_STEPS))
#: A bet of .85 is on shares near .925 and .075: rules that are nearly always followed or broken.
_STRONG = 0.85
#: The part of the bets on these two shares. Half of it finds few rules with 30 alike sessions.
_STRONG_WEIGHT = 0.8


class Began(NamedTuple):
    """A session's start and its branch; "" if its agent does not record branches."""

    branch: str
    at: datetime


class Question(NamedTuple):
    """A question about a rule, with its evidence.

    words  the answer, if it is a result
    """

    place: str
    words: str
    evidence: float


def tasks(sessions: Mapping[str, Began]) -> dict[str, tuple[str, datetime]]:
    """Return the task of each session: its branch and the start of the task's first session."""
    task_of: dict[str, tuple[str, datetime]] = {}
    latest: dict[str, datetime] = {}
    for session, began in sorted(sessions.items(), key=lambda item: (item[1].at, item[0])):
        first = latest.get(began.branch)
        if first is None or began.at - first >= TASK:
            first = latest[began.branch] = began.at
        task_of[session] = began.branch, first
    return task_of


def votes(answers: Mapping[str, bool], task_of: Mapping[str, Hashable]) -> list[float]:
    """Return one vote for each task: its share of yes. A session without a task is its own task."""
    by_task: dict[Hashable, list[bool]] = defaultdict(list)
    for session, answer in answers.items():
        by_task[task_of.get(session, session)].append(answer)
    return [sum(group) / len(group) for group in by_task.values()]


def evidence(shares: Sequence[float]) -> float:
    """Return how much more likely the votes are with another share than with one half."""
    return _evidence(tuple(sorted(shares)))


@lru_cache(maxsize=4096)
def _evidence(shares: tuple[float, ...]) -> float:
    uniform = log((1 - _STRONG_WEIGHT) / _STEPS)
    weighted = [(bet, uniform) for bet in _BETS]
    weighted += [(bet, log(_STRONG_WEIGHT / 2)) for bet in (-_STRONG, _STRONG)]
    return sum(
        exp(min(weight + sum(log1p(bet * (2 * share - 1)) for share in shares), 700.0))
        for bet, weight in weighted
    )


def e_bh(evidence_by_key: Mapping[K, float]) -> set[K]:
    """Return the keys whose evidence is a result, tested together.

    The k-th largest evidence must be at least number / (`FALSE_SHARE` × k).
    """
    number = len(evidence_by_key)
    ordered = sorted(evidence_by_key.values(), reverse=True)
    accepted = 0
    for rank, value in enumerate(ordered, start=1):
        if value * FALSE_SHARE * rank >= number:
            accepted = rank
    if not accepted:
        return set()
    least = ordered[accepted - 1]
    return {key for key, value in evidence_by_key.items() if value >= least}


def results(rules: Sequence[RuleFacts], sessions: Mapping[str, Began]) -> dict[str, str]:
    """Return the results of rules in words, by place. Rules without a result are omitted.

    Only answers about sessions that started with the rule count. Both questions about a rule,
    followed and helped, are in one family with the questions about the other rules.
    """
    task_of = tasks(sessions)
    family = [
        question
        for rule in rules
        for question in (
            _question(rule.place, rule.judged_since.followed, task_of, "followed", "not followed"),
            _question(rule.place, rule.judged_since.helped, task_of, "helped", "harmful"),
        )
        if question is not None
    ]
    accepted = e_bh({index: question.evidence for index, question in enumerate(family)})
    words: dict[str, list[str]] = defaultdict(list)
    for index in sorted(accepted):
        words[family[index].place].append(family[index].words)
    return {place: "; ".join(parts) for place, parts in words.items()}


def _question(
    place: str, answers: Mapping[str, bool], task_of: Mapping[str, Hashable], yes: str, no: str
) -> Question | None:
    """Return a question with its evidence; None if no session has an answer."""
    if not answers:
        return None
    shares = votes(answers, task_of)
    is_yes = fmean(shares) > 0.5
    number = sum(answer is is_yes for answer in answers.values())
    words = f"{yes if is_yes else no} in {number} of {counted(len(answers), 'session')}"
    return Question(place, words, evidence(shares))
