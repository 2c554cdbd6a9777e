"""The lines of `kept.py` run as an agent, cron, git and a shell run them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from reflector.hooks.install import is_own, is_status_line
from tests.conftest import first_fast, slow_except
from tests.hooks.conftest import event
from tests.hooks.kept import (
    DRAINS,
    DRIVERS,
    HOOKS,
    JOBS,
    SERVERS,
    SHELLS,
    STATUS_LINES,
    filled,
    put_program,
)
from tests.road.agent import Agent

_PLUGIN = Path(__file__).parents[2] / ".claude-plugin" / "reflector"
_PARAMS = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
_OPENING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _PARAMS})


@pytest.fixture(autouse=True)
def program(agent: Agent, tmp_path: Path) -> Path:
    """The program, on the PATH."""
    path = put_program(tmp_path / "my bin")
    agent.environ["PATH"] = os.pathsep.join([str(path.parent), os.environ["PATH"]])
    return path


@pytest.fixture
def line(agent: Agent, program: Path, written: str) -> str:
    """The written line with the paths of this installation."""
    return filled(written, program, agent.project, agent.home)


def run(agent: Agent, line: str, stdin: str = "") -> str:
    """Run a line as an agent, cron, git and a shell do; return its output."""
    done = subprocess.run(
        ["bash", "-c", line],
        input=stdin,
        env=agent.env(CLAUDE_PLUGIN_ROOT=str(_PLUGIN), REFLECTOR_NO_SPAWN="1"),
        cwd=agent.project,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("written", first_fast(2, HOOKS))
def test_hook_shows_the_playbook(agent: Agent, line: str) -> None:
    payload = json.dumps(event("SessionStart", cwd=str(agent.project)))
    assert "[pat-002]" in run(agent, line, payload)


@pytest.mark.parametrize("written", first_fast(4, HOOKS))
def test_hook_keeps_the_end_of_a_session(agent: Agent, line: str) -> None:
    payload = json.dumps(event("SessionEnd", cwd=str(agent.project)))
    assert run(agent, line, payload) == ""
    assert len(agent.deliveries()) == 1


@pytest.mark.parametrize("written", HOOKS[:-1])
def test_uninstall_knows_each_hook(line: str) -> None:
    assert is_own(line)


@pytest.mark.parametrize("written", first_fast(2, STATUS_LINES))
def test_status_line_prints_the_playbook(agent: Agent, line: str) -> None:
    agent.call("list")
    assert "playbook: 3 " in run(agent, line)
    assert is_status_line(line)


@pytest.mark.parametrize("written", slow_except([], SERVERS))
def test_server_answers(agent: Agent, line: str) -> None:
    assert "serverInfo" in run(agent, line, f"{_OPENING}\n")


@pytest.mark.parametrize("written", slow_except(DRAINS[-1:], DRAINS))
@pytest.mark.slow
def test_drain_counts_a_session(agent: Agent, line: str) -> None:
    agent.ended()
    run(agent, line)
    assert agent.counters()["pat-001"] == (1, 0)


@pytest.mark.parametrize("written", DRIVERS)
def test_merge_driver_merges(agent: Agent, line: str) -> None:
    rules = {
        "base": [],
        "ours": [{"id": "pat-001", "content": "Test first."}],
        "theirs": [{"id": "pat-002", "content": "Keep functions small."}],
    }
    for name, bullets in rules.items():
        sections = {"PATTERNS & APPROACHES": bullets}
        (agent.project / name).write_text(json.dumps({"version": "1.0", "sections": sections}))
    for sign, name in (("%O", "base"), ("%A", "ours"), ("%B", "theirs")):
        line = line.replace(sign, name)
    run(agent, line)
    merged = (agent.project / "ours").read_text()
    assert ("Test first." in merged, "Keep functions small." in merged) == (True, True)


@pytest.mark.parametrize("written", SHELLS)
def test_shell_completes(agent: Agent, line: str) -> None:
    assert run(agent, line)


@pytest.mark.slow
@pytest.mark.parametrize("written", slow_except(JOBS[:1], JOBS))
def test_job_runs(agent: Agent, line: str) -> None:
    agent.ended()
    agent.call("drain")
    run(agent, f"({line}) 2> /dev/null")
