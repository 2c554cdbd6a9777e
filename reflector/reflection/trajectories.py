"""Trajectories in a ledger: recorded once, judged by the runner, and read back.

Invariant: a trajectory is a window. Its question, answer and reports identify it, so recording it
again adds nothing and asks nothing. Each answer is appended before it is read. Its lessons and
verdicts follow in one transaction, after each question has an answer. A text that is not an answer
is a failure. While the trajectory is open, a failed question is asked again, by drains at most
twice, and the other questions are not.

The runner, `reflector lab trajectory` and `reflector.ground_truth` use this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from reflector.config import ConfigError
from reflector.events.event import (
    LESSON_RECORDED,
    REFLECTION_COMPLETED,
    REFLECTION_FAILED,
    TRAJECTORY_RECORDED,
    Event,
    NewEvent,
    identity,
)
from reflector.events.lessons import MAX_LESSON
from reflector.events.registry import EVENT_TYPES
from reflector.events.sessions import rationale_of
from reflector.judges.answers import (
    MAX_ANALYSIS,
    MAX_RATIONALE,
    PARSER_VERSION,
    Parsed,
    ParsedTag,
    worst,
)
from reflector.judges.excerpt import estimate_tokens
from reflector.judges.protocol import (
    MAX_TOKENS,
    OUTAGES,
    Answer,
    reply_of,
)
from reflector.judges.truth.models import (
    Bullet,
    BulletEvaluation,
    Insight,
    Playbook,
    Trajectory,
)
from reflector.judges.truth.questions import (
    Case,
    Question,
    ReflectorPromptBuilder,
    Talk,
    Unanswered,
    known_language,
    talk,
)
from reflector.ledger.store import Ledger, WindowRow
from reflector.mistakes import Mistake
from reflector.playbook.names import SECTIONS
from reflector.project import DatasetRefused, checked_dataset
from reflector.reflection import recorder as events_of
from reflector.reflection.recorder import REDACTED_ANSWER, Failure, Recorder, Reflected
from reflector.reflection.window import row_of_window, tags_of
from reflector.text.bounds import encodable
from reflector.text.phrases import counted
from reflector.text.secrets import quote, redact

#: The fields of an insight besides its key sentence.
_EXPLANATIONS = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach")


def record_trajectory(ledger: Ledger, case: Case) -> tuple[WindowRow, Event]:
    """Record a trajectory once; return its window and event.

    Raises:
        Mistake: the trajectory is too long.
        LedgerError: the ledger cannot be read or written.
    """
    digest = _digest_of(case)
    event_id = identity(TRAJECTORY_RECORDED, digest)
    if ledger.event(event_id) is None:
        data = _trajectory_data(ledger, case)
        if fault := EVENT_TYPES[TRAJECTORY_RECORDED].fault(data):
            raise Mistake(
                f"reflector cannot record the trajectory: its {fault}; correct this value"
            )
        created_at = case.trajectory.created_at
        event = NewEvent(
            TRAJECTORY_RECORDED,
            event_id,
            data,
            "ingest",
            occurred_at=created_at.isoformat() if created_at.tzinfo else None,
            session_id=digest[:32],
        )
        ledger.append([event])
    recorded = ledger.event(event_id)
    assert recorded is not None  # it was appended above
    return row_of_window(ledger, recorded), recorded


def _digest_of(case: Case) -> str:
    """Return the digest that identifies a trajectory, from its question, answer and reports."""
    trajectory = case.trajectory.model_dump(exclude={"created_at", "dataset"})
    text = json.dumps(
        [case.dataset, trajectory, case.ground_truth, case.test_report],
        sort_keys=True,
        ensure_ascii=False,
    )
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _trajectory_data(ledger: Ledger, case: Case) -> dict[str, Any]:
    """Return the data of the event of a trajectory."""
    trajectory = case.trajectory
    error = trajectory.error_message
    names = {row.name for row in ledger.rows()}
    used = dict.fromkeys(trajectory.used_bullet_ids)
    cited = [bullet_id for bullet_id in used if bullet_id in names]
    unknown = [quote(bullet_id, 200) for bullet_id in used if bullet_id not in names]
    return {
        "query": _recordable(trajectory.query),
        "dataset": case.dataset,
        "answer": _recordable(trajectory.generated_answer),
        "steps": [_recordable(step) for step in trajectory.reasoning_steps],
        "status": trajectory.status,
        "error": None if error is None else _recordable(error),
        "cited": cited,
        "unknown": unknown,
        "ground_truth": _recordable(case.ground_truth),
        "test_report": _recordable(case.test_report),
        "iterations": case.iterations,
        "language": case.language,
    }


def _recordable(text: str) -> str:
    """Return a text as it is recorded: without secrets, and without lone surrogates, which no
    engine stores.
    """
    return redact(encodable(text))


def playbook_of(ledger: Ledger) -> Playbook:
    """Return the live bullets of a ledger as the playbook of a dataset."""
    return Playbook(
        bullets=[
            Bullet(
                id=row.name,
                section=SECTIONS[row.section],
                content=row.text,
                searchable_text=row.text,
                helpful=row.helpful,
                harmful=row.harmful,
            )
            for row in ledger.bullets()
        ]
    )


def case_of(ledger: Ledger, recorded: Event) -> Case:
    """Return a recorded trajectory with the bullets that it used and that are live."""
    data: Any = recorded.data
    trajectory = Trajectory(
        query=data["query"],
        dataset=data["dataset"] or "",
        generated_answer=data["answer"],
        reasoning_steps=list(data.get("steps", ())),
        used_bullet_ids=list(data["cited"]),
        status=data["status"],
        error_message=data.get("error"),
    )
    bullets = {bullet.id: bullet for bullet in playbook_of(ledger).bullets}
    return Case(
        trajectory,
        ground_truth=data.get("ground_truth", ""),
        test_report=data.get("test_report", ""),
        dataset=trajectory.dataset,
        iterations=_iterations(recorded),
        bullets=[bullets[name] for name in trajectory.used_bullet_ids if name in bullets],
        language=known_language(data.get("language")),
    )


def _iterations(recorded: Event) -> int:
    """Return the number of rounds of insights; a file may contain any value."""
    iterations = recorded.fact("iterations", 1)
    return iterations if type(iterations) is int else 1


class Finished(NamedTuple):
    """How a trajectory's reflection ended, and the result of its answers."""

    reflected: Reflected
    talk: Talk


