"""The words for the numbers of rules, each with one meaning.

Invariant: every numeric column of `list`, `show`, `blame`, `check`, `stats` or the report, and
every numeric key of their JSON, is a word of this list or not a measure of a rule. A test compares
them. The pages of docs/ print the list.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class Measure(NamedTuple):
    """A word, what it counts, and its meaning in one sentence. Its JSON key is the word with `_`
    for a space.
    """

    word: str
    kind: Literal["sessions", "votes", "verdicts", "share", "time", "number"]
    meaning: str

    @property
    def key(self) -> str:
        return self.word.replace(" ", "_")


MEASURES: Final = (
    Measure("cited", "sessions", "Sessions whose agent cited the rule."),
    Measure(
        "judged", "sessions", "Sessions with a verdict on the rule. Neutral verdicts also count."
    ),
    Measure(
        "helped",
        "votes",
        "Votes that the rule helped. Each session has one vote on a rule.",
    ),
    Measure(
        "harmed",
        "votes",
        "Votes that the rule harmed. Each session has one vote on a rule.",
    ),
    Measure(
        "neither",
        "sessions",
        "Sessions with only neutral verdicts on the rule. In `stats`: all verdicts that are "
        "neither helpful nor harmful.",
    ),
    Measure(
        "undecided", "sessions", "Sessions that cited the rule and do not have a verdict on it."
    ),
    Measure(
        "followed",
        "sessions",
        "`n of m`: a judge could decide about m sessions, and n of them followed the rule.",
    ),
    Measure(
        "broken",
        "sessions",
        "Sessions that did not follow the rule, among the m sessions of `followed`.",
    ),
    Measure("last cited", "time", "Time of the latest session that cited the rule."),
    Measure(
        "share",
        "share",
        "`helped` divided by the sum of `helped` and `harmed`. Screens show the share of "
        "rules with at least five votes.",
    ),
    Measure("low", "share", "The lower end of the 90 % interval of `share`."),
    Measure("high", "share", "The upper end of the 90 % interval of `share`."),
    Measure(
        "recent",
        "votes",
        "The votes of the last eight sessions, oldest first. `+` is helped, `-` is harmed, "
        "and `.` is neither.",
    ),
    Measure(
        "counters",
        "verdicts",
        "`helpful`/`harmful` in playbook.json: the numbers that the rule began with, plus its "
        "verdicts under the counting policy.",
    ),
    Measure("helpful", "verdicts", "Helpful verdicts. This number is the first counter of a rule."),
    Measure(
        "harmful", "verdicts", "Harmful verdicts. This number is the second counter of a rule."
    ),
    Measure("total", "verdicts", "The rule's counters after this verdict."),
    Measure("shown", "sessions", "Sessions that got the rule when they started."),
    Measure("demoted", "sessions", "Sessions that got the rule since it last helped."),
    Measure("relevant", "sessions", "Sessions in which `check` found that the rule came up."),
    Measure(
        "tokens",
        "number",
        "The approximate length of a text in tokens. For a judge: the tokens that the judge used.",
    ),
    Measure(
        "run",
        "sessions",
        "Sessions in which the agent ran a word of the rule as a command. If the rule has an "
        "occasion, only sessions in which the rule came up.",
    ),
    Measure(
        "written",
        "sessions",
        "Sessions in which the agent wrote a word of the rule into a file. If the rule has an "
        "occasion, only sessions in which the rule came up.",
    ),
    Measure("you said it", "sessions", "Sessions in which you repeated the rule."),
    Measure(
        "before",
        "sessions",
        "The same number, counted only over sessions that started without the rule.",
    ),
    Measure(
        "since",
        "sessions",
        "The same number, counted only over sessions that started with the rule.",
    ),
    Measure(
        "unknown",
        "sessions",
        "The same number, counted only over sessions for which reflector does not know whether "
        "they started with the rule.",
    ),
    Measure(
        "others",
        "share",
        "The change of `followed` for all other rules, in the same sessions.",
    ),
    Measure("model", "sessions", "The same number, counted only over the sessions of one model."),
)
