"""A reflection with ground truth as a conversation: which questions follow each other, and what their answers say.

Invariant: `conversation` is pure. It yields questions and is sent what was answered, so a list, a ledger and an event
loop can each hold it; the same answers give the same outcome. Nothing is made up: an answer that cannot be read gives
no insight and no verdict but a problem in words, and an iteration without an answer keeps the insights of the last good
one. After `MOST_FAILED` iterations without one in a row, no other is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import ValidationError

from reflector.playbook.counting import VERDICTS
from reflector.reflection.answers import find_answer
from reflector.reflection.extraction import Strategy
from reflector.reflection.truth.builder import Prompt, PromptBuilder
from reflector.reflection.truth.models import Bullet, BulletEvaluation, Insight, Playbook, Trajectory

_MOST_INSIGHTS = 100
#: Iterations in a row that may fail before the rest is left out: a model that is gone is not asked for ever.
MOST_FAILED = 3
#: A trajectory may come from a file that asks for millions.
MOST_ITERATIONS = 100
T = TypeVar("T")


def _schema(**properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_INSIGHTS = _schema(
    insights={"type": "array", "items": _schema(**dict.fromkeys(Insight.model_fields, _TEXT))},
)
_EVALUATION = _schema(bullet_id=_TEXT, reason=_TEXT, tag={"type": "string", "enum": list(VERDICTS)})


@dataclass(frozen=True, slots=True)
class Case:
    """What is judged: a trajectory, what it should have been, what the tests said, and the bullets that it used."""

    trajectory: Trajectory
    ground_truth: str
    test_report: str
    bullets: Sequence[Bullet]


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt. `iteration` and `part` are its place: part 1 asks for insights, each other part judges a `bullet`.

    schema  JSON schema of the answer
    """

    case: Case
    prompt: Prompt
    iteration: int
    part: int
    schema: dict[str, object]
    bullet: Bullet | None = None

    @property
    def subject(self) -> str:
        """What is asked for, in words."""
        return f"the evaluation of {self.bullet.id}" if self.bullet else f"iteration {self.iteration}"


@dataclass(frozen=True, slots=True)
class Failed:
    """An answer that could not be had, and why."""

    why: str


@dataclass(slots=True)
class Outcome:
    """What a conversation came to.

    answered    how many questions were answered
    unreadable  the questions whose answers could not be read, with the reason
    strategies  how the answers' JSON was found
    """

    insights: list[Insight] = field(default_factory=list)
    evaluations: list[BulletEvaluation] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    answered: int = 0
    unreadable: list[tuple[Question, str]] = field(default_factory=list)
    strategies: list[Strategy] = field(default_factory=list)


Conversation = Generator[Question, str | Failed, Outcome]


def used_bullets(playbook: Playbook, trajectory: Trajectory) -> tuple[list[Bullet], list[str]]:
    """Return (the bullets that a trajectory used, in its order; the ids that mean none)."""
    known = {bullet.id: bullet for bullet in playbook.bullets}
    used = list(dict.fromkeys(trajectory.used_bullet_ids))
    return [known[id_] for id_ in used if id_ in known], [id_ for id_ in used if id_ not in known]


def conversation(case: Case, builder: PromptBuilder, dataset: str, iterations: int) -> Conversation:
    """Ask for insights, `iterations` times, each time with those before, then for a verdict on each bullet."""
    outcome = Outcome()
    good = failed = 0
    for iteration in range(1, iterations + 1):
        if iteration > MOST_ITERATIONS:
            outcome.problems.append(f"of {iterations} iterations, those after {MOST_ITERATIONS} were not asked for")
            break
        if failed == MOST_FAILED:
            outcome.problems.append(f"{failed} iterations failed in a row; iteration {iteration} was not asked for")
            break
        told = (case.trajectory, case.ground_truth, case.test_report, case.bullets, dataset, outcome.insights or None)
        question = Question(case, _prompt(builder.build(*told)), iteration, 1, _INSIGHTS)
        insights = yield from _asked(question, outcome, read_insights)
        failed = 0 if insights is not None else failed + 1
        if insights is not None:
            outcome.insights, good = insights, iteration
        elif good:
            outcome.problems[-1] += f"; the insights of iteration {good} stand"
    for bullet in case.bullets:
        prompt = _prompt(builder.build_evaluation_prompt(case.trajectory, case.ground_truth, bullet))
        part = 2 + case.trajectory.used_bullet_ids.index(bullet.id)  # the same also when other bullets are gone
        question = Question(case, prompt, iterations, part, _EVALUATION, bullet)

        def read(text: str, id_: str = bullet.id) -> Read[BulletEvaluation]:
            return read_evaluation(text, id_)

        evaluation = yield from _asked(question, outcome, read)
        outcome.evaluations += [] if evaluation is None else [evaluation]
    return outcome


def _prompt(made: object) -> Prompt:
    """Return what a builder made as a prompt. Raises TypeError for what is not text."""
    if not isinstance(made, str):
        raise TypeError(f"the prompt builder returned {type(made).__name__}; a prompt is a str")
    return made if isinstance(made, Prompt) else Prompt(made)


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """What an answer says; `value` is None where nothing could be read, and `problems` says why."""

    value: T | None
    strategy: Strategy
    problems: Sequence[str] = ()


def _asked(
    question: Question, outcome: Outcome, read: Callable[[str], Read[T]]
) -> Generator[Question, str | Failed, T | None]:
    outcome.problems += [problem for problem in question.prompt.problems if problem not in outcome.problems]
    answer = yield question
    if isinstance(answer, Failed):
        outcome.problems.append(f"{question.subject} failed: {answer.why}")
        return None
    outcome.answered += 1
    found = read(answer)
    outcome.strategies.append(found.strategy)
    said = "; ".join(found.problems)
    if said:
        outcome.problems.append(f"{question.subject}: {said}")
    if found.value is None:
        outcome.unreadable.append((question, said))
    return found.value


def read_insights(text: str) -> Read[list[Insight]]:
    """Return the insights of an answer, each sound one; None where it has no list of them, or none is sound."""
    value, strategy, problems = _found(text, "insights")
    entries = value.get("insights")
    if not isinstance(entries, list):
        return Read(None, strategy, problems or ["insights is not a list"])
    insights: list[Insight] = []
    for index, entry in enumerate(entries[:_MOST_INSIGHTS]):
        try:
            insights.append(Insight.model_validate(entry))
        except ValidationError as error:
            problems.append(f"insight {index}: {faults_in(error)}")
    if len(entries) > _MOST_INSIGHTS:
        problems.append(f"there are more than {_MOST_INSIGHTS} insights; the rest was not read")
    return Read(insights if insights or not entries else None, strategy, problems)


def read_evaluation(text: str, bullet_id: str) -> Read[BulletEvaluation]:
    """Return the verdict of an answer, on the bullet that was asked about; None where there is none."""
    value, strategy, problems = _found(text, "tag")
    if problems:
        return Read(None, strategy, problems)
    try:
        return Read(BulletEvaluation.model_validate({**value, "bullet_id": bullet_id}), strategy)
    except ValidationError as error:
        return Read(None, strategy, [faults_in(error)])


def _found(text: str, key: str) -> tuple[dict[str, object], Strategy, list[str]]:
    found = find_answer(text, (key,))
    return dict(found.value or {}), found.strategy, list(found.problems)


def faults_in(error: ValidationError) -> str:
    """Return what is wrong, without the values: they may be long, and a secret."""
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors()[:5])
