"""The person's own agents as the judge, by a program that plays each: what is asked, with what,
and what goes wrong.
"""

import asyncio
import json
import os
import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from reflector.config import CONSENT, Config, ConfigError, load_config
from reflector.events.event import REFLECTION_FAILED
from reflector.judges import consent
from reflector.judges.agent_clients import JUDGES
from reflector.judges.agent_process import STOPPED, AgentClient
from reflector.judges.model import Reply
from reflector.judges.protocol import OUTAGES, BackendError
from reflector.judges.registry import described
from reflector.locate import is_judge, judge_folder
from reflector.reflection.gate import Gate
from tests.conftest import first_fast
from tests.judges.played import TEXTS, Played, only_claude, played as played
from tests.road.agent import Agent, environ
from tests.road.sessions import Session
from tests.servers import until
from tests.transcripts.agents import Codex


def test_answer_has_its_tokens_from_an_empty_folder(played: Played) -> None:
    reply = played.send()
    assert json.loads(reply.text) == {"analysis": "x", "bullet_tags": []}
    assert (reply.usage.input, reply.usage.output) == (1000, 20)
    asked = played.asked()
    assert (asked["asked"], asked["cwd"]) == ("".join(TEXTS), [])
    # The guard is there as long as the judge, and its folder goes with it.
    with environ({**os.environ, "REFLECTOR_JUDGING": asked["guard"]}):
        assert not is_judge()
    assert (
        list(Path(judge_folder()).glob("guard/*")) + list(Path(judge_folder()).glob("work/*")) == []
    )


@pytest.mark.parametrize(
    ("mode", "stage", "said"),
    [
        ("out", "access", "is logged out: (run|set) "),
        ("limit", "access", "reached its usage limit .*reflector asks .* again later"),
    ],
)
def test_failure_has_a_name_and_a_way_out(played: Played, mode: str, stage: str, said: str) -> None:
    played.mode(mode)
    error = played.fails()
    assert error.stage == stage
    assert JUDGES[played.name].title in str(error)
    assert re.search(said, str(error)), error
    assert (stage in OUTAGES, error.usage.total) == (True, 0)


@only_claude
def test_missing_or_talkative_agent_is_named(played: Played) -> None:
    played.mode("talkative")
    error = played.fails()
    # What was sent and came to nothing may have been paid for.
    assert (error.stage, error.stage in OUTAGES, error.usage.total > 0) == ("answer", False, True)
    assert "Claude Code printed more than 64 KB" in str(error)
    played.binary.unlink()
    error = played.fails()
    assert (error.stage, error.usage.total) == ("access", 0)
    assert re.search(
        f"Claude Code is no longer at .*; install Claude Code again, and run: {CONSENT}", str(error)
    ), error


@only_claude
@pytest.mark.parametrize(
    ("said", "stage"),
    first_fast(
        2,
        [
            ("API Error: fetch failed", "transport"),
            ("API Error: 404 model: no-such-model", "access"),
            ("prompt is too long", "request"),
            # what a session can bring about keeps no other session waiting
            ("error_max_turns", "answer"),
        ],
    ),
)
def test_only_a_failure_of_the_api_delays_others(played: Played, said: str, stage: str) -> None:
    played.mode(f"says {said}")
    error = played.fails()
    assert (error.stage, "lower request_tokens" in str(error)) == (stage, stage == "request")


@only_claude
@pytest.mark.slow
def test_deadline_ends_every_process_of_the_agent(played: Played) -> None:
    played.mode("hanging")
    error = played.fails(deadline=2.0)
    assert (error.stage, error.usage.total > 0) == ("transport", True)
    assert re.search(
        "Claude Code did not answer within . s and was stopped; .*raise deadline_seconds",
        str(error),
    )
    wait_for_the_end(played)


def wait_for_the_end(played: Played) -> None:
    """Wait until the process that the agent started has ended."""
    child = Path("/proc", (played.folder / "child").read_text())
    until(lambda: not child.exists() or "Z" in (child / "stat").read_text().split()[2], "it ended")


@only_claude
def test_withdrawn_permission_ends_an_agent_at_work(played: Played) -> None:
    played.mode("hanging")

    def withdraw() -> None:
        until((played.folder / "child").read_text, "it works")
        consent.withdraw()

    threading.Thread(target=withdraw, daemon=True).start()
    error = played.fails(deadline=60.0)
    assert "because you withdrew the permission to judge" in str(error)
    assert (error.stage, error.usage.total > 0) == ("access", True)
    wait_for_the_end(played)
    assert not Path(judge_folder()).exists()


