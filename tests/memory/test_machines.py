"""One commit that two machines see is one event after a merge."""

import subprocess
from collections.abc import Callable
from os import urandom
from pathlib import Path

import pytest

from reflector import authorship
from reflector.attribution.steps import plain_digest
from reflector.events.event import MEMORY_CHANGED
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import exported, load_ledger
from reflector.locate import person_folder
from reflector.project import Project
from tests.conftest import first_fast
from tests.memory.world import World
from tests.road.agent import Agent

_BEGIN = b"# Rules\n\n- Run make test.\n"


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


def _copied(world: World, other: World) -> None:
    """The project gets the whole ledger of the other machine."""
    with Project.at(other.root).open_ledger() as source:
        lines = list(exported(source))
    with Project.at(world.root).open_ledger() as ledger:
        if not ledger.head().position:  # else it is the ledger of one server
            load_ledger(ledger, lines)


@pytest.mark.parametrize("bring", [_merged, _copied])
def test_edit_on_another_machine_is_not_yours(
    world: World, other: World, bring: Callable[[World, World], object]
) -> None:
    other.path("CLAUDE.md").write_text("# Theirs\n")
    other.record()
    Path(person_folder(), "transactions.key").write_bytes(urandom(32))
    authorship._key.cache_clear()
    bring(world, other)
    agent = Agent(world.root, world.home)
    (change,) = [one for one in agent.json("log", "--memory") if one["source"] == "look"]
    assert change["by"] == "other"
    shown = agent.call("show", change["place"]).out
    assert "another user or machine, between sessions" in shown


def test_commits_of_a_pull_are_their_authors(world: World, other: World) -> None:
    for text in ("# First\n", "# Second\n"):
        with world.changes("CLAUDE.md", "git") as path:
            path.write_text(text)
        world.git("commit", "-qam", text.strip())
        world.record()
    other.git("pull", "-q", "--ff-only")
    other.record()
    commits = world.git("rev-list", "--reverse", "HEAD", "-2").split()
    assert _merged(world, other) == [("commit", commit) for commit in commits]


@pytest.mark.slow
def test_amended_commit_is_one_event(world: World, other: World) -> None:
    path = world.path("CLAUDE.md")
    path.write_text("# Draft\n")
    world.git("commit", "-qam", "draft")
    world.record()
    path.write_text("# Ours\n")
    world.git("commit", "-qa", "--amend", "-m", "ours")
    world.record()
    draft, ours = (event["commit"] for event in world.events())
    other.git("pull", "-q", "--ff-only")
    other.record()
    assert _merged(world, other) == [("commit", draft), ("commit", ours)]
    assert {event["before"] for event in world.events()} == {plain_digest(_BEGIN)}


def test_commit_with_other_line_ends_is_one_event(world: World, other: World) -> None:
    other.git("config", "core.autocrlf", "true")
    world.path("CLAUDE.md").write_text("# Ours\n")
    world.git("commit", "-qam", "ours")
    world.record()
    other.git("pull", "-q", "--ff-only")
    other.record()
    assert other.path("CLAUDE.md").read_bytes() == b"# Ours\r\n"
    assert [by for by, _ in _merged(world, other)] == ["commit"]


def _merge_of_two_branches(world: World) -> None:
    """A merge in which both branches changed the file."""
    path = world.path("CLAUDE.md")
    world.git("checkout", "-qb", "side")
    path.write_bytes(b"# Side\n" + _BEGIN)
    world.git("commit", "-qam", "side")
    world.git("checkout", "-q", "main")
    path.write_bytes(_BEGIN + b"- Main.\n")
    world.git("commit", "-qam", "main")
    world.git("merge", "-q", "--no-edit", "side")


@pytest.mark.parametrize("is_asked", first_fast(1, [False, True]))
def test_pulled_merge_is_recorded_once(world: World, other: World, is_asked: bool) -> None:
    _merge_of_two_branches(world)
    world.record()
    other.git("pull", "-q", "--ff-only")
    other.record()
    if is_asked:
        for each in (world, other):
            each.fill()
    merge, *sides = world.git("rev-parse", "HEAD", "main^1", "main^2").split()
    begin = world.git("rev-list", "--max-parents=0", "HEAD").strip()
    merged = _merged(world, other)
    assert sorted(merged) == sorted(set(merged))
    named = {commit: by for by, commit in merged if commit != begin}
    assert named == {merge: "merge", **dict.fromkeys(sides, "commit")}


def test_merge_of_one_side_has_no_event(world: World) -> None:
    world.git("checkout", "-qb", "side")
    world.path("CLAUDE.md").write_bytes(b"# Side\n" + _BEGIN)
    world.git("commit", "-qam", "side")
    world.git("checkout", "-q", "main")
    world.path("notes").write_text("x\n")
    world.git("add", "notes")
    world.git("commit", "-qm", "main")
    world.record()
    world.git("merge", "-q", "--no-edit", "side")
    world.record()
    side = world.git("rev-parse", "side").strip()
    assert [(event["by"], event["commit"]) for event in world.events()] == [("commit", side)]


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
