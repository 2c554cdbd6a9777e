"""The reflection engine: when to reflect on a step, what to ask, what the answer means, and the
lessons of a task.

Invariant: the engine calls no model (requirement E-01), and holds no state but the name of its task
and a decision that has not begun. Everything else follows from events, in memory or on a ledger:
two engines on one ledger share them. A reflection counts for its step when its prompt is built, not
when the gate is asked.

A verdict is a pure function of the answer and the threshold (E-06, E-07). An answer that says
nothing clear has none: neither a score nor a retry follows from it. At most `_MOST` characters are
read, in linear time.
"""

from __future__ import annotations

import math
import reprlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from itertools import count
from typing import Any, Final
from uuid import uuid4

from reflector.embed.experience import MIN_REFLECTION_RETRY_DELTA, ToolResult
from reflector.embed.lessons.book import (
    Lesson,
    LessonBook,
    LessonPolicy,
    bank_figures,
    lesson_book,
    score_improvement,
)
from reflector.embed.lessons.recording import (
    append_next,
    identity_texts,
    lesson_event,
    observe_outcome,
    record_told,
    stored_text,
)
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.lessons import MOST_TOLD
from reflector.judges.answers import objects_in
from reflector.judges.prompts import find_template, listed
from reflector.ledger.store import Ledger
from reflector.quality.signals import PRESETS, Decision, Signs, rounded
from reflector.quality.signals import ReflectionTrigger as ReflectionTrigger
from reflector.quality.verdict import score_in_words
from reflector.text.secrets import quote

#: The type of task and the name of a task are one line of so many characters at most.
_LONGEST = 200
_ACTOR = "engine"
_MOST: Final = 200_000
_UNREADABLE: Final = "the answer holds neither a quality score nor a clear word"


@dataclass(slots=True)
class ReflectionLesson:
    """A mistake and its correction. `effectiveness` is from 0 to 1, `created_at` seconds since
    1970.
    """

    lesson_id: str
    task_type: str
    mistake: str
    correction: str
    context_hash: str
    created_at: float = field(default_factory=time.time)
    times_applied: int = 0
    effectiveness: float = 0.5


@dataclass(frozen=True, slots=True)
class ReflectionResult:
    """What a reflection on a step found.

    passes_quality_gate  whether the score reaches the threshold; None without a verdict
    quality_score        from 0 to 1; None without a verdict
    should_retry         whether a better answer should be asked for
    retry_guidance       what to tell the agent then; "" for nothing
    reflection_time_ms   how long the answer took to read
    failure              why there is no verdict, "" if there is one
    """

    triggered_by: ReflectionTrigger
    passes_quality_gate: bool | None
    quality_score: float | None
    issues_found: list[str] = field(default_factory=list)
    suggested_fix: str | None = None
    should_retry: bool = False
    retry_guidance: str = ""
    reflection_time_ms: float = 0.0
    failure: str = ""


