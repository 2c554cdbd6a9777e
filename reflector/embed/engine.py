"""The reflection engine: when to reflect on a step, the prompts, the verdicts, and the lessons of a
task. Programs import it as `reflector.engine`.

Invariant: the engine does not call a model (requirement E-01). Its only state is the name of its
task and a decision that has not begun. Everything else is computed from events, in memory or in a
ledger, so two engines on one ledger share it. A reflection counts for its step when its prompt is
built, not when the gate is asked.

A verdict is a pure function of the answer and the threshold (E-06, E-07). An answer without a score
and without a clear word has no verdict, so no retry follows from it. At most
`_MAX_ANSWER_CHARACTERS` are read, in linear time.
"""

from __future__ import annotations

import math
import reprlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple
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
from reflector.events.event import (
    GATE_DECIDED,
    LESSON_RECORDED,
    REFLECTION_ANSWERED,
    REFLECTION_FAILED,
    REVISION_ATTEMPTED,
    Event,
    NewEvent,
    identity,
)
from reflector.events.lessons import MOST_TOLD
from reflector.judges.answers import objects_in
from reflector.judges.prompts import find_template, listed
from reflector.ledger.store import Ledger
from reflector.quality.signals import PRESETS, Decision, ReflectionTrigger, Signs, rounded
from reflector.quality.verdict import score_in_words
from reflector.text.secrets import quote

#: The type of a task and the name of a task are one line each.
_MAX_TASK_CHARACTERS = 200
_ACTOR = "engine"
_MAX_ANSWER_CHARACTERS = 200_000
_UNREADABLE = "the answer contains neither a quality score nor a clear verdict"


