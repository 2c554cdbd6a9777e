"""Command lines that `install`, the plugin or a page put into people's files, where nobody will
change them.

A line of these tables is never removed and never rewritten, whatever becomes of the commands that
you type. They are all forms that the history of hooks, plugin, pages and examples has.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reflector.hooks import fast
from reflector.hooks.install import is_own, is_status_line
from tests.hooks.conftest import event
from tests.road.agent import Agent

_PLUGIN = Path(__file__).parents[2] / ".claude-plugin" / "reflector"
_PARAMS = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
_OPENING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _PARAMS})

#: In an agent's settings: by its file, as `install` writes it today and wrote it before; by its
#: module; by its name on the PATH or its path, as pages show it; the last by the plugin.
HOOKS = [
    "{python} -I -S {hooks}/__main__.py || exit 0",
    "{python} -I -S {hooks}/fast.py || exit 0",
    "{python} -I -S {hooks}/fast.py",
    "{python} -m reflector hook",
    "{python} -I -m reflector hook || exit 0",
    "exec {python} -I -m reflector hook || true",
    "reflector hook",
    "{reflector} hook || :",
    'sh "${{CLAUDE_PLUGIN_ROOT}}/hooks/reflector-hook" || exit 0',
]
#: In Claude Code's settings.
STATUS_LINES = [
    "reflector statusline",
    "{reflector} statusline",
    "{python} -m reflector statusline",
    "reflector --project {project} statusline",
]
#: In an agent's list of MCP servers: `claude mcp add reflector -- reflector mcp`.
SERVERS = ["reflector mcp", "{reflector} mcp", "{python} -m reflector mcp"]
#: In a table of cron, and started by the hook of each version.
DRAINS = [
    "reflector drain",
    "reflector drain --retry-failed",
    "reflector drain --background",
    "reflector --project {project} drain",
    "{python} -I -m reflector --project {project} drain --background",
]
#: In the git configuration of a clone.
DRIVERS = [
    "{python} -I -m reflector.hooks.git_merge %O %A %B",
    "{python} -m reflector.hooks.git_merge %O %A %B",
]
#: In ~/.bashrc, and in the script that `completion` printed there.
SHELLS = [
    'eval "$(reflector completion bash)" && complete -p reflector',
    "COMP_WORDS='reflector li' COMP_CWORD=1 _REFLECTOR_COMPLETE=bash_complete reflector",
]
#: In a table of cron, a backup or a continuous integration.
JOBS = [
    "reflector ledger head >> heads.txt && reflector verify --anchor heads.txt",
    "reflector verify",
    "reflector rebuild --check",
    "reflector ledger backup ledger.backup",
    "reflector export --format ndjson > ledger.ndjson",
    "reflector ingest {home}/s-1.jsonl",
]


@pytest.fixture(autouse=True)
def program(agent: Agent, tmp_path: Path) -> None:
    """Put the program on the PATH."""
    folder = tmp_path / "my bin"
    folder.mkdir()
    path = folder / "reflector"
    started = f'exec {shlex.quote(sys.executable)} -I -m reflector "$@"'
    path.write_text(f"#!/bin/sh\n# from reflector.__main__ import main\n{started}\n")
    path.chmod(0o755)
    agent.environ["PATH"] = os.pathsep.join([str(folder), os.environ["PATH"]])


def line_for(agent: Agent, written: str) -> str:
    """Return a line with the paths of this installation."""
    places = {
        "python": sys.executable,
        "hooks": str(Path(fast.__file__).parent),
        "reflector": agent.environ["PATH"].partition(os.pathsep)[0] + "/reflector",
        "project": str(agent.project),
        "home": str(agent.home),
    }
    return written.format_map({name: shlex.quote(path) for name, path in places.items()})


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


@pytest.mark.parametrize("written", HOOKS)
def test_hook_shows_the_playbook(agent: Agent, written: str) -> None:
    payload = json.dumps(event("SessionStart", cwd=str(agent.project)))
    assert "[pat-002]" in run(agent, line_for(agent, written), payload)


@pytest.mark.parametrize("written", HOOKS)
def test_hook_keeps_the_end_of_a_session(agent: Agent, written: str) -> None:
    payload = json.dumps(event("SessionEnd", cwd=str(agent.project)))
    assert run(agent, line_for(agent, written), payload) == ""
    assert len(agent.deliveries()) == 1


@pytest.mark.parametrize("written", HOOKS[:-1])
def test_uninstall_knows_each_hook(agent: Agent, written: str) -> None:
    assert is_own(line_for(agent, written))


@pytest.mark.parametrize("written", STATUS_LINES)
def test_status_line_prints_the_playbook(agent: Agent, written: str) -> None:
    agent.call("list")
    line = line_for(agent, written)
    assert "playbook: 3 " in run(agent, line)
    assert is_status_line(line)


@pytest.mark.parametrize("written", SERVERS)
def test_server_answers(agent: Agent, written: str) -> None:
    assert "serverInfo" in run(agent, line_for(agent, written), f"{_OPENING}\n")


@pytest.mark.parametrize("written", DRAINS)
def test_drain_counts_a_session(agent: Agent, written: str) -> None:
    agent.ended()
    run(agent, line_for(agent, written))
    assert agent.counters()["pat-001"] == (1, 0)


@pytest.mark.parametrize("written", DRIVERS)
def test_merge_driver_merges(agent: Agent, written: str) -> None:
    rules = {
        "base": [],
        "ours": [{"id": "pat-001", "content": "Test first."}],
        "theirs": [{"id": "pat-002", "content": "Keep functions small."}],
    }
    for name, bullets in rules.items():
        sections = {"PATTERNS & APPROACHES": bullets}
        (agent.project / name).write_text(json.dumps({"version": "1.0", "sections": sections}))
    line = line_for(agent, written)
    for sign, name in (("%O", "base"), ("%A", "ours"), ("%B", "theirs")):
        line = line.replace(sign, name)
    run(agent, line)
    merged = (agent.project / "ours").read_text()
    assert ("Test first." in merged, "Keep functions small." in merged) == (True, True)


@pytest.mark.parametrize("line", SHELLS)
def test_shell_completes(agent: Agent, line: str) -> None:
    assert run(agent, line)


@pytest.mark.parametrize("written", JOBS)
def test_job_runs(agent: Agent, written: str) -> None:
    agent.ended()
    agent.call("drain")
    run(agent, line_for(agent, f"({written}) 2> /dev/null"))
