"""What a person already has: the advice of a project's files, which lead nowhere else, and its
sessions.
"""

import os
import time
from pathlib import Path

import pytest

from reflector.changes.apply import apply_changes
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.markdown import load_markdown
from reflector.playbook_files.watching import (
    Watching,
    advice_of,
    exempt,
    watch,
    watched_lines,
    watching,
)
from reflector.sessions.checks import sessions_of
from tests.road.sessions import Session

REMOVE = Change("remove", "pat-001")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in ("shop/docs", "home/.claude"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path / "shop"


def write(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        (root / name.replace("__", "/")).with_suffix(".md").write_text(text)


def test_imports_are_followed_inside_the_project_only(
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
    assert [line.text for line in found.rules] == [
        "Run the tests first",
        "Keep functions small",
        "Answer me in French",
    ]
    outside, gone, *links = sorted(one for one in found.omitted if one.startswith("not read: "))
    assert outside.endswith("secret.md in CLAUDE.md, because that file is outside the project")
    assert gone == "not read: @gone.md in CLAUDE.md: No such file or directory"
    assert links == [
        "not read: AGENTS.md, because this link points outside the project",
        "not read: CLAUDE.local.md, because this link points outside the project",
    ]
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
    assert {line.file for line in found.rules} == {"README", "docs/my notes.txt"}
    assert not [one for one in found.omitted if one.startswith("not read: @")]


def test_decorators_in_an_indented_fence_are_no_imports(root: Path) -> None:
    code = "- Async fixtures:\n  ```python\n  @pytest.fixture\n  ```\n"
    write(root, CLAUDE=f"- Keep each module below four hundred lines\n{code}")
    assert advice_of(root).omitted == ()


def test_line_that_only_imports_is_not_a_fact(root: Path) -> None:
    (root / "docs" / "CLAUDE.md").write_text("@./style.md\n\n- @alice\n")
    (root / "docs" / "style.md").write_text("- Always use tabs.\n")
    advice = advice_of(root, [root / "docs" / "CLAUDE.md"])
    assert [line.text for line in advice.lines] == ["@alice", "Always use tabs."]
    assert advice.imports == {"docs/CLAUDE.md": ("docs/style.md",)}


def test_imports_outside_are_named_in_any_form(root: Path) -> None:
    (root.parent / "SECRET").write_text("- Never tell this to anybody\n")
    write(root, CLAUDE="- Run the tests first\n\n@../SECRET and @gone/file.md#part, please.\n")
    found = advice_of(root)
    assert [line.file for line in found.rules] == ["CLAUDE.md"]
    outside, gone = (one for one in found.omitted if one.startswith("not read: "))
    assert outside.endswith("SECRET in CLAUDE.md, because that file is outside the project")
    assert gone == "not read: @gone/file.md in CLAUDE.md: No such file or directory"


@pytest.mark.parametrize("name", ["~\0x/y.md", "a\0b/y.md", "a.m\0d"])
def test_name_with_nul_ends_before_it(root: Path, name: str) -> None:
    write(root, CLAUDE=f"- Run the tests first\n\n@{name}\n")
    assert [line.text for line in advice_of(root).rules] == ["Run the tests first"]


def test_rules_for_some_files_have_their_patterns(root: Path) -> None:
    (root / ".claude/rules").mkdir(parents=True)
    (root / ".github/instructions").mkdir(parents=True)
    texts = {
        ".claude/rules/ts.md": (
            '---\npaths:\n  - "src/**/*.ts"\n  - lib/*.ts\n---\n- Prefer const in TypeScript\n'
        ),
        ".claude/rules/css.md": "---\npaths: a/*.{css,scss}, b.css\n---\n- Use variables\n",
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
        ".claude/rules/css.md": ("a/*.{css,scss}", "b.css"),
        ".claude/rules/ts.md": ("src/**/*.ts", "lib/*.ts"),
        ".github/instructions/py.instructions.md": ("**/*.py",),
    }


def test_files_of_one_folder_share_a_note(root: Path) -> None:
    for name in ("web/CLAUDE.md", "web/a/CLAUDE.md", "api/AGENTS.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("- Never use inline styles\n")
    (root / "api/CLAUDE.md").symlink_to("AGENTS.md")
    notes = [note.partition(", because")[0] for note in advice_of(root).omitted]
    assert notes == ["not read: api/AGENTS.md", "not read: web/CLAUDE.md, web/a/CLAUDE.md"]


@pytest.mark.parametrize(
    ("name", "scope"),
    [("web/CLAUDE.md", ("web/",)), ("web/notes.md", ()), ("CLAUDE.md", ())],
)
def test_file_of_a_folder_is_loaded_there(root: Path, name: str, scope: tuple[str, ...]) -> None:
    (root / "web").mkdir()
    (root / name).write_text("- Never use inline styles\n")
    advice = advice_of(root, [root / name])
    assert [line.scope for line in advice.lines] == [scope]
    assert advice.scopes == ({name: scope} if scope else {})


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
        "GEMINI.md: has more than 1",
        ".claude/AGENTS.md",
        "packages/web/CLAUDE.md",
        str(own),
    ]
    ways_out = ("reflector check", "make the file smaller", "loads CLAUDE.md instead")
    assert all(any(way in note for way in ways_out) for note in found.omitted)


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


def test_secret_or_repeated_line_is_named_and_omitted(
    root: Path,
) -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    write(root, CLAUDE=f"- Use the key {key} for tests\n- Run the tests\n- run the tests.\n")
    found = advice_of(root)
    assert [line.text for line in found.lines] == ["Run the tests"]
    assert any("secret" in one and "line 1" in one for one in found.omitted)
    assert "CLAUDE.md: line 3 repeats line 2" in found.omitted


def test_sessions_come_newest_first_without_subagents(
    root: Path,
) -> None:
    folder = root.parent / "home/.claude/projects"
    for number, name in enumerate(("a", "agent-b", "c", "s/subagents/d")):
        made = Session(name).user("Fix the total.")
        made.records[0]["cwd"] = str(root)
        made.records[0]["timestamp"] = f"1970-01-01T00:16:4{number}Z"
        path = made.write(folder / f"{name}.jsonl")
        os.utime(path, (1002, 1002))
    (folder / "c.jsonl").write_bytes(b"?" * (size := (folder / "c.jsonl").stat().st_size))
    known = {(str(folder / "c.jsonl"), size): str(root)}
    found = sessions_of(root, [(folder, "*.jsonl"), (root / "gone", "*")], known, 0.0)
    assert [(one.path.stem, one.cwd) for one in found] == [("c", str(root)), ("a", str(root))]
    assert [one.path.stem for one in sessions_of(root, [(folder, "*.jsonl")], known, 1002.0)] == [
        "c"
    ]


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


def test_removed_rule_comes_back_in_a_file(root: Path, ledger: Ledger) -> None:
    for change in (Change("add", section="pat", text="Run the tests first"), REMOVE):
        apply_changes(ledger, [change], actor="human")
    write(root, CLAUDE="- Run the tests first\n")
    rules = advice_of(root).rules
    watch(ledger, watching(ledger, rules))
    assert [(line.name, line.file) for line in watched_lines(ledger)] == [("pat-001", "CLAUDE.md")]
    write(root, CLAUDE="- Answer in English\n")
    changes = watching(ledger, advice_of(root).rules).changes
    assert (REMOVE, "CLAUDE.md") in changes


def test_withheld_bullet_is_found_between_letters(root: Path) -> None:
    write(root, CLAUDE="注意：合并前必须更新依赖，然后通知大家\n")
    bullets = [Bullet("pat-001", "pat", "必须更新依赖"), Bullet("pat-002", "pat", "更新缓存依赖")]
    assert exempt(bullets, root) == {"pat-001": "CLAUDE.md"}


_USED = {
    "Claude Code": ".claude/projects",
    "Codex CLI": ".codex/sessions",
    "pi": ".pi/agent/sessions",
}


@pytest.mark.parametrize(
    ("used", "clients"),
    [
        (["Claude Code"], {"CLAUDE.md": ("Claude Code",)}),
        (["Codex CLI"], {"AGENTS.override.md": ("Codex CLI",)}),
        (
            ["Claude Code", "Codex CLI", "pi"],
            {"CLAUDE.md": ("Claude Code",), "AGENTS.override.md": ("Codex CLI", "pi")},
        ),
    ],
)
def test_files_of_the_agents_in_use_are_read(
    root: Path, used: list[str], clients: dict[str, tuple[str, ...]]
) -> None:
    for name in used:
        (root.parent / "home" / _USED[name]).mkdir(parents=True)
    texts = {"CLAUDE": "- Run the tests\n", "AGENTS": "- Ask\n", "AGENTS.override": "- Be brief\n"}
    for name, text in texts.items():
        (root / f"{name}.md").write_text(text)
    advice = advice_of(root)
    assert advice.clients == clients
    assert [*advice.files] == [*clients]


def test_file_that_another_one_replaces_is_named(root: Path) -> None:
    (root.parent / "home/.claude/projects").mkdir()
    write(root, CLAUDE="- Run the tests\n", AGENTS="- Ask first\n")
    assert advice_of(root).omitted == (
        "not read: AGENTS.md, because Claude Code loads CLAUDE.md instead",
    )


def test_replaced_file_that_is_imported_is_read(root: Path) -> None:
    (root.parent / "home/.claude/projects").mkdir()
    write(root, CLAUDE="@AGENTS.md\n", AGENTS="- Ask first\n")
    advice = advice_of(root)
    assert [*advice.files] == ["CLAUDE.md", "AGENTS.md"]
    assert advice.omitted == ()


def test_import_is_named_if_no_agent_follows_it(root: Path) -> None:
    (root.parent / "home/.codex/sessions").mkdir(parents=True)
    write(root, AGENTS="- Run the tests\n\n@docs/style.md\n", docs__style="- Ask first\n")
    advice = advice_of(root)
    assert [*advice.files] == ["AGENTS.md"]
    assert advice.omitted == (
        "not read: @docs/style.md in AGENTS.md, because Codex CLI does not read imported files",
    )


def test_lines_have_kinds_headings_and_lead_ins(root: Path) -> None:
    write(root, CLAUDE="# Shop\n\nIt sells tea.\n\n## Git\n\nNever:\n\n- push to main\n")
    lines = [(line.number, line.kind, line.heading, line.lead_in) for line in advice_of(root).lines]
    assert lines == [
        (3, "fact", "Shop", ""),
        (7, "fact", "Git", ""),
        (9, "rule", "Git", "Never:"),
    ]


def test_nested_line_is_the_imported_rule(root: Path) -> None:
    """`import` puts the words that introduce a nested item before it."""
    write(root, CLAUDE="## Rules\n- Tests:\n  - run all of them\n  - read the output\n")
    with Ledger.open("sqlite://") as ledger:
        bullets = [*load_markdown((root / "CLAUDE.md").read_bytes()).bullets]
        changes = [Change("add", b.name, section=b.section, text=b.text) for b in bullets]
        watch(ledger, Watching({}, [(change, "CLAUDE.md") for change in changes]))
        watched = watching(ledger, advice_of(root).rules)
    assert sorted(watched.lines) == sorted(bullet.name for bullet in bullets)
    assert not watched.changes


def test_files_above_the_project_are_named(root: Path) -> None:
    above = root.parent / "CLAUDE.md"
    above.write_text("- Ask first\n")
    write(root, CLAUDE="- Run the tests\n")
    assert advice_of(root).omitted == (
        f"not read: {above}, which agents load in each project below this folder; to check this "
        f"file: reflector check {above}",
    )


@pytest.mark.parametrize(("since", "names"), [(0.0, ["new", "old"]), (1_500.0, ["new"])])
def test_session_has_the_time_of_its_records(root: Path, since: float, names: list[str]) -> None:
    """The files of a copied home are all as new as the copy."""
    folder = root.parent / "home/.claude/projects"
    for name, at, copied in (("old", "00:16:40", 9_000), ("new", "00:33:20", 8_000)):
        made = Session(name).user("Fix the total.").agent("Done.")
        for record in made.records:
            record |= {"cwd": str(root), "timestamp": f"1970-01-01T{at}Z"}
        os.utime(made.write(folder / f"{name}.jsonl"), (copied, copied))
    found = sessions_of(root, [(folder, "*.jsonl")], {}, since)
    assert [transcript.path.stem for transcript in found] == names
