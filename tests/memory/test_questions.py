"""Questions about memory files: each hint works, and each refusal gives its reason."""

import os
import re
import shlex
import time
from pathlib import Path

import pytest

from reflector.locate import own_folder
from reflector.text.width import width
from tests.conftest import first_fast, slow_except
from tests.memory.world import Sitting, World
from tests.road.agent import Agent

_FOLDER = "~/.claude/projects/{slug}/memory/{name}"


@pytest.fixture
def asked(world: World) -> Agent:
    """A project whose user's own files are recorded, too."""
    agent = Agent(world.root, world.home)
    agent.call("config", "set", "--global", "memory_user", "true")
    return agent


def _own(world: World, name: str = "MEMORY.md") -> str:
    """The name of a file in the project's memory folder, which is made."""
    file = _FOLDER.format(slug=world.transcripts.name, name=name)
    world.path(file).parent.mkdir(parents=True, exist_ok=True)
    return file


def _changes_unseen(world: World, session: Sitting, asked: Agent) -> None:
    """The agent changes CLAUDE.md, of which no version is kept, by a command."""
    asked.call("log", "--memory")
    for version in Path(own_folder(str(world.root)), "memory").iterdir():
        version.unlink()
    session.runs("CLAUDE.md", "sed -i '1s/.*/# Our rules/' CLAUDE.md")
    asked.call("log", "--memory")


def _offered(agent: Agent, *words: str) -> list[list[str]]:
    """The commands of `undo` that a command prints."""
    ran = agent.call(*words, code=None)
    return [shlex.split(line) for line in re.findall(r"reflector (undo .*)", ran.out + ran.err)]


@pytest.fixture
def mixed(world: World, asked: Agent) -> Agent:
    """A session whose changes can be taken back in part: by lines, and not at all."""
    session = world.begins()
    session.edits("CLAUDE.md", "- Run make test.\n", "- Run make test.\n- Lint first.\n")
    _changes_unseen(world, session, asked)
    return asked


@pytest.mark.parametrize(
    "words", first_fast(1, [["log", "--memory"], ["show", "2"], ["show", "3"]])
)
def test_offered_command_works(mixed: Agent, words: list[str]) -> None:
    for command in _offered(mixed, *words):
        mixed.call(*command, "--dry-run")


@pytest.mark.slow
def test_change_without_a_way_back_gives_the_reason(mixed: Agent) -> None:
    assert _offered(mixed, "show", "3") == []
    shown = mixed.call("show", "3").err
    assert (
        "cannot undo this change: reflector does not have the version of CLAUDE.md before" in shown
    )


@pytest.mark.slow
def test_session_offers_the_part_that_can_be(mixed: Agent) -> None:
    refused = mixed.call("undo", "--memory", "00000001", code=1).err
    assert "does not have the version of CLAUDE.md before change 3" in refused
    assert "@@ line 4 @@\n-- Lint first.\n" in refused
    undone = mixed.call("undo", "--memory", "00000001", "--yes")
    assert "does not have the version of CLAUDE.md before change 3" in undone.err
    assert (mixed.project / "CLAUDE.md").read_text() == "# Our rules\n\n- Run make test.\n"


@pytest.mark.slow
def test_refusal_names_every_file(world: World, asked: Agent) -> None:
    asked.call("log", "--memory")
    session = world.begins()
    session.edits("CLAUDE.md", "make test", "make check")
    session.writes("AGENTS.md", "# Agents\n")
    asked.call("log", "--memory")
    file = world.path("CLAUDE.md")
    file.write_text(file.read_text() + "- Mine.\n")
    refused = asked.call("undo", "--memory", "00000001", code=1).err
    assert "`undo` can restore AGENTS.md to the version before" in refused
    assert "can reverse only change 2 in CLAUDE.md" in refused
    assert "stay:\n@@ line 3 @@\n-- Run make check." in refused
    asked.call("undo", "--memory", "00000001", "--yes")
    assert file.read_text() == "# Rules\n\n- Run make test.\n- Mine.\n"
    assert not world.path("AGENTS.md").exists()


def test_dry_run_shows_the_difference_of_now(world: World, asked: Agent) -> None:
    asked.call("log", "--memory")
    file = world.path("CLAUDE.md")
    file.write_text(file.read_text() + "- Mine.\n")
    asked.call("log", "--memory")
    assert "@@ line 4 @@\n-- Mine.\n" in asked.call("undo", "CLAUDE.md", "--dry-run").out


