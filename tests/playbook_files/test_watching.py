"""What a person already has: the advice of a project's files, which lead nowhere else, and its
sessions.
"""

import json
import os
import time
from pathlib import Path

import pytest

from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.markdown import load_markdown
from reflector.playbook_files.watching import advice_of, exempt, watch, watching
from reflector.sessions.checks import sessions_of, unmentioned
from tests.road.sessions import Session


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in ("shop/docs", "home/.claude"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path / "shop"


def write(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        (root / name.replace("__", "/")).with_suffix(".md").write_text(text)


def test_imports_are_followed_below_the_project_and_the_agents_own_folders_alone(
    root: Path,
) -> None:
    (root.parent / "secret.md").write_text("- Never tell this to anybody\n")
    (root.parent / "home/.claude/mine.md").write_text("- Answer me in French\n")
    write(
        root,
        docs__style="- Keep functions small\n\n@style.md\n@../CLAUDE.md",
        CLAUDE=(
            "- Run the tests first\n\nSee @docs/style.md, @../secret.md, @~/.claude/mine.md and "
            "@gone.md.\n"
            "`@docs/no.md` is code, and so is\n```\n@../secret.md\n```\n"
        ),
    )
    (root / "AGENTS.md").symlink_to(root.parent / "secret.md")
    (root / "GEMINI.md").symlink_to("CLAUDE.md")
    (root / "CLAUDE.local.md").symlink_to(root.parent / "home/.claude/mine.md")
    found = advice_of(root)
    assert [line.text for line in found.lines] == [
        "Run the tests first",
        "Keep functions small",
        "Answer me in French",
    ]
    outside, gone, *links = sorted(one for one in found.omitted if one.startswith("not followed: "))
    assert outside.endswith("secret.md in CLAUDE.md")
    assert gone == "not followed: @gone.md in CLAUDE.md, which cannot be read"
    assert links == ["not followed: AGENTS.md, a link", "not followed: CLAUDE.local.md, a link"]
    assert [line.text for line in advice_of(root, [root / "AGENTS.md"]).lines] == [
        "Never tell this to anybody"
    ]


def test_imports_without_an_ending_are_followed(root: Path) -> None:
    (root / "README").write_text("- Keep each module below four hundred lines\n")
    (root / "docs/my notes.txt").write_text("- Prefer composition here\n")
    write(
        root,
        CLAUDE=(
            "@README\n@docs/my\\ notes.txt\nAsk @alice about @types/node and "
            "@decorators, see @README.\n"
        ),
    )
    found = advice_of(root)
    assert {line.file for line in found.lines} == {"README", "docs/my notes.txt"}
    assert not [one for one in found.omitted if one.startswith("not followed: ")]


def test_imports_outside_are_named_with_and_without_an_ending(root: Path) -> None:
    (root.parent / "SECRET").write_text("- Never tell this to anybody\n")
    write(root, CLAUDE="- Run the tests first\n\n@../SECRET and @gone/file.md#part, please.\n")
    found = advice_of(root)
    assert [line.file for line in found.lines] == ["CLAUDE.md"]
    outside, gone = (one for one in found.omitted if one.startswith("not followed: "))
    assert outside.endswith("SECRET in CLAUDE.md")
    assert gone == "not followed: @gone/file.md in CLAUDE.md, which cannot be read"


def test_rules_for_some_files_have_their_patterns(root: Path) -> None:
    (root / ".claude/rules").mkdir(parents=True)
    (root / ".github/instructions").mkdir(parents=True)
    texts = {
        ".claude/rules/ts.md": (
            '---\npaths:\n  - "src/**/*.ts"\n  - lib/*.ts\n---\n- Prefer const in TypeScript\n'
        ),
        ".claude/rules/all.md": "---\nname: all\n---\n- Keep functions small\n",
        ".github/instructions/py.instructions.md": (
            '---\napplyTo: "**/*.py"\n---\n- Use type hints\n'
        ),
        ".github/instructions/any.instructions.md": '---\napplyTo: "**"\n---\n- Be brief here\n',
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    scopes = advice_of(root).scopes
    assert scopes == {
        ".claude/rules/ts.md": ("src/**/*.ts", "lib/*.ts"),
        ".github/instructions/py.instructions.md": ("**/*.py",),
    }


def test_files_that_are_not_read_are_named(root: Path) -> None:
    for name in ("packages/web", "node_modules/x", ".claude"):
        (root / name).mkdir(parents=True)
    own = root.parent / "home/.claude/CLAUDE.md"
    for path in (
        root / "packages/web/CLAUDE.md",
        root / "node_modules/x/CLAUDE.md",
        root / ".claude/AGENTS.md",
        own,
    ):
        path.write_text("- Never use inline styles\n")
    write(root, CLAUDE="- Run the tests first\n", GEMINI="- x y\n" * 300_000)
    found = advice_of(root)
    assert [line.file for line in found.lines] == ["CLAUDE.md"]
    unread = [one.removeprefix("not read: ").split(",")[0].split(";")[0] for one in found.omitted]
    assert unread == [
        "GEMINI.md has more than 1",
        "packages/web/CLAUDE.md",
        ".claude/AGENTS.md",
        str(own),
    ]
    assert all("reflector check" in one or "make it smaller" in one for one in found.omitted)


def test_comments_take_no_tokens(root: Path) -> None:
    write(
        root,
        CLAUDE="- Run the tests first\n",
        AGENTS="- Run the tests first\n<!-- " + "note " * 100 + "-->",
    )
    files = advice_of(root).files
    assert files["AGENTS.md"] == files["CLAUDE.md"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    ["```\n", "~~~\n", "> a\n\n", "|a|\n|-|\n\n", "<!-- ", "@a/b.md\n", "-" + " ." * 50 + "\n"],
)
def test_time_grows_with_the_file(root: Path, unit: str) -> None:
    """Four times the text takes about four times as long; a quadratic rule takes sixteen times."""
    times = []
    for size in (60_000, 240_000):
        write(root, CLAUDE=(unit * (size // len(unit) + 1)) + "\n- Run the tests first\n")
        began = time.process_time()
        advice_of(root)
        times.append(time.process_time() - began)
    assert times[1] < 8 * times[0] + 0.3


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("The shop sells tea. Always run `make test` before you push. I prefer short answers.", 2),
        ("# Never push to main\n\nWhy: it deploys.", 1),
        ("# Testing\n\nWe use pytest.", 0),
        ("Please keep the changelog in step.", 1),
        ("```\nalways run this\n```\n\n> never do that\n", 0),
        ("Build:\n\nThe build is slow.", 0),
        ("1. Read the issue\n2. Write a test\n", 1),
    ],
)
def test_a_sentence_that_tells_to_do_something_is_a_line_where_every_piece_is_wanted(
    text: str, lines: int
) -> None:
    assert len(load_markdown(text, every=True).bullets) == lines
    assert all(one.startswith("left out: ") for one in load_markdown(text, every=True).notes)


def test_a_line_that_holds_a_secret_or_stands_there_twice_is_named_and_not_a_line(
    root: Path,
) -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    write(root, CLAUDE=f"- Use the key {key} for tests\n- Run the tests\n- run the tests.\n")
    found = advice_of(root)
    assert [line.text for line in found.lines] == ["Run the tests"]
    assert any("secret" in one and "line 1" in one for one in found.omitted)
    assert "CLAUDE.md: line 3 repeats line 2" in found.omitted


def test_sessions_come_newest_first_without_subagents_and_what_is_known_is_not_opened(
    root: Path,
) -> None:
    folder = root.parent / "home/.claude/projects"
    for number, name in enumerate(("a", "agent-b", "c", "s/subagents/d")):
        made = Session(name).user("Fix the total.")
        made.records[0]["cwd"] = str(root)
        path = made.write(folder / f"{name}.jsonl")
        os.utime(path, (1000 + number, 1000 + number))
    (folder / "c.jsonl").write_bytes(b"?" * (size := (folder / "c.jsonl").stat().st_size))
    known = {(str(folder / "c.jsonl"), size): str(root)}
    found = sessions_of(root, [(folder, "*.jsonl"), (root / "gone", "*")], known, 0.0)
    assert [(one.path.stem, one.cwd) for one in found] == [("c", str(root)), ("a", str(root))]
    assert [one.path.stem for one in sessions_of(root, [(folder, "*.jsonl")], known, 1002.0)] == [
        "c"
    ]


def test_a_line_is_unmentioned_where_none_of_its_words_stands_in_a_session_but_in_its_folder(
    root: Path,
) -> None:
    file = root.parent / "s.jsonl"
    file.write_text(f'{{"cwd": "{root}/invoices", "text": "Run MYPY on src/cart.py"}}\n')
    texts = {
        "Always run mypy": 0,
        "Never touch src/cart.py": 0,
        "Keep the zebra tidy": 1,
        f"Look into {root.name}s": 1,
    }
    assert unmentioned(texts, [file, root / "gone"], root) == {
        text for text, gone in texts.items() if gone
    }


_MENTIONS = [
    ("合并前更新依赖", "请更新依赖", "缓存要清空"),
    ("用 缓存 always before", "清空缓存", "更新依赖"),
    ("マージ前にキャッシュを消す", "キャッシュは大きい", "リストを使うこと"),
    ("รวมสาขาหลังอัปเดตแพ็กเกจ", "แพ็กเกจนี้เก่า", "ต้องเขียนโค้ดก่อนเสมอ"),
    ("ລວມສາຂາຫຼັງອັບເດດແພັກເກດ", "ແພັກເກດນີ້ເກົ່າ", "ຕ້ອງຂຽນໂຄ້ດກ່ອນສະເໝີ"),
    ("បញ្ចូលសាខាក្រោយកញ្ចប់", "កញ្ចប់នេះចាស់", "ត្រូវសរសេរកូដ"),
    ("Обнови Пакеты", "где Пакеты", "проверь список"),
]


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize(("line", "mentions", "other"), _MENTIONS)
def test_words_without_spaces_are_mentioned(
    root: Path, line: str, mentions: str, other: str, escaped: bool
) -> None:
    file = root.parent / "s.jsonl"
    for text, unseen in ((mentions, set()), (other, {line})):
        file.write_text(json.dumps({"text": text}, ensure_ascii=escaped), "utf-8")
        assert unmentioned([line], [file], root) == unseen


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("合并分支前必须先更新全部依赖", "合并分支前必须先更新全部的依赖"),
        ("マージの前に依存関係を更新する", "マージ前に必ず依存関係を更新すること"),
        ("อัปเดตแพ็กเกจก่อนรวมสาขา", "ต้องอัปเดตแพ็กเกจก่อนรวมสาขา"),
        ("ອັບເດດແພັກເກດກ່ອນລວມສາຂາ", "ຕ້ອງອັບເດດແພັກເກດກ່ອນລວມສາຂາ"),
        ("ធ្វើបច្ចុប្បន្នភាពកញ្ចប់មុនពេលបញ្ចូលសាខា", "ត្រូវធ្វើបច្ចុប្បន្នភាពកញ្ចប់មុនពេលបញ្ចូលសាខា"),
    ],
)
def test_reworded_line_without_spaces_keeps_its_name(root: Path, before: str, after: str) -> None:
    with Ledger.open("sqlite://") as ledger:
        write(root, CLAUDE=f"- {before}\n- 回答要简短，别写客套话\n")
        watch(ledger, watching(ledger, advice_of(root).lines))
        write(root, CLAUDE=f"- {after}\n- 回答要简短，别写客套话\n")
        changes = [change for change, _ in watching(ledger, advice_of(root).lines).changes]
    assert [(one.kind, one.text) for one in changes] == [("revise", after)]


def test_withheld_bullet_is_found_between_letters(root: Path) -> None:
    write(root, CLAUDE="注意：合并前必须更新依赖，然后通知大家\n")
    bullets = [Bullet("pat-001", "pat", "必须更新依赖"), Bullet("pat-002", "pat", "更新缓存依赖")]
    assert exempt(bullets, root) == {"pat-001": "CLAUDE.md"}
