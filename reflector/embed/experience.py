"""Learning from experience: one bounded revision of a turn, with the names of part D that other
packages define. Programs import it as `reflector.experience`.

A turn passes a gate, is reflected on, gets one more answer, and the result is recorded
(requirements D-07, D-20).

Invariant: a turn is revised at most once, by the caller's own agent. The first answer is never
lost: a better revision is appended to it, and any other is dropped. If the agent fails, the turn
continues. Each decision, reflection and revision is an event whose id is derived from the session,
the turn and the answer, so the same turn given again asks no model. A reflection has an attempt, an
issue and a strategy, or is refused. A response is read in linear time, up to
`_MAX_RESPONSE_CHARACTERS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from reflector.embed.lessons.book import (
    Lesson,
    LessonBook,
    OutcomeSignal,
    label_of,
    merge_outcome_signals,
    promotion_confidence,
    score_improvement,
)
from reflector.embed.lessons.recording import record_lesson, stored_text
from reflector.events.event import (
    GATE_DECIDED,
    LESSON_RECORDED,
    OUTCOME_OBSERVED,
    REVISION_ATTEMPTED,
    NewEvent,
    identity,
    written,
)
from reflector.judges.prompts import find_template, listed
from reflector.ledger.errors import Conflict
from reflector.ledger.store import Ledger
from reflector.mistakes import check_share, check_whole
from reflector.quality.signals import (
    Decision,
    GatePolicy,
    QualitySignals,
    Signs,
    has_any,
    quality_signals_for_response,
)
from reflector.text.secrets import quote

_PREVIEW_CHARACTERS = 300
_MAX_RESPONSE_CHARACTERS = 200_000
_MAX_TAGS = 100

#: The labels that a response may have for a part, in their normal form.
_LABELS_OF = {
    "attempt": "attempt attempt_summary summary what_was_attempted",
    "issue": "issue failure failure_analysis problem analysis what_went_wrong",
    "strategy": "strategy corrective_strategy correction fix improvement_strategy next_time",
    "tags": "tags labels",
}
_PART_OF = {label: part for part, labels in _LABELS_OF.items() for label in labels.split()}
#: The keys of the one-line JSON that some models write instead, by part.
_KEYS_OF = {
    "attempt": ("attempt_summary", "attempt"),
    "issue": ("failure_analysis", "issue"),
    "strategy": ("corrective_strategy", "strategy"),
}
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_PREFIX = re.compile(r"\s*+(?:(?:>|[-*•]\s|\d{1,9}[.)]\s)\s*+)*+")
#: A line that is empty, or only the frame of a JSON object or list.
_FRAME = re.compile(r"[\s{}\[\],]*+")
_LABEL_ENDS = "*_`[]()# \t"
_VALUE_ENDS = "*_`\"' \t"


class _Parts(NamedTuple):
    """The parts of a response."""

    attempt: str
    issue: str
    strategy: str
    tags: list[str]

    @property
    def is_complete(self) -> bool:
        return bool(self.attempt and self.issue and self.strategy)


@dataclass(frozen=True, slots=True)
class ReflectionConfig:
    """The settings of reflections on an embedder's turns.

    enabled                   whether the gate can open at all
    quality_threshold         the gate opens for an answer whose score is below it
    max_injected_reflections  how many earlier reflections `past_reflections` gives the agent; 0 for
                              none
    max_retry_attempts        0 for no revision; any other number allows one revision of each turn
    promotion_confidence      the confidence from which a reflection of these turns is due for
                              promotion
    """

    enabled: bool = True
    quality_threshold: float = 0.6
    max_injected_reflections: int = 3
    max_retry_attempts: int = 1
    promotion_confidence: float = 0.75

    def __post_init__(self) -> None:
        for name in ("quality_threshold", "promotion_confidence"):
            check_share(name, getattr(self, name))
        for name in ("max_injected_reflections", "max_retry_attempts"):
            check_whole(name, getattr(self, name))

    @property
    def gate(self) -> GatePolicy:
        policy = GatePolicy(threshold=self.quality_threshold)
        return policy if self.enabled else replace(policy, triggers=())


@dataclass(slots=True)
class AgentReflection:
    """A reflection.

    improvement_score  improvement by its retry, from 0 to 1; None without a retry
    timestamp          ISO 8601 in UTC
    """

    reflection_id: str
    attempt_summary: str
    failure_analysis: str
    corrective_strategy: str
    improvement_score: float | None = None
    tags: list[str] = field(default_factory=list)
    outcome_signals: list[OutcomeSignal] = field(default_factory=list)
    session_id: str = ""
    task_id: str | None = None
    timestamp: str = field(default_factory=lambda: written(datetime.now(UTC)))

    @classmethod
    def new(
        cls, session_id: str, attempt_summary: str, failure_analysis: str, corrective_strategy: str
    ) -> AgentReflection:
        """Return a reflection of a session. Its id follows from the session and the texts."""
        session = re.sub("[^0-9A-Za-z]", "", session_id)[:12]
        texts = (attempt_summary, failure_analysis, corrective_strategy)
        digest = _digest(session_id, *texts)[:12]
        reflection_id = "-".join(filter(None, ("reflection", session, digest)))
        return cls(reflection_id, *texts, session_id=session_id)

    def with_tags(self, tags: Iterable[str]) -> AgentReflection:
        """Return a copy with these tags, without duplicates."""
        return replace(self, tags=list(dict.fromkeys(tags)))

    def with_task(self, task_id: str | None) -> AgentReflection:
        """Return a copy that belongs to this task."""
        return replace(self, task_id=task_id)

    def with_outcome_signals(self, signals: Iterable[OutcomeSignal]) -> AgentReflection:
        """Return a copy with these outcomes, at most one of each kind."""
        return replace(self, outcome_signals=list(merge_outcome_signals((), signals)))

    def push_outcome_signal(self, signal: OutcomeSignal) -> None:
        """Add an outcome; it replaces an earlier one of its kind."""
        self.outcome_signals = list(merge_outcome_signals(self.outcome_signals, [signal]))

    def promotion_confidence(self) -> float:
        """Return the confidence in the reflection, from 0.30 to 0.97. Only the last outcome of each
        kind counts.
        """
        return promotion_confidence(
            self.improvement_score, merge_outcome_signals((), self.outcome_signals)
        )

    def to_prompt_section(self) -> str:
        """Return the reflection as an agent reads it."""
        time = datetime.fromisoformat(self.timestamp).astimezone(UTC)
        lines = [
            f"**Reflection** ({time:%Y-%m-%d %H:%M} UTC)",
            f"- Attempted: {self.attempt_summary}",
            f"- Issue: {self.failure_analysis}",
            f"- Strategy: {self.corrective_strategy}",
        ]
        if self.improvement_score is not None:
            lines.append(f"- Observed improvement after retry: {self.improvement_score * 100:.0f}%")
        if self.outcome_signals:
            labels = (label_of(signal.kind) for signal in self.outcome_signals)
            lines.append(f"- Outcomes: {', '.join(labels)}")
        return "\n".join(lines)


def parse_reflection_response(response: str, session_id: str) -> AgentReflection | None:
    """Return the reflection that a model wrote; None for a response without an attempt, an issue
    or a strategy.
    """
    text = _THINKING.sub("", response[:_MAX_RESPONSE_CHARACTERS])
    lines = [line for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.lstrip().startswith("```")]
    parts = _parts_by_labels(lines)
    if not parts.is_complete:
        parts = _parts_of_json("\n".join(lines))
    if not parts.is_complete:
        return None
    texts = (parts.attempt, parts.issue, parts.strategy)
    return AgentReflection.new(session_id, *texts).with_tags(filter(None, parts.tags))


def reflections_of(book: LessonBook) -> list[AgentReflection]:
    """Return the reflections that may be shown to an agent, the most trusted first."""
    return [_reflection_of(lesson) for lesson in book.best() if lesson.kind == "reflection"]


def _reflection_of(lesson: Lesson) -> AgentReflection:
    return AgentReflection(
        lesson.id,
        str(lesson.data.get("attempt", "")),
        str(lesson.data.get("issue", "")),
        lesson.text,
        improvement_score=lesson.improvement,
        tags=list(lesson.tags),
        outcome_signals=[
            OutcomeSignal(outcome.kind, outcome.observed_at, outcome.why)
            for outcome in lesson.signals
        ],
        session_id=lesson.session_id or "",
        task_id=lesson.task or None,
        timestamp=lesson.created_at,
    )


def past_reflections(reflections: Iterable[AgentReflection], most: int | ReflectionConfig) -> str:
    """Return the first reflections as an agent reads them before a turn, each cut to 300
    characters; "" for none.

    most  the maximum number, or the configuration with `max_injected_reflections`
    """
    limit = most.max_injected_reflections if isinstance(most, ReflectionConfig) else max(most, 0)
    sections = [reflection.to_prompt_section() for reflection in islice(reflections, limit)]
    return "\n\n".join(
        f"### Past Reflection\n{section[:_PREVIEW_CHARACTERS]}" for section in sections
    )


def _parts_by_labels(lines: Iterable[str]) -> _Parts:
    """Return the parts of a text. Each part follows its label and a colon, on one line or
    several.
    """
    values: dict[str, list[str]] = {part: [] for part in _LABELS_OF}
    part = None
    for line in lines:
        content = _PREFIX.sub("", line, count=1)
        label, colon, value = content.partition(":")
        labelled = _PART_OF.get(_normal(label)) if colon else None
        if labelled is not None:
            part = labelled
            values[part].append(value)
        elif part is not None and not _FRAME.fullmatch(content):
            # The numbers and marks of a list are a part of a text, but not of a tag.
            values[part].append(content if part == "tags" else line)
    tags = [tag for value in values.pop("tags") for tag in _split(value)]
    return _Parts(**{part: _joined(texts) for part, texts in values.items()}, tags=tags)


def _parts_of_json(text: str) -> _Parts:
    """Return the parts of a text that looks like JSON. It need not be valid JSON."""
    texts = {}
    for part, keys in _KEYS_OF.items():
        candidates = [_json_text(text, key) for key in keys]
        texts[part] = next(filter(None, candidates), "")
    tags = re.search(r'"tags"\s*+:\s*+(?:\[([^\[\]]*+)\]|"([^"\\]*+)")', text)
    tag_list = tags[1] or tags[2] or "" if tags else ""
    return _Parts(**texts, tags=_split(tag_list))


def _json_text(text: str, key: str) -> str:
    match = re.search(rf'"{key}"\s*+:\s*+("(?:[^"\\]|\\.)*+")', text, re.DOTALL)
    if match is None:
        return ""
    try:
        return str(json.loads(match[1], strict=False)).strip()
    except ValueError:
        return ""


def _normal(label: str) -> str:
    """Return a label in lower case with underscores; "" if it is too long for a label."""
    if len(label) > 100:
        return ""
    spaced = re.sub("[ -]", "_", label.strip(_LABEL_ENDS))
    return re.sub("[^0-9A-Za-z_]", "", spaced).lower().strip("_")


def _joined(values: Iterable[str]) -> str:
    """Return the lines of a part as one line.

    A comma at the end of a line belongs to the text. A comma after a quote belongs to JSON.
    """
    lines = []
    for value in values:
        last_character = value.rstrip(", ")[-1:]
        has_comma = value.rstrip().endswith(",") and last_character not in _VALUE_ENDS
        lines.append(_cleaned(value) + ("," if has_comma else ""))
    return " ".join(filter(None, lines)).rstrip(",")


def _cleaned(value: str) -> str:
    return " ".join(value.strip().rstrip(",").strip(_VALUE_ENDS).split())


def _split(value: str) -> list[str]:
    """Return the tags of a list."""
    return [_cleaned(tag.strip("[]{} \t\n")) for tag in value.strip().strip("[]{}").split(",")]


reflection_promotion_confidence = promotion_confidence
score_reflection_improvement = score_improvement
#: The minimum improvement for which a revision is shown after the first answer.
MIN_REFLECTION_RETRY_DELTA = 0.05
_REVISED = "Revised answer after reflection:"
_REVISED_BEFORE = "the turn was revised before"

#: How an answer is revised: by writing it again, or by repeating the request with tools that only
#: read.
Revision = Literal["text", "read_only"]
_HOW: Final[Mapping[Revision, str]] = {
    "text": (
        "Write the answer again, following the strategy. You do not have tools: claim nothing "
        "that you did not see."
    ),
    "read_only": (
        "Carry the request out again, following the strategy. Use tools that only read; "
        "change nothing."
    ),
}
ToolResult = Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the agent, with the results of its tools. `quality_signals_for_response`
    describes a tool result.
    """

    content: str
    tool_results: Sequence[Mapping[str, Any]] = ()
    iterations_used: int = 0
    max_iterations: int = 0
    was_truncated: bool = False

    def signals(self) -> QualitySignals:
        """Return the quality signals of the answer.

        Raises:
            ValueError: a tool result does not have a status.
        """
        return quality_signals_for_response(
            self.content,
            self.tool_results,
            self.iterations_used,
            self.max_iterations,
            self.was_truncated,
        )


