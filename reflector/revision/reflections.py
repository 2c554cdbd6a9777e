"""A reflection on a turn: what was attempted, what went wrong, what to do next time, and what came of it.

Invariant: a reflection is complete or not there: without an attempt, an issue and a strategy there is none. A response
is read in linear time, and no more of it than `_MOST` characters. A reflection's id follows from its session and its
text, and the confidence in it from its outcomes, of which there is one of each kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Self

from reflector.lessons.book import LessonBook
from reflector.lessons.outcomes import OutcomeSignal, label_of, merge_outcome_signals, promotion_confidence
from reflector.mistakes import check_share, check_whole
from reflector.quality.signals import GatePolicy

_PREVIEW = 300
_MOST: Final = 200_000

#: What a label may be called, in its normal form.
_LABELS: Final = {
    **dict.fromkeys(("attempt", "attempt_summary", "summary", "what_was_attempted"), "attempt"),
    **dict.fromkeys(("issue", "failure", "failure_analysis", "problem", "analysis", "what_went_wrong"), "issue"),
    **dict.fromkeys(
        ("strategy", "corrective_strategy", "correction", "fix", "improvement_strategy", "next_time"), "strategy"
    ),
    **dict.fromkeys(("tags", "labels"), "tags"),
}
#: The keys of the one-line JSON that some models write instead.
_KEYS: Final = (("attempt_summary", "attempt"), ("failure_analysis", "issue"), ("corrective_strategy", "strategy"))
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_PREFIX = re.compile(r"\s*+(?:(?:>|[-*•]\s|\d{1,9}[.)]\s)\s*+)*+")
#: A line that is only the frame of a JSON object or list.
_FRAME = re.compile(r"[\s{}\[\],]++")
_LABEL_ENDS = "*_`[]()# \t"
_VALUE_ENDS = "*_`\"' \t"
#: Attempt, issue and strategy of a response, and its tags, each once.
_Fields = tuple[str, str, str, list[str]]


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
        return replace(self, tags=list(dict.fromkeys(tags)))

    def with_task(self, task_id: str | None) -> Self:
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
            labels = (label_of(signal.kind) for signal in self.outcome_signals)
            lines.append(f"- Outcomes: {', '.join(labels)}")
        return "\n".join(lines)


def parse_reflection_response(response: str, session_id: str) -> AgentReflection | None:
    """Return the reflection that a model wrote; None unless attempt, issue and strategy are there."""
    found = _four_fields(response)
    if found is None:
        return None
    attempt, issue, strategy, tags = found
    of_session = "".join(char for char in session_id if char.isascii() and char.isalnum())[:12]
    said = "\0".join((session_id, attempt, issue, strategy))
    number = sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    reflection_id = "-".join(filter(None, ("reflection", of_session, number)))
    return AgentReflection(reflection_id, attempt, issue, strategy, tags=tags, session_id=session_id)


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


def _four_fields(response: str) -> _Fields | None:
    """Return the fields of a response, None where one of the first three is missing or empty."""
    text = _THINKING.sub("", response[:_MOST])
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("```")]
    return _labelled(lines) or _one_line("\n".join(lines))


def _labelled(lines: Iterable[str]) -> _Fields | None:
    found: dict[str, list[str]] = {"attempt": [], "issue": [], "strategy": [], "tags": []}
    current: list[str] | None = None
    for line in lines:
        rest = line[_PREFIX.match(line).end() :]  # type: ignore[union-attr]  # it matches "" as well
        label, colon, value = rest.partition(":")
        if colon and (name := _LABELS.get(_normal(label))) is not None:
            current = found[name]
            current.append(value)
        elif current is not None and not _FRAME.fullmatch(rest):
            current.append(rest)
    attempt, issue, strategy = (_joined(found[name]) for name in ("attempt", "issue", "strategy"))
    return _sound(attempt, issue, strategy, (tag for value in found["tags"] for tag in _split(value)))


def _one_line(text: str) -> _Fields | None:
    """Return the fields of a text in the form of JSON, which need not be JSON."""
    attempt, issue, strategy = (next(filter(None, (_json_text(text, key) for key in keys)), "") for keys in _KEYS)
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
    kept = (
        character.lower() if character.isascii() and character.isalnum() else "_" if character in " -_" else ""
        for character in label.strip(_LABEL_ENDS)
    )
    return "".join(kept).strip("_")


def _joined(values: Iterable[str]) -> str:
    """Return the lines of a field as one. A comma at a line's end is the field's, behind a quote it is JSON's."""
    cleaned = [
        _cleaned(value) + "," * (value.rstrip().endswith(",") and value.rstrip(", ")[-1:] not in _VALUE_ENDS)
        for value in values
    ]
    return " ".join(filter(None, cleaned)).rstrip(",")


def _cleaned(value: str) -> str:
    return " ".join(value.strip().rstrip(",").strip(_VALUE_ENDS).split())


def _split(value: str) -> list[str]:
    return [_cleaned(tag.strip("[]{} \t\n")) for tag in value.strip().strip("[]{}").split(",")]
