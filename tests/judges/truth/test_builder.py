"""The prompts (B-09 to B-13): whose template, what stands in them, and that data in them stays
data (P3).
"""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from reflector.ground_truth import Bullet, Prompt, ReflectorPromptBuilder
from reflector.judges.prompts import MAX_TEMPLATE
from reflector.judges.truth.questions import Language
from reflector.mistakes import Mistake
from reflector.project import checked_dataset
from tests.judges.truth.cases import FILLED, TEXTS, attempt, bullet, insight

BULLETS = st.lists(
    st.builds(Bullet, id=TEXTS, section=TEXTS, content=FILLED, searchable_text=TEXTS), max_size=2
)


def build(
    builder: ReflectorPromptBuilder, report: str = "r", dataset: str = "sums", **fields: object
) -> str:
    return builder.build(attempt(**fields), "t", report, [], dataset)


@given(FILLED, FILLED, FILLED, BULLETS, st.sampled_from(["en", "ja"]))
def test_prompt_contains_every_given_value(
    answer: str, truth: str, report: str, bullets: list[Bullet], language: Language
) -> None:
    builder, trajectory = (
        ReflectorPromptBuilder(language=language),
        attempt(generated_answer=answer),
    )
    made = builder.build(trajectory, truth, report, bullets, "sums")
    assert all(text in made for text in (answer, truth, report, *(one.content for one in bullets)))
    asked = builder.build_evaluation_prompt(trajectory, truth, bullet("pat-001", report))
    assert all(text in asked for text in (answer, truth, report, "pat-001", trajectory.query))


def test_dataset_template_precedes_default_and_ours(tmp_path: Path) -> None:
    builder = ReflectorPromptBuilder(tmp_path)
    assert '"insights"' in build(builder)
    (tmp_path / "default.txt").write_text("default")
    assert build(builder) == "default"
    (tmp_path / "sums.txt").write_text("合計", "utf-8")
    assert (build(builder), build(builder, dataset="other")) == ("合計", "default")


def test_both_names_of_the_previous_insights_are_known(tmp_path: Path) -> None:
    (tmp_path / "default.txt").write_text("{previous_insights}|{previous_insights_section}")
    builder = ReflectorPromptBuilder(tmp_path)
    assert build(builder) == "|"
    made = builder.build(attempt(), "t", "r", [], "sums", [insight("Mind the sign.")])
    given, _, again = made.partition("|")
    assert given == again
    wanted = [
        "Reasoning: r",
        "Error: e",
        "Root cause: c",
        "Correct approach: a",
        "Key insight: Mind the sign.",
    ]
    assert given.splitlines()[2:7] == wanted
    assert "deeper" in given.splitlines()[-1]


def test_steps_are_numbered_and_bullets_stand_apart(tmp_path: Path) -> None:
    (tmp_path / "default.txt").write_text("{reasoning_steps}\n--\n{used_bullets}")
    builder = ReflectorPromptBuilder(tmp_path)
    made = builder.build(
        attempt(reasoning_steps=["a", "b"]), "t", "r", [bullet("x", "X"), bullet("y", "Y")], "sums"
    )
    section = bullet("x").section
    assert made == f"1. a\n2. b\n--\n[x] {section}\nX\n\n[y] {section}\nY"
    assert build(builder, reasoning_steps=[]) == (
        "(no reasoning steps were recorded)\n--\n(no bullets were used)"
    )
    assert build(ReflectorPromptBuilder(tmp_path, language="ja"), reasoning_steps=[]).startswith(
        "(推論ステップ"
    )
    with pytest.raises(Mistake, match="'fr'"):
        ReflectorPromptBuilder(language="fr")  # type: ignore[arg-type]


def test_an_evaluation_has_a_template_of_its_own(tmp_path: Path) -> None:
    builder, trajectory = ReflectorPromptBuilder(tmp_path), attempt()
    assert '"tag"' in builder.build_evaluation_prompt(trajectory, "t", bullet("a"))
    names = (
        "query",
        "generated_answer",
        "ground_truth",
        "bullet_id",
        "bullet_section",
        "bullet_content",
    )
    (tmp_path / "bullet_evaluation.txt").write_text("|".join(f"{{{name}}}" for name in names))
    made = builder.build_evaluation_prompt(trajectory, "t", bullet("a", "b"))
    assert made == f"{trajectory.query}|{trajectory.generated_answer}|t|a|{bullet('a').section}|b"


REFUSED = [
    *("../x", "..", "", "a\\b", "C:x", ".a", "a.", "a..b", "x" * 65, "-x", "a\0b", "a\n"),
    *("ａ", "x²", "a\u202eb", "bullet_evaluation", "openai/humaneval"),
]
NAMES = ("human_eval-2", "顧客対応", "x" * 64, "mbpp-v1.0", "HumanEval+", "v1.0.2")


@pytest.mark.parametrize("dataset", REFUSED, ids=ascii)
def test_a_name_without_a_file_has_the_default(dataset: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("another's")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "default.txt").write_text("default")
    (tmp_path / "prompts" / "bullet_evaluation.txt").write_text("of a bullet")
    made = build(ReflectorPromptBuilder(tmp_path / "prompts"), dataset=dataset)
    assert isinstance(made, Prompt)
    assert made == "default"
    assert "cannot be the name of a dataset" in made.problems[0]
    with pytest.raises(ValueError, match="cannot be the name of a dataset"):
        checked_dataset(dataset)


@pytest.mark.parametrize("dataset", NAMES)
def test_usual_names_of_datasets_have_templates(dataset: str, tmp_path: Path) -> None:
    (tmp_path / f"{dataset}.txt").write_text("its own")
    assert build(ReflectorPromptBuilder(tmp_path), dataset=dataset) == "its own"


@pytest.mark.parametrize(
    "template",
    [
        *(
            "{nobody_knows}",
            "{",
            "{0}",
            "{generated_answer.__class__}",
            "{generated_answer!r:>9999999999}",
        ),
        *('{"insights": []}', "{test_report}" * 5, "x" * (MAX_TEMPLATE + 1), b"\xff\xfe"),
    ],
    ids=lambda template: repr(template[:30]),
)
def test_a_broken_template_is_passed_over_and_said(template: str | bytes, tmp_path: Path) -> None:
    (tmp_path / "sums.txt").write_bytes(
        template.encode() if isinstance(template, str) else template
    )
    (tmp_path / "default.txt").write_text("default {generated_answer}")
    builder = ReflectorPromptBuilder(tmp_path)
    made = build(builder, generated_answer="A")
    assert isinstance(made, Prompt)
    assert made == "default A"
    assert "reflector uses another template" in made.problems[0]
    assert "sums.txt" in made.problems[0]
    (tmp_path / "default.txt").write_text("{")
    assert '"insights"' in build(builder)


def test_project_template_is_used_unless_git_tracks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    builder = ReflectorPromptBuilder(project=tmp_path)
    for text, folder in (("user", "config/reflector"), ("project", ".claude/reflector")):
        own = tmp_path / folder / "prompts" / "ground_truth"
        own.mkdir(parents=True)
        (own / "default.txt").write_text(text)
        assert build(builder) == text
    for command in (["init", "-q"], ["add", "-f", ".claude"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    made = build(builder)
    assert isinstance(made, Prompt)
    assert made.startswith("You review one attempt")
    assert "tracked by git" in made.problems[0]