class ReflectionEngine:
    """Decides, asks, reads and remembers for one agent; a task at a time.

    quality_threshold         a step is reflected on below it, and passes at it
    max_reflections_per_step  the most reflections of a step of a task
    reflection_bank_size      the most lessons that are kept; the least effective goes first
    periodic_interval         every so many steps are reflected on; 0 for none
    ledger                    where events are kept and shared; None for memory
    task                      the first task's name; engines that share a task share its counts
    alpha                     weight of the newest outcome in a lesson's effectiveness
    """

    def __init__(
        self,
        quality_threshold: float = 0.5,
        max_reflections_per_step: int = 2,
        reflection_bank_size: int = 100,
        periodic_interval: int = 5,
        *,
        ledger: Ledger | None = None,
        task: str = "",
        alpha: float = 0.2,
    ) -> None:
        limits: dict[str, Any] = {"per_step": max_reflections_per_step, "period": periodic_interval}
        self.gate = replace(PRESETS["step"], threshold=quality_threshold, **limits)
        self.lesson_policy = LessonPolicy(alpha=alpha, bank_size=reflection_bank_size)
        self.journal = Ledger.open("sqlite://") if ledger is None else ledger
        self._asked: tuple[dict[str, Any], Decision] | None
        self._begun: str | None
        self.reset_step_counts(task)

    def should_reflect(
        self,
        confidence: float,
        risk_level: float = 0.0,
        goal_drift: float = 0.0,
        tool_failures: int = 0,
        step_number: int = 0,
        is_final_step: bool = False,
    ) -> tuple[bool, ReflectionTrigger | None]:
        """Return whether a step is reflected on, and what triggers it. Raises ValueError for
        NaN, and LedgerError.
        """
        signs = Signs(confidence, risk_level, goal_drift, tool_failures, step_number, is_final_step)
        decision = self.gate.decide(signs, len(self._reflected(step_number)))
        self._step = step_number
        self._asked = (signs.facts, decision) if decision.reflects else None
        if not decision.reflects:
            self._record(signs.facts, decision, reflects=False)
        return decision.reflects, decision.trigger

    def build_reflection_prompt(
        self,
        goal: str,
        step_description: str,
        response: str,
        tool_results: Iterable[ToolResult] = (),
        relevant_lessons: Iterable[ReflectionLesson | str] | None = None,
    ) -> str:
        """Return the prompt about a step; its reflection begins here. Raises TemplateError,
        LedgerError.
        """
        lessons = [
            one if isinstance(one, str) else (f"{one.mistake}: {one.correction}")
            for one in relevant_lessons or ()
        ]
        about = {"goal": goal, "step_description": step_description, "response": response}
        results = listed(map(_result, tool_results))
        prompt = find_template("step.txt").fill(
            {**about, "tool_results": results, "lessons": listed(lessons)}
        )
        self._begin()
        return prompt

    def parse_reflection(
        self, llm_response: str, trigger: ReflectionTrigger | str
    ) -> ReflectionResult:
        """Return what a model's answer says of the step. Raises ValueError for an unknown trigger,
        and LedgerError.

        The answer is kept before it is read. Where the step was to be tried again, its new score is
        a revision's.
        """
        result = _read_verdict(llm_response, ReflectionTrigger(trigger), self.gate.threshold)
        decision_id = self._begun or self._begin()
        self._begun = None
        about = {
            "backend": _ACTOR,
            "model": "embedder",
            "mode": "step",
            "trigger": str(result.triggered_by),
        }
        answer = {"answer": stored_text(llm_response, _MOST), **about, "iteration": 1}
        self._append(ev.REFLECTION_ANSWERED, answer, decision_id, 1, target=decision_id)
        if result.failure:
            failed = {"stage": "parse", "message": result.failure, "attempts": 1}
            self._append(ev.REFLECTION_FAILED, failed, decision_id, 1, target=decision_id)
        else:
            self._compare(decision_id, result)
        return result

    def build_improvement_prompt(
        self, original_response: str, issues: Sequence[str] | str, goal: str
    ) -> str:
        """Return the prompt that asks for a better response. Raises TemplateError."""
        issues = listed([issues] if isinstance(issues, str) else issues)
        return find_template("improvement.txt").fill(
            {"original_response": original_response, "issues": issues, "goal": goal}
        )

    def store_lesson(
        self, task_type: str, mistake: str, correction: str, context: str = ""
    ) -> ReflectionLesson:
        """Keep a lesson; one that is in the bank is there once. Raises LedgerError."""
        given = {
            "task": quote(task_type, _LONGEST),
            "mistake": stored_text(mistake),
            "context_hash": _context_hash(context),
        }
        event = lesson_event("mistake", stored_text(correction), actor=_ACTOR, **given)
        lessons = self.book().lessons
        lesson_id = event.event_id
        for number in count(1):  # one that a better one displaced comes back as another lesson
            if lesson_id not in lessons or lessons[lesson_id].is_kept:
                break
            lesson_id = identity(ev.LESSON_RECORDED, *identity_texts(event.data), number)
        self.journal.append([replace(event, event_id=lesson_id)])
        return _public(self.book().lessons[lesson_id])

    def get_relevant_lessons(
        self, task_type: str, context: str = "", limit: int | None = None
    ) -> list[ReflectionLesson]:
        """Return the lessons of a type of task: of the same context first, then by effectiveness,
        age and id.

        Each counts as applied once more; there are 1,000 at most. Raises LedgerError.
        """
        wanted, hashed = quote(task_type, _LONGEST), _context_hash(context)
        found = [one for one in self.book() if one.task == wanted and one.is_kept]
        found.sort(
            key=lambda one: (
                one.data.get("context_hash") != hashed,
                -one.effectiveness,
                one.created_at,
                one.id,
            )
        )
        told = [
            one.id for one in found[: MOST_TOLD if limit is None else min(max(limit, 0), MOST_TOLD)]
        ]
        record_told(
            self.journal, told, via="retrieval", actor=_ACTOR, session_id=self.task, task=wanted
        )
        lessons = self.book().lessons
        return [_public(lessons[id_]) for id_ in told]

    def record_lesson_outcome(self, lesson_id: str, success: bool, why: str = "") -> float:
        """Record whether a lesson helped, and return its effectiveness. Raises ValueError for a
        lesson that is not there and for a success that is not a boolean, and LedgerError.
        """
        if success not in (True, False):  # a word such as "false" would be a success
            raise ValueError(f"success is {reprlib.repr(success)}; it must be True or False")
        about = {"source": "api", "actor": _ACTOR, "session_id": self.task}
        observe_outcome(
            self.journal, lesson_id, "success" if success else "failure", stored_text(why), **about
        )
        return self.book().lessons[lesson_id].effectiveness

    def get_stats(self) -> dict[str, float | int]:
        """Return the seven figures of requirement E-12, over all tasks of the journal. Raises
        LedgerError.
        """
        begun = self._reflected()
        verdicts = [
            self._verdict(event) for event in self._answers([event.event_id for event in begun])
        ]
        steps = {event.event_id for event in begun}
        revisions = self.journal.events(types=[ev.REVISION_ATTEMPTED])
        improved = sum(
            (e.data or {}).get("improved") is True for e in revisions if e.target_id in steps
        )
        return {
            "total_reflections": len(begun),
            "retries_triggered": sum(verdict.should_retry for verdict in verdicts),
            "improvements_made": improved,
            **bank_figures(self.book()),
            "quality_threshold": self.gate.threshold,
        }

    def reset_step_counts(self, task: str = "") -> None:
        """Begin another task, in which no step was reflected on yet; without a name it gets one
        of its own.
        """
        self.task = quote(task, _LONGEST) or uuid4().hex
        self._asked = self._begun = None
        self._step = 0

    def book(self) -> LessonBook:
        """Return all lessons with what became of them. Raises LedgerError."""
        return lesson_book(self.journal, self.lesson_policy)

    def _begin(self) -> str:
        """Record that a reflection begins, and return the id of its decision."""
        signals, decision = self._asked or ({}, Decision(None, "the embedder began it"))
        self._asked = None
        self._begun = self._record(signals, decision, reflects=True)
        return self._begun

    def _record(self, signals: dict[str, Any], decision: Decision, *, reflects: bool) -> str:
        about = {"reflects": reflects, "signals": signals, "task": self.task, "step": self._step}
        data = {"policy": self.gate.id, **decision.facts, **about}

        def made(number: int) -> NewEvent:
            return self._event(ev.GATE_DECIDED, data, self.task, self._step, number)

        return append_next(self.journal, len(self._decisions(self._step)) + 1, made).event_id

    def _event(
        self, type_: str, data: dict[str, Any], *of: str | int, target: str | None = None
    ) -> NewEvent:
        return NewEvent(
            type_, identity(type_, *of), data, _ACTOR, session_id=self.task, target_id=target
        )

    def _append(self, type_: str, data: dict[str, Any], *of: str | int, target: str) -> None:
        self.journal.append([self._event(type_, data, *of, target=target)])

    def _decisions(self, step: int | None = None) -> list[Event]:
        """Return the decisions about a step of the task, or about all steps of all tasks."""
        of_task = None if step is None else self.task
        events = self.journal.events(types=[ev.GATE_DECIDED], session_id=of_task)
        about = ((event, (event.data or {}).get("step")) for event in events)
        return [event for event, of in about if of is not None and step in (None, of)]

    def _reflected(self, step: int | None = None) -> list[Event]:
        """Return those of the decisions with which a reflection began."""
        return [
            event for event in self._decisions(step) if (event.data or {}).get("reflects") is True
        ]

    def _answers(self, decision_ids: Iterable[str], task: str | None = None) -> list[Event]:
        wanted = frozenset(decision_ids)
        answers = self.journal.events(types=[ev.REFLECTION_ANSWERED], session_id=task)
        return [event for event in answers if event.target_id in wanted]

    def _verdict(self, answer: Event) -> ReflectionResult:
        data = answer.data or {}
        trigger = ReflectionTrigger(data.get("trigger", ReflectionTrigger.LOW_CONFIDENCE))
        return _read_verdict(str(data.get("answer", "")), trigger, self.gate.threshold)

    def _compare(self, decision_id: str, result: ReflectionResult) -> None:
        """Record a revision where the reflection before this one on the step asked for another
        try.
        """
        begun = [event.event_id for event in self._reflected(self._step)]
        before = begun[: begun.index(decision_id)][-1:] if decision_id in begun else []
        verdicts = [self._verdict(event) for event in self._answers(before, self.task)]
        if not verdicts or not verdicts[-1].should_retry or result.quality_score is None:
            return
        initial, retried = verdicts[-1].quality_score or 0.0, result.quality_score
        improved = score_improvement(initial, retried) >= MIN_REFLECTION_RETRY_DELTA
        data = {"initial": initial, "retried": retried, "improved": improved, "mode": "step"}
        if self.journal.event(identity(ev.REVISION_ATTEMPTED, before[0])) is None:
            self._append(ev.REVISION_ATTEMPTED, data, before[0], target=before[0])


