"""What a person takes back, from the command to playbook.json and what the agent is told."""

from __future__ import annotations

import pytest

from tests.road.agent import Agent


@pytest.fixture
def judged(agent: Agent) -> Agent:
    """pat-001 was helpful once, pat-002 harmful once on top of its 3/1."""
    agent.counted()
    agent.counted("pat-002", "harmful", id="s-2")
    return agent


def test_a_retracted_session_counts_no_more_in_playbook_json_and_its_undo_brings_it_back(judged: Agent) -> None:
    before = judged.playbook.read_text()
    told = judged.call("undo", "s-2", "--why", "a test session")
    assert [line[:31] for line in told.out.splitlines()] == [
        "- [pat-002] helpful=3 harmful=2",
        "+ [pat-002] helpful=3 harmful=1",
    ]
    assert judged.counters()["pat-002"] == (3, 1)
    (event,) = judged.events("evidence.retracted")
    assert event["data"] == {"reason": "a test session"}
    (step,) = [step for step in judged.json("blame", "pat-002") if step["tag"] == "harmful"]
    assert (step["counted"], step["uncounted_by"]["reason"]) == (False, "a test session")
    judged.call("undo", event["event_id"][:9], "--why", "it was none")
    assert judged.counters()["pat-002"] == (3, 2)
    assert judged.playbook.read_text().replace(last_updated(judged), "") == before.replace(last_updated(before), "")
    judged.call("verify")


def last_updated(of: Agent | str) -> str:
    import json

    return str(json.loads(of if isinstance(of, str) else of.playbook.read_text())["last_updated"])


def test_what_was_retracted_or_not_is_told(judged: Agent) -> None:
    judged.call("undo", "s-2", "--why", "a test session")
    again = judged.call("undo", "s-2", "--why", "again", code=1)
    assert "(a test session)" in again.err
    (event,) = judged.events("evidence.retracted")
    assert f"put it back with `reflector undo {event['position']}`" in again.err
    assert "could be session s-1, session s-2" in judged.call("undo", "s-", "--why", "x", code=2).err


def test_a_tag_that_never_counted_moves_nothing(judged: Agent) -> None:
    judged.counted("mis-001", None, id="n-1")
    ran = judged.call("undo", "n-1", "--why", "nothing came of it")
    assert "No counter moved" in ran.err


def test_counters_are_pinned_where_they_stand_and_nowhere_else(judged: Agent) -> None:
    assert "pat-002 is at 3/2, not at 3/1" in judged.call("ledger", "assert", "pat-002", "3/1", code=1).err
    assert judged.events("bullet.asserted") == []
    judged.call("ledger", "assert", "pat-002", "3/2")
    judged.call("undo", "s-2", "--why", "the balance of then stays true")
    judged.counted("pat-002", id="s-3")
    judged.call("ledger", "assert", "pat-002", "4/1")
    judged.call("verify")
    assert [event["data"]["helpful"] for event in judged.events("bullet.asserted")] == [3, 4]
