"""The rules as data: what each one looks for, what it means, how much it weighs, and an example.

Invariant: every wording that the `rules` backend reacts to stands in one row of this table, with an
example it must match and a counter-example it must not. The documentation is printed from the same
rows, so nobody has to read code to know why a tag was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

#: Goes into every answer as its model. It changes whenever the same window could get another verdict.
VERSION = "rules/2"

Reads = Literal["person", "result", "agent"]
Place = Literal["start", "clause", "anywhere"]
Signal = Literal[
    "approves",  # a person says that it works or is good
    "builds_on",  # a person accepts the work by taking the next step with it
    "corrects",  # a person objects to what was done
    "symptom",  # a person reports that the problem is there, still or again
    "continues",  # a person resumes or answers; says nothing about quality
    "asks",  # a person asks for an explanation
    "passes",  # a check, build or run succeeded
    "fails",  # a check, build or run failed
    "mechanics",  # an error of the editing tool or the shell that says nothing about the advice
    "unusable",  # the command itself could not be run as written
    "concedes",  # the agent admits that the person is right
    "finds",  # the agent found what it looked for
    "expected",  # the agent says that a failure was expected, or was there before
    "reverts",  # the agent takes back its own step
    "confirms",  # the agent reads a result as good
    "moved_on",  # the agent says that the error before is gone and another one came
    "abandons",  # the agent drops the way it took
]
#: 1 hints, 2 speaks plainly, 3 decides.
Strength = Literal[1, 2, 3]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. `place` says where `pattern` must match: the message's start, a clause's start, anywhere."""

    id: str
    reads: Reads
    signal: Signal
    strength: Strength
    looks_for: str
    pattern: str
    example: str
    counter: str
    place: Place = "anywhere"


def person_row(
    id: str,
    signal: Signal,
    strength: Strength,
    looks_for: str,
    pattern: str,
    example: str,
    counter: str,
    place: Place = "anywhere",
) -> Rule:
    """Return a row about what a person writes."""
    return Rule(id, "person", signal, strength, looks_for, pattern, example, counter, place)


def result_row(
    id: str, signal: Signal, strength: Strength, looks_for: str, pattern: str, example: str, counter: str
) -> Rule:
    """Return a row about what a tool prints."""
    return Rule(id, "result", signal, strength, looks_for, pattern, example, counter)


#: Plain numbers: to join two members of the enumeration takes as long as a short search.
_PRINTED, _WRITTEN = int(re.MULTILINE), int(re.MULTILINE | re.IGNORECASE)


@lru_cache(maxsize=1024)
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    return re.compile(pattern, flags)


def found(rule: Rule, text: str) -> re.Match[str] | None:
    """Return where the rule's wording stands in one text; `start` and `clause` rules must match at its start.

    Case counts in what tools print (`FAIL` is a verdict, `fail` a word) and nowhere else.
    """
    wording = _compiled(rule.pattern, _PRINTED if rule.reads == "result" else _WRITTEN)
    return wording.search(text) if rule.place == "anywhere" else wording.match(text)


def markdown(rules: Iterable[Rule]) -> str:
    """Return the table as the documentation shows it: one line per rule, without the expressions."""
    lines = ["| rule | signal | strength | looks for | for example |", "|---|---|---|---|---|"]
    for rule in rules:
        example = " ".join(rule.example.split()).replace("|", "\\|")
        looks_for = rule.looks_for.replace("|", "\\|")
        lines.append(f"| `{rule.id}` | {rule.signal} | {rule.strength} | {looks_for} | {example} |")
    return "\n".join(lines) + "\n"
