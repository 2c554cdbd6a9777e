"""`replay --ranking`: what recorded sessions would have been told, and what that would have cost."""

from __future__ import annotations

from pathlib import Path

from tests.road.agent import Agent
from tests.road.sessions import Session


def test_another_ranking_shows_which_citations_would_have_been_lost(tmp_path: Path) -> None:
    bullets = [{"name": f"oth-{n:03d}", "text": f"{n} " + "x" * 300, "helpful": 0, "harmful": 0} for n in range(60)]
    agent = Agent.in_folder(tmp_path, {"OTHERS": bullets})
    printed = agent.hook("SessionStart")
    told = [line[1:8] for line in printed.splitlines() if line.startswith("[oth-")]
    assert 20 < len(told) < 40
    last = max(told)
    agent.call("ingest", Session("s-1").starts(printed).cites(last, None).write(agent.home / "1.jsonl"))
    before = agent.events()
    same = agent.json("replay", "--ranking", "balanced")
    assert [(one["added"], one["dropped"], one["lost"]) for one in same["texts"]] == [([], [], [])]
    other = agent.json("replay", "--ranking", "best")
    assert other["texts"][0]["cited"] == other["texts"][0]["lost"] == [last]
    assert (other["cited"], other["lost"]) == (1, 1)
    shown = agent.call("replay", "--ranking", "best")
    assert last in shown.out
    assert "1 of 1 text would differ; 1 of 1 citation would have been lost." in shown.err
    assert agent.call("replay", "--ranking", "best", "--counting", "as_applied", code=2).err
    assert agent.events() == before
