"""`reflector judge`: what nothing decided waits for a person, whose word then counts instead of
others'.
"""

import random

import pytest

from tests.road.agent import Agent
from tests.road.sessions import Session

#: What a verdict counts: helpful, harmful.
WORTH = {"helpful": (1, 0), "harmful": (0, 1), "neutral": (0, 0)}


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """A project with a citation that nothing decided, and two that are."""
    for number, (name, verdict) in enumerate(
        [("pat-001", None), ("mis-001", "helpful"), ("pat-001", "harmful")]
    ):
        agent.counted(name, verdict, id=f"s-{number}")
    return agent


def undecided(agent: Agent, *more: str) -> list[tuple[str, str, str | None]]:
    return [(row["session_id"], row["name"], row["verdict"]) for row in agent.json("judge", *more)]


def test_a_citation_without_a_verdict_waits_until_a_person_judges_it_once_and_may_take_that_back(
    agent: Agent,
) -> None:
    agent.call("undo", "s-0", "--why", "a test run")
    assert undecided(agent) == []
    agent.call(
        "undo", str(agent.events("evidence.retracted")[-1]["position"]), "--why", "it was none"
    )
    assert undecided(agent) == [("s-0", "pat-001", "neutral")]
    agent.call("judge", "s-0", "pat-001", "helpful", "--why", "it found the bug")
    assert undecided(agent) == []
    assert agent.counters()["pat-001"] == (1, 1)
    assert "it found the bug" in agent.call("blame", "pat-001").out
    assert "no citation of pat-009" in agent.call("judge", "s-0", "pat-009", "harmful", code=1).err
    (tag,) = [one for one in agent.events("bullet.tagged") if one["actor"] == "human"]
    agent.call("undo", tag["event_id"], "--why", "a slip")
    agent.call("judge", "s-0", "pat-001", "harmful")
    assert agent.counters()["pat-001"] == (0, 2)
    assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""


@pytest.mark.parametrize(
    "seed", [14, 25, 43, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(60))]
)
def test_the_last_word_of_a_person_that_was_not_taken_back_is_what_a_session_says(
    agent: Agent, seed: int
) -> None:
    chance, said = random.Random(seed), []
    session, at_first = (
        Session("s-9").cites("mis-001", chance.choice([None, "helpful", "harmful"])),
        (1, 0),
    )
    agent.call("ingest", session.write(agent.home / "s-9.jsonl"))
    for _ in range(8):
        what, verdict = (
            chance.choice(["window", "judge", "undo"]),
            chance.choice(["helpful", "harmful", "neutral"]),
        )
        if what == "window":
            session.cites("mis-001", verdict)
            agent.call("ingest", session.write(agent.home / "s-9.jsonl"))
        elif what == "judge":
            agent.call("judge", "s-9", "mis-001", verdict)
            tags = [one for one in agent.events("bullet.tagged") if one["actor"] == "human"]
            said.append((tags[-1]["event_id"], verdict))
        elif said:
            agent.call("undo", said.pop()[0])
        helpful, harmful = (
            now - then for now, then in zip(agent.counters()["mis-001"], at_first, strict=True)
        )
        assert (helpful, harmful) == WORTH[said[-1][1]] if said else helpful + harmful <= 1
    assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""


def test_a_verdict_that_was_changed_and_one_that_was_taken_back_are_shown_and_come_back_by_undo(
    agent: Agent,
) -> None:
    assert ("s-1", "mis-001", "helpful") in undecided(agent, "--all")
    assert (
        agent.call("judge", "s-1", "mis-001", "harmful").err.splitlines()[0]
        == "mis-001 harmful in session s-1."
    )
    assert agent.counters()["mis-001"] == (0, 1)
    assert "a person judged it: harmful" in agent.call("blame", "mis-001").out
    assert "All counting policies agree" in agent.call("stats", "--doubles").out
    agent.call("judge", "s-1", "mis-001", "neutral")
    at = agent.events("evidence.retracted")[-1]["position"]
    assert f"mis-001 harmful (retracted at {at})" in agent.call("show", "mis-001").out
    said = agent.events("bullet.tagged")[-1]["event_id"]
    taken = agent.json("undo", said, "--why", "a slip")["changes"]
    assert agent.counters()["mis-001"] == (0, 1)
    agent.call("undo", str(taken[0]["position"]), "--why", "it was right")
    assert agent.counters()["mis-001"] == (0, 0)


def test_one_key_judges_and_the_evidence_is_shown(agent: Agent) -> None:
    agent.counted("pat-002", None, id="s-4")
    ran = agent.call("judge", typed="x\nf\nh\ns\n")
    assert "1 of 2  [pat-002]" in ran.out
    assert "As [pat-002] says, I change how the cart adds up its total." in ran.out
    assert ran.err.count("Undo: reflector undo ") == 1
    assert "1 verdict recorded; 1 left." in ran.err
    assert agent.counters()["pat-002"] == (4, 1)


def test_words_that_name_no_citation_say_how_to_find_one(agent: Agent) -> None:
    assert (
        "no session 'x' is recorded" in agent.call("judge", "x", "pat-001", "helpful", code=2).err
    )
    assert (
        "could be session s-0, s-1, s-2"
        in agent.call("judge", "s", "pat-001", "helpful", code=2).err
    )
    assert "needs all three" in agent.call("judge", "s-0", "pat-001", code=2).err
