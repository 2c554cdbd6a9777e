"""Sessions judged by a model by the whole pipeline: real hooks and processes, a stand-in for the API on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from tests.reflection.api import KEY, Api, answer, error, serving, sound
from tests.road.agent import BULLETS, Agent
from tests.road.sessions import Session

HELPFUL = answer(("pat-001", "helpful"))


@pytest.fixture(scope="module")
def listening() -> Iterator[Api]:
    with serving() as api:
        yield api


@pytest.fixture
def api(listening: Api) -> Api:
    """An API that says of every session that pat-001 was helpful."""
    listening.reset()
    listening.else_ = sound(HELPFUL)
    return listening


@pytest.fixture
def agent(tmp_path: Path, api: Api) -> Agent:
    """A project whose user has chosen the model, and one session that cites pat-001 and has ended."""
    agent = Agent.in_folder(tmp_path)
    agent.environ = {"REFLECTOR_BACKEND": "anthropic", **api.environ()}
    end(agent, Session("s-1").cites("pat-001"))
    return agent


def end(agent: Agent, session: Session, **fields: Any) -> None:
    """Let a session end; its transcript stands beside the project."""
    path = session.write(agent.project.parent / f"{session.id}.jsonl")
    event = fields.pop("event", "SessionEnd")
    key = "agent_transcript_path" if event == "SubagentStop" else "transcript_path"
    agent.hook(event, **{"reason": "other", "session_id": session.id, key: str(path)} | fields)


def data(event: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = event["data"]
    return found


def reasons(agent: Agent) -> list[str]:
    """Why windows were skipped."""
    return [data(event)["reason"] for event in agent.events("reflection.skipped")]


def test_a_session_is_judged_by_the_model_and_what_it_took_is_recorded(agent: Agent, api: Api) -> None:
    ran = agent.run("drain")
    assert (ran.out, ran.err) == ("pat-001 helpful\n", "")
    assert agent.counters()["pat-001"] == (1, 0)
    (asked,) = api.asked
    assert "As [pat-001] says, I change how the cart adds up its total." in asked.text
    assert "[pat-001] helpful=0 harmful=0 :: Write the failing test first." in asked.text
    (answered,) = agent.events("reflection.answered")
    assert (data(answered)["backend"], data(answered)["model"]) == ("anthropic", "claude-sonnet-5-5")
    assert data(answered)["answer"] == HELPFUL
    meta = answered["meta"]
    assert (meta["input_tokens"], meta["output_tokens"], meta["requests"]) == (1200, 80, 1)
    assert float(meta["cost_usd"]) == pytest.approx(1200 * 2e-6 + 80 * 10e-6)
    assert meta["milliseconds"] >= 0
    assert agent.call("drain").out == ""
    assert len(api.asked) == 1
    assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""


@pytest.mark.slow
def test_an_api_that_stays_down_is_one_recorded_failure_and_counts_once_when_it_is_back(agent: Agent, api: Api) -> None:
    api.does = [error(500), error(500), error(500)]
    ran = agent.call("drain", code=1)
    assert "reflection failed, it will be tried again: transport: HTTP 500" in ran.err
    assert len(api.asked) == 3
    (failed,) = agent.events("reflection.failed")
    assert (data(failed)["stage"], data(failed)["attempts"]) == ("transport", 3)
    assert agent.counters()["pat-001"] == (0, 0)
    assert agent.deliveries() == []
    assert agent.json("status", code=1)["failures"][0]["state"] == "failed"
    agent.call("drain")
    assert len(api.asked) == 4
    assert agent.counters()["pat-001"] == (1, 0)
    agent.call("drain")
    agent.call("drain", "--retry-failed")
    assert len(api.asked) == 4
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.json("status")["failures"] == []


@pytest.mark.slow
def test_a_model_that_is_out_of_reach_is_not_tried_with_every_session(agent: Agent, api: Api) -> None:
    for number in (2, 3):
        end(agent, Session(f"s-{number}").cites("pat-001"))
    api.else_ = error(401, "authentication_error")
    assert "check the API key" in agent.call("drain", code=1).err
    assert len(api.asked) == 1
    api.else_ = sound(HELPFUL)
    agent.call("drain")
    assert agent.counters()["pat-001"] == (3, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spawn", [pytest.param(True, id="started by the hook"), pytest.param(False, id="by hand", marks=pytest.mark.slow)]
)
def test_an_api_that_hangs_holds_neither_a_hook_nor_anybody_elses_command(agent: Agent, api: Api, spawn: bool) -> None:
    api.else_ = replace(sound(HELPFUL), silent=True)
    path = agent.project.parent / "s-1.jsonl"
    agent.hook("SessionEnd", spawn=spawn, session_id="s-1", transcript_path=str(path), reason="other")
    drain = None if spawn else agent.start("drain")
    api.wait_until_asked()
    assert "pat-001" in agent.call("list").out
    agent.call("add", "pat", "Read the log first.")
    agent.call("status")
    end(agent, Session("s-2").cites("pat-002"))
    agent.call("drain", "--background")  # records the second session and leaves the model to the other drain
    assert len(agent.events("session.recorded")) == 2
    assert agent.deliveries() == []
    # All this was done while the first drain still waited.
    assert agent.events("reflection.failed") == agent.events("reflection.answered") == []
    # The API wakes up: the drain that waited for it finishes both.
    api.reset()
    api.else_ = sound(HELPFUL)
    if drain is not None:
        _out, err = drain.communicate(timeout=60)
        assert drain.returncode == 0, err
    agent.wait_until(lambda: len(agent.events("reflection.completed")) == 2)
    assert agent.call("verify").out == ""


KILLED = """
import os, signal
from reflector.reflection import reflection_events as events_of
def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
events_of.{step} = die
from reflector.cli.app import run
run(["drain"])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "requests"), [("answered", 2), ("completed", 1)], ids=["before it is kept", "after it is kept"]
)
def test_a_drain_that_is_killed_asks_again_only_for_an_answer_that_was_not_kept(
    agent: Agent, api: Api, step: str, requests: int
) -> None:
    code = KILLED.format(step=step)
    killed = subprocess.run([sys.executable, "-c", code], env=agent.env(), cwd=agent.project, timeout=60, check=False)
    assert killed.returncode == -9
    assert len(api.asked) == 1
    assert agent.counters()["pat-001"] == (0, 0)
    assert agent.call("drain").out == "pat-001 helpful\n"
    assert len(api.asked) == requests
    assert agent.counters()["pat-001"] == (1, 0)
    assert len(agent.events("reflection.answered")) == len(agent.events("reflection.completed")) == 1


