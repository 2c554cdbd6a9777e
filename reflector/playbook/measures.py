"""The words for the numbers of rules, each with its one meaning.

Invariant: a column of `list`, `show`, `blame`, `check`, `stats` or the report that has numbers, and
each key of their JSON that is a number, is a word of this list or no measure of a rule; a test
compares them. The pages of docs/ print the list.
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
        "judged", "sessions", "Sessions with a verdict on the rule, including neutral verdicts."
    ),
    Measure(
        "helped",
        "votes",
        "Votes of sessions that the rule helped: each session has one vote, which its verdicts "
        "share.",
    ),
    Measure(
        "harmed",
        "votes",
        "Votes of sessions that the rule harmed, counted in the same way as `helped`.",
    ),
    Measure(
        "neither",
        "sessions",
        "Sessions with only neutral verdicts; in `stats`, verdicts that are neither helpful "
        "nor harmful.",
    ),
    Measure("undecided", "sessions", "Sessions that cited the rule without a verdict on it."),
    Measure(
        "followed",
        "sessions",
        "Sessions that followed the rule, of those in which a judge could tell (n of m).",
    ),
    Measure(
        "broken",
        "sessions",
        "Sessions that did not follow the rule, of the m sessions of `followed`.",
    ),
    Measure("last cited", "time", "Time of the latest session that cited the rule."),
    Measure(
        "share",
        "share",
        "`helped` divided by `helped` plus `harmed`; a screen shows no percentage below "
        "five votes.",
    ),
    Measure("low", "share", "The lower end of the 90 % interval of `share`."),
    Measure("high", "share", "The upper end of the 90 % interval of `share`."),
    Measure(
        "recent",
        "votes",
        "The votes of the last eight sessions, oldest first: `+` helped, `-` harmed, `.` neither.",
    ),
    Measure(
        "counters",
        "verdicts",
        "`helpful`/`harmful` in playbook.json: verdicts by the counting policy, and the numbers "
        "that the rule began with.",
    ),
    Measure("helpful", "verdicts", "Helpful verdicts; for a rule, the first of its two counters."),
    Measure("harmful", "verdicts", "Harmful verdicts; for a rule, the second of its two counters."),
    Measure("total", "verdicts", "The counters after a verdict."),
    Measure("shown", "sessions", "Sessions that were shown the rule when they started."),
    Measure("demoted", "sessions", "Sessions that were shown the rule since it last helped."),
    Measure("relevant", "sessions", "Sessions in which a check found that the rule came up."),
    Measure("tokens", "number", "Approximate tokens of a text; for a judge, the tokens used."),
    Measure(
        "run",
        "sessions",
        "Sessions that ran the rule's command, of those in which the rule came up.",
    ),
    Measure(
        "written", "sessions", "Sessions in which the agent wrote something that the rule forbids."
    ),
    Measure("you said it", "sessions", "Sessions in which you repeated the rule."),
    Measure("before", "sessions", "The same number, for sessions that started without the rule."),
    Measure("since", "sessions", "The same number, for sessions that started with the rule."),
    Measure(
        "unknown",
        "sessions",
        "The same number, for sessions that may have started with or without the rule.",
    ),
    Measure(
        "others",
        "share",
        "The share of the other rules `followed`, `since` minus `before`, in the same sessions.",
    ),
    Measure("model", "sessions", "The same number, for the sessions of one model."),
)
