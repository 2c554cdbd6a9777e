"""`prune`: only evidence removes a bullet, and a person decides unless the settings say otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.road.agent import Agent
from tests.road.sessions import Session

BULLETS = {
    "OTHERS": [
        {"name": "oth-001", "text": "Restart it.", "helpful": 1, "harmful": 4},
        {"name": "oth-002", "text": "Disable the cache.", "helpful": 3, "harmful": 3},
        {"name": "oth-003", "text": "Read the log.", "helpful": 0, "harmful": 0},
        {"name": "oth-004", "text": "Ask Ada.", "helpful": 7, "harmful": 0},
    ]
}


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent.in_folder(tmp_path, BULLETS)


def _sessions(agent: Agent, count: int, *, told: bool) -> None:
    printed = agent.hook("SessionStart")
    paths = []
    for number in range(count):
        session = Session(f"{told}-{number}")
        session = (session.starts(printed) if told else session).cites("oth-002", None)
        paths.append(session.write(agent.home / f"{session.id}.jsonl"))
    agent.call("ingest", *paths)


def _named(agent: Agent, *options: str) -> list[str]:
    return [one["name"] for one in agent.json("prune", "--dry-run", *options)]


def test_what_harms_is_named_and_what_nobody_judged_is_not(agent: Agent) -> None:
    assert _named(agent) == ["oth-001"]
    shown = agent.call("prune", "--dry-run")
    assert "harmful 4, helpful 1" in shown.out
    assert [event["type"] for event in agent.events()] == ["playbook.imported"]


def test_what_was_told_and_never_cited_is_named_and_what_was_not_told_is_not(agent: Agent) -> None:
    _sessions(agent, 3, told=False)
    assert _named(agent, "--after", "3") == ["oth-001"]
    _sessions(agent, 3, told=True)
    assert _named(agent, "--after", "3") == ["oth-001", "oth-003"]
    assert _named(agent, "--after", "4") == ["oth-001"]
    assert _named(agent, "--after", "0") == ["oth-001"]
    agent.call("config", "set", "pinned", "oth-003")
    assert _named(agent, "--after", "3") == ["oth-001"]


def test_a_removal_is_proposed_once_and_a_rejected_one_stays_rejected(agent: Agent) -> None:
    (one,) = agent.json("prune")
    assert one["state"] == "waiting"
    (proposal,) = agent.json("proposals")
    assert agent.json("prune")[0]["state"] == "waiting"
    agent.call("proposals", "reject", proposal["id"], "--why", "we need it")
    assert agent.json("prune")[0]["state"] == "rejected"
    assert "oth-001" in agent.counters()
    assert agent.json("proposals") == []


def test_applied_at_once_the_bullet_goes_and_says_why(agent: Agent) -> None:
    (one,) = agent.json("prune", "--apply")
    assert one["state"] == "removed"
    assert "oth-001" not in agent.counters()
    assert agent.json("show", "oth-001")["reason"] == "pruned: harmful 4, helpful 1"
    assert agent.json("prune") == []


def test_a_repositorys_own_settings_do_not_remove_bullets_at_once(agent: Agent) -> None:
    (agent.claude / "reflector.toml").write_text('prune = "apply"\n')
    assert "prune is 'apply', which is yours to say" in agent.call("prune", code=2).err


def test_a_bullet_that_was_told_often_since_it_helped_is_shown_as_demoted(agent: Agent) -> None:
    _sessions(agent, 20, told=True)
    assert "demoted: told 20 times since it last helped" in agent.call("show", "oth-004").out
    assert "demoted: told 20 times and never helped" in agent.call("show", "oth-003").out
    (one,) = [one for one in agent.json("list") if one["name"] == "oth-004"]
    assert (one["told_sessions"], one["demoted"]) == (20, "told 20 times since it last helped")
    last = Session("thanks").starts(agent.hook("SessionStart")).cites("oth-004")
    agent.call("ingest", last.write(agent.home / "thanks.jsonl"))
    assert "demoted" not in agent.call("show", "oth-004").out
    agent.call("config", "set", "pinned", "oth-003")
    assert agent.json("show", "oth-003")["demoted"] is None
