"""The values of the page of `check`: files, rules with their counts and answers, headings of facts,
and sentences that you repeat.

Invariant: a value is a count or a quote, never a conclusion. `before` counts sessions from before
the rule, `since` counts sessions that started with it, and `unknown` counts the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import NamedTuple

from reflector.audit.checked import CheckedLine
from reflector.check.elsewhere import Elsewhere


@dataclass(slots=True)
class Counts:
    """The free counts of a rule in the sessions of one period.

    sessions  of the period
    came_up   sessions in which the occasion of the rule came up; 0 without a known occasion
    run       sessions in which the agent ran a token of the rule. If the rule has an occasion and
              does not only forbid, only those at the occasion count. If the rule asks for a command
              before the occasion, only those before it count
    written   sessions in which the agent wrote a token of the rule; at the occasion, as for `run`
    ran       sessions in which the agent ran the command of the rule, at any time
    said      sessions in which you repeated the rule
    against   sessions in which the agent ran or wrote a forbidden token of a rule that also names
              others, as in "use pnpm, not npm"
    done      sessions in which the agent followed the rule, as far as counts show: it ran the
              command or, for "use A, not B", ran or wrote A, or it kept a ban that came up
    """

    sessions: int = 0
    came_up: int = 0
    run: int = 0
    written: int = 0
    ran: int = 0
    said: int = 0
    against: int = 0
    done: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the counts of both periods together."""
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of judges about a rule in one period.

    asked     the number of sessions whose judge was asked about the rule
    relevant  the number of these sessions in which the rule came up
    followed  yes or no by session
    helped    yes for helpful, no for harmful, by session
    """

    asked: int = 0
    relevant: int = 0
    followed: Mapping[str, bool] = field(default_factory=dict)
    helped: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reminder:
    """Your words, and the last day on which you said them."""

    words: str
    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """A rule and everything that is known about it.

    place     FILE:LINE, or the name of a rule of the playbook
    tokens    of context at each start
    name      of its bullet; None until the ledger has the rule
    forbids   whether the agent breaks the rule if its calls contain the rule's tokens
    has_words  whether calls can contain a command, a path or an identifier of the rule. It is
              false below a heading that names a case, as in "When you release"
    names_command  whether the rule names a command to run
    is_choice  whether it names tokens to use and tokens to avoid, as in "use `pnpm`, not `npm`"
    occasion  the sessions in which the rule came up, as in "sessions that committed"; "" if unknown
    is_before  whether the rule asks for a command before the occasion
    breached  the forbidden tokens that the agent ran or wrote, in words; "" if there are none
    ran       the tokens that it names and that the agent ran, in words; "" if there are none
    lacks_start  whether the occasion came up in a transcript that begins in mid-session, so that
              the command before the occasion may be missing
    may_apply  whether a session may have been able to follow the rule, although no call shows it
    missing   a path of the rule that is no longer in the project; "" if all exist
    last_said  None if you never said it
    result    of judges, only if chance is an unlikely explanation; "" without a result
    judged    all findings of judges; None until a judge is asked
    """

    place: str
    text: str
    heading: str = ""
    tokens: int = 0
    name: str | None = None
    forbids: bool = False
    has_words: bool = False
    names_command: bool = False
    is_choice: bool = False
    occasion: str = ""
    is_before: bool = False
    breached: str = ""
    ran: str = ""
    lacks_start: bool = False
    may_apply: bool = False
    missing: str = ""
    last_said: Reminder | None = None
    since: Counts = field(default_factory=Counts)
    before: Counts = field(default_factory=Counts)
    unknown: Counts = field(default_factory=Counts)
    judged_since: Answers = Answers()
    judged_before: Answers = Answers()
    result: str = ""
    judged: CheckedLine | None = None

    @property
    def counts(self) -> Counts:
        """The counts to show: of all sessions that are not known to be older than the rule."""
        return self.since.plus(self.unknown)

    def earlier(self) -> RuleFacts:
        """Return the rule as if it had existed in the earlier sessions."""
        return replace(
            self,
            since=self.before,
            before=Counts(),
            judged_since=self.judged_before,
            judged_before=Answers(),
        )


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file that agents load, with the numbers of its rules, facts and tokens.

    scope    the patterns of files at which it is loaded, if it is not loaded at each start
    imports  the files that it imports
    """

    name: str
    rules: int
    facts: int
    tokens: int
    scope: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeadingFacts:
    """The facts below one heading, with the number of their tokens.

    used    the number of sessions whose calls contain a command, a path or an identifier of one of
            the facts; None if unknown, because some facts have only words
    """

    place: str
    heading: str
    facts: int
    tokens: int
    used: int | None = None


@dataclass(frozen=True, slots=True)
class Repeated:
    """Sentences that you repeated in some sessions and that are not in any rule.

    words   the shortest sentence if they have a topic, else the newest
    topic   the thing that they ask for; "" if they are only similar
    rules   the places of rules about the topic, the shortest rule first
    said    the newest sentence of each session
    """

    words: str
    sessions: int
    topic: str = ""
    rules: tuple[str, ...] = ()
    said: Mapping[str, str] = field(default_factory=dict)


class Step(NamedTuple):
    """A next command, and the reason for it."""

    reason: str
    command: str


@dataclass(frozen=True, slots=True)
class PageFacts:
    """The facts of the page.

    sessions    the number of sessions that were read
    first       the day of the oldest session; None without sessions
    since_edit  the number of sessions since the last edit of the files; None if unknown
    agent       the agent that wrote the sessions, in a sentence
    elsewhere   if the project has no sessions, those of a folder that may be the same project
    was_sent    whether a judge was asked just now
    closing     the next commands, which are the last lines of the page
    """

    files: tuple[FileFacts, ...]
    rules: tuple[RuleFacts, ...]
    facts: tuple[HeadingFacts, ...] = ()
    repeated: tuple[Repeated, ...] = ()
    sessions: int = 0
    first: date | None = None
    since_edit: int | None = None
    agent: str = "your agent"
    elsewhere: Elsewhere | None = None
    was_sent: bool = False
    closing: tuple[Step, ...] = ()
