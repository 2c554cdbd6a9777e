"""Who wrote a line that went and came back: its writer now, and its first one; never a checkout."""

from typing import Any

import pytest

from tests.memory.world import World
from tests.road.agent import Agent

_LINE = "- By agent."


@pytest.fixture
def written(world: World) -> Agent:
    """A project in which an agent added a line, which a look saw."""
    agent = Agent(world.root, world.home)
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


def test_commit_after_the_look_is_shown(world: World, written: Agent) -> None:
    world.git("commit", "-qam", "agent's")
    line = _line(written)
    assert (line["written"]["by"], line["committed"]["author"]) == ("agent", "Ana")
    assert line["committed"]["commit"] == world.git("rev-parse", "HEAD").strip()


@pytest.mark.slow
def test_branch_and_back_keep_the_writer(world: World, written: Agent) -> None:
    world.git("branch", "other")
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


def test_discarded_deletion_shows_the_first_writer(world: World, written: Agent) -> None:
    world.git("commit", "-qam", "agent's")
    world.path("CLAUDE.md").write_text("# Empty\n")
    _look(written)
    world.git("checkout", ".")
    assert _line(written)["first"]["by"] == "agent"


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
