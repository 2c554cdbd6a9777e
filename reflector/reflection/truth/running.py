"""Trajectories: recorded once in a ledger, judged by the runner and read back; or judged by any
model, with any store of playbooks.

Invariant: a trajectory is a window. It is known by what was asked, answered and reported, so
running it again adds nothing and asks nobody. Each answer is appended before it is read, and what
the answers come to (lessons, verdicts) in one transaction, once each question has one. What is no
answer is a failure. A question that failed is asked again as long as the trajectory is open, by
drains at most twice, and the others are not. `ReflectorAgent.run` returns a result whatever the
model does; what went wrong is logged on the logger `reflector`. It raises for what the caller can
mend (a dataset's name, a trajectory that is too long) and for the ledger.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from reflector.config import ConfigError, load_config
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.lessons import MAX_LESSON
from reflector.events.registry import EVENT_TYPES
from reflector.events.sessions import rationale_of
from reflector.ledger.store import Ledger, WindowRow
from reflector.mistakes import Mistake
from reflector.playbook.names import SECTIONS
from reflector.project import DatasetRefused, Project, checked_dataset
from reflector.reflection import reflection_events as events_of
from reflector.reflection.answers import (
    MAX_ANALYSIS,
    MAX_RATIONALE,
    PARSER_VERSION,
    Parsed,
    ParsedTag,
    worst,
)
from reflector.reflection.backends import backend_of
from reflector.reflection.excerpt import estimate_tokens
from reflector.reflection.gate import Gate
from reflector.reflection.protocol import (
    MAX_TOKENS,
    OUTAGES,
    Answer,
    Backend,
    BackendError,
    Replies,
    Request,
    judge_named,
    reply_of,
    trouble_of,
)
from reflector.reflection.reflection_events import Recorder, Reflected
from reflector.reflection.truth.asking import (
    Case,
    Question,
    ReflectorPromptBuilder,
    Talk,
    Unanswered,
    known_language,
    talk,
)
from reflector.reflection.truth.models import (
    Bullet,
    BulletEvaluation,
    Insight,
    Playbook,
    ReflectionResult,
    Trajectory,
)
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


@dataclass(frozen=True, slots=True)
class LedgerPlaybooks:
    """Playbooks of datasets in a project, each a ledger below its `.claude/reflector/datasets/`: a
    run with this store is recorded.
    """

    project: Path

    def load(self, dataset: str) -> Playbook:
        """Return the live bullets of a dataset. Raises LedgerError, and ValueError for a name it
        cannot have.
        """
        with self.ledger(dataset) as ledger:
            return playbook_of(ledger)

    @contextmanager
    def ledger(self, dataset: str) -> Iterator[Ledger]:
        """Open the ledger of a dataset. Raises as `load` does."""
        with Project.of_dataset(self.project, dataset).open_ledger() as ledger:
            yield ledger


def llm_client(backend: str, *, project: Path | None = None, **settings: Any) -> Backend:
    """Return a backend of ours that judges trajectories (`anthropic`, `agent` or `fixtures`), with
    `settings` of the configuration, such as `model`. Raises ConfigError.
    """
    root = project or Path.cwd()
    made = backend_of(load_config(root, flags={"backend": backend, **settings}), root)
    reply_of(made)
    return made


class _Foreign:
    """A caller's own model: an object with `invoke_with_template(prompt)`, or a callable."""

    is_model = rereads = quotes = False

    def __init__(self, llm_client: Any) -> None:
        self.call = getattr(llm_client, "invoke_with_template", llm_client)
        if not callable(self.call):
            raise TypeError(
                "llm_client needs a method invoke_with_template(prompt), or to be callable"
            )
        self.name = quote(str(getattr(llm_client, "name", "") or type(llm_client).__name__), 60)

    def answer(self, request: Request) -> Answer:
        raise BackendError(
            (f"{self.name} judges no sessions"), stage="backend", attempts=0, final=True
        )

    def reply(self, question: Question) -> Answer:
        """Answer a question with the caller's model."""
        sent = question.prompt
        text = self.call(sent)
        if not isinstance(text, str):
            raise BackendError(
                (f"the model answered with {type(text).__name__}, not with text"), stage="answer"
            )
        return Answer(
            text, self.name, prompt_sha256=sent.sha256, template_sha256=sent.template_sha256
        )


