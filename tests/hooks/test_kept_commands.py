"""Command lines that `install`, the plugin or a page put into people's files, where nobody will
change them.

A line of this table is never removed and never rewritten, whatever becomes of the commands that a
person types.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reflector.embed.lessons.recording import record_lesson
from reflector.hooks import fast
from tests.hooks.conftest import event
from tests.road.agent import Agent

FOLDER = Path(fast.__file__).parent


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


_PARAMS = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
_OPENING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _PARAMS})


@pytest.mark.parametrize(
    ("line", "stdin", "told"),
    [
        ("-I -m reflector --project . drain --background", "", ""),  # by an older hook
        ("-m reflector statusline", "", "playbook: 3 bullets"),
        ("-m reflector mcp", _OPENING, "serverInfo"),
    ],
)
def test_a_program_in_an_agents_configuration(
    agent: Agent, line: str, stdin: str, told: str
) -> None:
    agent.call("list")
    command, given = [sys.executable, *line.split()], f"{stdin}\n"
    done = subprocess.run(
        command, input=given, env=agent.env(), cwd=agent.project, capture_output=True, text=True
    )
    assert (done.returncode, told in done.stdout) == (0, True)


def test_the_lines_of_cron_of_ci_and_of_the_plugin(agent: Agent, tmp_path: Path) -> None:
    agent.ended()
    agent.call("drain", "--retry-failed")
    assert agent.counters()["pat-001"] == (1, 0)
    (tmp_path / "head.txt").write_text(agent.call("ledger", "head").out)
    with agent.open_ledger() as ledger:
        lesson = record_lesson(ledger, "mistake", "Add auth middleware", actor="engine")
    for line in (
        f"verify --anchor {tmp_path}/head.txt",
        f"ingest {agent.home}/s-1.jsonl",
        "export --format ndjson",
        f"lessons outcome {lesson} good --why helped",
        *(
            "lessons",
            "list",
            "add pat Read-the-log.",
            "import-history --dry-run",
            "import-history --yes",
        ),
        *("blame pat-001", "show s-1", "show pat-001"),
    ):
        agent.call(*line.split())