def finish_trajectory(
    recorder: Recorder,
    window: WindowRow,
    recorded: Event,
    *,
    forced: bool = False,
    builder: Any = None,
) -> Finished:
    """Judge a recorded trajectory: ask each question without an answer, and append the result of
    the answers. If the API is away or a budget is spent, it stays open; the talk has the answers so
    far.
    """
    closed = _why_closed(recorder, recorded, forced=forced)
    if closed is not None:
        return Finished(recorder.skip(window, recorded, closed), Talk())
    asking = _Asking(recorder, recorded, forced)
    try:
        case = case_of(recorder.ledger, recorded)
        checked_dataset(case.dataset)
        builder = builder or ReflectorPromptBuilder(
            project=recorder.gate.project, language=case.language
        )
        answers = talk(case, builder, asking)
    except DatasetRefused as error:  # a file may contain any name
        failure = Failure("dataset", str(error), final=True)
        return Finished(recorder.fail(window, failure), Talk())
    return Finished(_append_reflection(recorder, window, asking, answers), answers)


def _why_closed(recorder: Recorder, recorded: Event, *, forced: bool) -> str | None:
    """Return why nothing is asked about a trajectory, None if it may be asked about."""
    try:
        reply_of(recorder.backend)
    except ConfigError as error:  # a drain by rules leaves it to a model
        return str(error)
    is_model = recorder.backend.is_model
    allowance = recorder.gate.check(
        recorder.ledger, recorded, cited=True, live=True, is_model=is_model, forced=forced
    )
    return allowance if isinstance(allowance, str) else None


def _append_reflection(
    recorder: Recorder, window: WindowRow, asking: _Asking, answers: Talk
) -> Reflected:
    """Append the result of a talk, if each question has an answer; return how it ended."""
    if asking.ended:
        return asking.ended
    if answers.unreadable:
        return recorder.fail(window, *_refused(asking, answers))
    if asking.failure:
        return asking.failure
    if asking.last_answer is None:
        return recorder.fail(
            window, Failure("request", "the trajectory does not contain a question for the judge")
        )
    events = _talk_events(recorder.ledger, asking.recorded, answers, asking.last_answer)
    recorder.ledger.append(events)
    insights = counted(len(answers.insights), "insight")
    verdicts = [f"{evaluation.bullet_id} {evaluation.tag}" for evaluation in answers.evaluations]
    detail = ", ".join([insights, *verdicts])
    return Reflected(window.session_id, window.event_id, "completed", detail)