class ReflectorAgent:
    """Reflects on trajectories.

    llm_client      anything with `invoke_with_template(prompt: str) -> str`, a callable, or a
                    backend of ours
    prompt_builder  anything with `build` and `build_evaluation_prompt`, such as a
                    `ReflectorPromptBuilder`
    playbook_store  anything with `load(dataset) -> Playbook`; with `LedgerPlaybooks`, every run is
                    recorded
    """

    def __init__(self, llm_client: Any, prompt_builder: Any, playbook_store: Any) -> None:
        self.llm_client = llm_client
        self.prompt_builder = prompt_builder
        self.playbook_store = playbook_store

    def run(
        self,
        trajectory: Trajectory,
        ground_truth: str,
        test_report: str,
        dataset: str,
        max_iterations: int = 1,
    ) -> ReflectionResult:
        """Return what a trajectory teaches; empty where the model could not be asked. The insights
        are those of the last iteration that could be read. Raises LedgerError and what the prompt
        builder raises, and with `LedgerPlaybooks` ValueError for a dataset's name that no folder
        can have and for a trajectory that is too long.
        """
        language = known_language(getattr(self.prompt_builder, "language", None))
        case = Case(
            trajectory, ground_truth, test_report, dataset, max_iterations, language=language
        )
        # A mock has every attribute, also those of our backends.
        ours = isinstance(self.llm_client, Replies) and not hasattr(
            self.llm_client, "invoke_with_template"
        )
        backend: Backend = self.llm_client if ours else _Foreign(self.llm_client)
        if case.iterations < 1:
            said = Talk(problems=[f"max_iterations is {case.iterations}, so nothing was asked"])
        elif isinstance(self.playbook_store, LedgerPlaybooks):
            project = self.playbook_store.project
            with self.playbook_store.ledger(dataset) as ledger:
                recorder = Recorder(ledger, backend, gate=Gate(load_config(project), project))
                said, _ = run_recorded(recorder, self.prompt_builder, case)
        else:
            said = self._unrecorded(backend, case)
        for problem in said.problems:
            _log.warning("%s", quote(problem, 500))
        return ReflectionResult(
            insights=said.insights,
            bullet_evaluations=said.evaluations,
            trajectory_query=trajectory.query,
            trajectory_dataset=trajectory.dataset,
            iteration_count=said.iterations,
        )

    def _unrecorded(self, backend: Backend, case: Case) -> Talk:
        """Judge by a playbook that may have any bullets, which no ledger could hold."""
        if _leaves_its_folder(case.dataset):  # a store may make a path of it
            return Talk(
                problems=[
                    f"the dataset {ascii(case.dataset)[:80]} is not asked for: it "
                    "leads out of a folder"
                ]
            )
        try:
            known = {bullet.id: bullet for bullet in self.playbook_store.load(case.dataset).bullets}
        except Exception as error:  # noqa: BLE001  a store's failure ends a run, and never the caller's
            return Talk(
                problems=[f"the playbook cannot be loaded: {type(error).__name__}: {error}"]
            )
        used = list(dict.fromkeys(case.trajectory.used_bullet_ids))

        def ask(question: Question) -> str:
            try:
                return reply_of(backend)(question).text
            except Exception as error:  # requirement B-16: a model's failure is never the caller's
                raise Unanswered(f"{type(error).__name__}: {error}") from error

        said = talk(
            replace(case, bullets=[known[id_] for id_ in used if id_ in known]),
            self.prompt_builder,
            ask,
        )
        said.problems[:0] = _unknown(id_ for id_ in used if id_ not in known)
        return said


def _leaves_its_folder(dataset: str) -> bool:
    """Return whether a name, used as a path, leads out of the folder that it is put below."""
    is_path = any(part in ("", ".", "..") for part in re.split(r"[/\\]", dataset))
    return is_path or ":" in dataset or not dataset.isprintable()


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
    said.problems[:0] = _unknown(recorded.facts.get("unknown", ()))
    return said, reflected


def _unknown(ids: Iterable[str]) -> list[str]:
    return [f"no bullet is called {quote(id_, 80)}; it was skipped" for id_ in ids]
