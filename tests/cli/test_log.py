"""`reflector log --follow`: what comes is told as it comes, until Ctrl-C."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.road.agent import Agent


def test_what_comes_is_told_as_it_comes_and_ctrl_c_ends_it_quietly(agent: Agent) -> None:
    agent.call("drain")
    agent.counted()
    process = agent.start("log", "--follow", "--type", "bullet.tagged", "--json")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    agent.counted("mis-001", "harmful", id="s-2")
    second = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")
    assert [event["data"]["name"] for event in (first, second)] == ["pat-001", "mis-001"]
    assert first["position"] < second["position"]


def test_a_person_is_told_a_line_an_event(agent: Agent) -> None:
    agent.call("drain")
    process = agent.start("log", "--follow")
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert "playbook.imported" in line


def test_there_must_be_something_to_follow(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    assert "no ledger to follow" in Agent(project, home).call("--project", project, "log", "--follow", code=2).err


def test_the_number_of_events_is_a_limit_too(agent: Agent) -> None:
    agent.call("add", "pat", "Read the log.")
    assert len(agent.json("log", "-n", "1")) == 1