@dataclass(slots=True)
class ReflectionLesson:
    """A mistake and its correction.

    created_at     seconds since 1970
    effectiveness  from 0 to 1
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
    """The verdict of a reflection on a step.

    passes_quality_gate  whether the score reaches the threshold; None without a verdict
    quality_score        from 0 to 1; None without a verdict
    should_retry         whether the agent should try again
    retry_guidance       advice for the agent's next try; "" for none
    reflection_time_ms   how long it took to read the answer, in milliseconds
    failure              the reason why there is no verdict; "" if there is one
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
    """The gate, the prompts, the verdicts and the lessons of one agent, for one task at a time.

    quality_threshold         the score at which a step passes; the gate opens below it
    max_reflections_per_step  the maximum number of reflections on one step of a task
    reflection_bank_size      the maximum number of lessons; the least effective one goes first
    periodic_interval         reflect on every N-th step; 0 for none
    ledger                    keeps and shares the events; None for memory
    task                      the first task's name; engines with the same task share its counts
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
        self.gate = replace(
            PRESETS["step"],
            threshold=quality_threshold,
            per_step=max_reflections_per_step,
            period=periodic_interval,
        )
        self.lesson_policy = LessonPolicy(alpha=alpha, bank_size=reflection_bank_size)
        self.journal = Ledger.open("sqlite://") if ledger is None else ledger
        # `reset_step_counts` sets both.
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
        """Return whether to reflect on a step, and the trigger.

        Raises:
            ValueError: a number is NaN.
            LedgerError: the ledger cannot be read or written.
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
        """Return the prompt about a step. The call begins the reflection on the step.

        Raises:
            TemplateError: the user's own template cannot be filled.
            LedgerError: the ledger cannot be read or written.
        """
        prompt = find_template("step.txt").fill(
            {
                "goal": goal,
                "step_description": step_description,
                "response": response,
                "tool_results": listed(map(_result_line, tool_results)),
                "lessons": listed(map(_lesson_line, relevant_lessons or ())),
            }
        )
        self._begin()
        return prompt

    def parse_reflection(
        self, llm_response: str, trigger: ReflectionTrigger | str
    ) -> ReflectionResult:
        """Return the verdict in a model's answer about the step.

        Each answer is recorded, including an unreadable one. If the previous verdict asked for a
        retry of the step, the new score is recorded as the result of that retry.

        Raises:
            ValueError: the trigger does not exist.
            LedgerError: the ledger cannot be read or written.
        """
        verdict = _read_verdict(llm_response, ReflectionTrigger(trigger), self.gate.threshold)
        decision_id = self._begun or self._begin()
        self._begun = None
        answer = {
            "answer": stored_text(llm_response, _MAX_ANSWER_CHARACTERS),
            "backend": _ACTOR,
            "model": "embedder",
            "mode": "step",
            "trigger": str(verdict.triggered_by),
            "iteration": 1,
        }
        self._append(REFLECTION_ANSWERED, answer, decision_id, 1, target=decision_id)
        if verdict.failure:
            failure = {"stage": "parse", "message": verdict.failure, "attempts": 1}
            self._append(REFLECTION_FAILED, failure, decision_id, 1, target=decision_id)
        else:
            self._record_revision(decision_id, verdict)
        return verdict

    def build_improvement_prompt(
        self, original_response: str, issues: Sequence[str] | str, goal: str
    ) -> str:
        """Return the prompt that asks for a better response.

        Raises:
            TemplateError: the user's own template cannot be filled.
        """
        issues = listed([issues] if isinstance(issues, str) else issues)
        return find_template("improvement.txt").fill(
            {"original_response": original_response, "issues": issues, "goal": goal}
        )

    def store_lesson(
        self, task_type: str, mistake: str, correction: str, context: str = ""
    ) -> ReflectionLesson:
        """Store a lesson and return it. The bank keeps it only once.

        Raises:
            LedgerError: the ledger cannot be read or written.
        """
        event = lesson_event(
            "mistake",
            stored_text(correction),
            actor=_ACTOR,
            task=quote(task_type, _MAX_TASK_CHARACTERS),
            mistake=stored_text(mistake),
            context_hash=_context_hash(context),
        )
        lessons = self.book().lessons
        lesson_id = event.event_id
        for number in count(1):  # a displaced lesson comes back as another lesson
            if lesson_id not in lessons or lessons[lesson_id].is_kept:
                break
            lesson_id = identity(LESSON_RECORDED, *identity_texts(event.data), number)
        self.journal.append([replace(event, event_id=lesson_id)])
        return _public(self.book().lessons[lesson_id])

    def get_relevant_lessons(
        self, task_type: str, context: str = "", limit: int | None = None
    ) -> list[ReflectionLesson]:
        """Return at most 1,000 lessons for a type of task. Lessons of the same context come first,
        then the order is effectiveness, age and id. Each returned lesson counts as applied once
        more.

        Raises:
            LedgerError: the ledger cannot be read or written.
        """
        task = quote(task_type, _MAX_TASK_CHARACTERS)
        context_hash = _context_hash(context)

        def rank(lesson: Lesson) -> tuple[bool, float, str, str]:
            is_elsewhere = lesson.data.get("context_hash") != context_hash
            return is_elsewhere, -lesson.effectiveness, lesson.created_at, lesson.id

        most = MOST_TOLD if limit is None else min(max(limit, 0), MOST_TOLD)
        bank = [lesson for lesson in self.book() if lesson.is_kept]
        of_type = sorted((lesson for lesson in bank if lesson.task == task), key=rank)
        ids = [lesson.id for lesson in of_type[:most]]
        place = {"actor": _ACTOR, "session_id": self.task, "task": task}
        record_told(self.journal, ids, via="retrieval", **place)
        lessons = self.book().lessons
        return [_public(lessons[id_]) for id_ in ids]

    def record_lesson_outcome(self, lesson_id: str, success: bool, why: str = "") -> float:
        """Record whether a lesson helped, and return its effectiveness.

        Raises:
            ValueError: the lesson does not exist, or success is not a boolean.
            LedgerError: the ledger cannot be read or written.
        """
        if success not in (True, False):  # a word such as "false" would be a success
            raise ValueError(f"success is {reprlib.repr(success)}; it must be True or False")
        kind = "success" if success else "failure"
        place = {"source": "api", "actor": _ACTOR, "session_id": self.task}
        observe_outcome(self.journal, lesson_id, kind, stored_text(why), **place)
        return self.book().lessons[lesson_id].effectiveness

    def get_stats(self) -> dict[str, float | int]:
        """Return the seven figures of requirement E-12, over all tasks of the journal.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        decisions = {event.event_id for event in self._reflected()}
        verdicts = [self._verdict(answer) for answer in self._answers(decisions)]
        revisions = [
            revision
            for revision in self.journal.events(types=[REVISION_ATTEMPTED])
            if revision.target_id in decisions
        ]
        return {
            "total_reflections": len(decisions),
            "retries_triggered": sum(verdict.should_retry for verdict in verdicts),
            "improvements_made": sum(revision.fact("improved") is True for revision in revisions),
            **bank_figures(self.book()),
            "quality_threshold": self.gate.threshold,
        }

    def reset_step_counts(self, task: str = "") -> None:
        """Begin another task, without any reflections.

        task  its name; "" for a random one
        """
        self.task = quote(task, _MAX_TASK_CHARACTERS) or uuid4().hex
        self._asked = self._begun = None
        self._step = 0

    def book(self) -> LessonBook:
        """Return all lessons with their worth.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        return lesson_book(self.journal, self.lesson_policy)

    def _begin(self) -> str:
        """Record that a reflection begins, and return the id of its decision."""
        signals, decision = self._asked or (
            {},
            Decision(None, "the program that uses reflector started this reflection"),
        )
        self._asked = None
        self._begun = self._record(signals, decision, reflects=True)
        return self._begun

    def _record(self, signals: dict[str, Any], decision: Decision, *, reflects: bool) -> str:
        """Record the gate's decision about the step, and return its id."""
        facts = {
            "policy": self.gate.id,
            **decision.facts,
            "reflects": reflects,
            "signals": signals,
            "task": self.task,
            "step": self._step,
        }

        def numbered(number: int) -> NewEvent:
            return self._event(GATE_DECIDED, facts, self.task, self._step, number)

        return append_next(self.journal, len(self._decisions(self._step)) + 1, numbered).event_id

    def _event(
        self, type_: str, facts: dict[str, Any], *parts: str | int, target: str | None = None
    ) -> NewEvent:
        """Return an event of the task. Its id follows from the parts."""
        event_id = identity(type_, *parts)
        return NewEvent(type_, event_id, facts, _ACTOR, session_id=self.task, target_id=target)

    def _append(self, type_: str, facts: dict[str, Any], *parts: str | int, target: str) -> None:
        self.journal.append([self._event(type_, facts, *parts, target=target)])

    def _decisions(self, step: int | None = None) -> list[Event]:
        """Return the decisions about a step of the task, or about all steps of all tasks."""
        task = None if step is None else self.task
        decisions = self.journal.events(types=[GATE_DECIDED], session_id=task)
        about_steps = [event for event in decisions if event.fact("step") is not None]
        return [event for event in about_steps if step in (None, event.facts["step"])]

    def _reflected(self, step: int | None = None) -> list[Event]:
        """Return the decisions with which a reflection began, of the steps that `_decisions`
        selects.
        """
        return [event for event in self._decisions(step) if event.fact("reflects") is True]

    def _answers(self, decision_ids: Collection[str], task: str | None = None) -> list[Event]:
        """Return the answers about the reflections that began with these decisions."""
        answers = self.journal.events(types=[REFLECTION_ANSWERED], session_id=task)
        return [answer for answer in answers if answer.target_id in decision_ids]

    def _verdict(self, answer: Event) -> ReflectionResult:
        facts = answer.facts
        trigger = ReflectionTrigger(facts.get("trigger", ReflectionTrigger.LOW_CONFIDENCE))
        return _read_verdict(str(facts.get("answer", "")), trigger, self.gate.threshold)

    def _record_revision(self, decision_id: str, verdict: ReflectionResult) -> None:
        """Record a revision if the previous reflection on the step asked for a retry."""
        decisions = [event.event_id for event in self._reflected(self._step)]
        if decision_id not in decisions[1:] or verdict.quality_score is None:
            return
        earlier_id = decisions[decisions.index(decision_id) - 1]
        answers = self._answers([earlier_id], self.task)
        if not answers:
            return
        earlier = self._verdict(answers[-1])
        if not earlier.should_retry:
            return
        initial = earlier.quality_score or 0.0
        improvement = score_improvement(initial, verdict.quality_score)
        revision = {
            "initial": initial,
            "retried": verdict.quality_score,
            "improved": improvement >= MIN_REFLECTION_RETRY_DELTA,
            "mode": "step",
        }
        if self.journal.event(identity(REVISION_ATTEMPTED, earlier_id)) is None:
            self._append(REVISION_ATTEMPTED, revision, earlier_id, target=earlier_id)


