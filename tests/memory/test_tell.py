"""`memory = tell`: a line at the next start, and each change kept or taken back."""

import json
import subprocess

import pytest

from tests.memory.world import World
from tests.road.agent import Agent

_BEFORE = "# Rules\n\n- Run make test.\n"


@pytest.fixture
def told(world: World) -> Agent:
    """A project in which a session changed two memory files since the first look."""
    agent = Agent(world.root, world.home)
    agent.call("config", "set", "memory", "tell")
    agent.open_ledger().close()
    agent.call("log", "--memory")
    session = world.begins()
    session.edits("CLAUDE.md", "make test", "make check")
    session.writes("AGENTS.md", "# Agents\n")
    session.says("Thanks.")
    agent.call("drain")
    return agent


def _start_line(agent: Agent) -> str:
    agent.environ = {"CLAUDE_ENV_FILE": "/somewhere/sessionstart-hook-1.sh"}
    return agent.hook("SessionStart", source="startup")


def _waiting(agent: Agent) -> list[str]:
    return [change["file"] for change in agent.json("review", "list")["memory"]]


def test_start_shows_changed_files(told: Agent) -> None:
    assert "your agent changed 2 memory files: reflector review" in _start_line(told)


@pytest.mark.slow
def test_kept_changes_are_not_shown_again(told: Agent) -> None:
    for change in told.json("review", "list")["memory"]:
        told.call("review", "keep", change["place"])
    told.call("drain")
    assert _waiting(told) == []
    assert "memory file" not in _start_line(told)


def test_review_keeps_and_takes_back(told: Agent) -> None:
    file = told.project / "CLAUDE.md"
    places = {each["file"]: each["place"] for each in told.json("review", "list")["memory"]}
    told.call("review", "keep", places["AGENTS.md"])
    told.call("review", keys="t")
    assert file.read_text() == _BEFORE
    assert _waiting(told) == []


def test_session_is_taken_back_by_one_command(told: Agent) -> None:
    told.call("undo", "--memory", "00000001")
    assert (told.project / "CLAUDE.md").read_text() == _BEFORE
    assert not (told.project / "AGENTS.md").exists()


def test_unknown_session_is_refused(told: Agent) -> None:
    refused = told.call("undo", "--memory", "ffff", code=2)
    assert "session 'ffff' did not change a memory file" in refused.err


def _changed_since(agent: Agent) -> None:
    (agent.project / "CLAUDE.md").write_text("# Other\n")


@pytest.mark.slow
def test_refused_change_does_not_end_a_review(told: Agent) -> None:
    _changed_since(told)
    ran = told.call("review", keys="ttq")
    assert "in CLAUDE.md, or the lines beside them, were changed later" in ran.err
    assert not (told.project / "AGENTS.md").exists()
    assert "1 decision recorded; 1 still to decide." in ran.err


@pytest.mark.slow
def test_last_decision_can_be_undone(told: Agent) -> None:
    ran = told.call("review", keys="stuq")
    assert "Undo: reflector undo" in ran.err
    assert len(_waiting(told)) == 2


def test_installed_hook_prints_the_line(told: Agent) -> None:
    """Claude Code runs the command that `install` wrote, and shows its systemMessage."""
    told.call("install")
    (path,) = told.home.joinpath(".claude").glob("settings*.json")
    settings = json.loads(path.read_text())
    (command,) = [
        hook["command"] for group in settings["hooks"]["SessionStart"] for hook in group["hooks"]
    ]
    event = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "s-9"}
    ran = subprocess.run(
        command,
        shell=True,
        cwd=told.project,
        input=json.dumps(event | {"cwd": str(told.project)}),
        env=told.env(CLAUDE_ENV_FILE="/somewhere/sessionstart-hook-1.sh"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "your agent changed 2 memory files" in json.loads(ran.stdout)["systemMessage"]
