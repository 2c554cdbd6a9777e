"""The agent's status line: what the playbook holds and what the last session did, read without a ledger."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.processes import REFLECTOR
from tests.road.agent import Agent


def line(agent: Agent, stdin: str = "", **environ: str) -> str:
    done = subprocess.run(
        [*REFLECTOR, "statusline"], input=stdin, env=agent.env(**environ), capture_output=True, text=True, cwd="/"
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_line_says_how_many_key_points_there_are_and_what_the_last_session_did(agent: Agent) -> None:
    agent.call("list")
    assert line(agent) == "playbook: 3 bullets\n"
    agent.ended()
    assert line(agent) == "playbook: 3 bullets · last session: still being processed\n"
    agent.call("drain")
    assert line(agent) == "playbook: 3 bullets · last session: pat-001 helpful\n"
    agent.ended("pat-001", None, id="s-2")
    agent.call("drain")
    assert line(agent).endswith("last session: pat-001 cited, undecided: reflector judge\n")


def test_a_playbook_that_was_broken_since_is_said_before_any_other_command_ran(agent: Agent) -> None:
    agent.call("list")
    whole = agent.playbook.read_text()
    agent.playbook.write_text(whole.replace('"pat-001",', '"pat-001"'))
    assert line(agent) == "playbook: .claude/playbook.json cannot be read: line 8, column 9; see `reflector doctor`\n"
    agent.playbook.write_text(whole)
    assert line(agent) == "playbook: 3 bullets\n"


@pytest.mark.parametrize("key", ["workspace", "cwd"])
def test_the_project_is_the_one_that_the_agent_names(agent: Agent, key: str) -> None:
    agent.call("list")
    folder = agent.project / "src"
    folder.mkdir()
    told = {"workspace": {"project_dir": str(folder)}} if key == "workspace" else {"cwd": str(folder)}
    assert line(agent, json.dumps(told), CLAUDE_PROJECT_DIR="").startswith("playbook: 3")


@pytest.mark.parametrize("stdin", ["", "not JSON", "[1]", '{"cwd": 7}', '{"workspace": "x", "cwd": "/"}'])
def test_where_there_is_no_playbook_nothing_is_printed(agent: Agent, stdin: str) -> None:
    assert line(agent, stdin, CLAUDE_PROJECT_DIR="") == ""


def test_it_imports_no_library(agent: Agent) -> None:
    script = (
        "import sys; from reflector.hooks import statusline; statusline.main(); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], env=agent.env(), capture_output=True, text=True)
    assert not {"sqlalchemy", "pydantic", "click", "rich", "anthropic"} & {n.split(".")[0] for n in done.stderr.split()}
