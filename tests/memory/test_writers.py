"""Who wrote a line that went and came back: its writer now, and its first one; never a checkout."""

import time
from typing import Any

import pytest

from tests.conftest import first_fast
from tests.memory.world import World
from tests.road.agent import Agent

_LINE = "- By agent."


@pytest.fixture
def written(world: World) -> Agent:
    """A project in which an agent added a line, which a look saw."""
    agent = Agent(world.root, world.home)
    agent.open_ledger().close()
    agent.call("log", "--memory")
    path = world.path("CLAUDE.md")
    world.begins().writes("CLAUDE.md", path.read_text() + _LINE + "\n")
    agent.call("log", "--memory")
    return agent


def _line(agent: Agent) -> Any:
    (line,) = agent.json("blame", "CLAUDE.md:4")
    assert line["text"] == _LINE
    return line


def _look(agent: Agent) -> None:
    agent.call("log", "--memory")


@pytest.mark.slow
def test_commit_after_the_look_is_shown(world: World, written: Agent) -> None:
    world.git("commit", "-qam", "agent's")
    line = _line(written)
    assert (line["written"]["by"], line["committed"]["author"]) == ("agent", "Ana")
    assert line["committed"]["commit"] == world.git("rev-parse", "HEAD").strip()


@pytest.mark.slow
def test_branch_and_back_keep_the_writer(world: World, written: Agent) -> None:
    world.git("branch", "other")
    time.sleep(-time.time() % 1)  # commit and checkouts in one second of git's clock
    world.git("commit", "-qam", "agent's")
    for branch in ("other", "main"):
        world.git("checkout", "-q", branch)
        _look(written)
    line = _line(written)
    assert (line["written"]["by"], line["committed"]["author"]) == ("agent", "Ana")


def test_stashed_line_keeps_the_writer(world: World, written: Agent) -> None:
    world.git("stash")
    _look(written)
    world.git("stash", "pop")
    _look(written)
    line = _line(written)
    assert (line["written"]["by"], line["first"]) == ("agent", None)


@pytest.mark.slow
def test_line_added_back_by_hand_has_two_writers(world: World, written: Agent) -> None:
    content = world.path("CLAUDE.md").read_bytes()
    world.git("checkout", ".")
    _look(written)
    world.path("CLAUDE.md").write_bytes(content)
    _look(written)
    line = _line(written)
    assert (line["written"]["by"], line["first"]["by"]) == ("you", "agent")
    shown = written.call("blame", "CLAUDE.md:4").out
    assert "by you" in shown
    assert "\nfirst" in shown


@pytest.mark.parametrize("back", ["checkout .", "stash"])
def test_pulled_line_is_the_colleagues(world: World, back: str) -> None:
    """A look sees your draft, and git takes the draft away before a pull without a look between."""
    agent = Agent(world.root, world.home)
    agent.open_ledger().close()
    path = world.path("CLAUDE.md")
    world.git("clone", "-q", ".", "../theirs")
    world.shell("sed -i 's/^- .*/- By Tom./' ../theirs/CLAUDE.md")
    his = ("-C", "../theirs", "commit", "-qam", "his", "--author", "Tom <tom@example.org>")
    world.git(*his, began=f"@{int(time.time()) - 9} +0000")
    path.write_text(f"A draft.\n{path.read_text()}")
    _look(agent)
    world.git(*back.split())
    world.git("pull", "-q", "../theirs", "main")
    if back == "stash":
        world.git("stash", "pop")
    (line,) = [each for each in agent.json("blame", "CLAUDE.md") if each["text"] == "- By Tom."]
    assert line["written"]["author"] == "Tom (committed by Ana)"


@pytest.mark.parametrize(
    "command", first_fast(1, ["checkout .", "checkout CLAUDE.md", "restore CLAUDE.md"])
)
@pytest.mark.parametrize("is_undone", [True, False])
def test_line_restored_from_git_keeps_its_writer(
    world: World, written: Agent, command: str, is_undone: bool
) -> None:
    world.git("commit", "-qam", "agent's")
    _look(written)
    if is_undone:
        written.call("undo", "CLAUDE.md")
    else:
        world.path("CLAUDE.md").write_text("# Empty\n")
        _look(written)
    world.git(*command.split())
    line = _line(written)
    assert (line["written"]["by"], line["first"]) == ("agent", None)