@pytest.mark.parametrize("name", ["MEMORY.md", "~/.claude/CLAUDE.md"])
def test_line_of_an_own_file_is_explained(world: World, asked: Agent, name: str) -> None:
    file = _own(world) if name == "MEMORY.md" else name
    asked.call("log", "--memory")
    world.begins().writes(file, "# Mine\n\n- Use tabs.\n")
    ran = asked.call("blame", f"{name}:3")
    assert "by Claude Code, session 00000001" in ran.out
    assert "No such file" not in ran.err


def test_unrecorded_own_file_names_the_setting(world: World) -> None:
    world.path(_own(world)).write_text("- Use tabs.\n")
    asked = Agent(world.root, world.home)
    for place in ("MEMORY.md", "MEMORY.md:1"):
        assert "reflector config set --global memory_user true" in asked.call("blame", place).err
    asked.call("config", "set", "--global", "memory_user", "true")
    assert "config set" not in asked.call("blame", "MEMORY.md:1").err


def test_committed_line_of_another_file_points_to_git(world: World, asked: Agent) -> None:
    world.path("README.md").write_text("# Shop\n")
    plain = "reflector does not record changes of README.md."
    assert asked.call("blame", "README.md:1").err.endswith(f"{plain}\n")
    world.git("add", "README.md")
    asked_git = f"{plain} To see the authors in git: git blame -L 1,1 README.md\n"
    assert asked.call("blame", "README.md:1").err.endswith(asked_git)


@pytest.mark.slow
def test_second_line_of_a_rule_has_its_counts(world: World) -> None:
    world.path("CLAUDE.md").write_text("- Always run `make a`\n  before a commit.\n\n# Other\n")
    agent = Agent(world.root, world.home)
    agent.call("log", "--memory")
    first, second, _, other = (
        agent.json("blame", f"CLAUDE.md:{number}")[0]["counted"] for number in range(1, 5)
    )
    assert first is not None
    assert second == first
    assert other is None
    agent.call("adopt", world.path("CLAUDE.md"), "--yes")
    assert "reflector blame oth-001" in agent.call("blame", "CLAUDE.md:2").err


def test_deleted_own_file_returns_by_its_name(world: World, asked: Agent) -> None:
    path = world.path(_own(world))
    path.write_text("- Use tabs.\n")
    asked.call("log", "--memory")
    path.unlink()
    asked.call("undo", "MEMORY.md")
    assert path.read_text() == "- Use tabs.\n"


@pytest.fixture
def long(world: World, asked: Agent) -> Agent:
    """A file that two commits brought: an event has only the first lines of a long change."""
    for first in (0, 300):
        with world.path("AGENTS.md").open("a") as file:
            file.writelines(f"- Rule number {first + number}.\n" for number in range(300))
        world.git("add", "AGENTS.md")
        world.git("commit", "-qm", "rules")
    return asked


def test_line_of_git_has_its_committer(world: World, long: Agent) -> None:
    commit = world.git("rev-parse", "HEAD").strip()
    path = world.path("AGENTS.md")
    path.write_text(f"- Mine.\n{path.read_text()}")
    (line,) = long.json("blame", "AGENTS.md:590")
    assert (line["written"]["author"], line["written"]["commit"]) == ("Ana", commit)


@pytest.mark.parametrize("name", first_fast(1, ["clean", "process"]))
def test_filter_of_a_repository_is_not_run(world: World, long: Agent, name: str) -> None:
    ran = world.root / "ran"
    world.git("config", f"filter.own.{name}", f"touch {ran}; cat")
    world.path(".gitattributes").write_text("* filter=own\n")
    path = world.path("AGENTS.md")
    path.write_text(f"- Mine.\n{path.read_text()}")
    (line,) = long.json("blame", "AGENTS.md:590")
    assert line["written"]["by"] == "commit"
    assert not ran.exists()


@pytest.mark.slow
def test_change_without_lines_is_named(world: World, asked: Agent) -> None:
    _changes_unseen(world, world.begins(), asked)
    (line,) = asked.json("blame", "CLAUDE.md:1")
    assert line["origin"].startswith("perhaps by change 2, Claude Code, session 00000001")


