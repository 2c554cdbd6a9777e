"""The questions of a reflection with ground truth: which follow each other, and what their answers say.

Invariant: `talk` depends on nothing but its answers: the same ones give the same result, with a ledger or without one.
Nothing is made up: an answer that cannot be read gives no insight and no verdict but a problem in words, and an
iteration without an answer keeps the insights of the last good one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError

from reflector.reflection.answers import Strategy, find_answer
from reflector.reflection.truth.builder import Prompt
from reflector.reflection.truth.models import Bullet, BulletEvaluation, Insight, Trajectory, faults_in

#: A trajectory may come from a file that asks for millions.
MOST_ITERATIONS = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """What is judged: a trajectory, the right answer, and what the tests said.

    dataset     whose playbook and whose prompts are used
    iterations  rounds of insights to ask for
    bullets     of the playbook, those that the trajectory used, in its order
    """

    trajectory: Trajectory
    ground_truth: str
    test_report: str
    dataset: str
    iterations: int
    bullets: Sequence[Bullet] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt. `iteration` and `part` are its place: part 1 asks for insights, each other part judges a `bullet`."""

    case: Case
    prompt: Prompt
    iteration: int
    part: int
    bullet: Bullet | None = None

    @property
    def subject(self) -> str:
        """What is asked for, in words."""
        return f"the evaluation of {self.bullet.id}" if self.bullet else f"iteration {self.iteration}"


class Unanswered(Exception):
    """There is no answer to a question; its text says why."""


Ask = Callable[[Question], str]


@dataclass(slots=True)
class Talk:
    """What the answers come to.

    iterations  rounds of insights that were asked for, 0 where no question was answered
    unreadable  the questions whose answers could not be read, with the reason
    strategies  how the answers' JSON was found
    """

    insights: list[Insight] = field(default_factory=list)
    evaluations: list[BulletEvaluation] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    iterations: int = 0
    unreadable: list[tuple[Question, str]] = field(default_factory=list)
    strategies: list[Strategy] = field(default_factory=list)

    def hear(
        self, question: Question, ask: Ask, read: Callable[[str], tuple[T | None, Strategy, list[str]]]
    ) -> T | None:
        """Return what the answer to a question says; None where there is none, or it cannot be read."""
        self.problems += [problem for problem in question.prompt.problems if problem not in self.problems]
        try:
            answer = ask(question)
        except Unanswered as error:
            self.problems.append(f"{question.subject} failed: {error}")
            return None
        value, strategy, problems = read(answer)
        self.strategies.append(strategy)
        said = "; ".join(problems)
        if said:
            self.problems.append(f"{question.subject}: {said}")
        if value is None:
            self.unreadable.append((question, said))
        return value


def talk(case: Case, builder: Any, ask: Ask) -> Talk:
    """Ask for insights, each time with those before, then for a verdict on each bullet. Raises what the builder raises,
    and TypeError where it makes no text."""
    said = Talk()
    good = 0
    for iteration in range(1, min(case.iterations, MOST_ITERATIONS) + 1):
        given = (case.trajectory, case.ground_truth, case.test_report, case.bullets, case.dataset)
        question = Question(case, _prompt(builder.build(*given, said.insights or None)), iteration, 1)
        insights = said.hear(question, ask, read_insights)
        if insights is not None:
            said.insights, good = insights, iteration
        elif good:
            said.problems[-1] += f"; the insights of iteration {good} stand"
    for bullet in case.bullets:
        prompt = _prompt(builder.build_evaluation_prompt(case.trajectory, case.ground_truth, bullet))
        part = 2 + case.trajectory.used_bullet_ids.index(bullet.id)  # the same also when other bullets are gone
        question = Question(case, prompt, case.iterations, part, bullet)
        evaluation = said.hear(question, ask, partial(read_evaluation, bullet_id=bullet.id))
        said.evaluations += [] if evaluation is None else [evaluation]
    said.iterations = min(case.iterations, MOST_ITERATIONS) if said.strategies else 0
    return said


def _prompt(made: object) -> Prompt:
    if not isinstance(made, str):
        raise TypeError(f"the prompt builder returned {type(made).__name__}; a prompt is a str")
    return made if isinstance(made, Prompt) else Prompt(made)


def read_insights(text: str) -> tuple[list[Insight] | None, Strategy, list[str]]:
    """Return the sound insights of an answer, how its JSON was found, and what is wrong; None where the answer has no
    list of them, or none is sound."""
    value, strategy, problems = _found(text, "insights")
    entries = value.get("insights")
    if not isinstance(entries, list):
        return None, strategy, problems or ["insights is not a list"]
    insights: list[Insight] = []
    for index, entry in enumerate(entries):
        try:
            insights.append(Insight.model_validate(entry))
        except ValidationError as error:
            problems.append(f"insight {index}: {faults_in(error)}")
    return insights if insights or not entries else None, strategy, problems


def read_evaluation(text: str, bullet_id: str) -> tuple[BulletEvaluation | None, Strategy, list[str]]:
    """Return the verdict of an answer, on the bullet that was asked about, as `read_insights` does."""
    value, strategy, problems = _found(text, "tag")
    if problems:
        return None, strategy, problems
    try:
        return BulletEvaluation.model_validate({**value, "bullet_id": bullet_id}), strategy, []
    except ValidationError as error:
        return None, strategy, [faults_in(error)]


def _found(text: str, key: str) -> tuple[dict[str, object], Strategy, list[str]]:
    found = find_answer(text, (key,))
    return dict(found.value or {}), found.strategy, list(found.problems)
