"""The agent's status line: what the playbook holds and what the last session did, read without a ledger."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import REFLECTOR
from tests.road.agent import Agent
from tests.road.sessions import Session


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


def test_key_points_that_do_not_fit_are_counted_and_said_not_to_be_shown(agent: Agent) -> None:
    long = [{"name": f"oth-{n:03d}", "text": "x" * 900, "helpful": 0, "harmful": 0} for n in range(1, 31)]
    agent.write_playbook({"OTHERS": long})
    agent.call("list")
    shown = agent.hook("SessionStart").count("] helpful=")
    assert 0 < shown < 30
    assert line(agent) == f"playbook: 30 bullets, {shown} shown\n"


def test_a_citation_that_nothing_decided_is_named_with_its_command(agent: Agent, tmp_path: Path) -> None:
    agent.hook(
        "SessionEnd",
        session_id="s-1",
        transcript_path=str(Session("s-1").cites("pat-001", None).write(tmp_path / "1.jsonl")),
    )
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