def _context_hash(context: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of a context."""
    return sha256(context.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _result(result: ToolResult) -> str:
    if isinstance(result, str):
        return result
    said = result.get("error") or result.get("output") or result.get("result")
    return f"{result.get('name')}: {result.get('status')}{f' ({said})' if said else ''}"


def _public(lesson: Lesson) -> ReflectionLesson:
    mistake, hashed = (str(lesson.data.get(name, "")) for name in ("mistake", "context_hash"))
    created_at = datetime.fromisoformat(lesson.created_at).timestamp()
    recorded = (lesson.id, lesson.task, mistake, lesson.text, hashed, created_at)
    return ReflectionLesson(*recorded, lesson.times_applied, lesson.effectiveness)


def _read_verdict(
    llm_response: str, trigger: ReflectionTrigger, threshold: float
) -> ReflectionResult:
    """Return what an answer says: by its JSON object, else by its words."""
    begun = time.perf_counter()
    score, issues, fix = _said(llm_response[:_MOST])
    took = (time.perf_counter() - begun) * 1000
    if score is None:
        return ReflectionResult(
            trigger, None, None, issues, fix, reflection_time_ms=took, failure=_UNREADABLE
        )
    passes = rounded(score) >= rounded(threshold)
    guidance = "" if passes else fix or "; ".join(issues)
    return ReflectionResult(trigger, passes, score, issues, fix, not passes, guidance, took)


def _said(text: str) -> tuple[float | None, list[str], str | None]:
    """(score, issues, fix) of an answer."""
    objects = [found.value or {} for found in objects_in(text)]
    chosen = next((one for one in objects if _score(one.get("quality_score")) is not None), None)
    if chosen is not None:
        return (
            _score(chosen["quality_score"]),
            _issues(chosen),
            _text(chosen.get("suggested_fix")) or None,
        )
    issues = next((found for one in objects if (found := _issues(one))), [])
    return score_in_words(text), issues, None


def _score(value: Any) -> float | None:
    """Return a number, or a text that is one, within 0 and 1; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        score = float(value)
    except (ValueError, OverflowError):
        return None
    return None if not math.isfinite(score) else rounded(min(max(score, 0.0), 1.0))


def _issues(value: Mapping[str, Any]) -> list[str]:
    given = value.get("issues")
    several = given if isinstance(given, list) else [given]
    return [text for text in map(_text, several) if text]


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
