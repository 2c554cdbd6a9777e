"""The outcome of a session, read from its records in the same way with and without a playbook.

Invariant: no citation, no name of a bullet and no words of the agent influence an outcome, because
only the transcripts of one arm contain citations. A session without a word of its user has an
outcome too. An event has the facts of one window. `joined_facts` are those of a session, and
docs/value.md defines each of them. The intake records outcomes, and trials compare them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from reflector.events.event import SESSION_OUTCOME, Event, NewEvent, identity, time_of
from reflector.judges.reading.aims import aims_of
from reflector.judges.reading.people import Remark, read_remark, with_apostrophes
from reflector.judges.reading.steps import Step, read_call, read_result
from reflector.judges.reading.wordings import expression, first, wordings
from reflector.playbook.names import SECTIONS
from reflector.text.lazy import lazy_pattern
from reflector.transcripts.message import Message, ToolResult

LastMessage = Literal["none", "approves", "objects", "interrupts", "other", "unread"]

#: The functions that join facts of two windows. Other facts are added, or the later one replaces
#: the earlier.
_JOIN: Final[Mapping[str, Callable[[str, str], str]]] = {"began": min, "ended": max}
#: The definition in docs/value.md; the number changes if any outcome changes.
RULES = "outcome/4"
#: The outcomes that a trial may compare, each with the test of a session.
OUTCOMES: Final[Mapping[str, Callable[[Mapping[str, Any]], bool]]] = {
    "correction-free": lambda facts: not facts.get("corrections"),
    "tests-green": lambda facts: facts.get("tests") != "fails",
    "kept": lambda facts: not facts.get("reverts"),
}
#: Signs of an objection to earlier work. Without them, a message only forbids something for the
#: next step.
_CORRECTS = frozenset(
    {"starts-with-no", "told", "omits", "blames", "fault", "excess", "undoes", "refused"}
)
#: Signs that no praise has.
_OF_FAULTS = frozenset({"starts-with-no", "told", "blames", "fault", "excess", "undoes", "refused"})
_NAME = lazy_pattern(
    rf"\[?\b(?:(?:{'|'.join(SECTIONS)})-\d+|lesson [0-9a-f]{{8}})\b(?: "
    r"wrong\b[^\]\n]*)?\]?"
)
_ASKS = lazy_pattern(r"[?？]\W*\Z")
#: The end of an offer, which the next message may answer like a question.
_OFFERS = lazy_pattern(
    r"\b(?:if you(?:'d| would)? (?:like|prefer|want|wish)|let me know|say the word"
    r"|(?:shall|should) I|want me to)\b[^.!?\n]*\W*\Z",
    re.IGNORECASE,
)
_FIRST = lazy_pattern(r"[.!?]\s")
#: In words: a longer message with an aim is a new task, not a correction.
_MOST_WORDS_OF_AIM = 15


@dataclass(slots=True)
class Outcome:
    """The facts of one window; docs/value.md defines each of them."""

    began: str | None = None
    ended: str | None = None
    turns: int = 0
    words: int = 0
    unread: int = 0
    corrections: int = 0
    refusals: int = 0
    interruptions: int = 0
    approvals: int = 0
    reverts: int = 0
    tests: str | None = None
    build: str | None = None
    files: int = 0
    tokens: int = 0
    last: LastMessage = "none"


def read_outcome(messages: Iterable[Message], *, answered: bool = False) -> Outcome:
    """Return the outcome of these records of a session. `answered` is whether the agent spoke in
    earlier records.
    """
    reading = _Reading(answered)
    for message in messages:
        reading.take(message)
    reading.facts.files = len(reading.files)
    return reading.facts


class _Reading:
    """An outcome while the records of its session are read."""

    def __init__(self, answered: bool) -> None:
        self.facts = Outcome()
        self.files: set[str] = set()
        self._answered = answered
        self._asks = False
        self._refused = False
        self._calls: dict[str, Step] = {}

    def take(self, message: Message) -> None:
        """Add a message to the outcome. Messages of subagents add only their time and tokens."""
        facts = self.facts
        if message.timestamp:
            facts.began = min(facts.began or message.timestamp, message.timestamp)
            facts.ended = max(facts.ended or message.timestamp, message.timestamp)
        facts.tokens += message.tokens
        if message.chain:
            return
        if message.origin == "model":
            self._take_model(message)
        elif message.origin in ("human", "refusal"):
            self._take_person(message)
        if message.origin != "refusal":
            for result in message.results:
                self._take_result(result)

    def _take_model(self, message: Message) -> None:
        self._answered = True
        self._refused = False
        if words := _NAME.sub("", message.text).strip():
            self._asks = is_open(words)
        for call in message.calls:
            step = read_call(call)
            self.facts.reverts += step.kind == "revert"
            if step.kind == "change":
                self.files.update(step.files)
            if step.kind in ("test", "build"):
                self._calls[call.id] = step

    def _take_result(self, result: ToolResult) -> None:
        step = self._calls.pop(result.call_id, None)
        if step is None:
            return
        ending = read_result(step, result.text, result.is_error).ending
        if ending in ("passes", "fails"):
            setattr(self.facts, "tests" if step.kind == "test" else "build", ending)

    def _take_person(self, message: Message) -> None:
        """Count a message of the user, or a refused call with its reason. Words before the agent's
        first answer are the task, so they are not read.
        """
        facts = self.facts
        refuses = message.origin == "refusal"
        text = _NAME.sub(" ", message.text)
        facts.turns += not refuses
        if refuses:
            is_call = any(result.is_error for result in message.results)
            facts.refusals += is_call
            facts.interruptions += not is_call and not self._refused
            self._refused = is_call
            facts.last = "interrupts"
        if not self._answered or not text.strip():
            return
        remark = read_remark(text, refuses=refuses, answers=self._asks)
        is_correction = corrects(remark, answers=self._asks)
        self._asks = False
        is_unread = remark.kind == "unread" and not is_correction
        facts.words += not is_unread
        facts.unread += is_unread
        facts.approvals += remark.kind == "approves"
        if is_correction:
            facts.corrections += 1
            facts.last = "objects"
        else:
            facts.last = remark.kind if remark.kind in ("approves", "unread") else "other"


def is_open(words: str) -> bool:
    """Return whether the agent's words end with a question or an offer."""
    plain = words.replace("’", "'")
    return _ASKS.search(plain) is not None or _OFFERS.search(plain) is not None


