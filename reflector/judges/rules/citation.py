"""One citation and the messages after it, as far as a verdict can rest on them.

Invariant: a citation is bounded. It keeps small facts (a kind, a quote of 200 characters), never a
message, and it is complete after `_MAX_REPLIES` messages. So a transcript of any length is judged
in constant memory. `follow.py` passes calls, results and messages to `take_call`, `take_result` and
`take_reply`, which record the facts. `findings.py` judges them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

from reflector.judges.reading.people import Remark, stance
from reflector.judges.reading.steps import CHECKS, Kind, RunEnd, Step, is_run
from reflector.judges.reading.wordings import expression
from reflector.playbook.bullet import Bullet
from reflector.transcripts.message import ToolCall
from reflector.transcripts.records import record_key

#: The most messages of users that are read, and the most results that are kept.
_MAX_REPLIES = 5
_MAX_RESULTS = 64


class Reply(NamedTuple):
    """A user's message after the cited step, and the number of the agent's calls between them."""

    remark: Remark
    calls_between: int


class Result(NamedTuple):
    """The end of a call after the citation and before the next message of a user.

    check    the key by which two runs are the same, as `check_of` has it
    is_own   it belongs to the cited step
    changes  how many changes the agent made between the step and it
    """

    kind: Kind
    check: str
    end: RunEnd
    is_own: bool
    changes: int

    @property
    def passed(self) -> bool:
        """True for a check that passed, and for a command that ended without an error."""
        return self.end.ending in ("passes", "ran")


@dataclass(slots=True, kw_only=True)
class Citation:
    """A citation that is still open, or complete. `__post_init__` reads the bullet, and the `text`
    of the message that cites it.

    about      the words of the advice by stem, with whether it speaks against them
    red        checks by kind, and commands, whose last run before the citation failed
    at         its place: how many records of the session come before its own
    turn       how many messages of users come before it in its chain
    mentioned  the place at which the same step cites the bullet last
    forbids    the advice is a prohibition, so a fault may be the one that it warns of
    declined   the agent named the advice only to explain why it does not apply
    answers    the user's message before it is a question, or asks for words
    is_alone   no other bullet was cited between the same two messages of users
    is_over    later messages no longer belong to it
    step_kinds kinds of the calls of the cited step, and `step_calls` their ids
    is_open    the step continues until the agent speaks again after a call, or a user does
    later      the number of calls after the step, and `changes` how many of them change something
    replies    the user's messages after the step, at most `_MAX_REPLIES`
    results    the results before the first reply, at most `_MAX_RESULTS`
    is_plain   no command of the step fetches a page, and no check of it prints anything but its
               result
    wrong      why the agent called the advice wrong, here or later; "" if it did not
    """

    bullet: InitVar[Bullet]
    text: InitVar[str]
    name: str = field(init=False)
    about: Mapping[str, bool] = field(init=False)
    forbids: bool = field(init=False)
    declined: bool = field(init=False)
    answers: bool
    red: frozenset[str]
    turn: int
    at: int
    mentioned: int
    is_alone: bool = True
    is_over: bool = False
    is_open: bool = True
    is_plain: bool = True
    later: int = 0
    changes: int = 0
    wrong: str = ""
    step_kinds: set[Kind] = field(default_factory=set)
    step_calls: set[str] = field(default_factory=set)
    replies: list[Reply] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def __post_init__(self, bullet: Bullet, text: str) -> None:
        self.name = bullet.name
        self.about = stance(bullet.text)
        is_prohibition = expression("forbids").search(bullet.text) is not None
        self.forbids = bullet.section == "mis" or is_prohibition
        self.declined = declines(bullet.name, text)

    @property
    def is_done(self) -> bool:
        """True if no later message can affect it."""
        return len(self.replies) >= _MAX_REPLIES

    def take_call(self, call: ToolCall, step: Step) -> None:
        """Record a call after the citation; the calls of the cited step are kept."""
        if self.is_open and step.kind not in ("admin", "poll"):
            self.step_kinds.add(step.kind)
            self.step_calls.add(call.id)
            self.is_plain = self.is_plain and _prints_its_result_only(call, step)
        elif step.kind != "admin":
            self.later += 1
            self.changes += step.kind == "change"

    def take_result(self, call: ToolCall, step: Step, end: RunEnd) -> None:
        """Record how a call ended, unless a user has already spoken on the step.

        The call belongs to the cited step or comes later. Or it began before the citation, and
        ended after it.
        """
        if self.replies or len(self.results) >= _MAX_RESULTS:
            return
        result = Result(
            kind=step.kind,
            check=check_of(step),
            end=end,
            is_own=call.id in self.step_calls,
            changes=self.changes,
        )
        self.results.append(result)

    def take_reply(self, remark: Remark) -> None:
        """Record a user's message as a reply. A go-ahead before the first reply is none, because it
        only lets the work continue.
        """
        if (self.replies or remark.kind != "agrees") and not self.is_done:
            self.replies.append(Reply(remark, self.later))


def _prints_its_result_only(call: ToolCall, step: Step) -> bool:
    if step.kind == "run":
        return not expression("fetches").search(step.command)
    return step.kind not in CHECKS or is_run(call)


def declines(name: str, text: str) -> bool:
    """Return whether the agent names advice only to explain why it does not follow it: "it does not
    apply here".
    """
    sentences = [part for part in expression("sentence").split(text[:2000]) if f"[{name}]" in part]
    return any(expression("declines").search(sentence) for sentence in sentences)


def check_of(step: Step) -> str:
    """Return the key by which two runs are the same: the kind of a check, or the digest of another
    command, without words.
    """
    if step.kind in CHECKS:
        return step.kind
    return f"{record_key(step.command.split('|')[0].replace('2>&1', ' ').strip()):x}"
