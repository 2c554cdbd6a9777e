"""Trajectories in a ledger: recorded once, judged by the runner, and read back.

Invariant: a trajectory is a window. It is known by its question, answer and reports, so recording
it again adds nothing and asks nobody. Each answer is appended before it is read, and its lessons
and verdicts follow in one transaction, once each question has an answer. A text that is not an
answer is a failure. A question that failed is asked again as long as the trajectory is open, by
drains at most twice, and the others are not.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any

from reflector.config import ConfigError
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
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
    judge_named,
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
from reflector.reflection.recorder import Recorder, Reflected
from reflector.reflection.trouble import trouble_of
from reflector.reflection.window import tags_of
from reflector.text.bounds import encodable
from reflector.text.secrets import quote, redact

_log = logging.getLogger("reflector")
#: The fields of an insight besides its key sentence.
_HOW = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach")


def record(ledger: Ledger, case: Case) -> tuple[WindowRow, Event]:
    """Record a trajectory once; return its window and event. Raises Mistake where it is too
    long, and LedgerError.
    """
    trajectory = case.trajectory
    said = trajectory.model_dump(exclude={"created_at", "dataset"})
    whole = json.dumps(
        [case.dataset, said, case.ground_truth, case.test_report],
        sort_keys=True,
        ensure_ascii=False,
    )
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
            "language": case.language,
        }
        if fault := EVENT_TYPES[ev.TRAJECTORY_RECORDED].fault(data):
            raise Mistake(f"the trajectory cannot be recorded: its {fault}; shorten it")
        at = trajectory.created_at.isoformat() if trajectory.created_at.tzinfo else None
        event = NewEvent(
            ev.TRAJECTORY_RECORDED, event_id, data, "ingest", occurred_at=at, session_id=session_id
        )
        ledger.append([event])
    recorded = ledger.event(event_id)
    assert recorded is not None  # it was appended above
    return _window(ledger, recorded), recorded


def _kept(text: str) -> str:
    """Return a text as it is recorded: without secrets, and without lone surrogates, which no
    engine stores.
    """
    return redact(encodable(text))


def _window(ledger: Ledger, recorded: Event) -> WindowRow:
    return next(
        one for one in ledger.windows(recorded.session_id) if one.event_id == recorded.event_id
    )


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
    return Case(
        trajectory,
        truth,
        report,
        trajectory.dataset,
        _iterations(recorded),
        used,
        known_language(recorded.facts.get("language")),
    )


def _iterations(recorded: Event) -> int:
    """Return how often insights are asked for; a file may bring any value."""
    found = recorded.facts.get("iterations", 1)
    return found if type(found) is int else 1


def finish(
    recorder: Recorder,
    window: WindowRow,
    recorded: Event,
    *,
    forced: bool = False,
    builder: Any = None,
) -> tuple[Reflected, Talk]:
    """Judge a recorded trajectory: ask what was not answered yet, and append what the answers come
    to. Where the API is away or a budget is spent, it stays open; the talk has the answers so far.
    """
    ledger, is_model = recorder.ledger, recorder.backend.is_model
    try:
        reply_of(recorder.backend)
        gate = recorder.gate.check(
            ledger, recorded, cited=True, live=True, is_model=is_model, forced=forced
        )
    except ConfigError as error:  # a drain by rules leaves it to a model
        gate = str(error)
    if isinstance(gate, str):
        return recorder.skipped(window, recorded, gate), Talk()
    asking = _Asking(recorder, recorded, forced)
    try:
        case = case_of(ledger, recorded)
        checked_dataset(case.dataset)
        builder = builder or ReflectorPromptBuilder(
            project=recorder.gate.project, language=case.language
        )
        said = talk(case, builder, asking)
    except DatasetRefused as error:  # a file may bring any name
        return recorder.failed(window, "dataset", str(error), final=True), Talk()
    if asking.ended is not None:
        return asking.ended, said
    if said.unreadable:
        return _refused(recorder, window, asking, said), said
    if asking.failure is not None:
        return asking.failure, said
    if asking.given is None:
        return recorder.failed(window, "request", "there is nothing to ask"), said
    ledger.append(_events(recorded, said, asking.given, ledger))
    count, verdicts = len(said.insights), [f"{one.bullet_id} {one.tag}" for one in said.evaluations]
    detail = ", ".join([f"{count} insight{'' if count == 1 else 's'}", *verdicts])
    return Reflected(window.session_id, window.event_id, "completed", detail), said


@dataclass(slots=True)
class _Asking:
    """The ledger's side of a talk: an answer that it has is given again, any other is asked for.

    given    the last answer
    failure  the last question that failed
    ended    why nobody is asked any more: the API is away, or a budget is spent
    answers  by the place of its question, each answer, and how often the question was asked
    """

    recorder: Recorder
    recorded: Event
    forced: bool
    given: Event | None = None
    failure: Reflected | None = None
    ended: Reflected | None = None
    answers: dict[tuple[int, int], tuple[Event, int]] = field(default_factory=dict)

    def __call__(self, question: Question) -> str:
        ledger, backend, place = (
            self.recorder.ledger,
            self.recorder.backend.name,
            (question.iteration, question.part),
        )
        event: Event | Reflected | None
        event, tries = self._known(
            events_of.reflection_id_of(self.recorded.event_id, backend), place
        )
        if event is None and self.ended is not None:
            raise Unanswered("it was not asked")
        if event is None:
            window = _window(ledger, self.recorded)
            kept = partial(
                events_of.answered, self.recorded, backend, "ground_truth", place=place, tries=tries
            )
            event = self.recorder.put(window, self.recorded, partial(self._ask, question), kept)
        if not isinstance(event, Event):
            if event.outcome == "skipped" or event.stage in OUTAGES:
                self.ended = event
            self.failure = event
            raise Unanswered(event.detail)
        self.given = event
        self.answers[place] = event, tries
        if event.data is None:
            raise Unanswered("the answer was redacted before it was read")
        text: str = event.data["answer"]
        return text

    def _known(self, reflection_id: str, place: tuple[int, int]) -> tuple[Event | None, int]:
        """Return the last answer to the question of a place, None where it is to be asked, and the
        number of the time. This very parser would find no answer again in what it refused.
        """
        ledger, tries = self.recorder.ledger, 1
        failures = [
            one
            for one in ledger.targeting(self.recorded.event_id)
            if one.type == ev.REFLECTION_FAILED
        ]
        refused = {
            one.facts.get("answer") for one in failures if one.facts.get("parser") == PARSER_VERSION
        }
        while (
            event := ledger.event(events_of.answer_id(reflection_id, *place, tries))
        ) is not None:
            if event.event_id not in refused:
                return event, tries
            tries += 1
        return None, tries

    def _ask(self, question: Question) -> Answer:
        backend, gate = self.recorder.backend, self.recorder.gate
        if backend.is_model:
            most = estimate_tokens(question.prompt) + MAX_TOKENS
            gate.reserve(self.recorder.ledger, most, forced=self.forced)
        return reply_of(backend)(question)


def _refused(recorder: Recorder, window: WindowRow, asking: _Asking, said: Talk) -> Reflected:
    """Record what was no answer; return how the trajectory stands then."""
    failures, client = list[NewEvent](), recorder.who(window)
    for question, why in said.unreadable:
        answer, tries = asking.answers[question.iteration, question.part]
        words, place = (
            f"{question.subject}: {why}",
            (question.iteration, question.part, tries, PARSER_VERSION),
        )
        about: Any = {"parser": PARSER_VERSION, "place": place, "answer": answer, "client": client}
        failures.append(events_of.failed(window, recorder.backend.name, "parse", words, **about))
    recorder.ledger.append(failures)
    trouble = trouble_of(
        recorder.ledger.targeting(window.event_id), judge_named(recorder.backend.name, client)
    )
    again = trouble is not None and not trouble.is_over(recorder.max_attempts)
    detail = f"parse: {failures[-1].data['message']}"
    return Reflected(window.session_id, window.event_id, "failed", detail, "parse", again)


def _events(recorded: Event, said: Talk, given: Event, ledger: Ledger) -> list[NewEvent]:
    """Return what a talk comes to: lessons, the reflection and its tags."""
    reflection_id = given.reflection_id or ""
    about: Any = {
        "session_id": recorded.session_id,
        "reflection_id": reflection_id,
        "target_id": recorded.event_id,
    }
    lessons = []
    for index, insight in enumerate(said.insights):
        text, task = _kept(insight.key_insight)[:MAX_LESSON], recorded.facts["dataset"]
        how = {name: _kept(getattr(insight, name)) for name in _HOW}
        event_id = identity(ev.LESSON_RECORDED, reflection_id, index)
        data = {"kind": "insight", "text": text, "task": task, **how}
        lessons.append(NewEvent(ev.LESSON_RECORDED, event_id, data, given.actor, **about))
    analysis = quote("\n".join(insight.key_insight for insight in said.insights), MAX_ANALYSIS)
    verdicts = enumerate(said.evaluations)
    tags = tuple(
        ParsedTag(n, one.bullet_id, one.tag, quote(one.reason, MAX_RATIONALE))
        for n, one in verdicts
    )
    problems = tuple(quote(problem, 300) for problem in said.problems[:50])
    parsed = Parsed(analysis, tags, worst(said.strategies), problems)
    status = {row.name: row.status for row in ledger.rows()}
    done = events_of.completed(recorded, reflection_id, parsed, given, status, parsed.tags)
    return [*lessons, *done]


def judged(ledger: Ledger, recorded: Event) -> Talk | None:
    """Return what the ledger has of a trajectory, without what was redacted; None for one that
    is not judged.
    """
    story = ledger.targeting(recorded.event_id)
    completed = next((event for event in story if event.type == ev.REFLECTION_COMPLETED), None)
    if completed is None:
        return None
    data: Any = completed.facts
    given: list[Any] = [event.data for event in tags_of(ledger, completed)]
    lessons: list[Any] = [event.data for event in story if event.type == ev.LESSON_RECORDED]
    return Talk(
        [
            Insight(key_insight=one["text"], **{name: one[name] for name in _HOW})
            for one in lessons
            if one
        ],
        [
            BulletEvaluation(bullet_id=t["name"], tag=t["tag"], reason=rationale_of(data, t) or "")
            for t in given
        ],
        list(data.get("problems", ())),
        _iterations(recorded),
    )


def run_recorded(
    recorder: Recorder, builder: Any, case: Case, *, ask: bool = True
) -> tuple[Talk, Reflected | None]:
    """Record a trajectory and judge it, unless nobody is to `ask`; return what its answers say, and
    how it ended, None where it had ended before. Raises Mistake for one that is too long, and
    LedgerError.
    """
    window, recorded = record(recorder.ledger, case)
    reflected, said = None, Talk()
    if not ask and window.state != "completed":
        away = "the API is away; it is recorded, run the same command again"
        reflected = Reflected(
            window.session_id, window.event_id, "failed", away, "transport", again=True
        )
    elif window.state != "completed" and recorded.data is not None:
        reflected, said = finish(recorder, window, recorded, builder=builder)
    said = judged(recorder.ledger, recorded) or said
    if reflected is not None and not said.problems and reflected.outcome != "completed":
        said.problems.append(reflected.detail)
    said.problems[:0] = unknown_bullets(recorded.facts.get("unknown", ()))
    return said, reflected


def unknown_bullets(ids: Iterable[str]) -> list[str]:
    return [f"no bullet is called {quote(id_, 80)}; it was skipped" for id_ in ids]
