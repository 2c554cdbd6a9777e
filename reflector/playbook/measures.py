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
    Measure("judged", "sessions", "Sessions with a verdict on the rule, also a neutral one."),
    Measure(
        "helped",
        "votes",
        "Votes of sessions that the rule helped, one for each session.",
    ),
    Measure(
        "harmed",
        "votes",
        "Votes of sessions that the rule harmed, one for each session.",
    ),
    Measure(
        "neither",
        "sessions",
        "Sessions with only neutral verdicts. In `stats`: all other verdicts.",
    ),
    Measure("undecided", "sessions", "Sessions that cited the rule, but without a verdict on it."),
    Measure(
        "followed",
        "sessions",
        (
            "Sessions that followed the rule (n), out of the sessions in which a judge could "
            "decide this (m)."
        ),
    ),
    Measure(
        "broken",
        "sessions",
        "Sessions that did not follow the rule, out of the same sessions (m).",
    ),
    Measure("last cited", "time", "Time of the latest session that cited the rule."),
    Measure(
        "share",
        "share",
        "`helped` divided by `helped` and `harmed`. Screens show it from five votes on.",
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
        "`helpful`/`harmful` in playbook.json: the rule's first numbers, plus its verdicts under "
        "the counting policy.",
    ),
    Measure("helpful", "verdicts", "Helpful verdicts. For a rule, this is its first counter."),
    Measure("harmful", "verdicts", "Harmful verdicts. For a rule, this is its second counter."),
    Measure("total", "verdicts", "The rule's counters after this verdict."),
    Measure("shown", "sessions", "Sessions that were shown the rule when they started."),
    Measure("demoted", "sessions", "Sessions that were shown the rule since it last helped."),
    Measure("relevant", "sessions", "Sessions in which the rule came up, as `check` found."),
    Measure("tokens", "number", "Approximate tokens of a text; for a judge, the tokens used."),
    Measure(
        "run", "sessions", "Sessions that ran the rule's command, if the rule came up in them."
    ),
    Measure(
        "written", "sessions", "Sessions in which the agent wrote something that the rule forbids."
    ),
    Measure("you said it", "sessions", "Sessions in which you repeated the rule."),
    Measure("before", "sessions", "The number for the sessions that started without the rule."),
    Measure("since", "sessions", "The number for the sessions that started with the rule."),
    Measure(
        "unknown",
        "sessions",
        "The number for the sessions for which this is not known.",
    ),
    Measure(
        "others",
        "share",
        "The change of `followed` for the other rules in the same sessions.",
    ),
    Measure("model", "sessions", "The number for the sessions of one model."),
)
