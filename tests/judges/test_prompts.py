"""The prompts (A-07, A-09, A-10): what they ask for, who may override them, and that data in
them stays data.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from reflector import load_template
from reflector.judges.answers import parse_answer
from reflector.judges.evidence import LEAST_QUOTE
from reflector.judges.prompts import PLACEHOLDERS, TemplateError, find_template
from reflector.resources import resource_dir

VALUES = {"playbook": "P", "transcript": "T", "cited_ids": "C"}


@pytest.fixture(autouse=True)
def no_prompts_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_reflector_prompt_asks_for_the_answer_form() -> None:
    text = load_template("reflector.txt")
    for wanted in (
        "{transcript}",
        "{playbook}",
        "{cited_ids}",
        '"analysis"',
        '"bullet_tags"',
        '"name"',
        '"tag"',
    ):
        assert wanted in text
    for word in ("citation-guided", "content-based"):
        assert word in text.lower()
    filled = find_template("reflector.txt").fill(VALUES)
    example = parse_answer(filled[filled.index("{") : filled.rindex("}") + 1])
    assert [(tag.tag, tag.followed) for tag in example.tags] == [
        ("helpful", "yes"),
        ("harmful", "yes"),
        ("neutral", "no"),
    ]
    assert all(
        tag.turn and len(tag.quote) >= LEAST_QUOTE and tag.sure == "sure" for tag in example.tags
    )
    assert example.problems == ()


@pytest.mark.parametrize("wanted", ["{key_points}", "cite its id", "[pat-"])
def test_playbook_prompt_asks_to_cite_ids(wanted: str) -> None:
    assert wanted in load_template("playbook.txt").lower()


@pytest.mark.parametrize("name", list(PLACEHOLDERS))
def test_templates_are_filled_like_str_format(name: str) -> None:
    values = dict.fromkeys(PLACEHOLDERS[name], "{x} {{y}} {0.__class__}")
    template = find_template(name)
    assert template.fill(values) == template.text.format(**values)


@given(st.text())
def test_halves_of_a_template_are_the_whole(transcript: str) -> None:
    template = find_template("reflector.txt")
    before, after = template.split(VALUES | {"transcript": transcript}, "transcript")
    assert before + after == template.fill(VALUES | {"transcript": transcript})
    assert after.startswith(transcript)


def test_project_template_precedes_the_users_and_ours(tmp_path: Path) -> None:
    # An editor's mark at the beginning is not part of a template.
    project, user = tmp_path / "p", tmp_path / "config" / "reflector" / "prompts"
    own = project / ".claude" / "reflector" / "prompts"
    assert find_template("playbook.txt", project).path == resource_dir("prompts") / "playbook.txt"
    for folder, text in ((user, "user {key_points}"), (own, "own {key_points}")):
        folder.mkdir(parents=True)
        (folder / "playbook.txt").write_text(text, "utf-8-sig")
        assert load_template("playbook.txt", project) == text
    assert load_template("playbook.txt") == "user {key_points}"
    with pytest.raises(
        TemplateError,
        match=(
            r"'../secrets' is not a prompt template; the templates are "
            r"playbook"
        ),
    ):
        load_template("../secrets")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"no place", "the placeholder {playbook} is missing"),
        (b"{playbook}{transcript}{cited_ids}{playbook}", "{playbook} appears 2 times"),
        (
            b'{playbook}\n{"analysis": 1}',
            (
                r"line 2: '{\"analysis\": 1}' is not a "
                r"placeholder"
            ).replace("\\", ""),
        ),
        (b"{playbook} {transcript} {cited_ids} {", "line 1: '{' is not a placeholder"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"x" * 300_000, "longer than 256 KiB"),
    ],
)
def test_broken_template_is_named_with_its_place(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / ".claude" / "reflector" / "prompts" / "reflector.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(TemplateError) as error:
        load_template("reflector.txt", tmp_path)
    assert complaint in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_unreadable_template_is_an_error(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / ".claude" / "reflector" / "prompts" / "playbook.txt"
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(TemplateError, match=r"playbook\.txt: reflector cannot read the template"):
        load_template("playbook.txt", tmp_path)
