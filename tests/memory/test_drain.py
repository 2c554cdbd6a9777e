"""The drain compares watched files at a session's end, and at a start if one of them changed."""

import os
from pathlib import Path

import pytest

from reflector.handover import PLACES
from reflector.hooks.fast import has_changed_memory
from reflector.locate import own_folder
from reflector.memory import recording
from reflector.project import Project
from reflector.sessions import memory_drain
from reflector.sessions.drain import drain_project
from tests.memory.world import World
from tests.road.agent import Agent


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


def test_setting_fills_the_users_past(drained: World, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(drained.root, drained.home)
    file = "~/.claude/CLAUDE.md"
    session = drained.begins()
    session.writes(file, "# Mine\n")
    agent.call("log", "--memory")
    monkeypatch.setattr(memory_drain, "_watches_users", lambda _: True)
    agent.call("log", "--memory")
    assert [(event["file"], event["session"]) for event in drained.events("user")] == [
        (file, session.id)
    ]


def test_first_question_fills_after_a_recorded_change(drained: World) -> None:
    drained.begins().writes("AGENTS.md", "# Agents\n")
    drain_project(Project.at(drained.root))
    Agent(drained.root, drained.home).call("log", "--memory")
    assert [event["by"] for event in drained.events()] == ["agent", "commit"]


@pytest.mark.parametrize("name", ["sitting_of", "steps_of", "compare"])
def test_trouble_of_a_comparison_is_a_note(
    drained: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(recording, name, fail)
    drained.begins().edits("CLAUDE.md", "make test", "make check")
    notes = drain_project(Project.at(drained.root)).notes
    assert notes == ["changes to memory files are not recorded yet: odd"]


@pytest.mark.parametrize(
    ("command", "author"),
    [
        ("echo '- More.' >> {file}", "agent"),
        ("cd {root} && echo '- More.' >> CLAUDE.md", "agent"),
        ("echo '- More.' >> CLAUDE.md", "you"),
    ],
)
def test_session_of_another_project_is_named(drained: World, command: str, author: str) -> None:
    other = World(drained.home / "other", drained.home, sessions=7)
    other.root.mkdir()
    session = other.begins()
    file = drained.path("CLAUDE.md")
    with file.open("a") as opened:
        opened.write("- More.\n")
    session.calls("Bash", command=command.format(file=file, root=drained.root))
    drain_project(Project.at(drained.root))
    assert [event["by"] for event in drained.events()] == [author]


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


def test_start_before_the_first_look_asks_for_one(drained: World) -> None:
    Path(own_folder(str(drained.root)), PLACES).unlink()
    assert has_changed_memory(str(drained.root))


def test_start_never_asks_without_memory(drained: World) -> None:
    Agent(drained.root, drained.home).call("config", "set", "memory", "off")
    drain_project(Project.at(drained.root))
    _edit(drained)
    assert not has_changed_memory(str(drained.root))