def _context_hash(context: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of a context."""
    return sha256(context.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _lesson_line(lesson: ReflectionLesson | str) -> str:
    return lesson if isinstance(lesson, str) else f"{lesson.mistake}: {lesson.correction}"


def _result_line(result: ToolResult) -> str:
    if isinstance(result, str):
        return result
    line = f"{result.get('name')}: {result.get('status')}"
    output = result.get("error") or result.get("output") or result.get("result")
    return f"{line} ({output})" if output else line


def _public(lesson: Lesson) -> ReflectionLesson:
    return ReflectionLesson(
        lesson_id=lesson.id,
        task_type=lesson.task,
        mistake=str(lesson.data.get("mistake", "")),
        correction=lesson.text,
        context_hash=str(lesson.data.get("context_hash", "")),
        created_at=datetime.fromisoformat(lesson.created_at).timestamp(),
        times_applied=lesson.times_applied,
        effectiveness=lesson.effectiveness,
    )


def _read_verdict(
    llm_response: str, trigger: ReflectionTrigger, threshold: float
) -> ReflectionResult:
    """Return the verdict of an answer's JSON object, or else of its words."""
    begun = time.perf_counter()
    opinion = _opinion_in(llm_response[:_MAX_ANSWER_CHARACTERS])
    milliseconds = (time.perf_counter() - begun) * 1000
    verdict = ReflectionResult(
        triggered_by=trigger,
        passes_quality_gate=None,
        quality_score=opinion.score,
        issues_found=opinion.issues,
        suggested_fix=opinion.fix,
        reflection_time_ms=milliseconds,
        failure=_UNREADABLE if opinion.score is None else "",
    )
    if opinion.score is None:
        return verdict
    passes = rounded(opinion.score) >= rounded(threshold)
    guidance = "" if passes else opinion.fix or "; ".join(opinion.issues)
    return replace(
        verdict, passes_quality_gate=passes, should_retry=not passes, retry_guidance=guidance
    )


class _Opinion(NamedTuple):
    """The content of an answer: a score from 0 to 1, the issues and a fix."""

    score: float | None
    issues: list[str]
    fix: str | None


def _opinion_in(text: str) -> _Opinion:
    """Return the opinion of the first JSON object with a score, or else of the words. The latter
    gets the issues of the first object that has issues.
    """
    objects = [parsed.value or {} for parsed in objects_in(text)]
    for candidate in objects:
        score = _score(candidate.get("quality_score"))
        if score is not None:
            fix = _text(candidate.get("suggested_fix")) or None
            return _Opinion(score, _issues(candidate), fix)
    issues = next(filter(None, map(_issues, objects)), [])
    return _Opinion(score_in_words(text), issues, None)


def _score(value: Any) -> float | None:
    """Return a number within 0 and 1, also from a text; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        score = float(value)
    except (ValueError, OverflowError):
        return None
    return rounded(min(max(score, 0.0), 1.0)) if math.isfinite(score) else None


def _issues(value: Mapping[str, Any]) -> list[str]:
    issues = value.get("issues")
    return list(filter(None, map(_text, issues if isinstance(issues, list) else [issues])))


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
