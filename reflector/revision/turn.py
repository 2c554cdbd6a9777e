"""One bounded revision of a turn: gate, reflection, one more answer, and what came of it (requirements D-07 and D-20).

Invariant: a turn is revised once at most, by the caller's own agent, and the first answer is never lost: a revision is
appended to it, and only if it is better. Whatever the agent does, the turn goes on. Each decision, reflection and
revision is an event; its id follows from the session, the turn and the answer, so the same turn given again asks
nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal

from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.lessons import MAX_LESSON
from reflector.ledger.errors import Conflict
from reflector.ledger.store import Ledger
from reflector.lessons.outcomes import score_improvement
from reflector.lessons.recording import record_lesson
from reflector.quality.signals import Decision, QualitySignals, Signs, has_any, quality_signals_for_response
from reflector.reflection.prompts import find_template
from reflector.revision.reflections import AgentReflection, ReflectionConfig, parse_reflection_response
from reflector.text.bounds import visible, whole_end
from reflector.text.secrets import quote, redact

#: The least improvement with which a revision is shown, behind the first answer.
MIN_REFLECTION_RETRY_DELTA: Final = 0.05
REVISED: Final = "Revised answer after reflection:"
_REVISED_BEFORE: Final = "the turn was revised before"

#: How an answer is revised: by writing it again, or by carrying the request out again with tools that only read.
Revision = Literal["text", "read_only"]
_HOW: Final[Mapping[Revision, str]] = {
    "text": "Write the answer again, following the strategy. You have no tools: claim nothing that you did not see.",
    "read_only": "Carry the request out again, following the strategy. Use tools that only read; change nothing.",
}
ToolResult = Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the agent, with what its tools did; a tool result as in `quality_signals_for_response`."""

    content: str
    tool_results: Sequence[Mapping[str, Any]] = ()
    iterations_used: int = 0
    max_iterations: int = 0
    was_truncated: bool = False

    def signals(self) -> QualitySignals:
        """Return its quality signals. Raises ValueError for a tool result without a status."""
        how = (self.tool_results, self.iterations_used, self.max_iterations, self.was_truncated)
        return quality_signals_for_response(self.content, *how)


#: The caller's agent: called with a prompt, to reflect, or to revise by text or with tools that only read.
Agent = Callable[[str, Literal["reflect"] | Revision], str | Answer]


@dataclass(frozen=True, slots=True)
class RevisedTurn:
    """What became of a turn.

    content      the answer to show: the first one, and the revised one behind it where that is better
    retried      the signals of the revised answer; None where there was none
    improvement  which share of the gap to a perfect score it closed
    failure      what the agent did wrong; "" for nothing
    """

    content: str
    signals: QualitySignals
    decision: Decision
    reflection: AgentReflection | None = None
    lesson_id: str | None = None
    retried: QualitySignals | None = None
    improvement: float | None = None
    improved: bool = False
    failure: str = ""


def revise_turn(
    request: str,
    answer: Answer,
    agent: Agent,
    *,
    session_id: str,
    turn: int = 0,
    config: ReflectionConfig | None = None,
    has_tools: bool = False,
    ledger: Ledger | None = None,
    task: str = "",
) -> RevisedTurn:
    """Reflect on a turn where its quality asks for it, revise it once, and record what came of it.

    Without a `ledger` nothing is kept. `has_tools` says that the agent can carry the request out again
    with tools that only read. Raises ValueError for a tool result without a status, TemplateError and LedgerError.
    """
    with Ledger.open("sqlite://") if ledger is None else nullcontext(ledger) as journal:
        steps = _Steps(request, answer, agent, session_id, turn, config or ReflectionConfig(), journal, task)
        return _revised(steps, has_tools=has_tools)


def _revised(steps: _Steps, *, has_tools: bool) -> RevisedTurn:
    answer = steps.answer
    signals = answer.signals()
    decision = steps.decide(signals)
    result = RevisedTurn(answer.content, signals, decision)
    if not decision.reflects:
        return result
    lesson, failure = steps.reflect(signals)
    if lesson is None:
        return replace(result, failure=failure)
    reflection = _reflection_of(lesson, steps.session_id)
    result = replace(result, reflection=reflection, lesson_id=lesson.event_id)
    if steps.config.max_retry_attempts == 0:
        return result
    if steps.journal.event(identity(ev.REVISION_ATTEMPTED, lesson.event_id)) is not None:
        return replace(result, failure=_REVISED_BEFORE)
    mode: Revision = "read_only" if has_tools and asks_for_tools(reflection, answer) else "text"
    try:
        about = {"user_request": steps.request, "response": answer.content, "how": _HOW[mode]}
        given = steps.agent(
            find_template("revision.txt").fill({**about, "reflection": reflection.to_prompt_section()}), mode
        )
        revised = given if isinstance(given, Answer) else Answer(given)
        if mode == "text":  # other words undo no failed call
            revised = replace(answer, content=revised.content, was_truncated=revised.was_truncated)
        retried = revised.signals()
    except Exception as error:  # noqa: BLE001  a revision is an extra: the turn has its answer
        return replace(result, failure=_words(error))
    return steps.score(replace(result, retried=retried), retried, revised.content, lesson, mode)


