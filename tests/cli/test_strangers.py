"""Projects without a playbook, and projects whose playbook.json is another tool, stay as they
are.
"""

import json
from pathlib import Path

import pytest

from tests.road.agent import Agent

VERIFY = '{"verify": "npm test"}\n'
COMMANDS = (
    *(
        "reflect",
        "reflect 5f2a91c0",
        "reflect --dry-run",
        "lab reparse",
        "reflect --learn",
        "drain",
    ),
    *(
        "review give-up abc --why x",
        "drain --retry-failed",
        "drain --background",
        "review list",
    ),
    *(
        "review approve abc",
        "review reject abc",
        "review find",
        "edit",
        "rebuild",
        "rebuild --check",
    ),
    *(
        "rebuild --fix --why x",
        "undo",
        "undo pat-001",
        "remove pat-001",
        "edit pat-001 words",
        "review",
        "trial stop",
    ),
    *(
        "merge pat-001 pat-002 --text words",
        "redact 3 --why x --yes",
        "redact --where words --why x --yes",
        "trial stop",
    ),
    *(
        "outcome abc good --why x",
        "lessons promote abc",
        "ledger assert pat-001 0/0",
        "ledger take --yes",
        "status",
    ),
    *(
        "ingest /nonexistent",
        "ingest {}/note.md",
        "adopt {}/note.md",
        "import {}/note.md",
        "mirror --off AGENTS.md",
        "doctor",
    ),
    *(
        "mirror note.txt",
        "check --dry-run",
        "history --yes",
        "list",
        "log",
        "stats",
        "export",
    ),
    "trial start --yes",
)


@pytest.fixture
def stranger(tmp_path: Path) -> Agent:
    """A project whose playbook.json is another tool."""
    agent = Agent.bare(tmp_path)
    agent.claude.mkdir()
    agent.playbook.write_text(VERIFY)
    return agent


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_makes_nothing_where_nothing_is(tmp_path: Path, command: str) -> None:
    agent = Agent.bare(tmp_path)
    agent.environ["EDITOR"] = "true"
    (tmp_path / "note.md").write_text("hello")
    ran = agent.call(*command.format(tmp_path).split(), code=None)
    assert (ran.code in (0, 1, 2), "Traceback" in ran.err) == (True, False)
    assert list(agent.project.iterdir()) == []


@pytest.mark.parametrize("command", [one for one in COMMANDS if not one.startswith("doctor")])
def test_a_command_leaves_a_strangers_file_alone(stranger: Agent, command: str) -> None:
    stranger.environ["EDITOR"] = "true"
    (stranger.project.parent / "note.md").write_text("hello")
    stranger.call(*command.format(stranger.project.parent).split(), code=None)
    assert [path.name for path in stranger.claude.iterdir()] == ["playbook.json"]
    assert stranger.playbook.read_text() == VERIFY


@pytest.mark.parametrize("question", ["list", "log", "review", "status"])
def test_foreign_file_is_named_in_one_line(stranger: Agent, question: str) -> None:
    ran = stranger.call(question)
    assert [
        line
        for line in ran.err.splitlines()
        if "does not change" in line and str(stranger.playbook) in line
    ]
    assert ran.err.count(str(stranger.playbook)) == 1


def test_an_agent_hears_nothing_of_a_strangers_file(stranger: Agent) -> None:
    for event in ("SessionStart", "SubagentStart", "Stop", "SessionEnd"):
        assert stranger.hook(event, session_id="s-1", transcript_path="/nonexistent") == ""
    assert [path.name for path in stranger.claude.iterdir()] == ["playbook.json"]


def test_bullets_beside_a_strangers_file_are_told(stranger: Agent) -> None:
    ran = stranger.call("add", "pat", "Run the tests first.")
    assert ran.err.count("does not change") == 1
    assert stranger.playbook.read_text() == VERIFY
    told = stranger.hook("SessionStart", session_id="s-1")
    assert "[pat-001]" in told
    assert "npm test" not in told
    assert "cannot be read" not in told
    stranger.call("rebuild")
    stranger.call("rebuild", "--check")
    assert "another tool" in stranger.call("edit", code=1).err
    assert stranger.playbook.read_text() == VERIFY
    stranger.playbook.unlink()
    stranger.call("add", "pat", "Then the linter.")
    assert "pat-002" in stranger.playbook.read_text()


def test_foreign_file_in_place_of_ours_is_trouble(agent: Agent) -> None:
    agent.call("add", "pat", "Run the tests first.")
    agent.playbook.write_text(VERIFY)
    assert "has neither sections nor key_points" in agent.call("status", code=1).out
    assert "cannot be read" in agent.hook("SessionStart", session_id="s-1")


def test_an_ace_playbook_in_place_is_adopted(tmp_path: Path) -> None:
    agent = Agent.bare(tmp_path)
    agent.claude.mkdir()
    bullet = {
        "id": "a-1",
        "content": "Keep functions small.",
        "helpful_count": 3,
        "harmful_count": 1,
    }
    agent.playbook.write_text(json.dumps({"sections": {"ARCHITECTURE": {"bullets": [bullet]}}}))
    assert [(one["text"], one["helpful"], one["harmful"]) for one in agent.json("list")] == [
        ("Keep functions small.", 3, 1)
    ]