class _Answered(NamedTuple):
    """An answer, and how often its question was asked."""

    event: Event
    tries: int


@dataclass(slots=True)
class _Asking:
    """The ledger's side of a talk: it reuses a recorded answer, and asks for any other.

    last_answer  the last one that was used
    failure      the last question that failed
    ended        why nothing more is asked: the API is away, or a budget is spent
    answers      by the place of the question
    """

    recorder: Recorder
    recorded: Event
    forced: bool
    last_answer: Event | None = None
    failure: Reflected | None = None
    ended: Reflected | None = None
    answers: dict[tuple[int, int], _Answered] = field(default_factory=dict)

    def __call__(self, question: Question) -> str:
        """Return the text of a question's answer.

        Raises:
            Unanswered: there is none.
        """
        place = (question.iteration, question.part)
        tries = self._next_try(place)
        stored = self.recorder.ledger.event(self._answer_id(place, tries))
        answer = stored or self._ask(question, place, tries)
        self.last_answer = answer
        self.answers[place] = _Answered(answer, tries)
        if answer.data is None:
            raise Unanswered(REDACTED_ANSWER)
        text: str = answer.data["answer"]
        return text

    def _answer_id(self, place: tuple[int, int], tries: int) -> str:
        reflection_id = events_of.reflection_id_of(
            self.recorded.event_id, self.recorder.backend.name
        )
        return events_of.answer_id(reflection_id, *place, tries)

    def _next_try(self, place: tuple[int, int]) -> int:
        """Return the number of the first attempt at a question whose answer is not refused, asked
        already or not. An answer is refused if this parser found none in it, because it would find
        none again.
        """
        ledger = self.recorder.ledger
        refused = {
            event.fact("answer")
            for event in ledger.targeting(self.recorded.event_id, [REFLECTION_FAILED])
            if event.fact("parser") == PARSER_VERSION
        }
        tries = 1
        while self._answer_id(place, tries) in refused:
            tries += 1
        return tries

    def _ask(self, question: Question, place: tuple[int, int], tries: int) -> Event:
        """Ask a question and return the recorded answer. If no question can be answered now, this
        was the last one.

        Raises: Unanswered.
        """
        if self.ended:
            raise Unanswered("reflector did not ask this question")
        event_of = partial(
            events_of.answer_event,
            self.recorded,
            self.recorder.backend.name,
            "ground_truth",
            place=place,
            tries=tries,
        )
        window = row_of_window(self.recorder.ledger, self.recorded)
        answer = self.recorder.ask_and_store(
            window, self.recorded, partial(self._reply, question), event_of
        )
        if isinstance(answer, Event):
            return answer
        if answer.outcome == "skipped" or answer.stage in OUTAGES:
            self.ended = answer
        self.failure = answer
        raise Unanswered(answer.detail)

    def _reply(self, question: Question) -> Answer:
        backend = self.recorder.backend
        if backend.is_model:
            tokens = estimate_tokens(question.prompt) + MAX_TOKENS
            self.recorder.gate.reserve(self.recorder.ledger, tokens, forced=self.forced)
        return reply_of(backend)(question)


def _refused(asking: _Asking, answers: Talk) -> Iterator[Failure]:
    """Yield the failure of each text that is not an answer."""
    for question, reason in answers.unreadable:
        answered = asking.answers[question.iteration, question.part]
        yield Failure(
            "parse",
            f"{question.subject}: {reason}",
            parser=PARSER_VERSION,
            place=(question.iteration, question.part, answered.tries, PARSER_VERSION),
            answer_id=answered.event.event_id,
        )


