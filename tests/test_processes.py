"""A forked command is as good as a process that was started: what a test relies on is the same for both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.processes import HOOK, REFLECTOR
from tests.road.agent import Agent

START = json.dumps({"hook_event_name": "SessionStart", "session_id": "s"})


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ([*REFLECTOR, "list", "--json"], None),
        ([*REFLECTOR, "add", "pat", ""], None),
        ([*REFLECTOR, "nothing"], None),
        ([*REFLECTOR, "judge"], ""),
        (HOOK, START),
        (HOOK, '{"hook_event_name": "Stop", "transcript_path": "/nowhere"}'),
    ],
    ids=lambda value: " ".join(value[3:]) or "hook" if isinstance(value, list) else None,
)
def test_it_says_and_returns_the_same(agent: Agent, command: list[str], text: str | None) -> None:
    options: dict[str, Any] = {"input": text, "capture_output": True, "text": True, "cwd": agent.project}
    agent.call("drain")
    forked = processes.run(command, env=agent.env(REFLECTOR_NO_SPAWN="1"), **options)
    started = subprocess.run(command, env=agent.env(REFLECTOR_NO_SPAWN="1"), **options)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_it_is_a_child_with_its_own_session_folder_and_environment(agent: Agent) -> None:
    agent.call("drain")
    process = agent.start("log", "--follow", start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    proc = Path("/proc", str(process.pid))
    if proc.is_dir():
        assert (proc / "cwd").resolve() == agent.project.resolve()
        assert {fd.name for fd in (proc / "fd").iterdir()} >= {"0", "1", "2"}
        assert f"PPid:\t{os.getpid()}\n" in (proc / "status").read_text()
    assert os.getsid(process.pid) == process.pid
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_a_command_line_of_something_else_is_started_as_ever(tmp_path: Path) -> None:
    done = processes.run(["sh", "-c", "echo $0; exit 3"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "sh\n")
