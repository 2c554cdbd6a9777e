"""A project with old sessions and commits, and no hook: the log answers at the first question."""

import time
from pathlib import Path

import pytest

from tests.conftest import first_fast
from tests.memory.world import World
from tests.road.agent import Agent


@pytest.fixture
def old(world: World, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A project whose rules an agent changed before reflector was installed."""
    session = world.begins()
    session.says("Put this test into the same file, just this once.")
    session.edits("CLAUDE.md", "- Run make test.\n", "- Run make test.\n- One file for tests.\n")
    session.says("Thanks.")
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"@{int(time.time()) + 60} +0000")
    world.git("commit", "-qam", "rules")
    return Agent(world.root, world.home)


def test_log_is_filled_at_the_first_question(old: Agent) -> None:
    authors = [change["by"] for change in old.json("log", "--memory")]
    assert authors == ["commit", "agent", "commit"]


@pytest.mark.parametrize(
    "question",
    first_fast(
        8,
        [
            "log --memory",
            "blame CLAUDE.md",
            "show 2",
            "undo CLAUDE.md --dry-run",
            *("list", "status", "check", "doctor"),
            *("log", "stats", "review", "lessons", "trial plan", "config list", "judge", "show 9"),
            *("blame CLAUDE.md:4", "undo 2 --dry-run", "history --dry-run"),
            "adopt CLAUDE.md --dry-run",
        ],
    ),
)
def test_question_leaves_no_file(old: Agent, ledger_url: str, question: str) -> None:
    if not ledger_url.startswith("sqlite"):
        pytest.skip("a configured ledger is always there")
    before = _files(old)
    old.call(*question.split(), code=None)
    assert _files(old) == before


def test_numbers_without_a_ledger_are_preliminary(old: Agent, ledger_url: str) -> None:
    is_file = ledger_url.startswith("sqlite")
    told = "with a ledger, these changes get other numbers"
    assert (told in old.call("blame", "CLAUDE.md").err) is is_file
    assert (told in old.call("blame", "CLAUDE.md:4").err) is is_file
    assert told not in old.call("blame", "CLAUDE.md:3").err
    old.call("add", "pat", "Run the tests")
    assert told not in old.call("blame", "CLAUDE.md").err


@pytest.mark.parametrize("question", ["log --memory", "show 2", "blame CLAUDE.md:4"])
@pytest.mark.slow
def test_preliminary_number_is_not_for_undo(old: Agent, ledger_url: str, question: str) -> None:
    """Another command may begin a ledger, and then the number has another meaning."""
    if not ledger_url.startswith("sqlite"):
        pytest.skip("a configured ledger is always there")
    assert "reflector undo CLAUDE.md --yes\n" in old.call(*question.split()).err
    old.call("add", "pat", "Run the tests")
    old.call("log", "--memory")
    (place,) = [each["place"] for each in old.json("log", "--memory") if each["by"] == "agent"]
    words = question.replace("2", place).split()
    assert f"reflector undo {place} --yes\n" in old.call(*words).err


def _files(agent: Agent) -> set[str]:
    return {
        str(path)
        for folder in (agent.project, agent.home)
        for path in folder.rglob("*")
        if ".git" not in path.parts
    }


def test_blame_shows_session_commit_and_words(old: Agent) -> None:
    (line,) = old.json("blame", "CLAUDE.md:4")
    assert line["text"] == "- One file for tests."
    assert line["written"]["by"] == "agent"
    assert line["committed"]["author"] == "Ana"
    assert line["words"] == "Put this test into the same file, just this once."


def test_old_line_is_taken_back(old: Agent) -> None:
    (line,) = old.json("blame", "CLAUDE.md:4")
    old.call("undo", line["written"]["place"], "--yes")
    assert (old.project / "CLAUDE.md").read_text() == "# Rules\n\n- Run make test.\n"


@pytest.fixture
def committed(world: World) -> Agent:
    """A project with a long file that one commit brought."""
    lines = "".join(f"- Rule number {number} of the team.\n" for number in range(300))
    (world.root / "AGENTS.md").write_text(lines)
    world.git("add", "AGENTS.md")
    world.git("commit", "-qm", "rules of the team")
    return Agent(world.root, world.home)


@pytest.mark.slow
def test_file_of_a_commit_is_not_removed(committed: Agent) -> None:
    (line,) = committed.json("blame", "AGENTS.md:2")
    refused = committed.call("undo", line["written"]["place"], code=1).err
    assert " added AGENTS.md, so undoing change" in refused
    assert "To remove the file: git rm AGENTS.md" in refused
    assert (committed.project / "AGENTS.md").exists()


def test_blame_of_such_a_line_offers_no_undo(committed: Agent) -> None:
    ran = committed.call("blame", "AGENTS.md:2")
    assert "reflector undo" not in ran.out + ran.err


@pytest.mark.slow
def test_end_of_a_long_file_has_a_commit(committed: Agent) -> None:
    (line,) = committed.json("blame", "AGENTS.md:299")
    assert line["written"]["by"] == "commit"


def test_words_after_a_change_are_not_shown(world: World) -> None:
    """The call of a command is not in the transcript yet when the change is seen."""
    agent = Agent(world.root, world.home)
    agent.open_ledger().close()
    agent.call("log", "--memory")
    session = world.begins()
    session.says("Write it down.")
    session.edits("CLAUDE.md", "make test", "make check")
    agent.call("log", "--memory")
    session.says("This came later.")
    session.path.write_text(session.path.read_text().replace("toolu_", "other_"))
    assert agent.json("log", "--memory")[0]["session"] == session.id
    (line,) = agent.json("blame", "CLAUDE.md:3")
    assert line["words"] == "Write it down."


@pytest.mark.parametrize("name", first_fast(1, ["{id}-notes", "x{id}", "agent-{id}"]))
def test_words_of_another_session_are_not_shown(world: World, name: str) -> None:
    agent = Agent(world.root, world.home)
    agent.open_ledger().close()
    agent.call("log", "--memory")
    session = world.begins()
    session.edits("CLAUDE.md", "make test", "make check")
    agent.call("log", "--memory")
    other = session.path.with_name(f"{name.format(id=session.id)}.jsonl")
    session.path.rename(other)
    other.write_text(other.read_text().replace(session.id, "f" * len(session.id)))
    (line,) = agent.json("blame", "CLAUDE.md:3")
    assert line["words"] == ""


def test_question_without_a_watched_file_begins_nothing(tmp_path: Path) -> None:
    agent = Agent.bare(tmp_path)
    agent.call("blame", "CLAUDE.md:3", code=2)
    assert not agent.state.exists()


@pytest.mark.parametrize(
    ("line", "earlier"),
    [
        ("- Rule number 7 of our team.", ["- Rule number 7 of the team."]),
        ("@AGENTS.md", [f"- Rule number {number} of the team." for number in range(200)]),
    ],
    ids=["reworded", "replaced"],
)
def test_blame_shows_the_line_that_was_reworded(
    committed: Agent, world: World, line: str, earlier: list[str]
) -> None:
    (world.root / "AGENTS.md").write_text(f"{line}\n")
    world.git("commit", "-qam", "shorter")
    (found,) = committed.json("blame", "AGENTS.md:1")
    assert [former["text"] for former in found["was"]] == earlier
    shown = committed.call("blame", "AGENTS.md:1").out
    assert shown.count("Rule number") == min(3, len(earlier)) + line.count("Rule number")
    assert (" more line" in shown) == (len(earlier) > 3)


def test_blame_offers_no_undo_of_a_commit(old: Agent) -> None:
    assert "reflector undo" not in old.call("blame", "CLAUDE.md:3").err
    assert "reflector undo" in old.call("blame", "CLAUDE.md:4").err


def test_blame_follows_a_link_to_a_watched_file(committed: Agent) -> None:
    (committed.project / "GEMINI.md").symlink_to("AGENTS.md")
    (line,) = committed.json("blame", "GEMINI.md:2")
    assert (line["file"], line["text"]) == ("AGENTS.md", "- Rule number 1 of the team.")
