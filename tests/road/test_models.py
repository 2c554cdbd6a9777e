"""Sessions that a model judges in the whole pipeline: real hooks and processes, and a stand-in for
the API on loopback.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.judges.api import Api, answer, error, sound
from tests.road.agent import Agent
from tests.road.sessions import Session

HELPFUL = answer(("pat-001", "helpful"))


@pytest.fixture
def api(api: Api) -> Api:
    """An API that answers for every session that pat-001 was helpful."""
    api.else_ = sound(HELPFUL)
    return api


@pytest.fixture
def agent(agent: Agent, api: Api) -> Agent:
    """A project whose user has chosen the model, with one ended session that cites pat-001."""
    agent.environ = {"REFLECTOR_BACKEND": "anthropic", **api.environ()}
    end(agent, Session("s-1").cites("pat-001"))
    return agent


def end(agent: Agent, session: Session, **fields: Any) -> None:
    """Let a session end. Its transcript is next to the project."""
    path = session.write(agent.project.parent / f"{session.id}.jsonl")
    event = fields.pop("event", "SessionEnd")
    key = "agent_transcript_path" if event == "SubagentStop" else "transcript_path"
    agent.hook(event, **{"reason": "other", "session_id": session.id, key: str(path)} | fields)


def reasons(agent: Agent) -> list[str]:
    """Return the reasons why windows were skipped."""
    return [event["data"]["reason"] for event in agent.events("reflection.skipped")]


def test_model_judges_a_session_with_its_cost_recorded(agent: Agent, api: Api) -> None:
    ran = agent.call("drain")
    assert (ran.out, ran.err) == ("pat-001 helpful\n", "")
    assert agent.counters()["pat-001"] == (1, 0)
    (answered,) = agent.events("reflection.answered")
    said, meta = answered["data"], answered["meta"]
    assert (said["backend"], said["model"], said["answer"]) == (
        "anthropic",
        "claude-sonnet-5-5",
        HELPFUL,
    )
    assert (meta["input_tokens"], meta["output_tokens"], meta["requests"]) == (1200, 80, 1)
    assert agent.call("drain").out == ""
    assert len(api.asked) == 1
    assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""


@pytest.mark.slow
def test_hanging_api_blocks_neither_hooks_nor_commands(agent: Agent, api: Api) -> None:
    api.else_ = replace(sound(HELPFUL), silent=True)
    end(agent, Session("s-1").cites("pat-001"), spawn=True)
    api.wait_until_asked()
    assert "pat-001" in agent.call("list").out
    agent.call("add", "pat", "Read the log first.")
    end(agent, Session("s-2").cites("pat-001"))
    # records the second session and leaves the model to the other drain
    agent.call("drain", "--background")
    assert (len(agent.events("session.recorded")), agent.deliveries()) == (2, [])
    # All this was done while the first drain still waited.
    assert agent.events("reflection.failed") == agent.events("reflection.answered") == []
    # The API wakes up: the drain that waited for it finishes both.
    api.reset()
    api.else_ = sound(HELPFUL)
    agent.wait_until(lambda: len(agent.events("reflection.completed")) == 2)
    assert agent.call("verify").out == ""


@pytest.mark.slow
def test_declined_session_is_asked_again_by_hand(agent: Agent, api: Api) -> None:
    api.else_ = sound("", stop_reason="refusal")
    ran = agent.call("drain", code=1)
    assert (
        "does not try again automatically (see `reflector status`): answer: the model declined"
    ) in ran.err
    agent.call("drain", "--retry-failed")
    assert len(api.asked) == 1
    (failure,) = agent.json("status", code=1)["failures"]
    assert failure["command"] == "reflector reflect s-1"
    assert "to try again: reflector reflect s-1\n" in agent.call("status", code=1).out
    # The displayed command works: it asks the same model, or another one.
    agent.call("reflect", "s-1", code=1)
    assert len(api.asked) == 2
    api.else_ = sound(HELPFUL, model="claude-opus-5-5")
    agent.environ["REFLECTOR_MODEL"] = "claude-opus-5-5"
    assert "pat-001 helpful" in agent.call("reflect", "s-1").out
    assert [asked.body["model"] for asked in api.asked] == ["claude-sonnet-5-5"] * 2 + [
        "claude-opus-5-5"
    ]
    assert [event["data"]["iteration"] for event in agent.events("reflection.answered")] == [
        1,
        2,
        3,
    ]
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.json("status")["failures"] == []
    assert agent.call("verify").out == ""


@pytest.mark.slow
def test_ingest_fails_if_a_session_stays_unjudged(agent: Agent, api: Api) -> None:
    agent.call("drain")
    api.else_ = error(401, "authentication_error")
    path = Session("s-2").cites("pat-001").write(agent.project.parent / "s-2.jsonl")
    ran = agent.call("ingest", path, code=1)
    assert "check the API key" in ran.out
    assert agent.call("ingest", path, code=1).out.count("nothing new") == 1
    api.else_ = sound(HELPFUL)
    agent.call("ingest", path)
    assert agent.counters()["pat-001"] == (2, 0)


@pytest.mark.slow
def test_api_is_left_alone_until_it_said(agent: Agent, api: Api) -> None:
    end(agent, Session("s-2").cites("pat-001"))
    api.else_ = error(429, "rate_limit_error", **{"retry-after": "5000"})
    agent.call("drain", code=1)
    (failure,) = agent.json("status", code=1)["failures"]
    waits = datetime.fromisoformat(failure["next_try"]) - datetime.fromisoformat(
        failure["failed_at"]
    )
    assert timedelta(seconds=4000) < waits <= timedelta(seconds=5001)
    # Neither this session nor another one is sent to the model unless the user asks for it.
    end(agent, Session("s-3").cites("pat-001"))
    api.else_ = sound(HELPFUL)
    agent.call("drain")
    agent.call("drain", "--background")
    assert len(api.asked) == 1
    agent.call("reflect", "s-2")
    assert len(api.asked) == 2
    agent.call("drain", "--retry-failed")
    assert agent.counters()["pat-001"] == (3, 0)
