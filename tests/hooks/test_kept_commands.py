"""Command lines that `install`, the plugin or a page put into people's files, where nobody will change them.

A line of this table is never removed and never rewritten, whatever becomes of the commands that a person types.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reflector.hooks import fast
from reflector.ledger.store import Ledger
from reflector.revision.engine import ReflectionEngine
from tests.hooks.conftest import event
from tests.road.agent import Agent

FOLDER = Path(fast.__file__).parent
PLUGIN = Path(__file__).parents[2] / ".claude-plugin" / "reflector"


@pytest.mark.parametrize(
    "line",
    [
        "{python} -I -S {folder}/__main__.py || exit 0",  # of `install` today
        "{python} -I -S {folder}/fast.py || exit 0",  # of `install` before, and by hand
        "{python} -m reflector hook",
        "exec {python} -I -m reflector hook || true",
    ],
)
@pytest.mark.parametrize("name", ["SessionStart", "SessionEnd"])
def test_a_hook_in_an_agents_settings(agent: Agent, line: str, name: str) -> None:
    command = line.format(python=shlex.quote(sys.executable), folder=shlex.quote(str(FOLDER)))
    done = subprocess.run(
        ["sh", "-c", command],
        input=json.dumps(event(name, cwd=str(agent.project))),
        env=agent.env(REFLECTOR_NO_SPAWN="1"),
        cwd=agent.project,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("[pat-002]" in done.stdout, len(agent.deliveries())) == (
        (True, 0) if name == "SessionStart" else (False, 1)
    )


def test_the_start_of_a_drain_by_an_older_hook(agent: Agent) -> None:
    agent.ended()
    command = [sys.executable, "-I", "-m", "reflector", "--project", str(agent.project), "drain", "--background"]
    assert subprocess.run(command, env=agent.env(), capture_output=True).returncode == 0
    assert agent.counters()["pat-001"] == (1, 0)


def test_the_merge_driver_in_a_repositorys_configuration(agent: Agent, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("base", "ours", "theirs")]
    for path in files:
        path.write_bytes(agent.playbook.read_bytes())
    files[2].write_text(agent.playbook.read_text().replace("Keep functions small.", "Keep them small."))
    command = [sys.executable, "-I", "-m", "reflector.hooks.git_merge", *map(str, files)]
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert "Keep them small." in files[1].read_text()


def test_a_status_line(agent: Agent) -> None:
    agent.call("list")
    done = subprocess.run(
        [sys.executable, "-m", "reflector", "statusline"], env=agent.env(), cwd=agent.project, capture_output=True
    )
    assert done.stdout == b"playbook: 3 bullets\n"


def test_an_mcp_server_in_an_agents_configuration(agent: Agent) -> None:
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}) + "\n"
    command = [sys.executable, "-m", "reflector", "mcp"]
    done = subprocess.run(command, input=asked, env=agent.env(), cwd=agent.project, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "reflector"


def test_a_drain_of_cron_and_a_check_of_ci(agent: Agent, tmp_path: Path) -> None:
    agent.ended()
    agent.call("drain", "--retry-failed")
    assert agent.counters()["pat-001"] == (1, 0)
    (tmp_path / "head.txt").write_text(agent.call("head").out)
    agent.call("verify", "--anchor", tmp_path / "head.txt")
    agent.call("ingest", agent.home / "s-1.jsonl")
    assert "\n" in agent.call("export", "--format", "ndjson").out


def test_the_commands_of_the_plugin(agent: Agent) -> None:
    agent.counted()
    with Ledger.open_file(agent.ledger) as ledger:
        engine = ReflectionEngine(ledger=ledger)
        lesson = engine.store_lesson("api_design", "forgot auth", "always add auth middleware").lesson_id
    played = {
        "lesson-outcome": (["outcome", lesson, "good", "--why", "it helped", "--source", "human"], ["lessons"]),
        "playbook-add": (["list"], ["add", "pat", "Read the log first."]),
        "playbook-import-history": (["import-history", "--dry-run"], ["import-history", "--yes"], ["list"]),
        "playbook-why": (["blame", "pat-001"], ["session", "s-1"], ["list"]),
        "playbook": (["list"], ["show", "pat-001"]),
    }
    assert {path.stem for path in (PLUGIN / "commands").glob("*.md")} == set(played)
    for name, lines in played.items():
        allowed = set(re.findall(r"Bash\(reflector ([a-z-]+):", (PLUGIN / "commands" / f"{name}.md").read_text()))
        assert allowed <= {words[0] for words in lines}
        for words in lines:
            agent.call(*words)