def test_secrets_leave_neither_the_machine_nor_a_trace(agent: Agent, api: Api) -> None:
    secrets = ["sk-ant-api03-" + "Zx9_" * 20, "ghp_" + "Zx9" * 12]
    session = Session("s-2").user(f"use {secrets[0]}").cites("pat-001")
    session.runs("cat .env", f"ANTHROPIC_API_KEY={secrets[0]}\nGH={secrets[1]}\nMODE=test")
    end(agent, session)
    api.else_ = sound(answer(("pat-001", "helpful"), analysis=f"It used {secrets[1]}."))
    agent.call("drain")
    sent = json.dumps([asked.body for asked in api.asked])
    assert "MODE=test" in sent
    kept = b"".join(path.read_bytes() for path in agent.claude.rglob("*") if path.is_file())
    for secret in [*secrets, KEY]:
        assert secret not in sent
        assert secret.encode() not in kept


# Who agrees to ask a model


def own_file(agent: Agent, text: str) -> None:
    (agent.claude / "reflector.toml").write_text(text)


def users_file(agent: Agent, text: str) -> None:
    path = agent.home / ".config" / "reflector" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


def test_without_any_setting_no_model_is_asked(agent: Agent, api: Api) -> None:
    del agent.environ["REFLECTOR_BACKEND"]
    agent.call("drain")
    assert api.asked == []
    assert data(agent.events("reflection.answered")[0])["backend"] == "rules"


def test_a_projects_own_file_does_not_spend_the_users_tokens(agent: Agent, api: Api) -> None:
    del agent.environ["REFLECTOR_BACKEND"]
    own_file(agent, 'backend = "anthropic"\n')
    agent.call("drain")
    assert api.asked == []
    (reason,) = reasons(agent)
    assert "only the project's own file asks for a model" in reason
    users_file(agent, f'projects = ["{agent.project.parent}/*"]\n')
    end(agent, Session("s-2").cites("pat-001"))
    agent.call("drain")
    assert len(api.asked) == 1


def test_a_user_who_chose_the_model_need_not_list_a_project_whose_file_says_the_same(agent: Agent, api: Api) -> None:
    del agent.environ["REFLECTOR_BACKEND"]
    users_file(agent, 'backend = "anthropic"\n')
    own_file(agent, 'backend = "anthropic"\n')
    agent.call("drain")
    assert len(api.asked) == 1


