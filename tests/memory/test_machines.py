"""One commit that two machines see is one event after a merge."""

import subprocess
from pathlib import Path

import pytest

from reflector.events.event import MEMORY_CHANGED
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import exported
from reflector.project import Project
from tests.memory.world import World


@pytest.fixture
def other(world: World, tmp_path: Path) -> World:
    """A clone of the project on another machine, which looked once, as the project did."""
    world.record()
    folder = tmp_path / "other"
    subprocess.run(["git", "clone", "-q", str(world.root), str(folder)], check=True)
    clone = World(folder, world.home)
    clone.record()
    return clone


def _merged(world: World, other: World) -> list[tuple[str, str]]:
    theirs = Project.at(other.root)
    ours = Project.at(world.root)
    with theirs.open_ledger() as source, ours.open_ledger() as ledger:
        lines = list(exported(source))
        merge_ledger(ledger, lambda: lines)
        return [
            (event.facts["by"], event.facts["commit"])
            for event in ledger.events(types=[MEMORY_CHANGED])
        ]


def test_commit_of_two_machines_is_one_event(world: World, other: World) -> None:
    with world.changes("CLAUDE.md", "git") as path:
        path.write_text("# Ours\n")
    world.git("commit", "-qam", "ours")
    world.record()
    other.git("pull", "-q", "--ff-only")
    other.record()
    commit = world.git("rev-parse", "HEAD").strip()
    assert _merged(world, other) == [("commit", commit)]


def test_commits_of_one_pull_are_those_of_the_author(world: World, other: World) -> None:
    for text in ("# First\n", "# Second\n"):
        with world.changes("CLAUDE.md", "git") as path:
            path.write_text(text)
        world.git("commit", "-qam", text.strip())
        world.record()
    other.git("pull", "-q", "--ff-only")
    other.record()
    commits = world.git("rev-list", "--reverse", "HEAD", "-2").split()
    assert _merged(world, other) == [("commit", commit) for commit in commits]


def test_commit_seen_again_is_a_checkout(world: World) -> None:
    world.record()
    with world.changes("CLAUDE.md", "git") as path:
        path.write_text("# Ours\n")
    world.git("commit", "-qam", "ours")
    world.record()
    world.git("reset", "-q", "--hard", "HEAD~1")
    world.record()
    world.git("merge", "-q", "--ff-only", "ORIG_HEAD")
    world.record()
    assert [event["by"] for event in world.events()] == ["commit", "checkout", "checkout"]
    assert world.events()[-1]["after"] == world.digest("CLAUDE.md")
