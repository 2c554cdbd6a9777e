"""The drain compares watched files at a session's end, and at a start if one of them changed."""

import os
from pathlib import Path

import pytest

from reflector.handover import PLACES
from reflector.hooks.fast import has_changed_memory
from reflector.locate import own_folder
from reflector.project import Project
from reflector.sessions import memory_drain
from reflector.sessions.drain import drain_project
from tests.memory.world import World


@pytest.fixture
def drained(world: World) -> World:
    """A project whose ledger exists, after a drain."""
    project = Project.at(world.root)
    project.make_state_dir()
    with project.open_ledger():
        pass
    drain_project(project)
    return world


def test_drain_records_changes(drained: World) -> None:
    drained.begins().edits("CLAUDE.md", "make test", "make check")
    drain_project(Project.at(drained.root))
    assert [event["by"] for event in drained.events()] == ["agent"]


def test_drain_reports_unreadable_file(drained: World) -> None:
    os.mkfifo(drained.path("AGENTS.md"))
    notes = drain_project(Project.at(drained.root)).notes
    assert notes == ["not watched: AGENTS.md, because it is not a regular file"]


def test_users_files_wait_for_consent(drained: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file = "~/.claude/CLAUDE.md"
    drained.begins().writes(file, "# Mine\n")
    drain_project(Project.at(drained.root))
    assert not Project.of_user().has_ledger()
    monkeypatch.setattr(memory_drain, "_watches_users", lambda _: True)
    drain_project(Project.at(drained.root))
    drained.begins().writes(file, "# Changed\n")
    drain_project(Project.at(drained.root))
    assert [event["file"] for event in drained.events("user")] == [file]
    assert drained.events() == []


def _edit(world: World) -> None:
    world.path("CLAUDE.md").write_text("# Mine\n")


def _create(world: World) -> None:
    world.path("AGENTS.md").write_text("# New\n")


def _delete(world: World) -> None:
    world.path("CLAUDE.md").unlink()


@pytest.mark.parametrize("change", [_edit, _create, _delete])
def test_start_sees_a_change(drained: World, change: object) -> None:
    assert not has_changed_memory(str(drained.root))
    assert callable(change)
    change(drained)
    assert has_changed_memory(str(drained.root))


def test_start_without_places_compares_nothing(drained: World) -> None:
    Path(own_folder(str(drained.root)), PLACES).unlink()
    _edit(drained)
    assert not has_changed_memory(str(drained.root))
