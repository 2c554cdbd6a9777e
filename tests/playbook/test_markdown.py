"""Advice in Markdown: files of people, editors and agents."""

import pytest

from reflector.playbook.bullet import Bullet
from reflector.playbook.document import dump
from reflector.playbook.markdown import load_any, load_markdown, section_meant

NESTED = (
    "- Keep it small\n  - one thing a function\n- Tests:\n  - run all of them\n  - read the "
    "output\n"
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            (
                "## Code style\n- Use tabs.\n\n## Things to avoid\n1. Pushing to main.\n\n## "
                "Zebra\n* "
                "Who knows?\n"
            ),
            [("mis", "Pushing to main."), ("pref", "Use tabs."), ("oth", "Who knows?")],
        ),
        ("# Testing rules\n## Python\n- Use pytest here.\n", [("pat", "Use pytest here.")]),
        (
            (
                "## Workflow\n1. Read the issue.\n2. Write a failing test.\n\n- To release:\n  1. "
                "Tag\n  2. Push it\n"
            ),
            [
                ("pat", ("1. Read the issue. 2. Write a failing test.")),
                ("pat", "To release: 1. Tag 2. Push it"),
            ],
        ),
        ("# Rules\n1. Use tabs.\n2. Never mock.\n", [("pat", "Use tabs."), ("pat", "Never mock.")]),
        (
            NESTED,
            [
                ("oth", "Keep it small one thing a function"),
                ("oth", "Tests: run all of them"),
                ("oth", "Tests: read the output"),
            ],
        ),
        (
            "---\nname: terse\ntype: feedback\n---\nKeep answers short.\n",
            [("pref", "Keep answers short.")],
        ),
    ],
)
def test_each_item_belongs_to_its_section(text: str, wanted: list[tuple[str, str]]) -> None:
    assert [(bullet.section, bullet.text) for bullet in load_markdown(text).bullets] == wanted


def test_prose_and_code_are_omitted_and_named() -> None:
    loaded = load_markdown(
        "Prose here.\n\n- [Docs](https://x)\n- Run the tests\n\n```\n- not me\n```\n"
    )
    assert [bullet.text for bullet in loaded.bullets] == ["Run the tests"]
    assert loaded.notes == (
        'omitted: paragraphs (line 1 "Prose here.")',
        'omitted: single words and links (line 3 "[Docs](https://x)")',
        'omitted: code blocks (line 7 "- not me")',
    )
    behind = load_markdown("---\ndescription: x\n---\nProse.\n\n- Run the tests\n")
    assert behind.notes == ('omitted: paragraphs (line 4 "Prose.")',)


def test_file_without_advice_is_refused_with_remedy() -> None:
    (problem,) = load_markdown("# Title\n\nProse only.\n").problems
    assert "write each rule as a list item" in str(problem)


def test_playbook_as_text_keeps_counters_and_own_names() -> None:
    text = "## MISTAKES TO AVOID\n[mis-003] helpful=2 harmful=1 :: No mocks.\n"
    text += "[shr-00001] helpful=5 harmful=0 :: Plan.\n?\n"
    loaded = load_markdown(text)
    assert loaded.bullets == (
        Bullet("mis-003", "mis", "No mocks.", 2, 1),
        Bullet("mis-004", "mis", "Plan.", 5, 0),
    )
    assert loaded.notes == ('omitted: lines (line 4 "?")',)


BULLETS = (
    Bullet("pat-001", "pat", "Run [all] tests: `make`", 3, 1),
    Bullet("oth-002", "oth", "Ask.", 0, 2),
)


@pytest.mark.parametrize(
    "raw",
    [
        dump(BULLETS, None),
        "\n".join(
            ["## PATTERNS & APPROACHES", BULLETS[0].line, "## OTHERS", BULLETS[1].line]
        ).encode(),
    ],
    ids=["playbook.json", "text"],
)
def test_export_is_read_back_with_counters(raw: bytes) -> None:
    loaded = load_any(raw)  # which tells JSON from text by its beginning
    said = [(one.section, one.text, one.helpful, one.harmful) for one in loaded.bullets]
    assert said == [(one.section, one.text, one.helpful, one.harmful) for one in BULLETS]
    assert not loaded.problems


@pytest.mark.parametrize(
    ("title", "section"),
    [
        ("Patterns & Approaches", "pat"),
        ("mis", "mis"),
        ("**Gotchas**", "mis"),
        ("Architecture", "ctx"),
        ("Zoo", None),
    ],
)
def test_a_title_means_a_section_by_its_words(title: str, section: str | None) -> None:
    assert section_meant(title) == section


@pytest.mark.parametrize(
    ("title", "section", "items", "word"),
    [
        ("规则", "pat", ["合并前必须更新依赖", "用中文回答"], "缓存"),
        ("ルール", "pat", ["マージの前に依存関係を更新する", "日本語で答える"], "キャッシュ"),
        ("กฎ", "pat", ["อัปเดตแพ็กเกจก่อนรวมสาขา", "ตอบเป็นภาษาไทย"], "แคช"),
        ("ກົດ", "pat", ["ອັບເດດແພັກເກດກ່ອນລວມສາຂາ", "ຕອບເປັນພາສາລາວ"], "ແຄດ"),
        ("វិធាន", "pat", ["ធ្វើបច្ចុប្បន្នភាពកញ្ចប់មុនពេលបញ្ចូលសាខា", "ឆ្លើយជាភាសាខ្មែរ"], "កូដ"),
    ],
)
def test_items_without_spaces_are_advice(
    title: str, section: str, items: list[str], word: str
) -> None:
    loaded = load_markdown("\n".join([f"# {title}", "", *(f"- {item}" for item in (*items, word))]))
    assert [(one.section, one.text) for one in loaded.bullets] == [
        (section, item) for item in items
    ]
    assert loaded.notes == (f'omitted: single words and links (line {3 + len(items)} "{word}")',)


def test_long_text_without_spaces_shows_its_beginning() -> None:
    (note,) = load_markdown("- 用中文回答\n\n" + "商店卖茶" * 40).notes
    assert note == f'omitted: paragraphs (line 3 "{("商店卖茶" * 15)[:59]}…")'
