"""`reflector judge`: what nothing decided waits for a person, whose word then counts instead of others'."""

from __future__ import annotations

import json
from pathlib import Path

from tests.road.agent import Agent
from tests.road.sessions import Session


def counters(agent: Agent, name: str) -> tuple[int, int]:
    row = next(row for row in json.loads(agent.call("list", "--json").out) if row["name"] == name)
    return row["helpful"], row["harmful"]


def undecided(agent: Agent, *more: str) -> list[tuple[str, str, str | None]]:
    rows = json.loads(agent.call("judge", "--json", *more).out)
    return [(row["session_id"], row["name"], row["verdict"]) for row in rows]


def lived(agent: Agent) -> None:
    for number, (name, verdict) in enumerate([("pat-001", None), ("mis-001", "helpful"), ("pat-001", "harmful")]):
        agent.counted(name, verdict, id=f"s-{number}")


def test_a_citation_without_a_verdict_waits_until_a_person_judges_it(agent: Agent) -> None:
    lived(agent)
    assert undecided(agent) == [("s-0", "pat-001", "neutral")]
    agent.call("judge", "s-0", "pat-001", "helpful", "--why", "it found the bug")
    assert undecided(agent) == []
    assert counters(agent, "pat-001") == (1, 1)
    assert "it found the bug" in agent.call("blame", "pat-001").out
    assert agent.call("verify").out == ""
    assert agent.call("rebuild", "--check").code == 0


def test_a_persons_verdict_counts_instead_of_another(agent: Agent) -> None:
    lived(agent)
    assert counters(agent, "mis-001") == (1, 0)
    assert ("s-1", "mis-001", "helpful") in undecided(agent, "--all")
    agent.call("judge", "s-1", "mis-001", "harmful")
    assert counters(agent, "mis-001") == (0, 1)
    assert "a person judged it: harmful" in agent.call("blame", "mis-001").out
    assert "All counting policies agree" in agent.call("double-counts").out


def test_a_verdict_is_given_once_and_can_be_taken_back(agent: Agent) -> None:
    lived(agent)
    agent.call("judge", "s-0", "pat-001", "helpful")
    assert "no citation of pat-001" in agent.call("judge", "s-0", "pat-001", "harmful", code=1).err
    log = json.loads(agent.call("log", "--json").out)
    tag = next(one for one in log if one["type"] == "bullet.tagged" and one["actor"] == "human")
    agent.call("undo", tag["event_id"], "--why", "a slip")
    assert counters(agent, "pat-001") == (0, 1)
    agent.call("judge", "s-0", "pat-001", "harmful")
    assert counters(agent, "pat-001") == (0, 2)


def test_later_windows_of_the_session_leave_a_persons_verdict_alone(agent: Agent, tmp_path: Path) -> None:
    session = Session("s-0").cites("pat-001", None)
    agent.call("ingest", session.write(tmp_path / "0.jsonl"))
    agent.call("judge", "s-0", "pat-001", "neutral")
    session.user("Perfect, that works. Thanks!").agent("Glad to hear it.")
    agent.call("ingest", session.write(tmp_path / "0.jsonl"))
    assert counters(agent, "pat-001") == (0, 0)


def test_one_key_judges_and_the_evidence_is_shown(agent: Agent) -> None:
    lived(agent)
    agent.counted("pat-002", None, id="s-4")
    process = agent.start("judge", stdin=-1)
    out, err = process.communicate("x\nf\nh\ns\n")
    assert process.returncode == 0
    assert "1 of 2  [pat-002]" in out
    assert "As [pat-002] says, I change how the cart adds up its total." in out
    assert "1 verdict recorded; 1 left." in err
    assert counters(agent, "pat-002") == (4, 1)


def test_the_end_of_the_input_quits(agent: Agent) -> None:
    lived(agent)
    process = agent.start("judge", stdin=-1)
    process.communicate("")
    assert process.returncode == 0
    assert undecided(agent) == [("s-0", "pat-001", "neutral")]


def test_words_that_name_no_citation_say_how_to_find_one(agent: Agent) -> None:
    lived(agent)
    assert "no sessions begin with 'x'" in agent.call("judge", "x", "pat-001", "helpful", code=1).err
    assert "3 sessions begin" in agent.call("judge", "s", "pat-001", "helpful", code=1).err
    assert "needs all three" in agent.call("judge", "s-0", "pat-001", code=2).err
    agent.call("judge", "--since", "s-2")
    assert undecided(agent, "--since", "s-0") == []
