"""Rules that stay in files, move into the playbook, and come back."""

import shlex
import subprocess
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, strategies as st

from reflector.changes.apply import BulletRefused
from reflector.changes.takeback import act_named, act_of
from reflector.changes.undo import NothingToUndo
from reflector.files import Changed
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake
from reflector.playbook.outline import Outline
from reflector.playbook_files.adopting import name_rules, plan_naming
from reflector.playbook_files.moving import FileMoved, carry_out_move, plan_move, take_back
from reflector.playbook_files.places import name_at, places
from reflector.project import Project
from reflector.sessions.injection import headings_of, moved_text
from tests.road.agent import Agent

TEXT = """# Shop

A shop with a cart.

## Git

- Never force-push to main.
- Run `make lint`
  before you commit.

## Code

- Put translations into `locales/`.
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose CLAUDE.md has three rules."""
    root = tmp_path / "shop"
    root.mkdir()
    (root / "CLAUDE.md").write_text(TEXT)
    return Project.at(root)


def file_of(project: Project) -> Path:
    return project.root / "CLAUDE.md"


def named(ledger: Ledger, project: Project) -> range:
    """Name the rules of the file where they are."""
    return name_rules(ledger, plan_naming(ledger, project, [file_of(project)]))


def moved(ledger: Ledger, project: Project) -> int:
    move = plan_move(ledger, project, [file_of(project)])
    return carry_out_move(ledger, project, move, shown=move)


def undo(ledger: Ledger, project: Project, position: int) -> None:
    take_back(ledger, project, act_of(ledger, ledger.at([position])))


def statuses(ledger: Ledger) -> set[str]:
    return {row.status for row in ledger.rows()}


def test_named_rules_stay_in_their_file(ledger: Ledger, project: Project) -> None:
    assert len(named(ledger, project)) == 3
    assert (ledger.bullets(), statuses(ledger)) == ((), {"watched"})
    assert file_of(project).read_text() == TEXT
    assert named(ledger, project) == range(4, 4)


def test_place_follows_the_words(ledger: Ledger, project: Project) -> None:
    named(ledger, project)
    file_of(project).write_text(f"\n\n{TEXT}")
    by_name = places(ledger, project.root, ledger.rows())
    assert [*by_name.values()] == ["CLAUDE.md:9", "CLAUDE.md:10", "CLAUDE.md:15"]
    assert name_at(ledger, project.root, "CLAUDE.md:15") == [*by_name][2]
    assert name_at(ledger, project.root, "CLAUDE.md:14") is None


def test_place_of_a_lost_rule_is_its_file(ledger: Ledger, project: Project) -> None:
    named(ledger, project)
    file_of(project).write_text("# Shop\n")
    assert {*places(ledger, project.root, ledger.rows()).values()} == {"CLAUDE.md"}


def test_undo_of_names_forgets_them(ledger: Ledger, project: Project) -> None:
    named(ledger, project)
    act = act_named(ledger, "1..3")
    assert act is not None
    take_back(ledger, project, act)
    assert statuses(ledger) == {"removed"}
    redone = act_named(ledger, "4..6")
    assert redone is not None
    take_back(ledger, project, redone)
    assert statuses(ledger) == {"watched"}


@pytest.mark.parametrize("is_named", [False, True])
def test_undo_of_a_move_brings_both_back(
    ledger: Ledger, project: Project, *, is_named: bool
) -> None:
    if is_named:
        named(ledger, project)
    position = moved(ledger, project)
    assert (len(ledger.bullets()), file_of(project).read_text()) == (
        3,
        "# Shop\n\nA shop with a cart.\n",
    )
    undo(ledger, project, position)
    assert file_of(project).read_text() == TEXT
    assert statuses(ledger) == {"watched" if is_named else "removed"}
    with pytest.raises(NothingToUndo):
        undo(ledger, project, position)


def test_undo_of_an_undone_move_moves_again(ledger: Ledger, project: Project) -> None:
    named(ledger, project)
    undo(ledger, project, moved(ledger, project))
    undo(ledger, project, 8)
    assert file_of(project).read_text() == "# Shop\n\nA shop with a cart.\n"
    assert statuses(ledger) == {"live"}


def test_undo_after_a_killed_move_leaves_the_file(ledger: Ledger, project: Project) -> None:
    named(ledger, project)
    position = moved(ledger, project)
    file_of(project).write_text(TEXT)
    undo(ledger, project, position)
    assert (statuses(ledger), file_of(project).read_text()) == ({"watched"}, TEXT)


def test_cut_that_changes_another_rule_is_refused(
    ledger: Ledger, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Outline, "without_rules", lambda *_: "- Never force-push.\n")
    with pytest.raises(Mistake, match=r"cannot remove the rules of .* without changing other text"):
        plan_move(ledger, project, [file_of(project)])


def test_undo_leaves_a_changed_file(ledger: Ledger, project: Project) -> None:
    position = moved(ledger, project)
    file_of(project).write_text("# Mine\n")
    with pytest.raises(FileMoved, match=r"(?s)reflector changed nothing.*\+# Mine"):
        undo(ledger, project, position)
    assert (statuses(ledger), file_of(project).read_text()) == ({"live"}, "# Mine\n")


def test_refused_undo_names_the_kept_text(ledger: Ledger, project: Project) -> None:
    position = moved(ledger, project)
    with file_of(project).open("a") as file:
        file.write("- Mine.\n")
    with pytest.raises(FileMoved) as refused:
        undo(ledger, project, position)
    assert [line for line in str(refused.value).splitlines()[3:] if line[0] in "+-"] == ["+- Mine."]
    subprocess.run(shlex.split(str(refused.value).split("`")[1]), check=True)
    undo(ledger, project, position)
    assert (statuses(ledger), file_of(project).read_text()) == ({"removed"}, TEXT)


