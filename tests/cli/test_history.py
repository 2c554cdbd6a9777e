"""The sessions from before: found, shown, taken in once, oldest first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.road.agent import Agent
from tests.road.sessions import Session


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A project with a playbook, and a client that still has three of its sessions and one of another."""
    agent = Agent.in_folder(tmp_path)
    for number, (day, place) in enumerate([(3, agent.project), (1, agent.project / "src"), (2, agent.project)]):
        keep(agent, f"s-{number}", f"2026-01-0{day}", place)
    keep(agent, "other", "2026-01-01", tmp_path / "other")
    return agent


def keep(agent: Agent, name: str, day: str, cwd: Path) -> None:
    """Put a session into the client's folder, under a name that says nothing."""
    path = Session(name).cites("pat-001", "helpful").write(agent.home / ".claude" / "projects" / "x" / f"{name}.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record["cwd"] = str(cwd)
        if "timestamp" in record:
            record["timestamp"] = day + record["timestamp"][10:]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def sessions(agent: Agent) -> list[str]:
    return [event["session_id"] for event in agent.json("log", "--type", "session.recorded", "--all")]


def test_the_projects_own_sessions_are_taken_in_once_oldest_first(agent: Agent) -> None:
    told = agent.call("import-history")
    assert "3 of 3 files had something new" in told.err
    assert sessions(agent) == ["s-1", "s-2", "s-0"]
    assert agent.counters()["pat-001"] == (3, 0)
    assert "0 of 3 files had something new" in agent.call("import-history").err
    assert agent.counters()["pat-001"] == (3, 0)


def test_a_dry_run_shows_what_would_be_taken_in_and_takes_nothing(agent: Agent) -> None:
    told = agent.call("import-history", "--dry-run").out
    assert "2026-01-01  2026-01-03" in told
    assert not agent.ledger.exists()


def test_older_sessions_are_left_out_on_request(agent: Agent) -> None:
    agent.call("import-history", "--since", "2026-01-02")
    assert sessions(agent) == ["s-2", "s-0"]


def test_all_projects_that_still_exist_get_their_own_sessions(agent: Agent, tmp_path: Path) -> None:
    other = Agent(tmp_path / "other", agent.home)
    other.claude.mkdir(parents=True)
    keep(agent, "gone", "2026-01-01", tmp_path / "gone")
    (agent.project / "src").mkdir()
    told = agent.call("import-history", "--all").err
    assert "1 sessions left out: their folder is gone" in told
    assert sessions(agent) == ["s-1", "s-2", "s-0"]
    assert sessions(other) == ["other"]


def test_a_file_that_cannot_be_taken_in_is_named_and_stops_nothing(agent: Agent) -> None:
    path = agent.home / ".claude" / "projects" / "x" / "bad.jsonl"
    path.write_text(json.dumps({"cwd": str(agent.project), "kind": "nobody's"}) + "\n")
    told = agent.call("import-history", code=1)
    assert "bad.jsonl" in told.err
    assert agent.counters()["pat-001"] == (3, 0)


def test_nobody_is_asked_for_money_without_a_yes(agent: Agent) -> None:
    told = agent.call("import-history", "--backend", "anthropic", code=2).err
    assert "up to 3 sessions" in told
    assert "--yes" in told
    assert not agent.ledger.exists()


def test_where_nothing_lies_it_says_so(agent: Agent, tmp_path: Path) -> None:
    assert "is no folder" in agent.call("import-history", "--folder", str(tmp_path / "none"), code=1).err
    (tmp_path / "empty").mkdir()
    assert "No sessions of this project" in agent.call("import-history", "--folder", str(tmp_path / "empty")).err
