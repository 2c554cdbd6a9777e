"""The drain compares watched files at a session's end, and at a start if one of them changed."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from reflector.attribution import naming
from reflector.handover import PLACES, has_changed_places
from reflector.locate import own_folder
from reflector.memory import places, recording
from reflector.project import Project
from reflector.sessions import memory_drain
from reflector.sessions.drain import drain_project
from tests.memory.world import World
from tests.road.agent import Agent


@pytest.fixture
def drained(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A project whose ledger exists, after a drain. The clock of the disk is exact."""
    monkeypatch.setattr(places, "_RACY_NS", 0)
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


def test_looks_of_an_earlier_version_count(drained: World) -> None:
    (kept,) = drained.home.rglob("memory-looks.json")
    looks = json.loads(kept.read_text())
    looks["files"] = {name: [*look, "state"] for name, look in looks["files"].items()}
    kept.write_text(json.dumps(looks))
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
    monkeypatch.setenv("REFLECTOR_MEMORY_USER", "true")
    drain_project(Project.at(drained.root))
    drained.begins().writes(file, "# Changed\n")
    drain_project(Project.at(drained.root))
    assert [event["file"] for event in drained.events("user")] == [file]
    assert drained.events() == []


def test_setting_fills_the_users_past(drained: World) -> None:
    agent = Agent(drained.root, drained.home)
    file = "~/.claude/CLAUDE.md"
    session = drained.begins()
    session.writes(file, "# Mine\n")
    agent.call("log", "--memory")
    agent.call("config", "set", "--global", "memory_user", "true")
    agent.call("log", "--memory")
    assert [(event["file"], event["session"]) for event in drained.events("user")] == [
        (file, session.id)
    ]


def test_first_question_fills_after_a_recorded_change(drained: World) -> None:
    drained.begins().writes("AGENTS.md", "# Agents\n")
    drain_project(Project.at(drained.root))
    Agent(drained.root, drained.home).call("log", "--memory")
    assert [event["by"] for event in drained.events()] == ["agent", "commit"]


def _fail(*_: object) -> None:
    raise ValueError("odd")


@pytest.mark.parametrize(
    ("module", "name"), [(naming, "calls_of"), (naming, "steps_of"), (recording, "compare")]
)
def test_trouble_of_a_comparison_is_a_note(
    drained: World, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    monkeypatch.setattr(module, name, _fail)
    drained.begins().edits("CLAUDE.md", "make test", "make check")
    notes = drain_project(Project.at(drained.root)).notes
    assert notes == ["changes to your memory files are not recorded yet: odd"]


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


def _create_below(world: World) -> None:
    (world.root / ".claude/rules/api/new.md").write_text("# New\n")


@pytest.mark.parametrize("change", [_edit, _create, _delete, _create_below])
def test_start_sees_a_change(drained: World, change: Callable[[World], None]) -> None:
    (drained.root / ".claude/rules/api").mkdir(parents=True)
    drain_project(Project.at(drained.root))
    assert not has_changed_places(str(drained.root))
    change(drained)
    assert has_changed_places(str(drained.root))
    drain_project(Project.at(drained.root))
    assert len(drained.events()) == 1
    assert not has_changed_places(str(drained.root))


def test_drain_without_a_change_reads_no_file(
    drained: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_drain, "record_memory", None)
    drained.begins().says("Thanks.")
    assert drain_project(Project.at(drained.root)) is not None


def test_hand_edit_after_an_idle_session_is_yours(drained: World) -> None:
    drained.begins().says("Thanks.")
    time.sleep(0.01)
    drain_project(Project.at(drained.root))
    _edit(drained)
    drain_project(Project.at(drained.root))
    assert [event["by"] for event in drained.events()] == ["you"]


def test_file_changed_within_two_seconds_is_read(
    drained: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_RACY_NS", 2_000_000_000)
    _edit(drained)
    drain_project(Project.at(drained.root))
    assert has_changed_places(str(drained.root))


def test_setting_asks_for_a_look(drained: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not places.has_changed(Project.at(drained.root))
    monkeypatch.setenv("REFLECTOR_MEMORY_USER", "true")
    assert places.has_changed(Project.at(drained.root))


def test_comparison_in_trouble_is_made_again(
    drained: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _edit(drained)
    with monkeypatch.context() as troubled:
        troubled.setattr(recording, "compare", _fail)
        drain_project(Project.at(drained.root))
    drain_project(Project.at(drained.root))
    assert [event["by"] for event in drained.events()] == ["you"]


def test_start_before_the_first_look_asks_for_one(drained: World) -> None:
    Path(own_folder(str(drained.root)), PLACES).unlink()
    assert has_changed_places(str(drained.root))


def test_start_never_asks_without_memory(drained: World) -> None:
    Agent(drained.root, drained.home).call("config", "set", "memory", "off")
    drain_project(Project.at(drained.root))
    _edit(drained)
    assert not has_changed_places(str(drained.root))