def test_undo_of_a_part_is_refused(ledger: Ledger, project: Project) -> None:
    position = moved(ledger, project)
    with pytest.raises(BulletRefused, match=f"3 rules .* together.*undo {position}"):
        undo(ledger, project, position + 1)


def test_file_changed_since_it_was_shown_stays(ledger: Ledger, project: Project) -> None:
    shown = plan_move(ledger, project, [file_of(project)])
    file_of(project).write_text(f"{TEXT}- Another rule.\n")
    again = plan_move(ledger, project, [file_of(project)])
    with pytest.raises(Changed):
        carry_out_move(ledger, project, again, shown=shown)
    assert ledger.head().position == 0


def test_move_takes_rules_that_the_playbook_has(ledger: Ledger, project: Project) -> None:
    """A killed move leaves its rules in both places."""
    moved(ledger, project)
    file_of(project).write_text(TEXT)
    position = moved(ledger, project)
    assert file_of(project).read_text() == "# Shop\n\nA shop with a cart.\n"
    assert len(ledger.bullets()) == 3
    undo(ledger, project, position)
    assert file_of(project).read_text() == TEXT


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"- \xff\xfe Run it.\n", "is not UTF-8"),
        (b"<!-- reflector:begin 0 -->\n- Run it.\n", "mirror --off"),
        (b'{"sections": {}}', "is not Markdown"),
    ],
)
def test_file_that_cannot_be_cut_is_refused(
    ledger: Ledger, project: Project, raw: bytes, fault: str
) -> None:
    file_of(project).write_bytes(raw)
    with pytest.raises(Mistake, match=fault):
        plan_move(ledger, project, [file_of(project)])


def test_sentence_stays_in_its_paragraph(ledger: Ledger, project: Project) -> None:
    file_of(project).write_text("Always run the tests first. It is a shop.\n\n- Use tabs only.\n")
    move = plan_move(ledger, project, [file_of(project)])
    assert [line.text for line in move.stays] == ["Always run the tests first."]
    assert move.cuts[0].after == b"Always run the tests first. It is a shop.\n"


def test_start_text_has_the_headings_of_the_file(ledger: Ledger, project: Project) -> None:
    named(ledger, project)
    moved(ledger, project)
    headings = headings_of(ledger)
    bullets = [*ledger.bullets()]
    text = moved_text(project.root, [replace(bullets[0], helpful=1), *bullets[1:]], headings)
    assert (
        "## YOUR RULES (written by your user)\n### Git\n[oth-001] helpful=1 harmful=0 :: " in text
    )
    assert "\n### Code\n[oth-003] :: Put translations into `locales/`.\n" in text
    assert "## OTHERS" not in text


@given(
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
    st.lists(st.sampled_from(["- Use tabs only.", "- Run the tests first.", "# A", "", "Text."])),
)
def test_undo_brings_back_each_byte(newline: str, mark: str, lines: list[str]) -> None:
    raw = (mark + newline.join(lines)).encode()
    with TemporaryDirectory() as folder, Ledger.open("sqlite://") as ledger:
        project = Project.at(Path(folder))
        file_of(project).write_bytes(raw)
        if plan_move(ledger, project, [file_of(project)]).count:
            undo(ledger, project, moved(ledger, project))
        assert file_of(project).read_bytes() == raw


@pytest.mark.slow
@pytest.mark.parametrize("command", ["move", "undo"])
def test_killed_command_leaves_no_rule_nowhere(agent: Agent, command: str) -> None:
    """Each rule is in the file or in the playbook, whenever the process dies."""
    agent.call("install")
    file = agent.project / "CLAUDE.md"
    for step in count(1):
        file.write_text(TEXT)
        agent.call("adopt", file)
        arguments = ["adopt", "--move", "--yes", str(file)]
        if command == "undo":
            agent.call(*arguments)
            arguments = ["undo", "--yes"]
        was_killed = agent.killed_at(step * 7, *arguments)
        rules = {row["text"] for row in agent.json("list") if row["status"] == "live"}
        assert all(text in rules or text in file.read_text() for text in RULES)
        agent.call("adopt", "--move", "--yes", file)
        assert file.read_text() == "# Shop\n\nA shop with a cart.\n"
        if not was_killed:
            break


RULES = ("Never force-push to main.", "Put translations into `locales/`.")


_AGAIN = f"{TEXT}\n## Later\n\n- Never  force-push to main.\n- Never force-push to main.\n"


def test_repeated_rule_moves_with_each_line(ledger: Ledger, project: Project) -> None:
    file_of(project).write_text(_AGAIN)
    move = plan_move(ledger, project, [file_of(project)])
    assert move.count == 3
    assert [line.number for line, _ in move.repeats] == [17, 18]
    carry_out_move(ledger, project, move, shown=move)
    assert file_of(project).read_text() == "# Shop\n\nA shop with a cart.\n"
    assert len(ledger.bullets()) == 3


def test_undo_brings_back_repeated_lines(ledger: Ledger, project: Project) -> None:
    file_of(project).write_text(_AGAIN)
    undo(ledger, project, moved(ledger, project))
    assert (file_of(project).read_text(), ledger.bullets()) == (_AGAIN, ())


def test_repetition_in_a_sentence_stays(ledger: Ledger, project: Project) -> None:
    file_of(project).write_text(f"{TEXT}\nNever force-push to main. It is shared.\n")
    move = plan_move(ledger, project, [file_of(project)])
    assert ([line.number for line in move.stays], move.count) == ([15], 3)
