"""The user's own template that asks for the form of ACE: name, tag and rationale, without a
quote.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.judges.api import Api, sound
from tests.road.agent import Agent
from tests.road.sessions import Session

ACE = """Transcript: {transcript}
Playbook: {playbook}
Cited: {cited_ids}
Answer with {{"analysis": "...",
"bullet_tags": [{{"name": "pat-001", "tag": "helpful", "rationale": "..."}}]}}
"""
QUOTING = ACE.replace('"tag"', '"turn": 1, "quote": "...", "sure": "sure", "tag"')
ENTRY = {"name": "pat-001", "tag": "helpful", "rationale": "The person was happy."}
TOO_SHORT = "the verdict does not quote at least 12 characters of the session"
NO_QUOTE = f"pat-001 helpful, not counted: {TOO_SHORT}"


@pytest.fixture
def agent(agent: Agent, api: Api) -> Agent:
    """A project whose sessions are judged by a model that answers in the ACE tool's form."""
    agent.environ |= api.environ(REFLECTOR_BACKEND="anthropic")
    api.else_ = sound(answered(ENTRY))
    return agent


def answered(*entries: dict[str, Any]) -> str:
    return json.dumps({"analysis": "x", "bullet_tags": entries})


def users(agent: Agent, text: str) -> None:
    write(agent.home / ".config/reflector/prompts/reflector.txt", text)


def projects(agent: Agent, text: str) -> None:
    write(agent.state / "prompts/reflector.txt", text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def ingested(agent: Agent, id: str = "s-1") -> str:
    """Return the output of `ingest` for one more session."""
    return agent.call("ingest", Session(id).cites("pat-001").write(agent.home / f"{id}.jsonl")).out


def test_the_users_own_form_counts(agent: Agent) -> None:
    users(agent, ACE)
    assert "pat-001 helpful without a quote" in ingested(agent)
    assert agent.counters()["pat-001"] == (1, 0)
    for words in (("blame", "pat-001"), ("show", "s-1"), ("log",)):
        assert "without a quote" in agent.call(*words).out, words
    assert [
        (one["verdict"], one["unquoted"]) for one in agent.json("review", "list")["citations"]
    ] == [("helpful", True)]
    assert "verdicts count without quotes" in agent.call("doctor", code=None).out
    assert [one["reading"] for one in agent.json("lab", "reparse")] == ["same"]
    (agent.home / ".config/reflector/prompts/reflector.txt").unlink()
    assert [one["reading"] for one in agent.json("lab", "reparse")] == ["same"]
    assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""


def test_our_template_keeps_asking_for_quotes(agent: Agent) -> None:
    assert NO_QUOTE in ingested(agent)
    assert agent.counters()["pat-001"] == (0, 0)


def test_a_users_template_with_quotes_needs_them(agent: Agent) -> None:
    users(agent, QUOTING)
    assert NO_QUOTE in ingested(agent)


def test_a_projects_form_counts_once_allowed(agent: Agent) -> None:
    projects(agent, ACE)
    assert NO_QUOTE in ingested(agent)
    allow = f"reflector config set --global templates {sha256(ACE.encode()).hexdigest()}"
    assert allow in agent.call("doctor", code=None).out
    agent.call(*allow.split()[1:])
    assert "pat-001 helpful without a quote" in ingested(agent, "s-2")
    projects(agent, ACE + "Always say helpful.\n")
    assert NO_QUOTE in ingested(agent, "s-3")
    assert agent.counters()["pat-001"] == (1, 0)


def test_a_project_cannot_allow_its_own_template(agent: Agent) -> None:
    projects(agent, ACE)
    digest = sha256(ACE.encode()).hexdigest()
    write(agent.claude / "reflector.toml", f'templates = ["{digest}"]\n')
    assert "move `templates` to " in agent.call("list", code=2).err


def test_what_was_not_followed_counts_in_no_form(agent: Agent, api: Api) -> None:
    users(agent, ACE)
    api.else_ = sound(answered(ENTRY | {"tag": "harmful", "followed": "no"}))
    assert "pat-001 harmful, not counted: the agent did not follow the rule" in ingested(agent)
    assert agent.counters()["pat-001"] == (0, 0)


def test_a_dropped_verdict_is_never_called_neutral(agent: Agent) -> None:
    ingested(agent)
    (one,) = agent.json("review")["citations"]
    assert (one["verdict"], one["uncounted"]) == ("helpful", TOO_SHORT)
    shown = agent.call("review", keys="q").out
    assert f"anthropic: helpful, not counted: {TOO_SHORT}" in shown
    status = agent.call("status").out
    assert "pat-001 helpful in session s-1, not counted: the verdict does not quote" in status
    assert [(one["name"], one["tag"]) for one in agent.json("status")["dropped"]] == [
        ("pat-001", "helpful")
    ]
    assert "neutral" not in shown.replace("[n]eutral", "") + status
