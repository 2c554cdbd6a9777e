"""The commands about lessons: list them, look at one, say what came of it, promote it."""

import pytest

from reflector.embed.lessons.recording import observe_outcome, record_lesson, record_told
from tests.road.agent import Agent


@pytest.fixture
def ids(agent: Agent) -> list[str]:
    """Two lessons with outcomes, one without."""
    with agent.open_ledger() as ledger:
        more = {"actor": "engine", "task": "api", "mistake": "forgot auth", "tags": ["web"]}
        first = record_lesson(ledger, "mistake", "Add \x1b[31mauth middleware", **more)  # type: ignore[arg-type]
        second = record_lesson(
            ledger, "reflection", "Look at the file first", actor="erl", issue="guessed the path"
        )
        third = record_lesson(ledger, "summary", "we talked about tests", actor="agent")
        for why in ("it passes", "it passes again"):
            observe_outcome(ledger, first, "success", why, source="tests")
        observe_outcome(ledger, second, "review_rejected", source="human")
        record_told(ledger, [first], via="retrieval", actor="engine", task="api")
    return [first, second, third]


def test_lessons_are_listed_with_their_worth(agent: Agent, ids: list[str]) -> None:
    assert ids[0][:8] in agent.call("lessons").out
    found = agent.json("lessons")
    assert [one["id"] for one in found] == ids
    assert (found[0]["effectiveness"], found[0]["worth"], found[0]["times_applied"]) == (
        0.68,
        [0.6, 0.68],
        1,
    )
    assert [one["due"] for one in found] == [True, False, False]
    then = agent.json("lessons", "--as-of", str(agent.json("show", ids[0])["position"]))
    assert [one["id"] for one in then] == ids[:1]


def test_a_lesson_shows_its_whole_life(agent: Agent, ids: list[str]) -> None:
    told = agent.call("show", ids[0][:8]).out
    for text in ("forgot auth", "it passes again", "advice.told", "confidence 0.86", "worth 0.68"):
        assert text in told
    kinds = [event["type"] for event in agent.json("show", ids[0])["events"]]
    assert kinds == ["lesson.recorded", "outcome.observed", "outcome.observed", "advice.told"]
    assert "session 'zz' is not recorded" in agent.call("show", "zz", code=2).err


def test_outcome_moves_the_worth_until_its_retraction(agent: Agent, ids: list[str]) -> None:
    told = agent.call("lessons", "outcome", ids[0][:8], "bad", "--why", "it was too slow").out
    assert "worth 0.68 → 0.54, confidence 0.86 → 0.74, active" in told
    outcome = agent.json("show", ids[0])["events"][-1]
    assert (outcome["data"]["source"], outcome["data"]["why"]) == ("human", "it was too slow")
    told = agent.call("undo", str(outcome["position"]), "--why", "it was the network")
    assert "worth 0.544 → 0.68" in told.out
    assert "No counter moved" not in told.out + told.err
    assert agent.json("show", ids[0])["effectiveness"] == 0.68
    assert ("no lesson has an id that begins with 'zz'") in agent.call(
        "lessons", "outcome", "zz", "good", "--why", "x", code=2
    ).err


def test_lesson_is_retracted_and_redacted_by_id(agent: Agent, ids: list[str]) -> None:
    agent.call("undo", ids[1][:12], "--why", "a test run")
    assert [one["state"] for one in agent.json("lessons")] == ["active", "retracted", "active"]
    agent.call("redact", ids[0][:12], "--why", "a customer is named", "--yes")
    one = agent.json("show", ids[0])
    assert (one["data"]["text"], one["data"]["mistake"], one["effectiveness"]) == (
        "[redacted]",
        "[redacted]",
        0.68,
    )
    agent.call("verify")


@pytest.mark.parametrize(
    ("decision", "state"), [((), "still waiting"), (("--why", "too broad"), "rejected")]
)
def test_lesson_shows_the_state_of_its_proposal(
    agent: Agent, ids: list[str], decision: tuple[str, ...], state: str
) -> None:
    agent.call("lessons", "promote", ids[0])
    proposed = agent.json("show", ids[0])["proposal"]
    if decision:
        agent.call("review", "reject", proposed, *decision)
    assert f"proposed as {proposed[:8]} ({state})" in agent.call("show", ids[0]).out