def test_as_of_compares_when_changes_happened(
    world: World, asked: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is filled today with an old commit."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2025-01-05T12:00:00Z")
    world.git("commit", "-q", "--amend", "--no-edit")
    assert asked.json("log", "--memory", "--as-of", "2025-01-04") == []
    (change,) = asked.json("log", "--memory", "--as-of", "2025-01-05")
    assert change["at"].startswith("2025-01-05")


@pytest.mark.slow
def test_session_of_memory_alone_points_to_its_log(mixed: Agent) -> None:
    refused = mixed.call("show", "00000001-0", code=2).err
    assert "reflector log --memory 00000001-0" in refused


def test_first_command_may_be_an_undo(world: World) -> None:
    agent = Agent(world.root, world.home)
    world.begins().edits("CLAUDE.md", "- Run make test.\n", "- Run make test.\n- Lint first.\n")
    agent.call("undo", "2", "--yes")
    assert world.path("CLAUDE.md").read_text() == "# Rules\n\n- Run make test.\n"


def test_file_above_a_subfolder_is_undone(
    world: World, asked: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.call("log", "--memory")
    file = world.path("CLAUDE.md")
    before = file.read_text()
    file.write_text("# Mine\n")
    (world.root / "src").mkdir()
    monkeypatch.chdir(world.root / "src")
    asked.call("undo", "../CLAUDE.md")
    assert file.read_text() == before


@pytest.mark.parametrize(
    "words", [["undo", "nope.md"], ["blame", "nope.md:3"], ["log", "--memory", "nope"]]
)
def test_unknown_file_points_to_the_log(asked: Agent, words: list[str]) -> None:
    assert "reflector log --memory" in asked.call(*words, code=2).err


def test_session_is_undone_once(world: World, asked: Agent) -> None:
    asked.call("log", "--memory")
    world.begins().edits("CLAUDE.md", "make test", "make check")
    asked.call("undo", "--memory", "00000001")
    place = asked.json("log", "--memory")[0]["place"]
    refused = asked.call("undo", "--memory", "00000001", code=1).err
    assert f"are already undone, by change {place}" in refused


@pytest.mark.slow
def test_command_of_a_session_names_one(world: World, asked: Agent) -> None:
    """Ids of one minute may begin alike."""
    asked.call("log", "--memory")
    session = world.begins()
    session.edits("CLAUDE.md", "make test", "make check")
    ran = asked.call("blame", "CLAUDE.md:3")
    assert f"To see the session: reflector log --memory {session.id}\n" in ran.err


_LONG = "- " + " ".join(f"word{number}" for number in range(40))


@pytest.mark.parametrize(
    "words",
    first_fast(
        1,
        slow_except(
            [["show", "2"], ["undo", "2"]],
            [["show", "2"], ["blame", "CLAUDE.md:3"], ["undo", "1", "--yes"], ["undo", "2"]],
        ),
    ),
)
@pytest.mark.slow
def test_lines_fit_a_terminal(world: World, asked: Agent, words: list[str]) -> None:
    asked.call("log", "--memory")
    file = world.path("CLAUDE.md")
    file.write_text(file.read_text().replace("- Run make test.", _LONG))
    asked.call("log", "--memory")
    if words[0] == "undo":
        file.write_text(file.read_text() + "- Mine.\n")
    sent = asked.sent(80, *words, code=None)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", sent).splitlines()
    assert max(map(width, lines)) <= 80


@pytest.mark.slow
def test_ids_are_long_enough_to_be_used(mixed: Agent) -> None:
    listed = mixed.call("log", "--memory").out
    assert re.search(r"commit [0-9a-f]{7}, by Ana", listed)
    assert "Claude Code, session 00000001" in listed


@pytest.mark.slow
def test_past_log_offers_no_undo(mixed: Agent) -> None:
    assert _offered(mixed, "log", "--memory", "--as-of", "2") == []


@pytest.mark.slow
def test_line_that_cannot_be_taken_back_offers_nothing(asked: Agent) -> None:
    asked.call("log", "--memory")
    ran = asked.call("blame", "CLAUDE.md:1")
    assert "commit" in ran.out
    assert "git rm" not in ran.err + ran.out
    assert "taken back" not in ran.err


def test_undo_of_a_line_names_blame(asked: Agent) -> None:
    refused = asked.call("undo", "CLAUDE.md:1", code=2).err
    assert (
        "CLAUDE.md:1 is a line of a file, but `undo` needs a change. To find the change of this "
        "line: reflector blame CLAUDE.md:1"
    ) in refused


@pytest.mark.parametrize(("session", "counted"), [("writing", "no session"), ("next", "1 session")])
def test_session_that_wrote_a_line_is_no_evidence(world: World, session: str, counted: str) -> None:
    agent = Agent(world.root, world.home)
    sitting = world.begins()
    rule = "- Run `make lint` before each commit.\n"
    sitting.edits("CLAUDE.md", "- Run make test.\n", f"- Run make test.\n{rule}")
    agent.call("log", "--memory")
    time.sleep(0.01)
    sitting = world.begins() if session == "next" else sitting
    sitting.calls("Bash", command="make lint")
    shown = agent.call("blame", "CLAUDE.md:4").out
    assert counted in next(line for line in shown.splitlines() if line.startswith("counted"))


def test_way_back_shows_the_size_of_the_change(world: World, asked: Agent) -> None:
    asked.call("log", "--memory")
    world.begins().edits("CLAUDE.md", "- Run make test.\n", "- Run it.\n- Lint first.\n")
    offered = asked.call("blame", "CLAUDE.md:3").err
    assert "To undo all of this change (+2 -1): reflector undo 2\n" in offered


def test_former_line_names_its_change(world: World, asked: Agent) -> None:
    asked.call("log", "--memory")
    world.begins().edits("CLAUDE.md", "make test", "make check")
    shown = asked.call("blame", "CLAUDE.md:3").out
    (former,) = (line for line in shown.splitlines() if line.startswith("was "))
    assert re.search(r'"- Run make test\." \(change 1, .* in commit [0-9a-f]{7}, by ', former)


def test_number_after_an_author_is_explained(asked: Agent) -> None:
    asked.call("log", "--memory")
    explained = (
        "A number in brackets, such as (1), is the number of a change. To see a change: "
        "reflector show 1\n"
    )
    assert explained in asked.call("blame", "CLAUDE.md").err


def test_refused_undo_shows_the_lines_to_change(mixed: Agent) -> None:
    path = mixed.project / "CLAUDE.md"
    path.write_text(path.read_text().replace("- Lint first.\n", ""))
    refused = mixed.call("undo", "2", "--dry-run", code=1).err
    assert "-- Lint first.\n" in refused.split("change the file by hand")[1]


def test_refused_undo_of_new_file_prints_no_file(world: World, asked: Agent) -> None:
    asked.call("log", "--memory")
    world.begins().writes("AGENTS.md", "- Lint first.\n")
    changes = asked.json("log", "--memory")
    (created,) = [one["place"] for one in changes if one["file"] == "AGENTS.md"]
    world.path("AGENTS.md").write_text("- Lint first.\n- Mine.\n")
    refused = asked.call("undo", created, "--dry-run", code=1).err
    assert f"change {created} created AGENTS.md, and the file was edited later" in refused
    assert "+- Lint first." not in refused


def test_blame_of_an_unwatched_file_gives_the_reason(world: World, asked: Agent) -> None:
    os.mkfifo(world.path("AGENTS.md"))
    refused = asked.call("blame", "AGENTS.md:1", code=2)
    assert (
        "reflector does not record changes of AGENTS.md, because this file is not a regular file"
        in refused.err
    )


def test_removed_file_never_read_has_no_size(world: World, asked: Agent) -> None:
    os.mkfifo(world.path("AGENTS.md"))
    asked.call("log", "--memory")
    world.path("AGENTS.md").unlink()
    shown = asked.call("log", "--memory", "AGENTS.md").out
    assert "deleted" in shown
    assert "had 0 lines" not in shown


def test_unusable_ledger_is_reported_once(asked: Agent, ledger_url: str) -> None:
    if not ledger_url.startswith("sqlite"):
        pytest.skip("a server's ledger is not a file")
    (asked.project / ".claude" / "reflector" / "ledger.db").mkdir(parents=True)
    refused = asked.call("log", "--memory", code=1)
    assert refused.err.count("ledger.db") == 1
