"""The prompts: whose template, what stands in them, and that nothing in the data is taken for a placeholder (P3)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflector.ground_truth import Bullet, Prompt, ReflectorPromptBuilder
from reflector.mistakes import Mistake
from reflector.reflection.prompts import MAX_TEMPLATE
from tests.reflection.truth.cases import attempt, bullet, insight
from tests.reflection.truth.texts import FILLED, TEXTS

BULLETS = st.lists(st.builds(Bullet, id=TEXTS, section=TEXTS, content=FILLED, searchable_text=TEXTS), max_size=2)


@settings(max_examples=100)
@given(FILLED, FILLED, FILLED, BULLETS, st.sampled_from(["en", "ja"]))
def test_everything_given_stands_in_the_prompt_as_it_was_given(
    answer: str, truth: str, report: str, bullets: list[Bullet], language: str
) -> None:
    made = ReflectorPromptBuilder(language=language).build(  # type: ignore[arg-type]
        attempt(generated_answer=answer), truth, report, bullets, "sums"
    )
    assert all(text in made for text in (answer, truth, report, *(one.content for one in bullets)))


@settings(max_examples=100)
@given(FILLED, FILLED, FILLED)
def test_an_evaluation_holds_answer_truth_and_bullet(answer: str, truth: str, content: str) -> None:
    trajectory = attempt(generated_answer=answer)
    made = ReflectorPromptBuilder().build_evaluation_prompt(trajectory, truth, bullet("pat-001", content))
    assert all(text in made for text in (answer, truth, content, "pat-001", trajectory.query))


def test_a_filled_template_is_never_formatted_again(tmp_path: Path) -> None:
    (tmp_path / "default.txt").write_text("{{a}} {generated_answer}|{ground_truth}")
    made = ReflectorPromptBuilder(tmp_path).build(
        attempt(generated_answer="{ground_truth} {{x}} {0}"), "}}{", "r", [], "sums"
    )
    assert made == "{a} {ground_truth} {{x}} {0}|}}{"


def test_the_datasets_template_goes_before_the_default_and_both_before_ours(tmp_path: Path) -> None:
    builder = ReflectorPromptBuilder(tmp_path)

    def built(dataset: str = "sums") -> str:
        return builder.build(attempt(), "t", "r", [], dataset)

    assert '"insights"' in built()
    (tmp_path / "default.txt").write_text("default")
    assert built() == "default"
    (tmp_path / "sums.txt").write_text("合計", "utf-8")
    assert (built(), built("other")) == ("合計", "default")


def test_both_names_of_the_previous_insights_are_known(tmp_path: Path) -> None:
    (tmp_path / "default.txt").write_text("{previous_insights}|{previous_insights_section}")
    builder = ReflectorPromptBuilder(tmp_path, language="en")
    assert builder.build(attempt(), "t", "r", [], "sums") == "|"
    given, _, again = builder.build(attempt(), "t", "r", [], "sums", [insight("Mind the sign.")]).partition("|")
    assert given == again
    lines = given.splitlines()
    assert lines[2:7] == [
        "Reasoning: r",
        "Error: e",
        "Root cause: c",
        "Correct approach: a",
        "Key insight: Mind the sign.",
    ]
    assert "deeper" in lines[-1]


def test_steps_are_numbered_and_bullets_stand_apart(tmp_path: Path) -> None:
    (tmp_path / "default.txt").write_text("{reasoning_steps}\n--\n{used_bullets}")
    builder = ReflectorPromptBuilder(tmp_path)
    made = builder.build(attempt(reasoning_steps=["a", "b"]), "t", "r", [bullet("x", "X"), bullet("y", "Y")], "sums")
    section = bullet("x").section
    assert made == f"1. a\n2. b\n--\n[x] {section}\nX\n\n[y] {section}\nY"
    empty = builder.build(attempt(reasoning_steps=[]), "t", "r", [], "sums")
    assert empty == "(no reasoning steps were recorded)\n--\n(no bullets were used)"
    japanese = ReflectorPromptBuilder(tmp_path, language="ja")
    assert japanese.build(attempt(reasoning_steps=[]), "t", "r", [], "sums").startswith("(推論ステップ")


def test_an_evaluation_has_a_template_of_its_own(tmp_path: Path) -> None:
    builder = ReflectorPromptBuilder(tmp_path)
    assert '"tag"' in builder.build_evaluation_prompt(attempt(), "t", bullet("a"))
    (tmp_path / "bullet_evaluation.txt").write_text(
        "{query}|{generated_answer}|{ground_truth}|{bullet_id}|{bullet_section}|{bullet_content}"
    )
    trajectory = attempt()
    made = builder.build_evaluation_prompt(trajectory, "t", bullet("a", "b"))
    assert made == f"{trajectory.query}|{trajectory.generated_answer}|t|a|{bullet('a').section}|b"


REFUSED = [
    *("../x", "..", ".", "", "a/b", "a\\b", "/etc/passwd", "C:x", "a.txt", "a b", "x" * 65, "-x", "a\0b", "a\n"),
    *("con", "NUL", "Com1", "lpt9", "ＣＯＮ", "ａ", "x²", "a\u202eb", "a\u200bb", "ｅtc／x", "bullet_evaluation", "💩"),
]


@pytest.mark.parametrize("dataset", REFUSED, ids=ascii)
def test_a_name_that_no_dataset_can_have_is_refused(dataset: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("another's")
    with pytest.raises(ValueError, match="dataset"):
        ReflectorPromptBuilder(tmp_path / "prompts").build(attempt(), "t", "r", [], dataset)


@pytest.mark.parametrize("dataset", ["sums", "GSM8K", "human_eval-2", "顧客対応", "x" * 64])
def test_plain_names_are_datasets(dataset: str) -> None:
    assert ReflectorPromptBuilder().build(attempt(), "t", "r", [], dataset)


@pytest.mark.parametrize(
    "template",
    [
        "{nobody_knows}",
        "{",
        "}",
        "{0}",
        "{generated_answer.__class__}",
        "{generated_answer!r:>9999999999}",
        '{"insights": []}',
        "{test_report}" * 5,
        "x" * (MAX_TEMPLATE + 1),
        b"\xff\xfe",
    ],
    ids=lambda template: repr(template[:30]),
)
def test_a_broken_template_is_passed_over_and_said(template: str | bytes, tmp_path: Path) -> None:
    (tmp_path / "sums.txt").write_bytes(template.encode() if isinstance(template, str) else template)
    (tmp_path / "default.txt").write_text("default {generated_answer}")
    builder = ReflectorPromptBuilder(tmp_path)
    made = builder.build(attempt(generated_answer="A"), "t", "r", [], "sums")
    assert isinstance(made, Prompt)
    assert made == "default A"
    assert "another template is used" in made.problems[0]
    assert "sums.txt" in made.problems[0]
    (tmp_path / "default.txt").write_text("{")
    assert '"insights"' in builder.build(attempt(), "t", "r", [], "sums")


def test_the_project_goes_before_the_user_and_both_before_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    builder = ReflectorPromptBuilder(project=tmp_path, language="en")
    folders = (tmp_path / "config" / "reflector", tmp_path / ".claude" / "reflector")
    for text, folder in zip(("user", "project"), folders, strict=True):
        own = folder / "prompts" / "ground_truth"
        own.mkdir(parents=True)
        (own / "default.txt").write_text(text)
        assert builder.build(attempt(), "t", "r", [], "sums") == text


def test_a_template_that_came_with_the_repository_is_passed_over(tmp_path: Path) -> None:
    own = tmp_path / ".claude" / "reflector" / "prompts" / "ground_truth"
    own.mkdir(parents=True)
    (own / "default.txt").write_text("a stranger's")
    for command in (["init", "-q"], ["add", "-f", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    made = ReflectorPromptBuilder(project=tmp_path).build(attempt(), "t", "r", [], "sums")
    assert isinstance(made, Prompt)
    assert "stranger" not in made
    assert "tracked by git" in made.problems[0]


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(Mistake, match="'fr'"):
        ReflectorPromptBuilder(language="fr")  # type: ignore[arg-type]


def test_failing_tests_are_named_before_the_report() -> None:
    report = "FAILED tests/test_sums.py::test_add - assert -1 == 3\n1 failed in 0.01s"
    made = ReflectorPromptBuilder(language="en").build(attempt(), "t", report, [], "sums")
    assert f"Failing tests:\n- tests/test_sums.py::test_add: assert -1 == 3\n\n{report}" in made
