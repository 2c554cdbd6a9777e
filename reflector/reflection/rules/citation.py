"""One citation and what followed it, as far as a verdict can rest on it.

Invariant: a citation is bounded. It keeps facts the size of a verdict (a kind, a quote of 200 characters), never a
message, and it is done after its `MOST_HEARD` messages, so a transcript of any length is judged in flat memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from reflector.playbook.bullet import Bullet
from reflector.reflection.rules.people import Remark, content_words
from reflector.reflection.rules.steps import CHECKS, Kind, RunEnd, Step, files_in
from reflector.transcripts.message import ToolCall
from reflector.transcripts.records import record_key

#: The messages of people that are heard: the first word on the step, and some more.
MOST_HEARD = 5
_MOST_OWN, _MOST_RESULTS = 12, 64


@dataclass(slots=True)
class Heard:
    """A person's message as one citation heard it.

    between   calls of the agent since the cited step
    shared    words that it shares with the advice and the files of its step
    asked     the agent had asked something
    conceded  the agent's first words after it took it as a correction
    """

    remark: Remark
    between: int
    shared: int
    asked: bool
    conceded: bool = False

    @property
    def objects(self) -> bool:
        """True for an objection: its words say so, or the agent took it as one."""
        return self.remark.kind == "objects" or (
            self.conceded and self.remark.kind in ("mixed", "praises", "agrees", "other", "unread")
        )

    @property
    def rule(self) -> str:
        """The first sign of an objection; where its words have none, that the agent took it as one."""
        return self.remark.signs[0] if self.remark.signs else "concedes"


@dataclass(slots=True)
class Ran:
    """How a call ended that came after the citation.

    check     by what two runs are the same
    own       it belongs to the cited step
    changes   how many changes the agent made between the step and it
    mends     the same check or command had failed before the citation
    excused   the agent said that this failure was expected or has another cause
    """

    kind: Kind
    check: str
    passed: bool
    own: bool
    changes: int
    mends: bool
    rule: str
    quote: str
    excused: bool = False


@dataclass(slots=True)
class Citation:
    """A citation that is still open, or done.

    words      content words of the advice
    red        checks by kind, and commands, whose last run before the citation failed
    own        kinds of the calls of the cited step
    at         its place: how many records of the session come before its own
    mentioned  the place where the same step cites the bullet again
    over       it is followed no longer
    open       the step goes on until the agent speaks again after a call, or a person does
    later      calls after the step
    changes    changes after the step
    agreed     a person's go-ahead came before the first word on the step
    replaced   the agent rewrote, unasked, what the step had written: what it wrote before
    wrong      why the agent called the advice wrong, here or later; None where it did not
    ended      how the calls of the step ended
    """

    name: str
    text: str
    words: frozenset[str]
    turn: int
    red: frozenset[str]
    at: int = 0
    mentioned: int = 0
    over: bool = False
    files: set[str] = field(default_factory=set)
    own: list[Kind] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    written: list[str] = field(default_factory=list)
    open: bool = True
    later: int = 0
    changes: int = 0
    agreed: bool = False
    replaced: str = ""
    declined: bool = False
    wrong: str | None = None
    heard: list[Heard] = field(default_factory=list)
    ran: list[Ran] = field(default_factory=list)
    ended: list[RunEnd] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """True when nothing more can bear on it."""
        return len(self.heard) >= MOST_HEARD

    @property
    def opposed(self) -> bool:
        """True when the first word on the step is an objection, to whatever."""
        return bool(self.heard) and self.heard[0].objects

    def take_call(self, call: ToolCall, step: Step, turn: int) -> None:
        """Takes a call that comes after the citation; those of the cited step are remembered."""
        if turn == self.turn and not self.heard and not self.replaced:
            # The text of the step that an edit replaces.
            old = call.input.get("old_string")
            if isinstance(old, str) and len(old.strip()) >= 4:
                same = any(old in text or (len(text) >= 4 and text in old) for text in self.written)
                self.replaced = old if same else ""
        if not self.open or step.kind in ("admin", "poll") or len(self.own) >= _MOST_OWN:
            self.later += step.kind != "admin"
            self.changes += step.kind == "change"
            return
        self.own.append(step.kind)
        self.calls.add(call.id)
        self.files.update(step.files)
        if step.kind == "change":
            self.written.append(str(call.input.get("new_string") or call.input.get("content") or "")[:600])

    def take_end(self, outcome: RunEnd) -> None:
        """Takes how a call of the step itself ended."""
        if len(self.ended) < _MOST_RESULTS:
            self.ended.append(outcome)

    def take_result(self, ran: Ran) -> None:
        """Takes how a call ended, while no person has spoken on the step."""
        if not self.heard and len(self.ran) < _MOST_RESULTS:
            self.ran.append(ran)

    def take_word(self, remark: Remark, *, asked: bool) -> Heard:
        """Takes a person's message. A mere go-ahead before the first word on the step only lets the work go on."""
        self.open = False
        heard = Heard(remark, self.later, len(remark.about & self.words) + len(remark.about & self.files), asked)
        if remark.kind == "agrees" and not self.heard:
            self.agreed = True
        elif not self.done:
            self.heard.append(heard)
        return heard


def opened(name: str, bullet: Bullet, turn: int, red: Iterable[str], said: str, at: int = 0) -> Citation:
    """Return a new citation of a bullet in what the agent said."""
    citation = Citation(name, bullet.text, content_words(bullet.text), turn, frozenset(red), at, at)
    citation.files.update(files_in(bullet.text))
    citation.declined = any(f"[{name}]" in part and _DECLINED.search(part) for part in _SENTENCE.split(said[:2000]))
    return citation


def checked(kind: Kind, command: str) -> str:
    """Return by what two runs are the same: the kind of a check, of another command a digest, which holds no words."""
    if kind in CHECKS:
        return kind
    return f"{record_key(command.split('|')[0].replace('2>&1', ' ').strip()):x}"


#: "it does not apply here": advice that was named only to say why it was not followed.
_DECLINED = re.compile(
    r"\b(?:does ?n[o']?t|do ?n[o']?t|not|is ?n[o']?t|n/a) (?:really |quite )?(?:apply|applicable|relevant|fit)\b"
    r"|\bnot (?:following|going to follow)\b"
    r"|\b(?:ignor|skipp?|disregard|overrid|deviat|depart)(?:e|es|ing) (?:from )?"
    r"(?:it|this|that|the (?:advice|rule|guideline|note|bullet|playbook|pattern|usual))?"
    r"\s*(?:here|this time|for now|\[|[.,;:(—–-])"
    r"|\b(?:contrary to|against|despite|unlike) (?:the )?(?:advice|rule|guideline|playbook|note)?\s*\[",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