def corrects(remark: Remark, *, answers: bool = False) -> bool:
    """Return whether a message corrects earlier work. `answers` is whether the agent had asked
    something. A message in an unknown language corrects if it has a wording of a correction.
    """
    plain = with_apostrophes(remark.quote)
    if remark.kind == "approves":
        restriction = plain.partition(" but ")[2]
        return restriction != "" and corrects(read_remark(restriction), answers=answers)
    if expression("new-topic").match(plain) or _praises(remark, plain):
        return False
    signs = _CORRECTS.intersection(remark.signs)
    if signs <= {"starts-with-no"} and expression("content-no").search(plain):
        return False
    if signs and remark.kind == "objects":
        return True
    if answers:
        return False
    if expression("asks-back").match(plain):
        return True
    if _ASKS.search(plain):
        return False
    if first(wordings("correction"), plain) is not None:
        return True
    return remark.kind != "unread" and _asks_otherwise(plain)


def _praises(remark: Remark, plain: str) -> bool:
    """Return whether a message says that what was done is right, and reports no fault."""
    is_praise = expression("praises-deed").search(plain) is not None
    return is_praise and _OF_FAULTS.isdisjoint(remark.signs) and "?" not in plain


def _asks_otherwise(remark: str) -> bool:
    """Return whether a short message with an aim is about earlier work, not about a new task."""
    is_task = expression("begins-task").match(remark) is not None
    is_short = len(remark.split()) <= _MOST_WORDS_OF_AIM
    first_sentence = _FIRST.split(remark, 1)[0]
    contrasts = expression("contrasts").search(first_sentence) is not None
    return is_short and not is_task and (contrasts or bool(aims_of(first_sentence)))


def outcome_event(window: NewEvent | Event, root: str | None, outcome: Outcome) -> NewEvent:
    """Return the event of a recorded window's outcome.

    root  the session in which its conversation began; None if it is not known
    """
    first = time_of(outcome.began)
    last = time_of(outcome.ended)
    seconds = max(0, int((last - first).total_seconds())) if first and last else 0
    data = {"root": root, **asdict(outcome), "seconds": seconds, "rules": RULES}
    about = (window.actor, window.occurred_at, window.session_id)
    event_id = identity(SESSION_OUTCOME, window.event_id)
    return NewEvent(SESSION_OUTCOME, event_id, data, *about, target_id=window.event_id)


def joined_facts(windows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts of a whole session, from the data of its windows' outcomes.

    Numbers are added. Of any other fact, the last value counts, so the windows must be in the order
    of time.
    """
    facts: dict[str, Any] = {}
    for window in windows:
        for name, value in window.items():
            is_silent = name == "last" and value == "none"
            if value is None or is_silent:
                continue
            earlier = facts.get(name)
            if earlier is None:
                facts[name] = value
            elif name in _JOIN:
                facts[name] = _JOIN[name](earlier, value)
            else:
                facts[name] = earlier + value if type(value) is int else value
    return facts
