"""The questions of a reflection with ground truth: their wording, their order, and how their
answers are read (requirements B-09 to B-19).

Invariant: a text is filled into a prompt exactly as it was given, braces included. If a template
cannot be used, the next one is tried, ending with ours, and the reason is kept. So a prompt can
always be built. `talk` depends only on its answers: the same answers give the same result, with or
without a ledger. Nothing is invented: an unreadable answer gives a problem in words instead of an
insight or a verdict, and an iteration without an answer keeps the insights of the last good one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from pydantic import ValidationError

from reflector.judges.answers import Strategy, find_answer
from reflector.judges.prompts import Template, TemplateError, find_own, read_template
from reflector.judges.truth.models import (
    Bullet,
    BulletEvaluation,
    Insight,
    Trajectory,
    faults_in,
)
from reflector.mistakes import Mistake
from reflector.project import DatasetRefused, checked_dataset
from reflector.resources import resource_dir

Language = Literal["en", "ja"]
LANGUAGES: Sequence[Language] = get_args(Language)
FOLDER, _DEFAULT = "ground_truth", "default.txt"
#: The last two have the same value: the system that this comes from uses the second name.
_PLACEHOLDERS = (
    "query",
    "generated_answer",
    "ground_truth",
    "test_report",
    "reasoning_steps",
    "used_bullets",
    "previous_insights",
    "previous_insights_section",
)
_OF_BULLET = (
    "query",
    "generated_answer",
    "ground_truth",
    "bullet_id",
    "bullet_section",
    "bullet_content",
)

#: The text of a prompt for missing parts, and around the earlier insights.
_WORDS: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "no steps": "(no reasoning steps were recorded)",
        "no bullets": "(no bullets were used)",
        "before": "Insights of the iteration before:",
        "deeper": (
            "Go deeper than these: correct what is wrong in them, and look for the cause "
            "behind the cause."
        ),
    },
    "ja": {
        "no steps": "(推論ステップは記録されていません)",
        "no bullets": "(使用されたBulletはありません)",
        "before": "前回の反復の教訓:",
        "deeper": (
            "これらをさらに掘り下げてください。"
            "誤りがあれば正し、原因のさらに奥にある原因を探してください。"
        ),
    },
}
#: The five parts of an insight.
_LABELS: Mapping[Language, Sequence[str]] = {
    "en": ("Reasoning", "Error", "Root cause", "Correct approach", "Key insight"),
    "ja": ("推論", "誤り", "根本原因", "正しいアプローチ", "重要な教訓"),
}


def known_language(value: object) -> Language:
    """Return a language of our templates; English for any other value."""
    return next((language for language in LANGUAGES if language == value), "en")


class Prompt(str):
    """A prompt, the digest of its template, and why other templates before it could not be used.

    template_sha256  None if the builder is not ours
    """

    template_sha256: str | None
    problems: tuple[str, ...]

    def __new__(
        cls, text: str, template_sha256: str | None = None, problems: Sequence[str] = ()
    ) -> Prompt:
        made = super().__new__(cls, text)
        made.template_sha256, made.problems = template_sha256, tuple(problems)
        return made

    @property
    def sha256(self) -> str:
        """Hex digest of the prompt."""
        return sha256(self.encode("utf-8", "replace")).hexdigest()


class ReflectorPromptBuilder:
    """Builds the prompts.

    prompts_dir  a folder with `{dataset}.txt`, `default.txt` and `bullet_evaluation.txt`, each
                 optional; the first usable one is used, then ours
    project      the project whose own templates are used if `prompts_dir` is not given
    language     of our templates and of the words for missing parts: en, or ja
    """

    def __init__(
        self,
        prompts_dir: str | Path | None = None,
        *,
        project: Path | None = None,
        language: Language = "en",
    ) -> None:
        if language not in LANGUAGES:
            raise Mistake(
                f"`language` is {language!r}, but the prompts are only in {' and '.join(LANGUAGES)}"
            )
        self.prompts_dir = None if prompts_dir is None else Path(prompts_dir)
        self.project = project
        self.language: Language = language

    def build(
        self,
        trajectory: Trajectory,
        ground_truth: str,
        test_report: str,
        used_bullets: Sequence[Bullet],
        dataset: str,
        previous_insights: Sequence[Insight] | None = None,
    ) -> str:
        """Return the prompt that asks for insights."""
        words = _WORDS[self.language]
        steps = [f"{number}. {step}" for number, step in enumerate(trajectory.reasoning_steps, 1)]
        bullets = [f"[{bullet.id}] {bullet.section}\n{bullet.content}" for bullet in used_bullets]
        previous = self._previous(previous_insights or ())
        values = {
            **_asked(trajectory, ground_truth),
            "test_report": test_report,
            "reasoning_steps": "\n".join(steps) or words["no steps"],
            "used_bullets": "\n\n".join(bullets) or words["no bullets"],
            "previous_insights": previous,
            "previous_insights_section": previous,
        }
        names = [_DEFAULT]
        problems = list[str]()
        try:
            names.insert(0, f"{checked_dataset(dataset)}.txt")
        except DatasetRefused as error:  # no file can have this name, so no template has it
            problems.append(f"reflector uses the template {_DEFAULT}, because {error}")
        return self._filled(names, _PLACEHOLDERS, values, problems)

    def build_evaluation_prompt(
        self, trajectory: Trajectory, ground_truth: str, bullet: Bullet
    ) -> str:
        """Return the prompt that asks for a verdict on one bullet."""
        about = {
            "bullet_id": bullet.id,
            "bullet_section": bullet.section,
            "bullet_content": bullet.content,
        }
        values = {**_asked(trajectory, ground_truth), **about}
        return self._filled(("bullet_evaluation.txt",), _OF_BULLET, values)

    def _previous(self, insights: Sequence[Insight]) -> str:
        """Return five labelled lines for each insight and the request to go deeper; "" without
        any.
        """
        words = _WORDS[self.language]
        labels = _LABELS[self.language]
        parts = [zip(labels, insight.model_dump().values(), strict=True) for insight in insights]
        blocks = ["\n".join(f"{label}: {text}" for label, text in said) for said in parts]
        return "\n\n".join([words["before"], *blocks, words["deeper"]]) if blocks else ""

    def _filled(
        self,
        names: Sequence[str],
        known: Sequence[str],
        values: Mapping[str, str],
        problems: Sequence[str] = (),
    ) -> Prompt:
        problems = list(problems)
        for name in names:
            try:
                if (template := self._own(name, known)) is not None:
                    break
            except TemplateError as error:
                problems.append(f"reflector uses another template, because {error}")
        else:
            ours = resource_dir("prompts") / FOLDER / self.language / names[-1]
            template = read_template(names[-1], ours, known=known)
        return Prompt(template.fill(values), template.sha256, problems)

    def _own(self, name: str, known: Sequence[str]) -> Template | None:
        """Return a template of the user or the project; None without one.

        Raises: TemplateError.
        """
        if self.prompts_dir is None:
            return find_own(f"{FOLDER}/{name}", self.project, known)
        path = self.prompts_dir / name
        return read_template(name, path, known=known) if path.exists() else None


def _asked(trajectory: Trajectory, ground_truth: str) -> dict[str, str]:
    answer = trajectory.generated_answer
    return {"query": trajectory.query, "generated_answer": answer, "ground_truth": ground_truth}


#: The most iterations, because a trajectory may come from a file that asks for millions.
MOST_ITERATIONS = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """The subject of a reflection: a trajectory, the right answer, and the reports of the tests.

    dataset     of the playbook and the prompts
    iterations  rounds of insights to ask for
    language    of our templates, for a drain that asks the rest
    bullets     of the playbook, those that the trajectory used, in its order
    """

    trajectory: Trajectory
    ground_truth: str
    test_report: str
    dataset: str
    iterations: int
    bullets: Sequence[Bullet] = ()
    language: Language = "en"


class Question(NamedTuple):
    """One prompt. `iteration` and `part` are its place: part 1 asks for insights, every other part
    for a verdict on a `bullet`.
    """

    case: Case
    prompt: Prompt
    iteration: int
    part: int
    bullet: Bullet | None = None

    @property
    def subject(self) -> str:
        """The subject of the question, in words."""
        return (
            f"the evaluation of {self.bullet.id}" if self.bullet else f"iteration {self.iteration}"
        )


class Unanswered(Exception):
    """A question without an answer; the text has the reason."""


Ask = Callable[[Question], str]


@dataclass(slots=True)
class Talk:
    """The result of the answers.

    iterations  rounds of insights that were asked for, 0 if no question was answered
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
        self,
        question: Question,
        ask: Ask,
        read: Callable[[str], tuple[T | None, Strategy, list[str]]],
    ) -> T | None:
        """Return the content of the answer to a question; None without one, or if it cannot be
        read.
        """
        self.problems += [
            problem for problem in question.prompt.problems if problem not in self.problems
        ]
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
    """Ask for insights, each time with the earlier ones, then for a verdict on each bullet.

    Raises: any error of the builder, and TypeError if it makes no text.
    """
    said = Talk()
    good = 0
    for iteration in range(1, min(case.iterations, MOST_ITERATIONS) + 1):
        given = (case.trajectory, case.ground_truth, case.test_report, case.bullets, case.dataset)
        question = Question(
            case, _prompt(builder.build(*given, said.insights or None)), iteration, 1
        )
        insights = said.hear(question, ask, read_insights)
        if insights is not None:
            said.insights = insights
            good = iteration
        elif good:
            said.problems[-1] += f"; the insights of iteration {good} are kept"
    for bullet in case.bullets:
        prompt = _prompt(
            builder.build_evaluation_prompt(case.trajectory, case.ground_truth, bullet)
        )
        # the part stays the same if other bullets are gone
        part = 2 + case.trajectory.used_bullet_ids.index(bullet.id)
        question = Question(case, prompt, case.iterations, part, bullet)
        evaluation = said.hear(question, ask, partial(read_evaluation, bullet_id=bullet.id))
        said.evaluations += [] if evaluation is None else [evaluation]
    said.iterations = min(case.iterations, MOST_ITERATIONS) if said.strategies else 0
    return said


def _prompt(made: object) -> Prompt:
    if not isinstance(made, str):
        raise TypeError(f"the prompt builder returned {type(made).__name__}; it must be a str")
    return made if isinstance(made, Prompt) else Prompt(made)


def read_insights(text: str) -> tuple[list[Insight] | None, Strategy, list[str]]:
    """Return the sound insights of an answer, how its JSON was found, and its faults. Return None
    for the insights if the answer has no list of them, or if none is sound.
    """
    value, strategy, problems = _found(text, "insights")
    entries = value.get("insights")
    if not isinstance(entries, list):
        return None, strategy, problems or ["`insights` in the judge's answer is not a list"]
    insights: list[Insight] = []
    for index, entry in enumerate(entries):
        try:
            insights.append(Insight.model_validate(entry))
        except ValidationError as error:
            problems.append(f"insight {index}: {faults_in(error)}")
    return insights if insights or not entries else None, strategy, problems


def read_evaluation(
    text: str, bullet_id: str
) -> tuple[BulletEvaluation | None, Strategy, list[str]]:
    """Return the verdict of an answer on the bullet of its question, how its JSON was found, and
    its faults. Return None for the verdict if it is not sound.
    """
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