def test_agent_that_keeps_a_tool_gets_no_session(played: Played) -> None:
    played.mode("answer,Bash")
    assert "input than a judge may get" in str(played.fails())
    assert not (played.folder / "asked.json").exists()


@only_claude
def test_lock_down_is_checked_once_for_each_version(
    played: Played,
) -> None:
    played.send()
    played.mode("answer,Bash")  # it would not show itself locked down any more
    assert "input than a judge may get" in str(played.fails())  # but says itself what it has
    (played.folder / "version").write_text("2.2.0")
    assert "reflector did not ask" in str(played.fails())
    for version, fault in (
        ("2.1.9", "2.1.9 is too old to judge; update Claude Code to 2.1.330 or later"),
        ("3.0.0", "3.0.0 is too new to judge (tested: from 2.1.330 to below 3); update reflector"),
    ):
        (played.folder / "version").write_text(version)
        assert f"Claude Code {fault}" in str(played.fails())


@pytest.mark.parametrize("played", ["codex"], indirect=True)
def test_the_environment_is_the_consents_and_no_askers(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = {
        "NODE_OPTIONS": "-r x",
        "CODEX_API_KEY": "a-projects",
        "OPENAI_BASE_URL": "http://x",
        "PATH": "/x",
    }
    for name, value in poison.items():
        monkeypatch.setenv(name, value)
    played.send()
    environ = played.asked()["environ"]
    assert environ["CODEX_API_KEY"] == "the-key-of-the-consent"
    assert "/x" not in environ["PATH"].split(os.pathsep)
    assert not {"NODE_OPTIONS", "OPENAI_BASE_URL"} & environ.keys()


@only_claude
def test_two_limits_in_a_row_pause_all_questions(played: Played) -> None:
    played.send()
    played.mode("limit")
    assert [played.fails().retry_after for _ in range(2)] == [0.0, 3600.0]
    (played.folder / "asked.json").unlink()
    assert "reflector asks Claude Code again after 20" in str(played.fails())
    assert not (played.folder / "asked.json").exists()
    assert (
        "usage limit reached; reflector asks this agent again after"
        in described(Config(backend="agent"), Path())[0]
    )
    consent.keep_state("claude", replace(consent.client_state("claude"), until=time.time() - 1))
    played.mode("answer")
    played.send()
    assert consent.client_state("claude").limits == 0


def refused(played: Played, askers: int) -> int:
    """Return how many of some askers are refused while the others wait for their answers."""

    async def ask() -> list[BaseException | Reply]:
        clients = [AgentClient(writer=JUDGES[played.name].names[1], deadline=2.0)] * (askers - 1)
        late = replace(clients[0], deadline=0.5)
        asked = [asyncio.create_task(client.send(TEXTS)) for client in clients]
        await asyncio.sleep(0.3)
        return await asyncio.gather(*asked, late.send(TEXTS), return_exceptions=True)

    played.send()
    played.mode("hanging")
    return sum(
        "another judge is running on this machine" in str(outcome) for outcome in asyncio.run(ask())
    )


@pytest.mark.parametrize(
    ("played", "most"), first_fast(1, [("claude", 3), ("codex", 1)]), indirect=["played"]
)
def test_agent_is_asked_some_questions_at_once(played: Played, most: int) -> None:
    assert refused(played, most + 1) == 1


@only_claude
def test_stopped_asker_ends_its_client(played: Played) -> None:
    played.send()
    played.mode("hanging")
    STOPPED.set()
    try:
        with pytest.raises(KeyboardInterrupt):
            played.send()
    finally:
        STOPPED.clear()


@only_claude
def test_session_goes_to_its_writer_or_named_agent(
    played: Played,
) -> None:
    with pytest.raises(
        BackendError,
        match="OpenCode may not judge, because you have not allowed this agent to judge",
    ):
        asyncio.run(AgentClient(writer="opencode").send(TEXTS))
    assert asyncio.run(AgentClient("claude", writer="opencode").send(TEXTS)).usage.total == 1020
    assert AgentClient(writer="claude-code").name() == AgentClient().name() == "claude"
    consent.withdraw()
    assert described(Config(backend="agent"), Path()) == (
        "agent: you have not allowed an agent to judge",
        CONSENT,
    )
    assert f"run: {CONSENT}" in str(played.fails())


def test_word_silences_hooks_only_with_its_file(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    with environ(agent.env()):
        guards = Path(judge_folder(), "guard")
    guards.mkdir(parents=True)
    (guards / ("a" * 32)).touch()
    start = {"session_id": "s-1", "source": "startup"}
    for word, is_silent in (
        ("a" * 32, True),
        ("b" * 32, False),
        ("../guard", False),
        (f"./{'a' * 30}", False),
    ):
        agent.environ["REFLECTOR_JUDGING"] = word
        assert (agent.hook("SessionStart", **start) == "") == is_silent, word
        with environ(agent.env()):
            assert is_judge() == is_silent
    agent.environ["REFLECTOR_JUDGING"] = "a" * 32
    agent.ended()
    assert agent.deliveries() == []


@pytest.mark.parametrize(
    "line", ['backend = "agent"', 'judge_client = "claude"', "daily_requests = 21"]
)
def test_projects_file_cannot_allow_judges_or_raise_limits(tmp_path: Path, line: str) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "reflector.toml").write_text(line + "\n")
    refusal = r"cannot let your agent|only your own settings|cannot exceed"
    with pytest.raises(ConfigError, match=refusal):
        load_config(tmp_path)


def test_automatic_and_confirmed_requests_have_separate_limits(
    tmp_path: Path,
) -> None:
    gate = Gate(Config(backend="agent", daily_requests=2), tmp_path)
    assert [gate.left_of_day(one_more=True) for _ in range(2)] == [None, None]
    assert gate.left_of_day() == (
        "the daily budget is spent: 2 of 2 requests (setting daily_requests)"
    )
    gate.confirmed = 1
    assert (gate.left_of_day(), gate.left_of_day(one_more=True)) == (None, None)
    assert gate.left_of_day() == "all requests that you confirmed are sent"
    assert Gate(Config(backend="anthropic", daily_requests=1), tmp_path).left_of_day() is None


def test_user_agrees_once_and_waiting_sessions_are_explained(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent.in_folder(tmp_path)
    played = Played(tmp_path, "claude")
    agent.environ["PATH"] = str(played.folder)
    assert f"To let your agent judge which rules helped: {CONSENT}" in agent.call("install").out
    agent.call("judge", "allow", "--yes")
    assert caplog.records == []  # a connection that the client kept open is nothing to be told
    played.mode("out")
    transcript = Session("s-1").cites("pat-001", "helpful").write(agent.home / "s-1.jsonl")
    assert agent.call("ingest", transcript, code=1).err == ""
    (failed,) = agent.events(REFLECTION_FAILED)
    assert (failed["data"]["stage"], failed["data"]["backend"]) == ("access", "agent")
    said = agent.call("status", code=1).out
    assert "Claude Code is logged out: run `claude` and type /login" in " ".join(said.split())
    played.mode("answer")
    agent.call("reflect")
    assert [one["data"]["backend"] for one in agent.events("reflection.answered")] == ["agent"]
    assert "No model reads your sessions now" in agent.call("judge", "forbid").out
    assert agent.call("config", "get", "backend").out == "rules\n"
    with environ(agent.env()):
        assert not Path(judge_folder()).exists()


def test_daily_limit_holds_and_others_are_not_delayed(
    tmp_path: Path,
) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.environ["PATH"] = str(Played(tmp_path, "claude").folder)
    agent.call("judge", "allow", "--yes")
    agent.call("config", "set", "--global", "daily_requests", "1")
    other = Codex().cites("pat-002")
    agent.hands("SessionEnd", other.write(agent.home / other.file_name))
    for name in ("s-1", "s-2"):
        agent.ended(id=name)
    said = " ".join(agent.call("drain", code=1).err.split())
    assert "Codex CLI may not judge, because you have not allowed this agent to judge" in said
    answered = [one["session_id"] for one in agent.events("reflection.answered")]
    (skipped,) = agent.events("reflection.skipped")
    assert sorted([*answered, skipped["session_id"]]) == ["s-1", "s-2"]
    assert skipped["data"]["reason"] == (
        "the daily budget is spent: 1 of 1 requests (setting daily_requests)"
    )
    assert "1 session not judged because of a budget" in agent.call("status", code=1).out
    asked = "2 sessions to judge, but your limit leaves 0 of 1 requests today."
    assert asked in agent.sent(200, "reflect", typed=b"n\n", code=None)
    assert len(agent.events("reflection.answered")) == 1
    assert asked in agent.sent(200, "reflect", typed=b"y\n", code=None)
    assert len(agent.events("reflection.answered")) == 2


@only_claude
@pytest.mark.usefixtures("played")
def test_an_agent_that_cannot_judge_is_named() -> None:
    client = AgentClient(writer="cursor")
    with pytest.raises(BackendError, match="cursor is not an agent that can judge; set judge_cl"):
        client.admit()
