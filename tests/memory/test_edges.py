"""Files that cannot be read, and disks that are full: one clear line each, and nothing torn."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reflector.attribution.files import Table
from reflector.events.event import MEMORY_CHANGED
from reflector.events.memory import UNSEEN
from reflector.memory import looks, recording
from reflector.memory.looks import Looks, Seen, compare
from reflector.project import Project
from tests.memory.world import World


def _link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_link, "is a symbolic link that points outside {root}"),
        (os.mkfifo, "is not a regular file"),
        (_sparse, "has more than 1 MB"),
    ],
)
def test_unreadable_file_is_named_once(
    world: World, make: Callable[[Path], None], why: str
) -> None:
    make(world.path("AGENTS.md"))
    reason = why.format(root=world.root)
    assert world.record() == [f"not watched: AGENTS.md, because it {reason}"]
    world.record()
    assert world.events() == []


@pytest.mark.parametrize("make", [_link, os.mkfifo, _sparse])
def test_unreadable_file_is_not_new_later(world: World, make: Callable[[Path], None]) -> None:
    path = world.path("AGENTS.md")
    make(path)
    world.record()
    path.unlink()
    path.write_text("# Mine\n")
    assert world.record() == []
    (event,) = world.events()
    assert (event["kind"], event["before"]) == ("edited", UNSEEN)


def test_file_of_unreadable_folder_is_not_new_later(world: World) -> None:
    folder = world.path(".claude/rules")
    folder.parent.mkdir(exist_ok=True)
    looked = Looks()
    looked.seen[str(world.root)] = Seen(1.0, 1.0)
    table = Table(world.root, "project")
    table.unwatched[".claude/rules"] = "cannot be read"
    compare(table, looked)
    folder.mkdir()
    folder.joinpath("a.md").write_text("x\n")
    (difference,) = compare(Table(world.root, "project"), looked)
    assert difference.file == ".claude/rules/a.md"
    assert difference.before.digest == UNSEEN


def test_name_with_line_break_is_escaped(world: World) -> None:
    path = world.path(".claude/rules/a\nb.md")
    path.parent.mkdir(parents=True)
    path.write_text("x\n")
    why = "has an invisible character in its name, such as a line break"
    assert world.record() == [rf"not watched: .claude/rules/a\nb.md, because it {why}"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_folder_without_rights_is_named(world: World) -> None:
    folder = world.path(".claude/rules")
    folder.mkdir(parents=True)
    folder.joinpath("a.md").write_text("x\n")
    world.record()
    folder.chmod(0)
    try:
        notes = world.record()
    finally:
        folder.chmod(0o755)
    assert notes == ["not watched: .claude/rules, because it cannot be read (Permission denied)"]
    assert world.events() == []


def test_folder_without_rights_deletes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For root, the system's refusal is played."""
    file = world.path(".claude/rules/a.md")
    file.parent.mkdir(parents=True)
    file.write_text("x\n")
    world.record()

    def refuse(top: object, onerror: Callable[[OSError], None]) -> list[object]:
        if top == file.parent:
            onerror(PermissionError(errno.EACCES, "Permission denied", str(top)))
        return []

    stat = Path.stat

    def refused_stat(path: Path, **options: bool) -> os.stat_result:
        if path.is_relative_to(file.parent):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr("reflector.attribution.files.os.walk", refuse)
    monkeypatch.setattr(Path, "stat", refused_stat)
    notes = world.record()
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(world.home))
    assert notes == ["not watched: .claude/rules, because it cannot be read (Permission denied)"]
    assert world.events() == []


def _full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "x")


@pytest.mark.parametrize("module", [looks, recording])
def test_full_disk_records_changes_later(
    world: World, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    world.record()
    world.begins().edits("CLAUDE.md", "make test", "make check")
    name = "keep_versions" if module is recording else "write_own"
    with monkeypatch.context() as full:
        full.setattr(module, name, _full)
        with pytest.raises(OSError, match="No space left on device"):
            world.record()
    world.record()
    world.record()
    assert [event["by"] for event in world.events()] == ["agent"]


def test_secret_of_a_line_is_masked(world: World) -> None:
    world.record()
    secret = "sk-ant-api03-" + "a1B2" * 20
    with world.changes("CLAUDE.md", "you") as path:
        path.write_text(f"# Rules\n\n- The key is {secret}\n")
    world.record()
    (event,) = world.events()
    assert secret not in str(event)
    assert "redacted" in event["added"][0]["text"]


def test_link_to_watched_file_is_one_file(world: World) -> None:
    world.path("AGENTS.md").symlink_to("CLAUDE.md")
    world.record()
    with world.changes("CLAUDE.md", "you") as path:
        path.write_text("# Mine\n")
    assert world.record() == []
    assert [event["file"] for event in world.events()] == ["CLAUDE.md"]


def test_file_that_git_removed_was_tracked(world: World) -> None:
    world.record()
    world.begins().edits("CLAUDE.md", "make test", "make check")
    edited = world.digest("CLAUDE.md")
    world.git("commit", "-qam", "ours")
    world.git("rm", "-q", "CLAUDE.md")
    world.git("commit", "-qm", "no rules")
    world.record()
    with Project.at(world.root).open_ledger() as ledger:
        (agents, *_) = [event.facts for event in ledger.events(types=[MEMORY_CHANGED])]
    assert (agents["by"], agents["after"]) == ("agent", edited)


def test_file_replacing_a_folder_deletes_the_rules(world: World) -> None:
    folder = world.path(".claude/rules")
    folder.mkdir(parents=True)
    folder.joinpath("a.md").write_text("x\n")
    world.record()
    folder.joinpath("a.md").unlink()
    folder.rmdir()
    folder.write_text("a file\n")
    world.record()
    assert [event["kind"] for event in world.events()][-1] == "deleted"


@pytest.mark.parametrize("is_committed", [False, True])
def test_renamed_file_may_leave_a_link(world: World, *, is_committed: bool) -> None:
    world.record()
    world.path("CLAUDE.md").rename(world.path("AGENTS.md"))
    world.path("CLAUDE.md").symlink_to("AGENTS.md")
    if is_committed:
        world.git("add", "-A")
        world.git("commit", "-qm", "rename")
    assert world.record() == []
    by = "commit" if is_committed else "you"
    kinds = sorted((event["file"], event["kind"], event["by"]) for event in world.events())
    assert kinds == [("AGENTS.md", "created", by), ("CLAUDE.md", "deleted", by)]
