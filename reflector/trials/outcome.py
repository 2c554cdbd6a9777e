"""What came of a session, read from its records: the same with and without a playbook.

Invariant: no citation and no name of a bullet bears on it, for they stand in the transcripts of one
arm alone, and nothing that the agent says does. A session of which nobody says a word has an
outcome as well. What one window says is in its event; `joined` is what a session's windows say
together, and docs/value.md defines each of the facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from reflector.events.event import SESSION_OUTCOME, Event, NewEvent, identity, time_of
from reflector.judges.reading.people import read_remark
from reflector.judges.reading.steps import Step, read_call, read_result
from reflector.playbook.names import SECTIONS
from reflector.transcripts.message import Message, ToolResult

Word = Literal["none", "approves", "objects", "interrupts", "other", "unread"]

#: The definition in docs/value.md; the number changes whenever an outcome does.
RULES: Final = "outcome/1"
#: What a trial may ask of a session, and when that is so.
OUTCOMES: Final[Mapping[str, Callable[[Mapping[str, Any]], bool]]] = {
    "correction-free": lambda facts: not facts.get("corrections"),
    "tests-green": lambda facts: facts.get("tests") != "fails",
    "kept": lambda facts: not facts.get("reverts"),
}
#: Signs of an objection without which a message only says what not to do next.
_CORRECTS: Final = frozenset(
    {"starts-with-no", "told", "omits", "blames", "fault", "excess", "undoes", "refused"}
)
_NAME: Final = re.compile(
    rf"\[?\b(?:(?:{'|'.join(SECTIONS)})-\d+|lesson [0-9a-f]{{8}})\b(?: "
    r"wrong\b[^\]\n]*)?\]?"
)
_ASKS: Final = re.compile(r"\?\W*\Z")


@dataclass(slots=True)
class Outcome:
    """The facts of one window; docs/value.md says what each is."""

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
    last: Word = "none"


def read_outcome(messages: Iterable[Message], *, answered: bool = False) -> Outcome:
    """Return what came of these records of a session; `answered` where the agent spoke in
    earlier ones.
    """
    reading = _Reading(answered)
    for message in messages:
        reading.take(message)
    reading.found.files = len(reading.files)
    return reading.found


class _Reading:
    def __init__(self, answered: bool) -> None:
        self.found = Outcome()
        self.files: set[str] = set()
        self._answered, self._asks, self._refused = answered, False, False
        self._calls: dict[str, Step] = {}

    def take(self, message: Message) -> None:
        found = self.found
        if message.timestamp:
            found.began = min(found.began or message.timestamp, message.timestamp)
            found.ended = max(found.ended or message.timestamp, message.timestamp)
        found.tokens += message.tokens
        if message.chain:
            return
        if message.origin == "model":
            self._model(message)
        elif message.origin in ("human", "refusal"):
            self._person(message)
        for result in message.results if message.origin != "refusal" else ():
            self._result(result)

    def _model(self, message: Message) -> None:
        self._answered, self._refused = True, False
        if said := _NAME.sub("", message.text).strip():
            self._asks = _ASKS.search(said) is not None
        for call in message.calls:
            step = read_call(call)
            self.found.reverts += step.kind == "revert"
            if step.kind == "change":
                self.files.update(step.files)
            if step.kind in ("test", "build"):
                self._calls[call.id] = step

    def _result(self, result: ToolResult) -> None:
        step = self._calls.pop(result.call_id, None)
        ending = read_result(step, result.text, result.is_error).ending if step else ""
        if step is not None and ending in ("passes", "fails"):
            setattr(self.found, "tests" if step.kind == "test" else "build", ending)

    def _person(self, message: Message) -> None:
        found, refuses = self.found, message.origin == "refusal"
        text = _NAME.sub(" ", message.text)
        found.turns += not refuses
        if refuses:
            is_call = any(result.is_error for result in message.results)
            found.refusals += is_call
            found.interruptions += not is_call and not self._refused
            self._refused = is_call
            found.last = "interrupts"
        if not self._answered or not text.strip():
            return
        remark = read_remark(text, refuses=refuses, answers=self._asks)
        self._asks = False
        found.words += remark.kind != "unread"
        found.unread += remark.kind == "unread"
        objects = remark.kind == "objects" and not _CORRECTS.isdisjoint(remark.signs)
        found.corrections += objects
        found.approvals += remark.kind == "approves"
        found.last = (
            "objects"
            if objects
            else remark.kind
            if remark.kind in ("approves", "unread")
            else "other"
        )


def outcome_event(window: NewEvent | Event, root: str | None, found: Outcome) -> NewEvent:
    """Return the event that says what came of a recorded window.

    root  the session in which its conversation began, None where that is not known
    """
    first, last = time_of(found.began), time_of(found.ended)
    seconds = max(0, int((last - first).total_seconds())) if first and last else 0
    data = {"root": root, **asdict(found), "seconds": seconds, "rules": RULES}
    event_id, at = identity(SESSION_OUTCOME, window.event_id), window.occurred_at
    return NewEvent(
        SESSION_OUTCOME,
        event_id,
        data,
        window.actor,
        at,
        window.session_id,
        target_id=window.event_id,
    )


def joined(windows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the windows of a session say together, from their events' data in order."""
    whole: dict[str, Any] = {}
    for data in windows:
        for key, value in data.items():
            known = whole.get(key)
            if key == "began":
                whole[key] = min(filter(None, (known, value)), default=None)
            elif key == "ended":
                whole[key] = max(filter(None, (known, value)), default=None)
            elif type(value) is int:
                whole[key] = (known or 0) + value
            elif value is not None and not (key == "last" and value == "none"):
                whole[key] = value
    return whole