def test_a_project_that_is_not_on_the_users_list_is_skipped(agent: Agent, api: Api) -> None:
    users_file(agent, 'projects = ["~/work/*", "~nobody-of-that-name/x"]\n')
    agent.call("drain")
    assert api.asked == []
    assert reasons(agent) == ["the project is not among `projects` in the user's configuration"]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('base_url = "http://127.0.0.1:1"', "belongs in the user's own file only"),
        ('api_key = "k"', "belongs in the user's own file only"),
        ('projects = ["*"]', "belongs in the user's own file only"),
        ("monthly_tokens = 0", "may only be lowered"),
        ("session_tokens = 99999999", "may only be lowered"),
    ],
)
def test_a_projects_own_file_may_not_say_where_transcripts_go_and_at_what_expense(
    agent: Agent, api: Api, setting: str, told: str
) -> None:
    own_file(agent, f'backend = "anthropic"\n{setting}\n')
    assert told in agent.call("drain", code=None).err
    assert api.asked == []
    assert agent.deliveries() != []
    own_file(agent, "session_tokens = 100000\n")
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)


def test_without_a_key_the_window_waits_and_says_what_is_missing(agent: Agent, api: Api) -> None:
    key = agent.environ.pop("ANTHROPIC_API_KEY")
    assert "set ANTHROPIC_API_KEY" in agent.call("drain", code=1).err
    assert api.asked == []
    users_file(agent, f'api_key = "{key}"\n')
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)


# Budgets


@pytest.mark.parametrize("kind", ["session", "monthly"])
def test_a_budget_ends_in_skips_that_say_so(agent: Agent, api: Api, kind: str) -> None:
    agent.environ[f"REFLECTOR_{kind.upper()}_TOKENS"] = "50000"
    api.does = [sound(HELPFUL, usage={"input_tokens": 45_000, "output_tokens": 500})]
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    # One more window of the same session, and one of another.
    end(agent, Session("s-1").cites("pat-001").cites("pat-001"))
    end(agent, Session("s-2").cites("pat-001"))
    agent.call("drain")
    said = f"4,500 of 50,000 tokens of the {kind} budget are left, fewer than the 8,000 that a request needs"
    said += f" (setting {kind}_tokens)"
    assert reasons(agent) == [said] * (1 if kind == "session" else 2)
    assert len(api.asked) == (2 if kind == "session" else 1)


@pytest.fixture
def second(agent: Agent, tmp_path: Path) -> Agent:
    """Another project of the same person."""
    (tmp_path / "second").mkdir()
    other = Agent(tmp_path / "second" / "project", agent.home, agent.environ)
    other.claude.mkdir(parents=True)
    other.write_playbook(BULLETS)
    end(other, Session("s-9").cites("pat-001"))
    return other


@pytest.mark.slow
def test_the_monthly_budget_is_one_over_all_projects_of_a_person(agent: Agent, second: Agent, api: Api) -> None:
    agent.environ["REFLECTOR_MONTHLY_TOKENS"] = "50000"
    api.else_ = sound(HELPFUL, usage={"input_tokens": 50_000, "output_tokens": 10})
    agent.call("drain")
    second.call("drain")
    assert len(api.asked) == 1
    assert reasons(second) == ["the monthly budget is spent: 50,010 of 50,000 tokens (setting monthly_tokens)"]
    for one in (agent, second):
        assert one.json("status")["month"] == one.json("stats")["month"] == {"tokens": 50_010, "limit": 50_000}
        assert "this month: 50,010 of 50,000 tokens, all projects" in one.call("status").out
        assert "this month: 50,010 of 50,000 tokens, all projects" in one.call("stats").out
    # Whoever removes the record removes what the projects know of each other, and of none what it took itself.
    (path,) = (agent.home / ".local" / "state" / "reflector").glob("tokens-*")
    path.unlink()
    end(agent, Session("s-2").cites("pat-001"))
    agent.call("drain")
    assert len(api.asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["session", "monthly"])
def test_what_waited_for_a_budget_is_judged_in_bulk_and_once_when_it_is_lifted(
    agent: Agent, api: Api, kind: str
) -> None:
    agent.call("drain")
    agent.environ[f"REFLECTOR_{kind.upper()}_TOKENS"] = "1000"
    for number in (2, 3, 4):
        end(agent, Session(f"s-{number}").cites("pat-001"))
    # Skipped for good, whatever the budget.
    agent.environ["REFLECTOR_UNCITED"] = "false"
    end(agent, Session("s-5").user("Hello").agent("Good day."))
    agent.call("drain")
    assert (len(reasons(agent)), len(api.asked)) == (4, 1)
    assert agent.json("status")["waiting_for_budget"] == 3
    assert "3 of the skipped wait for a budget" in agent.call("status").out
    # Still closed: nothing is asked, nothing is appended.
    before = len(agent.events())
    agent.call("drain")
    agent.call("reflect")
    assert (len(agent.events()), len(api.asked)) == (before, 1)
    agent.environ[f"REFLECTOR_{kind.upper()}_TOKENS"] = "100000"
    agent.call("drain")
    assert len(api.asked) == 4
    assert agent.counters()["pat-001"] == (4, 0)
    judged = [event["session_id"] for event in agent.events("reflection.completed")]
    assert judged == ["s-1", "s-2", "s-3", "s-4"]
    agent.call("drain")
    assert len(api.asked) == 4
    assert agent.json("status")["waiting_for_budget"] == 0
    assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""


