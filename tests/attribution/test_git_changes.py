"""The commits and moves of HEAD that change watched files, as git has them."""

import time

import pytest

from reflector.attribution.files import MAX_BYTES
from reflector.attribution.git_changes import Repository
from reflector.attribution.steps import Difference, Step, content_of
from tests.memory.world import World


def _commits(world: World, *places: str) -> list[Step]:
    return list(Repository(world.root).commits(places or ["CLAUDE.md"]))


def _commit(world: World, text: str | None, *words: str, file: str = "CLAUDE.md") -> None:
    path = world.root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink() if text is None else path.write_text(text)
    world.git("add", "--all")
    world.git("commit", "-qm", "change", *words)


def test_commits_have_contents_in_order(world: World) -> None:
    _commit(world, "one\n")
    _commit(world, "two\n")
    _commit(world, None)
    contents = [(commit.before.bytes, commit.after.bytes) for commit in _commits(world)[-3:]]
    assert contents[1:] == [(b"one\n", b"two\n"), (b"two\n", None)]


@pytest.mark.parametrize("name", ["a\x02b", "a\x01b", ":000000 100644 0 1 A", "A B"])
def test_author_of_any_name_is_read(world: World, name: str) -> None:
    _commit(world, "one\n", f"--author={name} <x@example.org>")
    commit = _commits(world)[-1]
    assert commit.after.bytes == b"one\n"
    assert commit.author.author.endswith("(committed by Ana)")


@pytest.mark.parametrize("file", [".claude/rules/ä b.md", '.claude/rules/"q".md'])
def test_file_of_any_name_is_read(world: World, file: str) -> None:
    _commit(world, "one\n", file=file)
    (commit,) = _commits(world, f":(literal){file}")
    assert (commit.file, commit.after.bytes) == (file, b"one\n")


def test_content_above_a_megabyte_is_left_out(world: World) -> None:
    _commit(world, "one\n")
    _commit(world, "x" * (MAX_BYTES + 1))
    assert _commits(world)[-1].after.bytes == b"one\n"


def test_move_to_another_branch_is_a_checkout(world: World) -> None:
    _commit(world, "one\n")
    world.git("checkout", "-qb", "other")
    _commit(world, "two\n")
    repository = Repository(world.root)
    start = repository.reflog_size
    world.git("checkout", "-q", "-")
    contents = map(content_of, (b"two\n", b"one\n"))
    difference = Difference("CLAUDE.md", *contents, 0.0, time.time())
    (move,) = repository.moves([difference], start)
    assert (move.commits, move.before.bytes, move.after.bytes) == ((), b"two\n", b"one\n")