def _talk_events(
    ledger: Ledger, recorded: Event, answers: Talk, last_answer: Event
) -> list[NewEvent]:
    """Return the events of a talk: lessons, the reflection and its tags."""
    reflection_id = last_answer.reflection_id or ""
    lessons = [
        NewEvent(
            LESSON_RECORDED,
            identity(LESSON_RECORDED, reflection_id, index),
            _lesson_data(recorded, insight),
            last_answer.actor,
            session_id=recorded.session_id,
            reflection_id=reflection_id,
            target_id=recorded.event_id,
        )
        for index, insight in enumerate(answers.insights)
    ]
    analysis = "\n".join(insight.key_insight for insight in answers.insights)
    tags = tuple(
        ParsedTag(index, verdict.bullet_id, verdict.tag, quote(verdict.reason, MAX_RATIONALE))
        for index, verdict in enumerate(answers.evaluations)
    )
    parsed = Parsed(
        quote(analysis, MAX_ANALYSIS),
        tags,
        worst(answers.strategies),
        tuple(quote(problem, 300) for problem in answers.problems[:50]),
    )
    rows = ledger.rows_by_name()
    # Every tag gets an event, because the model gave each one in its last answer.
    completion = events_of.completion_events(
        recorded, reflection_id, parsed, last_answer, rows, tags
    )
    return [*lessons, *completion]


def _lesson_data(recorded: Event, insight: Insight) -> dict[str, Any]:
    return {
        "kind": "insight",
        "text": _recordable(insight.key_insight)[:MAX_LESSON],
        "task": recorded.facts["dataset"],
        **{name: _recordable(getattr(insight, name)) for name in _EXPLANATIONS},
    }


def judged_trajectory(ledger: Ledger, recorded: Event) -> Talk | None:
    """Return the ledger's record of a judged trajectory, without redacted texts; None for one that
    is not judged.
    """
    story = ledger.targeting(recorded.event_id)
    completed = next((event for event in story if event.type == REFLECTION_COMPLETED), None)
    if completed is None:
        return None
    data: Any = completed.facts
    tags: list[Any] = [event.data for event in tags_of(ledger, completed)]
    lessons: list[Any] = [event.data for event in story if event.type == LESSON_RECORDED]
    insights = [
        Insight(key_insight=lesson["text"], **{name: lesson[name] for name in _EXPLANATIONS})
        for lesson in lessons
        if lesson
    ]
    evaluations = [
        BulletEvaluation(
            bullet_id=tag["name"], tag=tag["tag"], reason=rationale_of(data, tag) or ""
        )
        for tag in tags
    ]
    return Talk(insights, evaluations, list(data.get("problems", ())), _iterations(recorded))


def run_recorded(
    recorder: Recorder, builder: Any, case: Case, *, ask: bool = True
) -> tuple[Talk, Reflected | None]:
    """Record a trajectory and judge it; without `ask`, only record it. Return the result of its
    answers, and how it ended, or None if it had ended before.

    Raises:
        Mistake: the trajectory is too long.
        LedgerError: the ledger cannot be read or written.
    """
    window, recorded = record_trajectory(recorder.ledger, case)
    reflected: Reflected | None = None
    answers = Talk()
    is_open = window.state != "completed"
    if is_open and not ask:
        reflected = _left_open(window)
    elif is_open and recorded.data is not None:
        reflected, answers = finish_trajectory(recorder, window, recorded, builder=builder)
    answers = judged_trajectory(recorder.ledger, recorded) or answers
    _add_problems(answers, recorded, reflected)
    return answers, reflected


def _left_open(window: WindowRow) -> Reflected:
    """Return the end of a trajectory that was recorded and not judged, after an earlier one met an
    API that did not answer.
    """
    away = "the API did not answer, but the trajectory is recorded; run the same command again"
    return Reflected(window.session_id, window.event_id, "failed", away, "transport", again=True)


def _add_problems(answers: Talk, recorded: Event, reflected: Reflected | None) -> None:
    """Add the unknown bullets of a trajectory, and the reason for which it was not judged."""
    is_unfinished = reflected is not None and reflected.outcome != "completed"
    if reflected and is_unfinished and not answers.problems:
        answers.problems.append(reflected.detail)
    answers.problems[:0] = unknown_bullets(recorded.fact("unknown", ()))


def unknown_bullets(ids: Iterable[str]) -> list[str]:
    """Return a problem in words for each bullet that the playbook does not have."""
    return [f"{quote(id_, 80)} is not a rule, so it was skipped" for id_ in ids]
