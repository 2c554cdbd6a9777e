"""Trajectories in the ledger: recorded once, judged by the runner, and read back.

Invariant: a trajectory is a window. It is known by what was asked, answered and reported, so running it again adds
nothing and asks nobody. Each answer is appended before it is read, and what the answers come to (lessons, verdicts,
what could not be read) in one transaction. A question that failed is asked again as long as the trajectory is open, and
the others are not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from reflector.config import ConfigError
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.lessons import MAX_LESSON
from reflector.events.registry import EVENT_TYPES
from reflector.events.sessions import rationale_of
from reflector.ledger.store import Ledger, WindowRow
from reflector.mistakes import Mistake
from reflector.playbook.names import SECTIONS
from reflector.project import DatasetRefused
from reflector.reflection import reflection_events as events_of
from reflector.reflection.answers import MAX_ANALYSIS, MAX_RATIONALE, PARSER_VERSION, Parsed, ParsedTag, worst
from reflector.reflection.excerpt import estimate_tokens
from reflector.reflection.protocol import MAX_TOKENS, OUTAGES, Answer, reply_of
from reflector.reflection.reflection_events import Recorder, Reflected
from reflector.reflection.truth.asking import Case, Question, ReflectorPromptBuilder, Talk, Unanswered, talk
from reflector.reflection.truth.models import Bullet, BulletEvaluation, Insight, Playbook, Trajectory
from reflector.reflection.window import tags_of
from reflector.text.bounds import encodable
from reflector.text.secrets import quote, redact

#: The fields of an insight besides its key sentence.
_HOW = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach")


def record(ledger: Ledger, case: Case) -> tuple[WindowRow, Event]:
    """Record a trajectory once; return its window and event. Raises Mistake where it is too long, and LedgerError."""
    trajectory = case.trajectory
    said = trajectory.model_dump(exclude={"created_at", "dataset"})
    whole = json.dumps([case.dataset, said, case.ground_truth, case.test_report], sort_keys=True, ensure_ascii=False)
    digest = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
    event_id, session_id = identity(ev.TRAJECTORY_RECORDED, digest), digest[:32]
    if ledger.event(event_id) is None:
        known = {row.name for row in ledger.rows()}
        used = list(dict.fromkeys(trajectory.used_bullet_ids))
        data = {
            "query": _kept(trajectory.query),
            "dataset": case.dataset,
            "answer": _kept(trajectory.generated_answer),
            "steps": [_kept(step) for step in trajectory.reasoning_steps],
            "status": trajectory.status,
            "error": None if trajectory.error_message is None else _kept(trajectory.error_message),
            "cited": [id_ for id_ in used if id_ in known],
            "unknown": [quote(id_, 200) for id_ in used if id_ not in known],
            "ground_truth": _kept(case.ground_truth),
            "test_report": _kept(case.test_report),
            "iterations": case.iterations,
        }
        if fault := next(EVENT_TYPES[ev.TRAJECTORY_RECORDED].faults(data), None):
            raise Mistake(f"the trajectory cannot be recorded: its {fault}; shorten it")
        at = trajectory.created_at.isoformat() if trajectory.created_at.tzinfo else None
        event = NewEvent(ev.TRAJECTORY_RECORDED, event_id, data, "ingest", occurred_at=at, session_id=session_id)
        ledger.append([event])
    recorded = ledger.event(event_id)
    assert recorded is not None  # it was appended above
    return _window(ledger, recorded), recorded


def _kept(text: str) -> str:
    """Return a text as it is recorded: without secrets, and without lone surrogates, which no engine stores."""
    return redact(encodable(text))


def _window(ledger: Ledger, recorded: Event) -> WindowRow:
    return next(one for one in ledger.windows(recorded.session_id) if one.event_id == recorded.event_id)


def playbook_of(ledger: Ledger) -> Playbook:
    """Return the live bullets of a ledger as the playbook of a dataset."""
    return Playbook(
        bullets=[
            Bullet(
                id=one.name,
                section=SECTIONS[one.section],
                content=one.text,
                searchable_text=one.text,
                helpful=one.helpful,
                harmful=one.harmful,
            )
            for one in ledger.bullets()
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
    used = [bullets[name] for name in trajectory.used_bullet_ids if name in bullets]
    truth, report = data.get("ground_truth", ""), data.get("test_report", "")
    return Case(trajectory, truth, report, trajectory.dataset, _iterations(recorded), used)


def _iterations(recorded: Event) -> int:
    """Return how often insights are asked for; a file may bring any value."""
    found = (recorded.data or {}).get("iterations", 1)
    return found if type(found) is int else 1


def finish(
    recorder: Recorder,
    window: WindowRow,
    recorded: Event,
    *,
    forced: bool = False,
    builder: Any = None,
) -> tuple[Reflected, Talk]:
    """Judge a recorded trajectory: ask what was not answered yet, and append what the answers come to. Where the API is
    away or a budget is spent, it stays open; the talk has the answers so far."""
    ledger, is_model = recorder.ledger, recorder.backend.is_model
    try:
        reply_of(recorder.backend)
        gate = recorder.gate.check(ledger, recorded, cited=True, live=True, is_model=is_model, forced=forced)
    except ConfigError as error:  # a drain by rules leaves it to a model
        gate = str(error)
    if isinstance(gate, str):
        return recorder.skipped(window, recorded, gate), Talk()
    asking = _Asking(recorder, recorded, forced)
    try:
        builder = builder or ReflectorPromptBuilder(project=recorder.gate.project)
        said = talk(case_of(ledger, recorded), builder, asking)
    except DatasetRefused as error:  # a file may bring any name
        return recorder.failed(window, "dataset", str(error), final=True), Talk()
    if asking.ended is not None:
        return asking.ended, said
    if asking.given is None:
        return asking.failure or recorder.failed(window, "request", "there is nothing to ask"), said
    ledger.append(_events(recorded, said, asking.given, window, ledger))
    count, verdicts = len(said.insights), [f"{one.bullet_id} {one.tag}" for one in said.evaluations]
    detail = ", ".join([f"{count} insight{'' if count == 1 else 's'}", *verdicts])
    return recorder.completed(window, detail), said


@dataclass(slots=True)
class _Asking:
    """The ledger's side of a talk: an answer that it has is given again, any other is asked for.

    given    the last answer
    failure  the last question that failed
    ended    why nobody is asked any more: the API is away, or a budget is spent
    """

    recorder: Recorder
    recorded: Event
    forced: bool
    given: Event | None = None
    failure: Reflected | None = None
    ended: Reflected | None = None

    def __call__(self, question: Question) -> str:
        ledger, backend, place = self.recorder.ledger, self.recorder.backend.name, (question.iteration, question.part)
        reflection_id = events_of.reflection_id_of(self.recorded.event_id, backend)
        event: Event | Reflected | None = ledger.event(events_of.answer_id(reflection_id, *place))
        if event is None and self.ended is not None:
            raise Unanswered("it was not asked")
        if event is None:
            window = _window(ledger, self.recorded)
            kept = partial(events_of.answered, self.recorded, backend, "ground_truth", place=place)
            event = self.recorder.put(window, self.recorded, partial(self._ask, question), kept)
        if not isinstance(event, Event):
            if event.outcome == "skipped" or event.stage in OUTAGES:
                self.ended = event
            self.failure = event
            raise Unanswered(event.detail)
        self.given = event
        if event.data is None:
            raise Unanswered("the answer was redacted before it was read")
        text: str = event.data["answer"]
        return text

    def _ask(self, question: Question) -> Answer:
        backend, gate = self.recorder.backend, self.recorder.gate
        if backend.is_model:
            most = estimate_tokens(question.prompt) + MAX_TOKENS
            gate.reserve(self.recorder.ledger, most, forced=self.forced)
        return reply_of(backend)(question)


def _events(recorded: Event, said: Talk, given: Event, window: WindowRow, ledger: Ledger) -> list[NewEvent]:
    """Return what a talk comes to: answers that could not be read, lessons, the reflection and its tags."""
    reflection_id = given.reflection_id or ""
    unread = [
        events_of.failed(
            *(window, given.actor, "parse", f"{question.subject}: {why}"),
            parser=PARSER_VERSION,
            place=(question.iteration, question.part),
        )
        for question, why in said.unreadable
    ]
    about: Any = {"session_id": recorded.session_id, "reflection_id": reflection_id, "target_id": recorded.event_id}
    lessons = [
        NewEvent(
            ev.LESSON_RECORDED,
            identity(ev.LESSON_RECORDED, reflection_id, index),
            {
                "kind": "insight",
                "text": _kept(insight.key_insight)[:MAX_LESSON],
                "task": (recorded.data or {})["dataset"],
                **{name: _kept(getattr(insight, name)) for name in _HOW},
            },
            given.actor,
            **about,
        )
        for index, insight in enumerate(said.insights)
    ]
    analysis = quote("\n".join(insight.key_insight for insight in said.insights), MAX_ANALYSIS)
    tags = tuple(
        ParsedTag(index, one.bullet_id, one.tag, quote(one.reason, MAX_RATIONALE))
        for index, one in enumerate(said.evaluations)
    )
    problems = tuple(quote(problem, 300) for problem in said.problems[:50])
    parsed = Parsed(analysis, tags, worst(said.strategies), problems)
    status = {row.name: row.status for row in ledger.rows()}
    done = events_of.completed(recorded, reflection_id, parsed, given, status, parsed.tags)
    return [*unread, *lessons, *done]


def judged(ledger: Ledger, recorded: Event) -> Talk | None:
    """Return what the ledger has of a trajectory, without what was redacted; None for one that is not judged."""
    story = ledger.targeting(recorded.event_id)
    completed = next((event for event in story if event.type == ev.REFLECTION_COMPLETED), None)
    if completed is None:
        return None
    data: Any = completed.data or {}
    given: list[Any] = [event.data for event in tags_of(ledger, completed)]
    lessons: list[Any] = [event.data for event in story if event.type == ev.LESSON_RECORDED]
    return Talk(
        [Insight(key_insight=one["text"], **{name: one[name] for name in _HOW}) for one in lessons if one],
        [BulletEvaluation(bullet_id=t["name"], tag=t["tag"], reason=rationale_of(data, t) or "") for t in given],
        list(data.get("problems", ())),
        _iterations(recorded),
    )
