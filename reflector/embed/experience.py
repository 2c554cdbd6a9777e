"""Learning from experience: one bounded revision of a turn, with the names of part D that other
rooms have.

A turn passes a gate, is reflected on, gets one more answer, and what came of it is recorded
(requirements D-07, D-20).

Invariant: a turn is revised once at most, by the caller's own agent, and the first answer is never
lost: a revision is appended to it, and only if it is better. Whatever the agent does, the turn goes
on. Each decision, reflection and revision is an event; its id follows from the session, the turn
and the answer, so the same turn given again asks nobody. A reflection is complete or not there:
without an attempt, an issue and a strategy there is none. A response is read in linear time, and no
more of it than `_MOST` characters.
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
from typing import Any, Final, Literal

from reflector.embed.lessons.book import (
    LessonBook,
    label_of,
    promotion_confidence,
    score_improvement,
)
from reflector.embed.lessons.book import OutcomeSignal as OutcomeSignal
from reflector.embed.lessons.book import merge_outcome_signals as merge_outcome_signals
from reflector.embed.lessons.recording import kept, record_lesson
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity, written
from reflector.judges.prompts import find_template, listed
from reflector.ledger.errors import Conflict
from reflector.ledger.store import Ledger
from reflector.mistakes import check_share, check_whole
from reflector.quality.signals import PRESETS as PRESETS
from reflector.quality.signals import Decision as Decision
from reflector.quality.signals import GatePolicy as GatePolicy
from reflector.quality.signals import QualitySignals as QualitySignals
from reflector.quality.signals import Signs as Signs
from reflector.quality.signals import detect_assertive_uncertainty as detect_assertive_uncertainty
from reflector.quality.signals import detect_failure_patterns as detect_failure_patterns
from reflector.quality.signals import (
    detect_missing_debug_structure as detect_missing_debug_structure,
)
from reflector.quality.signals import has_any
from reflector.quality.signals import quality_signals_for_response as quality_signals_for_response
from reflector.text.secrets import quote

_PREVIEW = 300
_MOST: Final = 200_000

#: What a label may be called, in its normal form.
_LABELS: Final = {
    **dict.fromkeys(("attempt", "attempt_summary", "summary", "what_was_attempted"), "attempt"),
    **dict.fromkeys(
        ("issue", "failure", "failure_analysis", "problem", "analysis", "what_went_wrong"), "issue"
    ),
    **dict.fromkeys(
        (
            "strategy",
            "corrective_strategy",
            "correction",
            "fix",
            "improvement_strategy",
            "next_time",
        ),
        "strategy",
    ),
    **dict.fromkeys(("tags", "labels"), "tags"),
}
#: The keys of the one-line JSON that some models write instead.
_KEYS: Final = (
    ("attempt_summary", "attempt"),
    ("failure_analysis", "issue"),
    ("corrective_strategy", "strategy"),
)
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_PREFIX = re.compile(r"\s*+(?:(?:>|[-*•]\s|\d{1,9}[.)]\s)\s*+)*+")
#: A line that is only the frame of a JSON object or list.
_FRAME = re.compile(r"[\s{}\[\],]++")
_LABEL_ENDS = "*_`[]()# \t"
_VALUE_ENDS = "*_`\"' \t"
#: Attempt, issue and strategy of a response, none of them empty, and its tags, each once.
_Fields = tuple[str, str, str, list[str]]


@dataclass(frozen=True, slots=True)
class ReflectionConfig:
    """How an embedder's turns are reflected on.

    enabled                   whether the gate can open at all
    quality_threshold         an answer is reflected on below it
    max_injected_reflections  how many earlier reflections `past_reflections` gives the agent; 0 for
                              none
    max_retry_attempts        0 for no revision; otherwise there is one a turn, whatever the number
    promotion_confidence      how far a reflection of these turns must be trusted before it is due
                              for promotion
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
    """A reflection. `timestamp` is ISO 8601 in UTC, `improvement_score` what its retry gained,
    None without one.
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
        """Return a reflection of a session; its id follows from the session and the texts."""
        of_session = "".join(char for char in session_id if char.isascii() and char.isalnum())[:12]
        texts = (attempt_summary, failure_analysis, corrective_strategy)
        digest = sha256(
            "\0".join((session_id, *texts)).encode("utf-8", "surrogatepass")
        ).hexdigest()[:12]
        return cls(
            "-".join(filter(None, ("reflection", of_session, digest))),
            *texts,
            session_id=session_id,
        )

    def with_tags(self, tags: Iterable[str]) -> AgentReflection:
        """Return a copy with these tags, without duplicates."""
        return replace(self, tags=list(dict.fromkeys(tags)))

    def with_task(self, task_id: str | None) -> AgentReflection:
        """Return a copy that belongs to this task."""
        return replace(self, task_id=task_id)

    def with_outcome_signals(self, signals: Iterable[OutcomeSignal]) -> AgentReflection:
        """Return a copy with these outcomes, one of each kind."""
        return replace(self, outcome_signals=list(merge_outcome_signals((), signals)))

    def push_outcome_signal(self, signal: OutcomeSignal) -> None:
        """Add an outcome; it replaces an earlier one of its kind."""
        self.outcome_signals = list(merge_outcome_signals(self.outcome_signals, [signal]))

    def promotion_confidence(self) -> float:
        """Return how far the reflection is trusted, from 0.30 to 0.97; of each kind of outcome,
        the last one counts.
        """
        return promotion_confidence(
            self.improvement_score, merge_outcome_signals((), self.outcome_signals)
        )

    def to_prompt_section(self) -> str:
        """Return the reflection as an agent reads it."""
        at = datetime.fromisoformat(self.timestamp).astimezone(UTC)
        lines = [
            f"**Reflection** ({at:%Y-%m-%d %H:%M} UTC)",
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
    """Return the reflection that a model wrote; None unless attempt, issue and strategy are
    there.
    """
    text = _THINKING.sub("", response[:_MOST])
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("```")
    ]
    found = _labelled(lines) or _one_line("\n".join(lines))
    if found is None:
        return None
    attempt, issue, strategy, tags = found
    return AgentReflection.new(session_id, attempt, issue, strategy).with_tags(tags)


def reflections_of(book: LessonBook) -> list[AgentReflection]:
    """Return the reflections that an agent may be told, the most trusted first."""
    return [
        AgentReflection(
            one.id,
            str(one.data.get("attempt", "")),
            str(one.data.get("issue", "")),
            one.text,
            improvement_score=one.improvement,
            tags=list(one.tags),
            outcome_signals=[
                OutcomeSignal(said.kind, said.observed_at, said.why) for said in one.signals
            ],
            session_id=one.session_id or "",
            task_id=one.task or None,
            timestamp=one.created_at,
        )
        for one in book.best()
        if one.kind == "reflection"
    ]


def past_reflections(reflections: Iterable[AgentReflection], most: int | ReflectionConfig) -> str:
    """Return the first reflections as an agent reads them before a turn, each cut to 300
    characters; "" for none.

    most  how many, or the configuration whose `max_injected_reflections` it is
    """
    limit = most.max_injected_reflections if isinstance(most, ReflectionConfig) else max(most, 0)
    sections = (
        reflection.to_prompt_section()[:_PREVIEW] for reflection in islice(reflections, limit)
    )
    return "\n\n".join(f"### Past Reflection\n{section}" for section in sections)


def _labelled(lines: Iterable[str]) -> _Fields | None:
    found: dict[str, list[str]] = {"attempt": [], "issue": [], "strategy": [], "tags": []}
    current: list[str] | None = None
    for line in lines:
        rest = line[_PREFIX.match(line).end() :]  # type: ignore[union-attr]  # it matches "" as well
        label, colon, value = rest.partition(":")
        if colon and (name := _LABELS.get(_normal(label))) is not None:
            current = found[name]
            current.append(value)
        elif current is not None and rest.strip() and not _FRAME.fullmatch(rest):
            # The numbers and marks of a list are a part of a text, and no part of a tag.
            current.append(rest if current is found["tags"] else line)
    attempt, issue, strategy = (_joined(found[name]) for name in ("attempt", "issue", "strategy"))
    return _sound(
        attempt, issue, strategy, (tag for value in found["tags"] for tag in _split(value))
    )


def _one_line(text: str) -> _Fields | None:
    """Return the fields of a text in the form of JSON, which need not be JSON."""
    attempt, issue, strategy = (
        next(filter(None, (_json_text(text, key) for key in keys)), "") for keys in _KEYS
    )
    listed = re.search(r'"tags"\s*+:\s*+(?:\[([^\[\]]*+)\]|"([^"\\]*+)")', text)
    return _sound(attempt, issue, strategy, _split(listed[1] or listed[2] or "") if listed else ())


def _json_text(text: str, key: str) -> str:
    match = re.search(rf'"{key}"\s*+:\s*+("(?:[^"\\]|\\.)*+")', text, re.DOTALL)
    if match is None:
        return ""
    try:
        return str(json.loads(match[1], strict=False)).strip()
    except ValueError:
        return ""


def _sound(attempt: str, issue: str, strategy: str, tags: Iterable[str]) -> _Fields | None:
    if not (attempt and issue and strategy):
        return None
    return attempt, issue, strategy, list(dict.fromkeys(filter(None, tags)))


def _normal(label: str) -> str:
    if len(label) > 100:
        return ""
    spaced = re.sub("[ -]", "_", label.strip(_LABEL_ENDS))
    return re.sub("[^0-9A-Za-z_]", "", spaced).lower().strip("_")


def _joined(values: Iterable[str]) -> str:
    """Return the lines of a field as one. A comma at a line's end is the field's, behind a quote
    it is JSON's.
    """
    cleaned = [
        _cleaned(value)
        + "," * (value.rstrip().endswith(",") and value.rstrip(", ")[-1:] not in _VALUE_ENDS)
        for value in values
    ]
    return " ".join(filter(None, cleaned)).rstrip(",")


def _cleaned(value: str) -> str:
    return " ".join(value.strip().rstrip(",").strip(_VALUE_ENDS).split())


def _split(value: str) -> list[str]:
    return [_cleaned(tag.strip("[]{} \t\n")) for tag in value.strip().strip("[]{}").split(",")]


reflection_promotion_confidence = promotion_confidence
score_reflection_improvement = score_improvement
#: The least improvement with which a revision is shown, behind the first answer.
MIN_REFLECTION_RETRY_DELTA: Final = 0.05
_REVISED: Final = "Revised answer after reflection:"
_REVISED_BEFORE: Final = "the turn was revised before"

#: How an answer is revised: by writing it again, or by carrying the request out again with tools
#: that only read.
Revision = Literal["text", "read_only"]
_HOW: Final[Mapping[Revision, str]] = {
    "text": (
        "Write the answer again, following the strategy. You have no tools: claim nothing "
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
    """An answer of the agent, with what its tools did; a tool result as in
    `quality_signals_for_response`.
    """

    content: str
    tool_results: Sequence[Mapping[str, Any]] = ()
    iterations_used: int = 0
    max_iterations: int = 0
    was_truncated: bool = False

    def signals(self) -> QualitySignals:
        """Return its quality signals. Raises ValueError for a tool result without a status."""
        how = (self.tool_results, self.iterations_used, self.max_iterations, self.was_truncated)
        return quality_signals_for_response(self.content, *how)


#: The caller's agent: called with a prompt, to reflect, or to revise by text or with tools that
#: only read.
Agent = Callable[[str, Literal["reflect"] | Revision], str | Answer]


@dataclass(frozen=True, slots=True)
class RevisedTurn:
    """What became of a turn.

    content      the answer to show: the first one, and the revised one behind it where that is
                 better
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

    Without a `ledger` nothing is kept. `has_tools` says that the agent can carry the request out
    again with tools that only read. Raises ValueError for a tool result without a status,
    TemplateError and LedgerError.
    """
    config, signals = config or ReflectionConfig(), answer.signals()
    said = sha256(f"{request}\0{answer.content}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    key = (session_id, turn, said)
    signs = Signs.of(signals, sum(result["status"] == "error" for result in answer.tool_results))
    decision, policy = config.gate.decide(signs), config.gate.id
    about = {"signals": signs.facts, "task": quote(task, 200), "turn": turn}
    decided_id = identity(ev.GATE_DECIDED, "turn", *key, policy, str(signs.facts), task)
    decided = {"policy": policy, **decision.facts, **about}
    result = RevisedTurn(answer.content, signals, decision)
    with Ledger.open("sqlite://") if ledger is None else nullcontext(ledger) as journal:
        journal.append(
            [NewEvent(ev.GATE_DECIDED, decided_id, decided, "agent", session_id=session_id)]
        )
        if not decision.reflects:
            return result
        lesson_id = identity(ev.LESSON_RECORDED, "reflection", *key)
        lesson = journal.event(lesson_id)
        if lesson is None:
            prompt = build_reflection_prompt(request, answer.content, signals, answer.tool_results)
            try:
                found = parse_reflection_response(
                    _asked(agent, prompt, "reflect").content, session_id
                )
            except Exception as error:  # noqa: BLE001  a reflection is an extra: the turn has its answer
                return replace(result, failure=_words(error))
            if found is None:
                return replace(result, failure="the reflection has no attempt, issue and strategy")
            more = {"attempt": kept(found.attempt_summary), "issue": kept(found.failure_analysis)}
            tags = [quote(tag, 100) for tag in found.tags[:100]]
            of: Any = {
                "key": ("reflection", *key),
                "session_id": session_id,
                "task": quote(task, 200),
                "tags": tags,
            }
            of["promotion"] = config.promotion_confidence
            # Where another process reflected on the same turn, its reflection stands.
            record_lesson(
                journal, "reflection", kept(found.corrective_strategy), actor="agent", **more, **of
            )
            lesson = journal.event(lesson_id)
        if lesson is None or lesson.data is None:
            return replace(result, failure="the reflection was redacted")
        reflection = _reflection_of(lesson, lesson.data, session_id)
        result = replace(result, reflection=reflection, lesson_id=lesson_id)
        if config.max_retry_attempts == 0:
            return result
        if journal.event(identity(ev.REVISION_ATTEMPTED, lesson_id)) is not None:
            return replace(result, failure=_REVISED_BEFORE)
        mode: Revision = (
            "read_only" if has_tools and _asks_for_tools(reflection, answer) else "text"
        )
        given = {"user_request": request, "response": answer.content, "how": _HOW[mode]}
        prompt = find_template("revision.txt").fill(
            {**given, "reflection": reflection.to_prompt_section()}
        )
        try:
            revised = _asked(agent, prompt, mode)
            if mode == "text":  # other words undo no failed call
                revised = replace(
                    answer, content=revised.content, was_truncated=revised.was_truncated
                )
            scored = _scored(result, revised.content, revised.signals())
        except Exception as error:  # noqa: BLE001  as above
            return replace(result, failure=_words(error))
        try:
            journal.append(_revision(scored, lesson_id, mode, session_id))
        except Conflict:  # another process revised it meanwhile
            return replace(result, failure=_REVISED_BEFORE)
        return scored


def _asked(agent: Agent, prompt: str, how: Literal["reflect"] | Revision) -> Answer:
    """Return the agent's answer. Raises whatever the agent raises, and TypeError where it gives
    no text.
    """
    given = agent(prompt, how)
    answer = given if isinstance(given, Answer) else Answer(given)
    if not isinstance(answer.content, str):
        raise TypeError(f"the agent answered with {type(answer.content).__name__}, not with a text")
    return answer


def _scored(result: RevisedTurn, revised: str, retried: QualitySignals) -> RevisedTurn:
    """Return the turn with its revision, which is shown where it is better."""
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
    before, after = result.signals.score(), result.retried.score() if result.retried else 0.0
    data = {"initial": before, "retried": after, "improved": result.improved, "mode": mode}
    kind = "retry_improved" if result.improved else "retry_did_not_improve"
    outcome = {"kind": kind, "source": "retry", "why": f"from {before:.2f} to {after:.2f}"}
    about: Any = {"actor": "agent", "session_id": session_id, "target_id": lesson_id}
    reason = {"reason": result.decision.reason}
    return [
        NewEvent(
            ev.REVISION_ATTEMPTED,
            identity(ev.REVISION_ATTEMPTED, lesson_id),
            data | reason,
            **about,
        ),
        NewEvent(
            ev.OUTCOME_OBSERVED, identity(ev.OUTCOME_OBSERVED, lesson_id, "retry"), outcome, **about
        ),
    ]


def build_reflection_prompt(
    user_request: str,
    response: str,
    signals: QualitySignals,
    tool_errors: Iterable[ToolResult] = (),
) -> str:
    """Return the prompt that asks for attempt, issue, strategy and tags of a turn.

    `tool_errors` are texts, or tool results, whose errors are listed as `name: error`. The text is
    the embedder's, for the embedder's own model: it is not redacted. Raises TemplateError.
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


def _asks_for_tools(reflection: AgentReflection, answer: Answer) -> bool:
    """Return whether the agent should look again: the reflection says so, or its tools failed or
    were not called.
    """
    said = f"{reflection.corrective_strategy} {reflection.failure_analysis}"
    failed = any(result["status"] != "success" for result in answer.tool_results)
    return failed or not answer.tool_results or has_any(said, "looking")


def _reflection_of(lesson: Event, data: Mapping[str, Any], session_id: str) -> AgentReflection:
    texts = (data["attempt"], data["issue"], data["text"])
    return AgentReflection(
        lesson.event_id,
        *texts,
        tags=list(data["tags"]),
        session_id=session_id,
        timestamp=lesson.occurred_at,
    )


def _words(error: Exception) -> str:
    return quote(f"{type(error).__name__}: {error}", 300)
