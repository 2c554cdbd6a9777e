"""The prompts of reflection with ground truth: a template, filled once (requirements B-09 to B-13).

Invariant: what is filled in stands in the prompt as it was given, braces included, because a filled text is never
formatted again. A template that cannot be used is passed over for the next one, down to ours, and the reason is kept:
a prompt can always be built.

The agent asks a builder for nothing but `build` and `build_evaluation_prompt`, so any object with both is a builder.

Of `prompts_dir` or, without one, of the project's and the user's folder `prompts/ground_truth`, the file of the dataset
is used, then `default.txt`, then ours in the language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

from reflector.mistakes import Mistake
from reflector.reflection.prompts import Template, TemplateError, find_own, read_template
from reflector.reflection.truth.datasets import checked_dataset
from reflector.reflection.truth.models import Bullet, Insight, Trajectory
from reflector.resources import resource_dir

Language = Literal["en", "ja"]
FOLDER = "ground_truth"
#: The last two are one: the template of the system that this comes from says the second.
_PLACEHOLDERS = (
    *("query", "generated_answer", "ground_truth", "test_report", "reasoning_steps", "used_bullets"),
    *("previous_insights", "previous_insights_section"),
)
_OF_BULLET = ("query", "generated_answer", "ground_truth", "bullet_id", "bullet_section", "bullet_content")

#: What stands in a prompt where the trajectory has nothing, and around what it has.
_WORDS: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "no steps": "(no reasoning steps were recorded)",
        "no bullets": "(no bullets were used)",
        "before": "Insights of the iteration before:",
        "deeper": "Go deeper than these: correct what is wrong in them, and look for the cause behind the cause.",
    },
    "ja": {
        "no steps": "(推論ステップは記録されていません)",
        "no bullets": "(使用されたBulletはありません)",
        "before": "前回の反復の教訓:",
        "deeper": "これらをさらに掘り下げてください。誤りがあれば正し、原因のさらに奥にある原因を探してください。",
    },
}
#: The five parts of an insight.
_LABELS: Mapping[Language, Sequence[str]] = {
    "en": ("Reasoning", "Error", "Root cause", "Correct approach", "Key insight"),
    "ja": ("推論", "誤り", "根本原因", "正しいアプローチ", "重要な教訓"),
}


class Prompt(str):
    """A prompt, the template that it was made with, and why templates before that one could not be used.

    template_sha256  None where the builder is not ours
    """

    template_sha256: str | None
    problems: tuple[str, ...]

    def __new__(cls, text: str, template_sha256: str | None = None, problems: Sequence[str] = ()) -> Prompt:
        made = super().__new__(cls, text)
        made.template_sha256, made.problems = template_sha256, tuple(problems)
        return made

    @property
    def sha256(self) -> str:
        """Hex digest of the prompt."""
        return sha256(self.encode("utf-8", "replace")).hexdigest()


class ReflectorPromptBuilder:
    """Builds the prompts.

    prompts_dir  a folder with `{dataset}.txt`, `default.txt` and `bullet_evaluation.txt`, each optional
    project      whose own templates are used where `prompts_dir` is not given
    language     of our templates and of the words for what is missing: en, or ja
    """

    def __init__(
        self, prompts_dir: str | Path | None = None, *, project: Path | None = None, language: Language = "en"
    ) -> None:
        if language not in get_args(Language):
            raise Mistake(f"language is {language!r}; the prompts are in {' and '.join(get_args(Language))}")
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
        """Return the prompt that asks for insights. Raises ValueError for a name that no dataset can have."""
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
        return self._filled((f"{checked_dataset(dataset)}.txt", "default.txt"), _PLACEHOLDERS, values)

    def build_evaluation_prompt(self, trajectory: Trajectory, ground_truth: str, bullet: Bullet) -> str:
        """Return the prompt that asks for a verdict on one bullet."""
        about = {"bullet_id": bullet.id, "bullet_section": bullet.section, "bullet_content": bullet.content}
        values = {**_asked(trajectory, ground_truth), **about}
        return self._filled(("bullet_evaluation.txt",), _OF_BULLET, values)

    def _previous(self, insights: Sequence[Insight]) -> str:
        """Return five labelled lines for each insight and the request to go deeper; "" without any."""
        words, labels = _WORDS[self.language], _LABELS[self.language]
        parts = [zip(labels, insight.model_dump().values(), strict=True) for insight in insights]
        blocks = ["\n".join(f"{label}: {text}" for label, text in said) for said in parts]
        return "\n\n".join([words["before"], *blocks, words["deeper"]]) if blocks else ""

    def _filled(self, names: Sequence[str], known: Sequence[str], values: Mapping[str, str]) -> Prompt:
        problems = []
        for name in names:
            try:
                if (template := self._own(name, known)) is not None:
                    break
            except TemplateError as error:
                problems.append(f"another template is used: {error}")
        else:
            ours = resource_dir("prompts") / FOLDER / self.language / names[-1]
            template = read_template(names[-1], ours, known=known)
        return Prompt(template.fill(values), template.sha256, problems)

    def _own(self, name: str, known: Sequence[str]) -> Template | None:
        """Return a template of the person or the project; None without one. Raises TemplateError."""
        if self.prompts_dir is None:
            return find_own(f"{FOLDER}/{name}", self.project, known)
        path = self.prompts_dir / name
        return read_template(name, path, known=known) if path.exists() else None


def _asked(trajectory: Trajectory, ground_truth: str) -> dict[str, str]:
    answer = trajectory.generated_answer
    return {"query": trajectory.query, "generated_answer": answer, "ground_truth": ground_truth}
