"""A forked command is as good as a process that was started: what a test relies on is the same for both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import processes
from tests.processes import HOOK, REFLECTOR
from tests.road.agent import Agent


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ([*REFLECTOR, "list", "--json"], ""),
        ([*REFLECTOR, "nothing"], ""),
        (HOOK, json.dumps({"hook_event_name": "SessionStart", "session_id": "s"})),
    ],
)
def test_it_says_and_returns_the_same(agent: Agent, command: list[str], text: str) -> None:
    agent.call("drain")
    forked, started = (
        run(
            command,
            env=agent.env(REFLECTOR_NO_SPAWN="1"),
            input=text,
            capture_output=True,
            text=True,
            cwd=agent.project,
        )
        for run in (processes.run, subprocess.run)
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_it_has_a_session_and_a_folder_of_its_own_and_ends_by_a_signal(agent: Agent) -> None:
    agent.call("drain")
    process = agent.start("log", "--follow", start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    assert Path("/proc", str(process.pid), "cwd").resolve() == agent.project.resolve()
    assert os.getsid(process.pid) == process.pid
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
