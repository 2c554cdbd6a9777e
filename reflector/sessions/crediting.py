"""Outcomes of lessons from a session's own tests, recorded when its window is finished.

Invariant: nothing is recorded if the connection is uncertain. Within one turn, the agent must cite
the lesson as `[lesson 8caa5bfa]`, change something, and run a test command again with another
result than before. The turn must end, and no other test command of the turn may show the opposite.
docs/learning.md explains the rule. An outcome's id is derived from the lesson and the record of the
run, so a window that is read again, or a fork, adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from reflector.embed.lessons.recording import observe_outcome
from reflector.events import event as ev
from reflector.events.event import Event
from reflector.judges.reading.steps import CHECKS, Step, read_call, read_result
from reflector.judges.reading.wordings import first, wordings
from reflector.judges.rules.citation import declines
from reflector.ledger.store import Ledger
from reflector.reflection.window import Session, SessionText
from reflector.sessions.intake import iso_time
from reflector.text.lazy import lazy_pattern
from reflector.text.secrets import quote
from reflector.transcripts.citations import cited_names
from reflector.transcripts.message import Message, ToolCall, ToolResult
from reflector.transcripts.reading import UnknownTranscript

CITED_LESSON = lazy_pattern(r"\[(lesson [0-9a-f]{8})\]")
#: `Step.command` is cut at this length: two longer commands may differ after it.
_MAX_COMMAND_CHARACTERS = 160
_PARTS = lazy_pattern(r"&&|\|\||;")
_MAX_REASON_CHARACTERS = 400


class Run(NamedTuple):
    """The end of a test command. `key` is the key of the transcript's record, `quote` the decisive
    line as printed.
    """

    key: int
    timestamp: str
    command: str
    passed: bool
    quote: str


@dataclass(slots=True)
class _Conversation:
    """One conversation while it is read.

    ended    whether each test command passed when it last ended before the current turn
    steps    the turn's steps: the name of a cited lesson, the run of a test, None for a change
    calls    the tests whose results are not read yet
    over     the agent's last message has no call, so the turn is over
    excused  the agent wrote since the newest test that a failure was expected
    """

    ended: dict[str, bool] = field(default_factory=dict)
    steps: list[str | Run | None] = field(default_factory=list)
    calls: dict[str, Step] = field(default_factory=dict)
    over: bool = False
    excused: bool = False

    def model(self, message: Message) -> None:
        """Add a message of the agent to the turn: cited lessons, changes, and tests that begin."""
        words = message.text.strip()
        self.over = bool(words) and not message.calls
        self.excused = self.excused or _is_expected(words)
        for name in cited_names(message.text, CITED_LESSON):
            if name not in self.steps and not declines(name, words):
                self.steps.append(name)
        for call in message.calls:
            step = read_call(call)
            if step.kind == "test" and _tests_only(step.command):
                self.calls[call.id] = step
            elif step.kind in ("change", "revert"):
                self.steps.append(None)

    def result(self, message: Message, result: ToolResult) -> None:
        step = self.calls.pop(result.call_id, None)
        if step is None:
            return
        outcome = read_result(step, result.text, result.is_error)
        if outcome.ending in ("passes", "fails"):
            command = step.command.split("|")[0].replace("2>&1", " ").strip()
            passed = outcome.ending == "passes"
            self.steps.append(Run(message.key, message.timestamp, command, passed, outcome.quote))
            self.excused = False

    def end_turn(self) -> Iterator[tuple[str, Run]]:
        """Yield (lesson, run) for each lesson that the turn's tests support or contradict, and
        begin the next turn.
        """
        for place, step in enumerate(self.steps):
            if isinstance(step, Run):
                self.ended[step.command] = step.passed
            elif step is not None and self.over:
                run = _turned(dict(self.ended), self.steps[place + 1 :])
                if run is not None and (run.passed or not self.excused):
                    yield step.removeprefix("lesson "), run
        self.steps.clear()
        self.calls.clear()
        self.over = self.excused = False


def _turned(ended: dict[str, bool], steps: Iterable[str | Run | None]) -> Run | None:
    """Return the newest run that ends differently than before a change. A failure counts only as
    the last step, because an agent that continues after it may have repaired it.

    None if no run ends differently, or if another command ends in the opposite way. `ended` has the
    end of each command before these steps.
    """
    before: set[tuple[str, bool]] = set()
    last: dict[str, Run] = {}
    is_changed = False
    for step in steps:
        if isinstance(step, Run):
            last.pop(step.command, None)  # so that the newest run comes last
            last[step.command] = step
            ended[step.command] = step.passed
            is_changed = False
        elif step is None:
            before.update(ended.items())
            is_changed = True
    runs = list(last.values())
    turned = [run for run in runs if (run.command, not run.passed) in before]
    if not turned:
        return None
    if all(run.passed for run in runs):
        return turned[-1]
    is_last_word = turned[-1] is runs[-1] and not is_changed
    return turned[-1] if is_last_word and not any(run.passed for run in turned) else None


def tested_lessons(messages: Iterable[Message]) -> Iterator[tuple[str, Run]]:
    """Yield (first eight digits of a lesson's id, test run for or against the lesson), in order."""
    conversations: dict[str, _Conversation] = {}
    for message in messages:
        conversation = conversations.setdefault(message.chain, _Conversation())
        if message.origin == "model":
            conversation.model(message)
            continue
        if message.origin == "refusal":
            conversation.over = False  # interrupted: the agent did not end the turn itself
        for result in message.results:
            conversation.result(message, result)
        if message.origin == "human":
            yield from conversation.end_turn()
    for conversation in conversations.values():
        yield from conversation.end_turn()


def record_test_outcomes(ledger: Ledger, window_ids: Iterable[str]) -> None:
    """Record the outcomes of the ledger's lessons by the tests of these windows' sessions, once. A
    transcript that cannot be read is skipped, because its reflection reports the reason.

    Raises: LedgerError.
    """
    lessons: dict[str, list[str]] = {}
    for event in ledger.events(types=(ev.LESSON_RECORDED,)):
        lessons.setdefault(event.event_id[:8], []).append(event.event_id)
    for window_id in window_ids if lessons else ():
        recorded = ledger.event(window_id)
        if recorded is None or recorded.type != ev.SESSION_RECORDED or recorded.data is None:
            continue
        try:
            # The end of an earlier test matters for a lesson that is cited much later.
            earlier = Session.read(ledger, recorded).earlier
            text = SessionText(recorded, [(event, frozenset[str]()) for event in earlier])
            tested = list(tested_lessons(text.messages(())))
        except (OSError, UnknownTranscript):
            continue
        for name, run in tested:
            ids = lessons.get(name, ())
            if len(ids) == 1:
                _record_outcome(ledger, ids[0], run, recorded)


def _record_outcome(ledger: Ledger, lesson_id: str, run: Run, recorded: Event) -> None:
    change = "passes after it had failed" if run.passed else "fails after it had passed"
    observe_outcome(
        ledger,
        lesson_id,
        "success" if run.passed else "failure",
        quote(f"`{run.command}` {change}: {run.quote}", _MAX_REASON_CHARACTERS),
        source="tests",
        key=[run.key],
        session_id=recorded.session_id,
        window_id=recorded.event_id,
        observed_at=iso_time(run.timestamp),
    )


def _tests_only(command: str) -> bool:
    """Return whether a command is completely understood and runs only tests. The result of another
    check could be mistaken for theirs.
    """
    if len(command) >= _MAX_COMMAND_CHARACTERS:
        return False
    parts = (ToolCall("", "Bash", {"command": part}) for part in _PARTS.split(command))
    kinds = {read_call(part).kind for part in parts}
    return kinds.isdisjoint(CHECKS - {"test"})


def _is_expected(words: str) -> bool:
    """Return whether the agent writes that a failure was expected or has another cause."""
    rows = [row for row in wordings("agent") if row.says == "expected"]
    return bool(words) and first(rows, " ".join(words[:600].split())) is not None