@pytest.mark.slow
def test_undone_deletion_keeps_the_writer(world: World, written: Agent) -> None:
    world.path("CLAUDE.md").unlink()
    _look(written)
    written.call("undo", "CLAUDE.md")
    assert _line(written)["written"]["by"] == "agent"


def test_agent_that_writes_it_again_is_the_writer(world: World, written: Agent) -> None:
    content = world.path("CLAUDE.md").read_text()
    world.path("CLAUDE.md").write_text("# Empty\n")
    _look(written)
    session = world.begins()
    session.writes("CLAUDE.md", content)
    _look(written)
    line = _line(written)
    assert line["written"]["session"] == session.id
    assert line["first"]["session"] != session.id


def _authors(agent: Agent) -> dict[str, list[str]]:
    """Who wrote the lines of CLAUDE.md, by their texts."""
    authors: dict[str, list[str]] = {}
    for line in agent.json("blame", "CLAUDE.md"):
        written = line["written"]
        authors.setdefault(line["text"], []).append(written["by"] if written else "")
    return authors


_SECTION = "```go\nrun()\n```\n"


def test_discarded_edit_owns_no_line(world: World) -> None:
    """The first question is asked later: only the transcript has the edit."""
    path = world.path("CLAUDE.md")
    path.write_text(f"# Rules\n\n- Old.\n{_SECTION}")
    world.git("commit", "-qam", "old")
    world.begins().edits("CLAUDE.md", "- Old.\n", f"- Other.\n{_SECTION}", shows=True)
    world.git("checkout", ".")
    path.write_text(path.read_text() + f"- New.\n{_SECTION}")
    world.git("commit", "-qam", "new")
    authors = _authors(Agent(world.root, world.home))
    del authors[""]
    assert {by for all_by in authors.values() for by in all_by} == {"commit"}


def test_write_of_an_unknown_version_keeps_committed_authors(world: World) -> None:
    path = world.path("CLAUDE.md")
    content = f"{path.read_text()}{_LINE}\n"
    path.write_text(content)
    detail = {"type": "update", "content": content, "originalFile": None}
    world.begins().calls("Write", file_path=str(path), content=content, detail=detail)
    authors = _authors(Agent(world.root, world.home))
    assert (authors["- Run make test."], authors[_LINE]) == (["commit"], ["agent"])


@pytest.mark.parametrize("above", first_fast(1, [0, 100]), ids=["short", "long"])
def test_repeated_lines_keep_their_authors(world: World, above: int) -> None:
    path = world.path("CLAUDE.md")
    old = "".join(f"- {number}.\n{_SECTION}" for number in range(above + 2))
    path.write_text(old)
    world.git("commit", "-qam", "old")
    agent = Agent(world.root, world.home)
    agent.open_ledger().close()
    _look(agent)
    world.begins().writes("CLAUDE.md", f"- Top.\n{_SECTION}{old}")
    authors = _authors(agent)["```"]
    assert authors == ["agent", *["commit"] * (above + 2)]


def test_moved_line_keeps_its_author(world: World, written: Agent) -> None:
    world.path("CLAUDE.md").write_text(f"# Rules\n{_LINE}\n\n- Run make test.\n")
    assert _authors(written)[_LINE] == ["agent"]


def test_changes_of_one_commit_keep_their_authors(world: World, written: Agent) -> None:
    path = world.path("CLAUDE.md")
    path.write_text(path.read_text() + "- By hand.\n")
    world.git("commit", "-qam", "both")
    authors = _authors(written)
    assert (authors[_LINE], authors["- By hand."]) == (["agent"], ["you"])


@pytest.mark.slow
def test_undone_removal_keeps_authors_of_repeated_lines(world: World, written: Agent) -> None:
    path = world.path("CLAUDE.md")
    world.begins().writes("CLAUDE.md", f"- One.\n{_SECTION}- Two.\n{_SECTION}")
    _look(written)
    path.write_text(f"- One.\n{_SECTION}")
    _look(written)
    written.call("undo", "CLAUDE.md")
    assert _authors(written)["```"] == ["agent", "agent"]