# Failures


def test_a_session_that_the_model_declined_is_asked_about_again_by_hand_also_with_another_model(
    agent: Agent, api: Api
) -> None:
    api.else_ = sound("", stop_reason="refusal")
    ran = agent.call("drain", code=1)
    assert "it is tried again by hand only: reflector status: answer: the model declined to answer" in ran.err
    agent.call("drain", "--retry-failed")
    assert len(api.asked) == 1
    (failure,) = agent.json("status", code=1)["failures"]
    assert failure["command"] == "reflector reflect s-1"
    status = agent.call("status", code=1)
    assert "try again with: reflector reflect s-1\n" in status.out
    assert "add --model NAME" in status.err
    # What is shown is true: it asks, the same model and another one.
    agent.call("reflect", "s-1", code=1)
    assert len(api.asked) == 2
    api.else_ = sound(HELPFUL, model="claude-opus-5-5")
    assert "pat-001 helpful" in agent.call("reflect", "s-1", "--model", "claude-opus-5-5").out
    assert [asked.body["model"] for asked in api.asked] == ["claude-sonnet-5-5"] * 2 + ["claude-opus-5-5"]
    assert [data(event)["iteration"] for event in agent.events("reflection.answered")] == [1, 2, 3]
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.json("status")["failures"] == []
    assert agent.call("verify").out == ""


@pytest.mark.slow
def test_a_session_without_attempts_left_keeps_no_other_one_waiting(agent: Agent, api: Api) -> None:
    agent.environ["REFLECTOR_MAX_ATTEMPTS"] = "1"
    api.else_ = sound("I would rather not.")
    assert "by hand only" in agent.call("drain", code=1).err
    api.else_ = error(401, "authentication_error")
    agent.call("drain", "--retry-failed", code=1)
    api.else_ = sound(HELPFUL)
    end(agent, Session("s-2").cites("pat-001"))
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    assert [failure["session_id"] for failure in agent.json("status", code=None)["failures"]] == ["s-1"]
    assert len(api.asked) == 3


def test_sessions_that_are_taken_in_by_hand_and_could_not_be_judged_are_an_error(agent: Agent, api: Api) -> None:
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
@pytest.mark.parametrize("as_date", [False, True])
def test_an_api_that_says_when_to_come_again_is_left_alone_until_then(agent: Agent, api: Api, as_date: bool) -> None:
    end(agent, Session("s-2").cites("pat-001"))
    at = datetime.now(UTC) + timedelta(seconds=5000)
    api.else_ = error(
        429, "rate_limit_error", **{"retry-after": format_datetime(at, usegmt=True) if as_date else "5000"}
    )
    agent.call("drain", code=1)
    (failure,) = agent.json("status", code=1)["failures"]
    waits = datetime.fromisoformat(failure["next_try"]) - datetime.fromisoformat(failure["failed_at"])
    assert timedelta(seconds=4000) < waits <= timedelta(seconds=5001)
    # Neither this session nor another one is asked about, unless a person says so.
    end(agent, Session("s-3").cites("pat-001"))
    api.else_ = sound(HELPFUL)
    agent.call("drain")
    agent.call("drain", "--background")
    assert len(api.asked) == 1
    agent.call("reflect", "s-2")
    assert len(api.asked) == 2
    agent.call("drain", "--retry-failed")
    assert agent.counters()["pat-001"] == (3, 0)


def test_windows_that_cite_nothing_are_judged_by_a_model_unless_that_is_off(agent: Agent, api: Api) -> None:
    agent.call("drain")
    end(agent, Session("s-2").user("Hello").agent("Good day."))
    agent.call("drain")
    assert len(api.asked) == 2
    assert data(agent.events("reflection.answered")[-1])["mode"] == "content_based"
    agent.environ["REFLECTOR_UNCITED"] = "false"
    end(agent, Session("s-3").user("Hello").agent("Good day."))
    agent.call("drain")
    assert len(api.asked) == 2
    assert reasons(agent) == ["the window cites nothing"]
