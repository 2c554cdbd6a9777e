"""Reflections by hand: failed ones are listed, tried, let go, and read again without asking
again.
"""

import json
from pathlib import Path

import pytest

from reflector.judges import answers
from reflector.judges.backends.fixtures import request_sha256
from reflector.judges.rules.judge import RulesBackend
from reflector.reflection.runner import Runner
from tests.judges.api import answer
from tests.road.agent import Agent

SAID = answer(("pat-001", "helpful"))


@pytest.fixture
def agent(agent: Agent, tmp_path: Path) -> Agent:
    """A project whose reflector answers from a file, with one session that cites pat-001."""
    agent.environ |= {
        "REFLECTOR_BACKEND": "fixtures",
        "REFLECTOR_FIXTURES": str(tmp_path / "answers.jsonl"),
    }
    (tmp_path / "answers.jsonl").touch()
    agent.ended()
    agent.call("drain", code=1)
    return agent


def say(agent: Agent, text: str) -> None:
    """Record the answer to every open request."""
    with agent.open_ledger() as ledger:
        runner = Runner(ledger, RulesBackend())
        for window in ledger.windows():
            asked = runner.request(runner.session(ledger.event(window.event_id)))
            line = {"prompt_hash": request_sha256(asked), "completion": text}
            with Path(agent.environ["REFLECTOR_FIXTURES"]).open("a") as file:
                file.write(json.dumps(line) + "\n")


def test_drain_by_hand_skips_the_backoff(agent: Agent) -> None:
    agent.call("drain", "--background")
    (failure,) = agent.json("status", code=1)["failures"]
    assert (failure["session_id"], failure["state"], failure["attempts"]) == ("s-1", "failed", 1)
    assert "does not contain an answer to this request" in agent.call("status", code=1).out
    agent.call("drain", code=1)
    assert agent.json("status", code=1)["failures"][0]["attempts"] == 2
    say(agent, SAID)
    agent.call("drain")
    assert agent.json("status")["failures"] == []
    assert agent.counters()["pat-001"] == (1, 0)


def test_session_is_judged_by_hand_after_any_failure(agent: Agent) -> None:
    agent.call("review", "give-up", "s-1", "--why", "the file is lost")
    agent.call("drain", "--retry-failed")
    (failure,) = agent.json("status", code=1)["failures"]
    assert (failure["state"], failure["stage"], failure["message"]) == (
        "given_up",
        "given up",
        "the file is lost",
    )
    assert failure["next_try"] is None
    say(agent, SAID)
    assert "pat-001 helpful" in agent.call("reflect", "s-1").out
    assert agent.json("reflect")["reflected"] == []
    assert "Already judged" in agent.call("reflect", "s-1").err
    assert (
        "Session s-1 is not waiting for a judge."
        in agent.call("review", "give-up", "s-1", "--why", "no").err
    )
    assert agent.counters()["pat-001"] == (1, 0)


def test_lab_record_keeps_answers_as_fixtures(agent: Agent, tmp_path: Path) -> None:
    say(agent, SAID)
    kept = tmp_path / "kept.jsonl"
    assert "pat-001 helpful" in agent.call("lab", "record", kept, "s-1").out
    agent.ended("pat-001", id="s-2")
    agent.environ["REFLECTOR_FIXTURES"] = str(kept)
    assert json.loads(kept.read_text())["completion"] == SAID


def test_judge_is_an_agent_of_the_list(agent: Agent) -> None:
    shown = agent.call("reflect", "s-1", "--judge", "codex", "--dry-run")
    assert "Nothing was sent" in shown.err
    refused = agent.call("reflect", "--judge", "cursor", code=2).err
    for name in ("rules", "agent", "anthropic", "fixtures", "claude", "codex"):
        assert f"'{name}'" in refused


def test_named_session_is_judged_above_the_daily_limit(agent: Agent) -> None:
    agent.environ["REFLECTOR_DAILY_REQUESTS"] = "1"
    say(agent, SAID)
    assert "pat-001 helpful" in agent.call("reflect", "s-1").out


def test_dry_run_shows_the_prompt_and_sends_nothing(agent: Agent) -> None:
    before = agent.json("status", code=1)
    shown = agent.call("reflect", "s-1", "--judge", "anthropic", "--dry-run")
    assert "Write the failing test first." in shown.out
    assert (shown.err.startswith("The prompt has about "), "Nothing was sent" in shown.err) == (
        True,
        True,
    )
    assert agent.json("status", code=1) == before


def test_unreadable_answer_is_read_by_a_better_parser(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(agent, "pat-001 was helpful, I think.")
    agent.call("drain", code=1)
    assert agent.json("status", code=1)["failures"][0]["stage"] == "parse"
    assert [one["reading"] for one in agent.json("lab", "reparse")] == ["unreadable"]
    better = answers.parse_answer
    monkeypatch.setattr(
        answers, "parse_answer", lambda text: better(SAID if "I think" in text else text)
    )
    assert len(agent.json("lab", "reparse", "--dry-run")) == 1
    assert agent.counters()["pat-001"] == (0, 0)
    (read,) = agent.json("lab", "reparse")
    assert (read["reading"], read["before"], read["after"]) == (
        "read",
        [],
        [["pat-001", "helpful"]],
    )
    assert agent.counters()["pat-001"] == (1, 0)
    assert [one["reading"] for one in agent.json("lab", "reparse")] == ["same"]


def test_another_reading_replaces_the_old_one(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(agent, SAID)
    agent.call("drain")
    old = answers.parse_answer
    monkeypatch.setattr(
        answers, "parse_answer", lambda text: old(text.replace("helpful", "harmful"))
    )
    assert "pat-001 harmful" in agent.call("lab", "reparse", "s-1").out
    assert agent.counters()["pat-001"] == (0, 1)
    assert (agent.call("verify").out, len(agent.events("reflection.answered"))) == ("", 1)
    monkeypatch.setattr(answers, "parse_answer", old)
    agent.call("lab", "reparse")
    assert agent.counters()["pat-001"] == (1, 0)
    agent.call("rebuild", "--check")
