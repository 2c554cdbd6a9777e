"""One citation and what followed it, as far as a verdict can rest on it.

Invariant: a citation is bounded. It keeps facts the size of a verdict (a kind, a quote of 200
characters), never a message, and it is done after its `_MOST_HEARD` messages, so a transcript of
any length is judged in flat memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reflector.judges.rules.people import Remark, stance
from reflector.judges.rules.steps import CHECKS, Kind, RunEnd, Step, files_in, is_run
from reflector.judges.rules.wordings import expression
from reflector.playbook.bullet import Bullet
from reflector.transcripts.message import ToolCall
from reflector.transcripts.records import record_key

#: The messages of people that are heard: the first word on the step, and some more.
_MOST_HEARD, _MOST_OWN, _MOST_RESULTS = 5, 12, 64


@dataclass(slots=True)
class Heard:
    """A person's message as one citation heard it.

    between   calls of the agent since the cited step
    conceded  the agent's first words after it concede an error
    """

    remark: Remark
    between: int
    conceded: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """How a call ended that came after the citation.

    check    by what two runs are the same
    own      it belongs to the cited step
    changes  how many changes the agent made between the step and it
    mends    it passed, and the same check or command had failed before the citation
    """

    kind: Kind
    check: str
    passed: bool
    own: bool
    changes: int
    mends: bool
    rule: str
    quote: str


@dataclass(slots=True)
class Citation:
    """A citation that is still open, or done.

    words      the words of the advice by stem, with whether it speaks against them; `files` those
               that the step names
    red        checks by kind, and commands, whose last run before the citation failed
    at         its place: how many records of the session come before its own
    mentioned  the place where the same step cites the bullet again
    forbids    the advice says what not to do, so what is wrong or undone may be what it warns of
    alone      no other bullet was cited between the same two messages of people
    over       it is followed no longer
    own        kinds of the calls of the cited step, `calls` their ids, `ended` how they ended
    open       the step goes on until the agent speaks again after a call, or a person does
    later      calls after the step, of which so many `changes`
    is_plain   no command of the step fetches a page, and no check of it prints anything but its
               result
    declined   the agent named the advice only to say why it does not apply
    wrong      why the agent called the advice wrong, here or later; None where it did not
    """

    name: str
    text: str
    turn: int
    at: int
    words: Mapping[str, bool]
    red: frozenset[str] = frozenset()
    mentioned: int = 0
    forbids: bool = False
    alone: bool = True
    over: bool = False
    files: set[str] = field(default_factory=set)
    own: list[Kind] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    open: bool = True
    later: int = 0
    changes: int = 0
    is_plain: bool = True
    declined: bool = False
    wrong: str | None = None
    heard: list[Heard] = field(default_factory=list)
    ran: list[Ran] = field(default_factory=list)
    ended: list[RunEnd] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """True when nothing more can bear on it."""
        return len(self.heard) >= _MOST_HEARD

    def take_call(self, call: ToolCall, step: Step) -> None:
        """Takes a call that comes after the citation; those of the cited step are remembered."""
        if self.open and step.kind not in ("admin", "poll") and len(self.own) < _MOST_OWN:
            self.own.append(step.kind)
            fetches = (
                _FETCHES.search(step.command)
                if step.kind == "run"
                else step.kind in CHECKS and not is_run(call)
            )
            self.is_plain = self.is_plain and not fetches
            self.calls.add(call.id)
            self.files.update(step.files)
        else:
            self.later += step.kind != "admin"
            self.changes += step.kind == "change"

    def take_result(self, call_id: str, step: Step, outcome: RunEnd) -> None:
        """Takes how a call ended, while no person has spoken on the step."""
        is_own, passed = call_id in self.calls, outcome.ending in ("passes", "ran")
        if is_own and len(self.ended) < _MOST_RESULTS:
            self.ended.append(outcome)
        check = checked(step)
        mends = passed and check in self.red
        is_told = mends or outcome.ending in ("passes", "fails")
        if is_told and not self.heard and len(self.ran) < _MOST_RESULTS:
            self.ran.append(
                Ran(
                    step.kind,
                    check,
                    passed,
                    is_own,
                    self.changes,
                    mends,
                    outcome.rule,
                    outcome.quote,
                )
            )

    def take_word(self, remark: Remark) -> Heard:
        """Takes a person's message. A mere go-ahead before the first word on the step only lets
        the work go on.
        """
        heard = Heard(remark, self.later)
        if (self.heard or remark.kind != "agrees") and not self.done:
            self.heard.append(heard)
        return heard


def opened(bullet: Bullet, turn: int, red: Iterable[str], said: str, at: int) -> Citation:
    """Return a new citation of a bullet in what the agent said."""
    citation = Citation(
        bullet.name, bullet.text, turn, at, stance(bullet.text), frozenset(red), mentioned=at
    )
    citation.forbids = (
        bullet.section == "mis" or expression("forbids").search(bullet.text) is not None
    )
    citation.declined = declines(bullet.name, said)
    citation.files.update(files_in(bullet.text))
    return citation


def declines(name: str, said: str) -> bool:
    """Return whether the agent names advice only to say why it does not follow it: "it does not
    apply here".
    """
    return any(
        f"[{name}]" in part and expression("declines").search(part)
        for part in _SENTENCE.split(said[:2000])
    )


def checked(step: Step) -> str:
    """Return by what two runs are the same: the kind of a check, of another command a digest,
    which holds no words.
    """
    if step.kind in CHECKS:
        return step.kind
    return f"{record_key(step.command.split('|')[0].replace('2>&1', ' ').strip()):x}"


_FETCHES = re.compile(r"\b(?:curl|wget)\b")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
