"""A reflection on a turn: what was attempted, what went wrong, what to do next time, and what came of it.

Invariant: a reflection is complete or not there (`parse_reflection_response`). Its id follows from its session and its
text, and the confidence in it from its outcomes, of which there is one of each kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Self

from reflector.lessons.book import LessonBook
from reflector.lessons.outcomes import (
    OUTCOME_KINDS,
    OutcomeSignal,
    merge_outcome_signals,
    promotion_confidence,
)
from reflector.mistakes import check_share, check_whole
from reflector.quality.policy import GatePolicy
from reflector.revision.four_fields import parse_four_fields

_PREVIEW = 300


@dataclass(frozen=True, slots=True)
class ReflectionConfig:
    """How an embedder's turns are reflected on.

    enabled                   whether the gate can open at all
    quality_threshold         an answer is reflected on below it
    max_injected_reflections  how many earlier reflections the agent is told; 0 for none
    max_retry_attempts        0 for no revision; otherwise there is one a turn, whatever the number
    promotion_confidence      how far a reflection must be trusted before it is proposed as a bullet
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
        """The gate's policy for a turn."""
        policy = GatePolicy(threshold=self.quality_threshold)
        return policy if self.enabled else replace(policy, triggers=())


@dataclass(slots=True)
class AgentReflection:
    """A reflection. `timestamp` is ISO 8601 in UTC, `improvement_score` what its retry gained, None without one."""

    reflection_id: str
    attempt_summary: str
    failure_analysis: str
    corrective_strategy: str
    improvement_score: float | None = None
    tags: list[str] = field(default_factory=list)
    outcome_signals: list[OutcomeSignal] = field(default_factory=list)
    session_id: str = ""
    task_id: str | None = None
    timestamp: str = field(default_factory=lambda: datetime.now(UTC).isoformat())

    def with_tags(self, tags: Iterable[str]) -> Self:
        """Return the reflection with these tags, each once."""
        return replace(self, tags=list(dict.fromkeys(tags)))

    def with_task(self, task_id: str | None) -> Self:
        """Return the reflection as one of a task."""
        return replace(self, task_id=task_id)

    def push_outcome_signal(self, signal: OutcomeSignal) -> None:
        """Add an outcome; an earlier one of its kind goes."""
        self.outcome_signals = list(merge_outcome_signals(self.outcome_signals, [signal]))

    def promotion_confidence(self) -> float:
        """Return how far the reflection is trusted, from 0.30 to 0.97."""
        return promotion_confidence(self.improvement_score, merge_outcome_signals(self.outcome_signals, ()))

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
            labels = (OUTCOME_KINDS[signal.kind].label for signal in self.outcome_signals)
            lines.append(f"- Outcomes: {', '.join(labels)}")
        return "\n".join(lines)


def parse_reflection_response(response: str, session_id: str) -> AgentReflection | None:
    """Return the reflection that a model wrote; None unless attempt, issue and strategy are there."""
    found = parse_four_fields(response)
    if found is None:
        return None
    of_session = "".join(char for char in session_id if char.isascii() and char.isalnum())[:12]
    said = "\0".join((session_id, found.attempt, found.issue, found.strategy))
    number = sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return AgentReflection(
        "-".join(filter(None, ("reflection", of_session, number))),
        found.attempt,
        found.issue,
        found.strategy,
        tags=list(found.tags),
        session_id=session_id,
    )


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
            outcome_signals=[OutcomeSignal(said.kind, said.observed_at, said.why) for said in one.signals],
            session_id=one.session_id or "",
            task_id=one.task or None,
            timestamp=one.created_at,
        )
        for one in book.best()
        if one.kind == "reflection"
    ]


def past_reflections(reflections: Iterable[AgentReflection], most: int) -> str:
    """Return the first reflections as an agent reads them before a turn, each cut to 300 characters; "" for none."""
    sections = (reflection.to_prompt_section()[:_PREVIEW] for reflection in list(reflections)[: max(most, 0)])
    return "\n\n".join(f"### Past Reflection\n{section}" for section in sections)