#: The caller's agent: called with a prompt, to reflect, or to revise by text or with tools that
#: only read.
Agent = Callable[[str, Literal["reflect"] | Revision], str | Answer]


@dataclass(frozen=True, slots=True)
class RevisedTurn:
    """A turn after its reflection.

    content      the answer to show: the first one, followed by the revised one if that is better
    signals      of the first answer
    retried      the signals of the revised answer; None without one
    improvement  the share of the gap to a perfect score that the revised answer closed
    failure      the reason why there is no revised answer; "" if there is one or none was needed
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
    """Reflect on a turn if its quality requires it, revise it once, and record the result.

    has_tools  whether the agent can repeat the request with tools that only read
    ledger     records the result; None to record nothing

    Raises:
        ValueError: a tool result does not have a status.
        TemplateError: a template of the user cannot be filled.
        LedgerError: the ledger cannot be read or written.
    """
    config = config or ReflectionConfig()
    signals = answer.signals()
    with Ledger.open("sqlite://") if ledger is None else nullcontext(ledger) as journal:
        current = _Turn(request, answer, signals, agent, session_id, turn, config, journal, task)
        result = RevisedTurn(answer.content, signals, current.decide())
        if not result.decision.reflects:
            return result
        try:
            reflection = current.reflect()
            result = replace(result, reflection=reflection, lesson_id=reflection.reflection_id)
            if config.max_retry_attempts > 0:
                result = current.revise(result, reflection, has_tools=has_tools)
        except _Stopped as reason:
            return replace(result, failure=str(reason))
        return result


class _Stopped(Exception):
    """The reason why a turn keeps its first answer. It is not an error, because the turn has an
    answer.
    """


class _Turn(NamedTuple):
    """A turn and its three steps. Each step is recorded."""

    request: str
    answer: Answer
    signals: QualitySignals
    agent: Agent
    session_id: str
    number: int
    config: ReflectionConfig
    journal: Ledger
    task: str

    @property
    def key(self) -> tuple[str, int, str]:
        """The identity of the turn. It is the same when the turn is given again."""
        return self.session_id, self.number, _digest(self.request, self.answer.content)[:32]

    def decide(self) -> Decision:
        """Ask the gate, and record its decision."""
        errors = sum(result["status"] == "error" for result in self.answer.tool_results)
        signs = Signs.of(self.signals, errors)
        gate = self.config.gate
        decision = gate.decide(signs)
        data = {
            "policy": gate.id,
            **decision.facts,
            "signals": signs.facts,
            "task": quote(self.task, 200),
            "turn": self.number,
        }
        parts = ("turn", *self.key, gate.id, str(signs.facts), self.task)
        event_id = identity(GATE_DECIDED, *parts)
        self.journal.append(
            [NewEvent(GATE_DECIDED, event_id, data, "agent", session_id=self.session_id)]
        )
        return decision

    def reflect(self) -> AgentReflection:
        """Return the turn's reflection. The agent is asked for it only once.

        Raises: _Stopped.
        """
        lesson_id = identity(LESSON_RECORDED, "reflection", *self.key)
        if self.journal.event(lesson_id) is None:
            self._record_reflection()
        recorded = self.journal.event(lesson_id)
        if recorded is None or recorded.data is None:
            raise _Stopped("the reflection was redacted")
        return _reflection_of(Lesson.of(recorded)).with_task(None)

    def _record_reflection(self) -> None:
        content = self.answer.content
        errors = self.answer.tool_results
        prompt = build_reflection_prompt(self.request, content, self.signals, errors)
        try:
            response = _asked(self.agent, prompt, "reflect").content
            reflection = parse_reflection_response(response, self.session_id)
        except Exception as error:  # whatever the agent raises
            raise _Stopped(_words(error)) from error
        if reflection is None:
            raise _Stopped("the reflection must contain an attempt, an issue and a strategy")
        # If another process reflected on the same turn, its reflection stays.
        record_lesson(
            self.journal,
            "reflection",
            stored_text(reflection.corrective_strategy),
            actor="agent",
            key=("reflection", *self.key),
            session_id=self.session_id,
            task=quote(self.task, 200),
            tags=[quote(tag, 100) for tag in reflection.tags[:_MAX_TAGS]],
            attempt=stored_text(reflection.attempt_summary),
            issue=stored_text(reflection.failure_analysis),
            promotion=self.config.promotion_confidence,
        )

    def revise(
        self, result: RevisedTurn, reflection: AgentReflection, *, has_tools: bool
    ) -> RevisedTurn:
        """Return the turn with the revised answer. The agent is asked for it only once.

        Raises: _Stopped.
        """
        lesson_id = reflection.reflection_id
        if self.journal.event(identity(REVISION_ATTEMPTED, lesson_id)):
            raise _Stopped(_REVISED_BEFORE)
        looks_again = has_tools and _asks_for_tools(reflection, self.answer)
        mode: Revision = "read_only" if looks_again else "text"
        prompt = find_template("revision.txt").fill(
            {
                "user_request": self.request,
                "response": self.answer.content,
                "how": _HOW[mode],
                "reflection": reflection.to_prompt_section(),
            }
        )
        try:
            revised = _asked(self.agent, prompt, mode)
            if mode == "text":  # a new text does not undo a failed call
                revised = replace(
                    self.answer, content=revised.content, was_truncated=revised.was_truncated
                )
            scored = _scored(result, revised.content, revised.signals())
        except Exception as error:  # whatever the agent raises
            raise _Stopped(_words(error)) from error
        try:
            self.journal.append(_revision(scored, lesson_id, mode, self.session_id))
        except Conflict:  # another process revised it meanwhile
            raise _Stopped(_REVISED_BEFORE) from None
        return scored


def _asked(agent: Agent, prompt: str, how: Literal["reflect"] | Revision) -> Answer:
    """Return the agent's answer.

    Raises: any error of the agent, and TypeError if the answer is not text.
    """
    reply = agent(prompt, how)
    answer = reply if isinstance(reply, Answer) else Answer(reply)
    if not isinstance(answer.content, str):
        raise TypeError(f"the agent answered with {type(answer.content).__name__}, not with text")
    return answer


def _scored(result: RevisedTurn, revised: str, retried: QualitySignals) -> RevisedTurn:
    """Return the turn with its revision, which is shown only if it is better."""
    improvement = score_improvement(result.signals.score(), retried.score())
    improved = not retried.is_empty_response and improvement >= MIN_REFLECTION_RETRY_DELTA
    content = (
        f"{result.content}\n\n{_REVISED}\n\n{revised}".lstrip() if improved else result.content
    )
    return replace(
        result, content=content, retried=retried, improvement=improvement, improved=improved
    )


def _revision(
    result: RevisedTurn, lesson_id: str, mode: Revision, session_id: str
) -> list[NewEvent]:
    """Return the events of a revision and of its outcome."""
    initial = result.signals.score()
    retried = result.retried.score() if result.retried else 0.0
    revision = {
        "initial": initial,
        "retried": retried,
        "improved": result.improved,
        "mode": mode,
        "reason": result.decision.reason,
    }
    kind = "retry_improved" if result.improved else "retry_did_not_improve"
    outcome = {"kind": kind, "source": "retry", "why": f"from {initial:.2f} to {retried:.2f}"}
    place: Any = {"actor": "agent", "session_id": session_id, "target_id": lesson_id}
    revision_id = identity(REVISION_ATTEMPTED, lesson_id)
    outcome_id = identity(OUTCOME_OBSERVED, lesson_id, "retry")
    return [
        NewEvent(REVISION_ATTEMPTED, revision_id, revision, **place),
        NewEvent(OUTCOME_OBSERVED, outcome_id, outcome, **place),
    ]


def build_reflection_prompt(
    user_request: str,
    response: str,
    signals: QualitySignals,
    tool_errors: Iterable[ToolResult] = (),
) -> str:
    """Return the prompt that asks for the attempt, issue, strategy and tags of a turn.

    The text is not redacted, because it comes from the embedder and goes to the embedder's own
    model.

    tool_errors  texts, or results of tools, which are listed as `name: error` unless they succeeded

    Raises:
        TemplateError: the user's own template cannot be filled.
    """
    errors = []
    for error in tool_errors:
        if isinstance(error, str):
            errors.append(error)
        elif error.get("status", "error") == "error":
            errors.append(f"{error.get('name')}: {error.get('error')}")
    return find_template("turn.txt").fill(
        {
            "user_request": user_request,
            "score": f"{signals.score():.2f}",
            "response": response,
            "tool_errors": f"\nTool errors encountered:\n{listed(errors)}\n" if errors else "",
        }
    )


def _asks_for_tools(reflection: AgentReflection, answer: Answer) -> bool:
    """Return whether the agent should use its tools again. It should if they failed or were not
    called, or if the reflection asks for it.
    """
    if not answer.tool_results:
        return True
    if any(result["status"] != "success" for result in answer.tool_results):
        return True
    return has_any(f"{reflection.corrective_strategy} {reflection.failure_analysis}", "looking")


def _digest(*texts: str) -> str:
    return sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def _words(error: Exception) -> str:
    return quote(f"{type(error).__name__}: {error}", 300)
