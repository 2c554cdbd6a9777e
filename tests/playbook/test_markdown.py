"""Advice in Markdown: files of people, editors and agents."""

from __future__ import annotations

import pytest

from reflector.playbook.bullet import Bullet
from reflector.playbook.document import dump, dump_skillbook
from reflector.playbook.markdown import is_markdown, load_any, load_markdown, section_of


def advice(text: str) -> list[tuple[str, str]]:
    return [(bullet.section, bullet.text) for bullet in load_markdown(text).bullets]


def test_each_item_of_a_list_is_a_bullet_in_the_section_that_its_heading_means() -> None:
    text = "# Shop\n\n## Code style\n- Use tabs.\n\n## Things to avoid\n1. Pushing to main.\n\n## Zebra\n* Who knows?\n"
    assert advice(text) == [("mis", "Pushing to main."), ("pref", "Use tabs."), ("oth", "Who knows?")]


def test_a_heading_that_means_nothing_inherits_the_section_above_it() -> None:
    assert advice("# Testing rules\n## Python\n- Use pytest here.\n") == [("pat", "Use pytest here.")]


def test_nested_items_belong_to_theirs_unless_it_ends_with_a_colon() -> None:
    assert advice(
        "- Keep it small\n  - one thing a function\n- Tests:\n  - run all of them\n  - read the output\n"
    ) == [
        ("oth", "Keep it small one thing a function"),
        ("oth", "Tests: run all of them"),
        ("oth", "Tests: read the output"),
    ]


def test_what_is_no_advice_is_left_out_and_named_by_its_line() -> None:
    loaded = load_markdown("Prose here.\n\n- [Docs](https://x)\n- Run the tests\n\n```\n- not me\n```\n")
    assert [bullet.text for bullet in loaded.bullets] == ["Run the tests"]
    assert loaded.notes == (
        "left out: paragraphs (line 1)",
        "left out: single words and links (line 3)",
        "left out: code blocks (line 6)",
    )


def test_front_matter_is_no_advice_and_lines_are_counted_with_it() -> None:
    loaded = load_markdown("---\ndescription: x\n---\nProse.\n\n- Run the tests\n")
    assert loaded.notes == ("left out: paragraphs (line 4)",)


def test_a_memory_file_of_an_agent_is_advice_in_the_section_of_its_type() -> None:
    text = "---\nname: terse\ntype: feedback\n---\nKeep answers short.\n"
    assert advice(text) == [("pref", "Keep answers short.")]


def test_a_file_without_advice_is_refused_with_the_way_out() -> None:
    (problem,) = load_markdown("# Title\n\nProse only.\n").problems
    assert "write each bullet as an item of a list" in str(problem)


def test_a_playbook_as_text_keeps_its_counters_and_its_names_where_they_are_ours() -> None:
    text = "## MISTAKES TO AVOID\n[mis-003] helpful=2 harmful=1 :: No mocks.\n"
    text += "[shr-00001] helpful=5 harmful=0 :: Plan.\n?\n"
    loaded = load_markdown(text)
    assert loaded.bullets == (Bullet("mis-003", "mis", "No mocks.", 2, 1), Bullet("mis-004", "mis", "Plan.", 5, 0))
    assert loaded.notes == ("left out: lines (line 4)",)


BULLETS = (Bullet("pat-001", "pat", "Run [all] tests: `make`", 3, 1), Bullet("oth-002", "oth", "Ask.", 0, 2))


@pytest.mark.parametrize(
    "raw",
    [
        dump(BULLETS, None),
        dump_skillbook(BULLETS),
        "\n".join(["## PATTERNS & APPROACHES", BULLETS[0].line, "## OTHERS", BULLETS[1].line]).encode(),
    ],
    ids=["playbook.json", "skillbook", "text"],
)
def test_what_export_prints_is_read_back_with_texts_sections_and_counters(raw: bytes) -> None:
    loaded = load_any(raw)
    said = [(one.section, one.text, one.helpful, one.harmful) for one in loaded.bullets]
    assert said == [(one.section, one.text, one.helpful, one.harmful) for one in BULLETS]
    assert not loaded.problems


@pytest.mark.parametrize(
    ("raw", "is_text"), [(b"{", False), (b" [1]", False), (b"[pat-001] helpful=1 harmful=0 :: x", True), (b"- x", True)]
)
def test_json_is_told_from_text_by_its_beginning(raw: bytes, is_text: bool) -> None:
    assert is_markdown(raw) is is_text


@pytest.mark.parametrize(
    ("title", "section"),
    [("Patterns & Approaches", "pat"), ("mis", "mis"), ("**Gotchas**", "mis"), ("Architecture", "ctx"), ("Zoo", None)],
)
def test_a_title_means_a_section_by_its_words(title: str, section: str | None) -> None:
    assert section_of(title) == section
