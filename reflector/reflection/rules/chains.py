"""State of one conversation while it is read: the main one, or one sidechain.

Invariant: a chain holds its open citations and what is needed to read the next message, all of it
bounded; a call is forgotten when its result was read.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from reflector.reflection.rules.episode import Episode, Finding
from reflector.reflection.rules.outcomes import Outcome, read_result
from reflector.reflection.rules.steps import Step, read_call
from reflector.reflection.rules.topics import content_words
from reflector.reflection.rules.user_reaction import Stance
from reflector.transcripts.message import ToolCall, ToolResult

_KEPT = 128
_T = TypeVar("_T")


@dataclass(slots=True)
class Chain:
    """Fields that explain themselves less:

    turn         messages of people so far
    steps        calls that wait for their result, by id; read only while a citation is open
    tasks        background tasks by id, as the step and the id of the call that started them
    before       the last results before the first citation: their errors may come again, or be gone
    errors       signatures of the last errors
    failing      the last commands that failed, without what they are piped into
    uncommented  results the agent has not spoken about yet
    quiet        steps that ended without a word on how: the agent's comment decides
    slips        mechanics that speak about the advice, by family, until the next try works
    pending      a person's message, until the agent's first words show how it was meant
    asked        the agent's last words were a question
    answered     a result came after the last call
    """

    turn: int = 0
    at: int = 0
    steps: OrderedDict[str, Step | ToolCall] = field(default_factory=OrderedDict)
    tasks: OrderedDict[str, tuple[Step, str]] = field(default_factory=OrderedDict)
    episodes: list[Episode] = field(default_factory=list)
    before: deque[tuple[ToolCall, ToolResult]] = field(default_factory=lambda: deque(maxlen=8))
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=16))
    failing: deque[str] = field(default_factory=lambda: deque(maxlen=16))
    uncommented: list[Finding] = field(default_factory=list)
    quiet: list[tuple[Step, str]] = field(default_factory=list)
    slips: dict[str, Finding] = field(default_factory=dict)
    pending: Stance | None = None
    asked: bool = False
    answered: bool = False

    @property
    def listening(self) -> Iterable[Episode]:
        """The citations whose topic is still open."""
        return (episode for episode in self.episodes if not episode.watching)

    def read_what_was_before(self) -> None:
        """Reads the results that stood before the first citation, for their errors only."""
        for call, result in self.before:
            step = read_call(call)
            self.remember_failure(step, read_result(step, result))
        self.before.clear()

    def remember_failure(self, step: Step, outcome: Outcome) -> None:
        """Keeps the error and the command of a failure; a success of the command forgets it."""
        command = plain_command(step.command)
        if outcome.ending == "fails":
            if outcome.signature:
                self.errors.append(outcome.signature)
            if step.kind in ("run", "ship", "install") and outcome.strength >= 2 and command not in self.failing:
                self.failing.append(command)
        elif outcome.ending == "passes" and command in self.failing:
            self.failing.remove(command)

    def give(self, finding: Finding, call_id: str) -> None:
        """Hands a result to all citations; after its topic one hears of red CI only, and not for long."""
        words = content_words(f"{finding.quote} {finding.signature}")
        for episode in self.episodes:
            if episode.watching:
                late = finding.kind == "ci" and finding.sign < 0 and self.turn - episode.turn <= 3
                if late and episode.changed_after:
                    episode.add(finding)
                continue
            own = call_id in episode.own_calls
            told = finding
            if finding.rule == "ran" and plain_command(finding.command) in episode.failed_before:
                told = replace(finding, strength=2, rule="runs-now")
            episode.add(told, own=own, bearing="yes" if own or episode.overlap(words) else "no")


def plain_command(command: str) -> str:
    """Return a command without what its output is piped into, so that a retry without `| tail` is the same."""
    return command.split("|")[0].replace("2>&1", " ").strip()


def remember(kept: OrderedDict[str, _T], key: str, value: _T) -> None:
    """Keeps the newest 128."""
    kept[key] = value
    if len(kept) > _KEPT:
        kept.popitem(last=False)