def build_reflection_prompt(
    user_request: str, response: str, signals: QualitySignals, tool_errors: Iterable[ToolResult] = ()
) -> str:
    """Return the prompt that asks for attempt, issue, strategy and tags of a turn.

    `tool_errors` are texts, or tool results, whose errors are listed as `name: error`. The text is the embedder's, for
    the embedder's own model: it is not redacted. Raises TemplateError.
    """
    errors = [
        error if isinstance(error, str) else f"{error.get('name')}: {error.get('error')}"
        for error in tool_errors
        if isinstance(error, str) or error.get("status", "error") == "error"
    ]
    return find_template("turn.txt").fill(
        {
            "user_request": user_request,
            "score": f"{signals.score():.2f}",
            "response": response,
            "tool_errors": f"\nTool errors encountered:\n{listed(errors)}\n" if errors else "",
        }
    )


def listed(texts: Iterable[str]) -> str:
    """Return the texts as a list of a prompt."""
    return "\n".join(f"- {text}" for text in texts) or "none"


def asks_for_tools(reflection: AgentReflection, answer: Answer) -> bool:
    """Return whether the agent should look again: the reflection says so, or its tools failed or were not called."""
    said = f"{reflection.corrective_strategy} {reflection.failure_analysis}"
    failed = any(result["status"] != "success" for result in answer.tool_results)
    return failed or not answer.tool_results or has_any(said, "looking")


@dataclass(slots=True)
class _Steps:
    """The steps of one turn, each an event."""

    request: str
    answer: Answer
    agent: Agent
    session_id: str
    turn: int
    config: ReflectionConfig
    journal: Ledger
    task: str
    key: tuple[str | int, ...] = field(init=False)

    def __post_init__(self) -> None:
        said = f"{self.request}\0{self.answer.content}".encode("utf-8", "surrogatepass")
        self.key = (self.session_id, self.turn, sha256(said).hexdigest()[:32])

    def decide(self, signals: QualitySignals) -> Decision:
        policy = self.config.gate
        signs = Signs.of(signals, sum(result["status"] == "error" for result in self.answer.tool_results))
        decision = policy.decide(signs)
        about = {"signals": signs.facts, "task": quote(self.task, 200), "turn": self.turn}
        data = {"policy": policy.id, **decision.facts, **about}
        event_id = identity(ev.GATE_DECIDED, "turn", *self.key, policy.id, str(signs.facts), self.task)
        self.journal.append([NewEvent(ev.GATE_DECIDED, event_id, data, "agent", session_id=self.session_id)])
        return decision

    def reflect(self, signals: QualitySignals) -> tuple[Event | None, str]:
        """Return the turn's lesson, asked for where the journal has none, and why there is none."""
        lesson_id = identity(ev.LESSON_RECORDED, "reflection", *self.key)
        if (known := self.journal.event(lesson_id)) is not None:
            return (known, "") if known.data is not None else (None, "the reflection was redacted")
        prompt = build_reflection_prompt(self.request, self.answer.content, signals, self.answer.tool_results)
        try:
            given = self.agent(prompt, "reflect")
            found = parse_reflection_response(given if isinstance(given, str) else given.content, self.session_id)
        except Exception as error:  # noqa: BLE001  as above
            return None, _words(error)
        if found is None:
            return None, "the reflection has no attempt, issue and strategy"
        said = {"attempt": kept(found.attempt_summary), "issue": kept(found.failure_analysis)}
        more: dict[str, Any] = {**said, "tags": [quote(tag, 100) for tag in found.tags[:100]]}
        more |= {"key": ("reflection", *self.key), "session_id": self.session_id, "task": quote(self.task, 200)}
        # Where another process reflected on the same turn, its reflection stands.
        record_lesson(self.journal, "reflection", kept(found.corrective_strategy), actor="agent", **more)
        return self.journal.event(lesson_id), ""

    def score(
        self, result: RevisedTurn, retried: QualitySignals, revised: str, lesson: Event, mode: Revision
    ) -> RevisedTurn:
        """Return the turn with its revision, which is recorded with its outcome in one transaction."""
        before, after = result.signals.score(), retried.score()
        improvement = score_improvement(before, after)
        improved = not retried.is_empty_response and improvement >= MIN_REFLECTION_RETRY_DELTA
        scores = {"initial": before, "retried": after, "improved": improved}
        data = {**scores, "mode": mode, "reason": result.decision.reason}
        kind = "retry_improved" if improved else "retry_did_not_improve"
        about: dict[str, Any] = {"actor": "agent", "session_id": self.session_id, "target_id": lesson.event_id}
        outcome = {"kind": kind, "source": "retry", "why": f"from {before:.2f} to {after:.2f}"}
        events = [
            NewEvent(ev.REVISION_ATTEMPTED, identity(ev.REVISION_ATTEMPTED, lesson.event_id), data, **about),
            NewEvent(ev.OUTCOME_OBSERVED, identity(ev.OUTCOME_OBSERVED, lesson.event_id, "retry"), outcome, **about),
        ]
        try:
            self.journal.append(events)
        except Conflict:  # another process revised it meanwhile
            return replace(result, retried=None, failure=_REVISED_BEFORE)
        content = f"{result.content}\n\n{REVISED}\n\n{revised}".lstrip() if improved else result.content
        return replace(result, content=content, improvement=improvement, improved=improved)


def _reflection_of(lesson: Event, session_id: str) -> AgentReflection:
    data = lesson.data or {}
    texts = (data["attempt"], data["issue"], data["text"])
    return AgentReflection(
        lesson.event_id, *texts, tags=list(data["tags"]), session_id=session_id, timestamp=lesson.occurred_at
    )


def kept(text: str, most: int = MAX_LESSON) -> str:
    """Return what is kept of a text: no secrets, no invisible characters, at most so many characters.

    Of a text much longer than that, only the beginning is looked at.
    """
    return redact(visible(text[: whole_end(text, 2 * most)]))[:most]


def _words(error: Exception) -> str:
    return quote(f"{type(error).__name__}: {error}", 300)
