"""The first reading: after one answer in a terminal, a judge reads old sessions."""

import json
import os
import re
import signal
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from reflector.__main__ import main
from reflector.project import Project
from reflector.sessions import checks, first
from tests.judges.api import Api, Asked, Behaviour, answer as tagged, sound
from tests.road.agent import Agent, environ
from tests.road.sessions import Session

_MOCK = "Never mock the database"
_CORRECTION = "No, don't mock the database. We have a fixture."
_TURN = re.compile(r'^\{"turn": (\d+), .*$', re.M)
_NAMED = re.compile(rf"^\[(\w+-\d+)\] helpful=0 harmful=0 :: {_MOCK}$", re.M)


def judge(asked: Asked) -> Behaviour:
    """Answer that the rule was broken, in the words of the person."""
    turn = next(int(row[1]) for row in _TURN.finditer(asked.text) if _CORRECTION in row[0])
    named = _NAMED.search(asked.text)
    assert named is not None
    tag: dict[str, Any] = {"name": named[1], "relevant": True, "followed": "no", "tag": "neutral"}
    tag |= {"rationale": "seen", "turn": turn, "quote": _CORRECTION, "sure": "sure"}
    return sound(json.dumps({"analysis": "x", "bullet_tags": [tag]}))


def priced(body: bytes, usage: dict[str, int]) -> bytes:
    """Return the body of an answer that took other tokens."""
    return json.dumps(json.loads(body) | {"usage": usage}).encode()


def leave(agent: Agent, name: str, made: Session) -> Path:
    for record in made.records:
        record["cwd"] = str(agent.project)
    return made.write(agent.home / ".claude/projects/-shop" / f"{name}.jsonl")


def worked(name: str) -> Session:
    made = Session(name).user("Fix the total of the cart.").agent("I use a mock of the database.")
    return made.user(_CORRECTION).agent("Done.")


@pytest.fixture
def old(tmp_path: Path, api: Api) -> Agent:
    """A user with a CLAUDE.md and twelve old sessions, whose drain is started by the test."""
    agent = Agent.bare(tmp_path, api.environ(REFLECTOR_NO_SPAWN="1", PATH="/usr/bin:/bin"))
    (agent.project / "CLAUDE.md").write_text(f"- {_MOCK}\n- Keep the changelog in step\n")
    agent.commit_long_ago()
    for number in range(12):
        leave(agent, f"s-{number}", worked(f"s-{number}"))
    leave(agent, "exit", Session("exit").user("/exit"))
    api.else_ = judge
    return agent


def answer(agent: Agent, *command: str, limits: str = "\n\n\n") -> str:
    """Return the screen of a command at whose question a user chose the first judge, and let their
    own memory files be.
    """
    return agent.sent(80, *command, typed=f"1\n{limits}n\n".encode(), code=None)


def _run_drain(agent: Agent) -> None:
    os.chdir(agent.project)
    words = ["reflector", "--project", str(agent.project), "drain", "--background"]
    with environ(agent.env()), patch.object(sys, "argv", words):
        main()


def start_drain(agent: Agent) -> BaseProcess:
    """Start the drain as a hook does, in a fork of this process: to load the SDK takes two
    seconds.
    """
    process = get_context("fork").Process(target=_run_drain, args=(agent,))
    process.start()
    return process


def exit_code(process: BaseProcess) -> int | None:
    process.join(120)
    return process.exitcode


def drain(agent: Agent) -> None:
    assert exit_code(start_drain(agent)) == 0


def started(agent: Agent) -> str:
    environ = agent.env(CLAUDE_ENV_FILE="/nowhere")
    agent.environ, before = environ, agent.environ
    printed = agent.hook("SessionStart", session_id="later", source="startup")
    agent.environ = before
    return str(printed)


def row(agent: Agent) -> dict[str, Any]:
    rows: list[dict[str, Any]] = agent.json("check")["lines"]
    return next(row["judged"] or {} for row in rows if row["text"] == _MOCK)


def test_install_reads_the_last_ten_sessions(old: Agent, api: Api) -> None:
    screen = answer(old, "install")
    assert (
        "The judge now reads your last 10 sessions and checks the 2 rules of CLAUDE.md. This takes"
        in screen.replace("\n", " ")
    )
    assert not api.asked
    drain(old)
    assert len(api.asked) == 10
    assert row(old)["followed"]["no"] == 10


@pytest.mark.slow
def test_first_verdicts_are_in_the_start_line(old: Agent) -> None:
    answer(old, "install")
    drain(old)
    line = json.loads(started(old))["systemMessage"]
    verdict = f"oth-001 not followed in 10 sessions (“{_CORRECTION}”)"
    assert line == f"first verdicts: 10 sessions read: {verdict}"


@pytest.mark.slow
def test_first_verdicts_are_in_the_list(old: Agent) -> None:
    answer(old, "install")
    drain(old)
    shown = old.call("list").out
    assert _MOCK in shown
    assert "0 of 10" in shown
    assert f'\n  not followed today: "{_CORRECTION}"\n' in shown


@pytest.mark.slow
def test_list_names_the_newest_verdict(old: Agent) -> None:
    answer(old, "install")
    drain(old)
    verdicts = {rule["text"]: rule["newest_verdict"] for rule in old.json("list")}
    assert verdicts[_MOCK]["quote"] == _CORRECTION
    assert verdicts[_MOCK]["verdict"] == "not followed"
    assert verdicts["Keep the changelog in step"] is None


@pytest.mark.slow
def test_quotes_in_the_list_fit_a_terminal(old: Agent) -> None:
    answer(old, "install")
    drain(old)
    lines = old.sent(60, "list").replace("\r", "").split("\n")
    (quote,) = [line for line in lines if "not followed today" in line]
    assert len(quote) == 60
    assert quote.endswith("…")


@pytest.mark.slow
def test_blame_shows_the_quote(old: Agent) -> None:
    answer(old, "install")
    drain(old)
    assert f'"{_CORRECTION}"' in old.call("blame", row(old)["name"]).out


def test_rules_of_the_playbook_are_read(old: Agent, api: Api) -> None:
    (old.project / "CLAUDE.md").unlink()
    old.call("add", "oth", _MOCK)
    screen = answer(old, "install")
    assert (
        "The judge now reads your last 10 sessions and checks the 1 rule of the playbook."
        in screen.replace("\n", " ")
    )
    drain(old)
    assert len(api.asked) == 10
    assert row(old)["followed"]["no"] == 10


@pytest.mark.slow
def test_rules_of_both_are_read(old: Agent, api: Api) -> None:
    old.call("add", "pat", "Write the failing test first")
    answer(old, "install")
    drain(old)
    assert all(_MOCK in asked.text for asked in api.asked)
    assert all("Write the failing test first" in asked.text for asked in api.asked)


@pytest.mark.slow
def test_reading_stops_at_the_questions_of_a_day(old: Agent, api: Api) -> None:
    answer(old, "install", limits="1\n\n\n")
    drain(old)
    drain(old)
    assert len(api.asked) == 1


@pytest.mark.slow
def test_reading_stops_at_the_dollars_of_a_month(old: Agent, api: Api) -> None:
    answer(old, "install", limits="\n1\n\n")
    usage = {"input_tokens": 10_000_000, "output_tokens": 100}
    api.else_ = lambda asked: replace(judge(asked), body=priced(judge(asked).body, usage))
    drain(old)
    drain(old)
    assert len(api.asked) == 1


@pytest.mark.slow
def test_limits_of_zero_are_refused(old: Agent, api: Api) -> None:
    screen = answer(old, "install", limits="0\n2\n0\n1\n\n")
    assert screen.count("is not in the range x>=1") == 2
    drain(old)
    assert len(api.asked) == 2


@pytest.mark.slow
def test_reading_goes_on_when_the_budget_allows_it(old: Agent, api: Api) -> None:
    answer(old, "install", limits="1\n\n\n")
    drain(old)
    old.call("config", "set", "--global", "daily_requests", "20")
    drain(old)
    assert len(api.asked) == 10


def raise_dollars(agent: Agent) -> None:
    agent.call("config", "set", "--global", "monthly_dollars", "1000")
    agent.call("config", "set", "--global", "monthly_tokens", "0")


@pytest.mark.slow
def test_stopped_reading_asks_nothing_twice(old: Agent, api: Api) -> None:
    answer(old, "install", limits="\n1\n\n")
    usage = {"input_tokens": 10_000_000, "output_tokens": 100}
    api.else_ = lambda asked: replace(judge(asked), body=priced(judge(asked).body, usage))
    drain(old)
    drain(old)
    raise_dollars(old)
    api.else_ = judge
    drain(old)
    drain(old)
    assert len(api.asked) == 10


def cite(agent: Agent, name: str) -> Path:
    """Leave a session that cites the rule of the playbook."""
    made = Session(name).user("Fix the total of the cart.").agent("I use a mock of the database.")
    return leave(agent, name, made.user(_CORRECTION).agent("As [pat-001] asks.").agent("Done."))


def answer_citations(asked: Asked) -> Behaviour:
    """Answer a question about citations with a neutral verdict, and others as `judge` does."""
    is_check = "With no relevant line" in asked.text
    return judge(asked) if is_check else sound(tagged(("pat-001", "neutral")))


@pytest.mark.slow
def test_sessions_with_citations_are_read_later(old: Agent, api: Api) -> None:
    old.call("add", "pat", "Write the failing test first")
    old.commit_long_ago()
    for number in range(3):
        cite(old, f"c-{number}")
    api.else_ = answer_citations
    answer(old, "install")
    drain(old)
    assert "7 sessions read" in started(old)
    drain(old)
    assert "10 sessions read" in started(old)
    assert len(api.asked) == 13
    drain(old)
    assert len(api.asked) == 13


@pytest.mark.slow
def test_newer_verdicts_stay_in_the_line(old: Agent, api: Api) -> None:
    old.call("add", "pat", "Write the failing test first")
    api.else_ = answer_citations
    answer(old, "install")
    old.hands("SessionEnd", leave(old, "new", Session("new").cites("pat-001", "helpful")))
    drain(old)
    line = json.loads(started(old))["systemMessage"]
    assert "pat-001" in line
    assert "first verdicts" not in line


@pytest.mark.slow
def test_sessions_without_verdicts_leave_the_line(old: Agent) -> None:
    answer(old, "install")
    old.call("config", "set", "--global", "uncited", "false")
    old.hands("SessionEnd", leave(old, "new", worked("new")))
    drain(old)
    assert "first verdicts: 10 sessions read" in started(old)


@pytest.mark.slow
def test_line_shows_when_the_reading_goes_on(old: Agent) -> None:
    answer(old, "install", limits="3\n\n\n")
    drain(old)
    words = "reflector has used its 3 requests for today (setting daily_requests)"
    assert "3 sessions read" in started(old)
    assert words in started(old)


@pytest.mark.slow
def test_line_shows_a_budget_spent_before(old: Agent, api: Api) -> None:
    answer(old, "install", limits="1\n\n\n")
    record = old.home / ".local/state/reflector" / f"requests-{datetime.now(UTC):%Y-%m-%d}"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(".")
    drain(old)
    assert not api.asked
    assert "first verdicts: reflector has used its 1 request for today" in started(old)


@pytest.mark.slow
def test_spent_budget_opens_no_transcript(old: Agent) -> None:
    answer(old, "install", limits="1\n\n\n")
    drain(old)
    with environ(old.env()), patch.object(checks, "project_sessions", side_effect=AssertionError):
        assert first.carry_out(Project.at(old.project)) is None


@pytest.mark.slow
def test_reading_that_is_done_is_not_announced(old: Agent) -> None:
    answer(old, "install")
    drain(old)
    assert "The judge now reads your last" not in old.sent(
        80, "judge", "allow", "anthropic", "--yes"
    )


@pytest.mark.slow
def test_line_counts_sessions_that_grew_once(old: Agent) -> None:
    answer(old, "install")
    drain(old)
    leave(old, "s-11", worked("s-11").user(_CORRECTION).agent("Done again."))
    old.sent(80, "judge", "allow", "anthropic", "--yes")
    drain(old)
    line = json.loads(started(old))["systemMessage"]
    assert "1 session read: oth-001 not followed in 1 session (" in line


@pytest.mark.slow
def test_retracted_answers_leave_the_line(old: Agent) -> None:
    answer(old, "install", limits="2\n\n\n")
    drain(old)
    first = old.events("reflection.completed")[0]
    old.call("undo", first["event_id"], "--why", "wrong")
    old.call("config", "set", "--global", "daily_requests", "3")
    drain(old)
    assert "2 sessions read: oth-001 not followed in 2 sessions (" in started(old)


@pytest.mark.slow
def test_forbid_elsewhere_ends_the_order(old: Agent, api: Api) -> None:
    answer(old, "install")
    other = old.home / "other"
    other.mkdir()
    old.call("--project", other, "judge", "forbid")
    old.call("--project", other, "judge", "allow", "anthropic", "--yes")
    drain(old)
    assert not api.asked


@pytest.mark.slow
def test_order_that_cannot_be_kept_promises_nothing(old: Agent) -> None:
    old.call("install")
    own = old.own
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("not a folder")
    screen = old.sent(80, "judge", "allow", "anthropic", "--yes", code=None)
    assert "The judge now reads your last" not in screen


@pytest.mark.slow
def test_session_without_citations_is_asked_about_all_rules(old: Agent, api: Api) -> None:
    answer(old, "install")
    drain(old)
    old.call("add", "pat", "Write the failing test first")
    asked = len(api.asked)
    old.hands("SessionEnd", leave(old, "new", worked("new")))
    drain(old)
    (question,) = api.asked[asked:]
    assert _MOCK in question.text
    assert "Write the failing test first" in question.text


@pytest.mark.slow
def test_uninstall_keeps_a_backend_of_your_own(old: Agent) -> None:
    old.call("install")
    old.call("config", "set", "--global", "backend", "anthropic")
    old.call("uninstall")
    assert old.call("config", "get", "backend").out == "anthropic\n"


@pytest.mark.slow
def test_first_reading_runs_once(old: Agent, api: Api) -> None:
    answer(old, "install")
    drain(old)
    drain(old)
    assert len(api.asked) == 10


@pytest.mark.slow
def test_two_installs_read_once(old: Agent, api: Api) -> None:
    answer(old, "judge", "allow")
    answer(old, "install")
    drains = [start_drain(old) for _ in range(2)]
    assert [exit_code(started) for started in drains] == [0, 0]
    assert len(api.asked) == 10


@pytest.mark.slow
def test_killed_reading_goes_on(old: Agent, api: Api) -> None:
    answer(old, "install")
    killed = start_drain(old)
    api.wait_until_asked(3)
    killed.kill()
    assert exit_code(killed) == -signal.SIGKILL
    drain(old)
    assert row(old)["followed"]["no"] == 10
    assert len(api.asked) <= 11


@pytest.mark.slow
@pytest.mark.parametrize("command", [("judge", "forbid"), ("uninstall",)], ids=" ".join)
def test_reading_stops_when_it_is_taken_back(
    old: Agent, api: Api, command: tuple[str, ...]
) -> None:
    answer(old, "install")
    old.call(*command)
    drain(old)
    assert not api.asked
    assert old.call("config", "get", "backend").out == "rules\n"


def users_settings(agent: Agent) -> str:
    return (agent.home / ".config" / "reflector" / "config.toml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("command", [("judge", "forbid"), ("uninstall",)], ids=" ".join)
@pytest.mark.parametrize("backend", ["rules", "anthropic"])
@pytest.mark.parametrize("layer", ["project", "environment"])
def test_other_layers_keep_no_permission(
    old: Agent, command: tuple[str, ...], backend: str, layer: str
) -> None:
    answer(old, "install")
    if layer == "environment":
        old.environ["REFLECTOR_BACKEND"] = backend
    else:
        settings = old.project / ".claude" / "reflector.toml"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(f'backend = "{backend}"\n')
    taken = old.call(*command)
    assert "backend" not in users_settings(old)
    assert (
        "still sets the judge 'anthropic'; to stop this judge too, remove the setting" in taken.err
    ) == (backend == "anthropic")


@pytest.mark.slow
def test_forbid_stops_a_reading_at_work(old: Agent, api: Api) -> None:
    answer(old, "install")
    api.else_ = lambda asked: time.sleep(0.3) or judge(asked)
    reading = start_drain(old)
    api.wait_until_asked(2)
    old.call("judge", "forbid")
    assert exit_code(reading) == 0
    assert len(api.asked) < 6


def test_nothing_is_read_without_a_terminal(old: Agent, api: Api) -> None:
    old.call("install")
    old.call("judge", "allow", "anthropic", "--yes")
    drain(old)
    assert not api.asked


@pytest.mark.slow
def test_folders_of_never_are_not_read(old: Agent, api: Api) -> None:
    screen = answer(old, "install", limits=f"\n\n{old.project}\n")
    drain(old)
    assert "The judge now reads your last" not in screen
    assert not api.asked


def leave_secret(agent: Agent, name: str, made: Session) -> Path:
    """Leave a session that worked in a folder of the project that is never read."""
    secret = agent.project / "secret"
    secret.mkdir(exist_ok=True)
    agent.call("config", "set", "--global", "never", str(secret))
    for record in made.records:
        record["cwd"] = str(secret)
    return made.write(agent.home / ".claude/projects/-shop-secret" / f"{name}.jsonl")


@pytest.mark.slow
def test_first_reading_skips_folders_below(old: Agent, api: Api) -> None:
    leave_secret(old, "secret", worked("secret").user("The password of Jane"))
    answer(old, "install")
    drain(old)
    assert len(api.asked) == 10
    assert not any("Jane" in asked.text for asked in api.asked)


@pytest.mark.slow
def test_check_skips_folders_below(old: Agent, api: Api) -> None:
    leave_secret(old, "secret", worked("secret").user("The password of Jane"))
    old.call("check", "--judge", "anthropic", "--yes", "-n", "20")
    assert len(api.asked) == 12
    assert not any("Jane" in asked.text for asked in api.asked)


@pytest.mark.slow
def test_session_end_skips_folders_below(old: Agent, api: Api) -> None:
    answer(old, "install")
    drain(old)
    api.asked.clear()
    old.call("add", "pat", "Write the failing test first")
    secret = leave_secret(old, "secret", Session("secret").cites("pat-001", "helpful"))
    old.hands("SessionEnd", secret)
    drain(old)
    assert not api.asked
    assert not old.call("reflect", "secret", code=None).out.count("helpful")
    assert not api.asked


_LONG = f"{_CORRECTION} It has the order of Jane Doe from Elm Street."


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", [("--where", _LONG), ("--session", "s-2")], ids=["text", "session"]
)
def test_redaction_removes_the_first_verdicts(
    old: Agent, api: Api, target: tuple[str, str]
) -> None:
    for number in range(12):
        made = Session(f"s-{number}").user("Fix it.").agent("I use a mock of the database.")
        leave(old, f"s-{number}", made.user(_LONG).agent("Done."))

    def quoting(asked: Asked) -> Behaviour:
        short = judge(asked)
        return replace(short, body=short.body.replace(_CORRECTION.encode(), _LONG.encode()))

    api.else_ = quoting
    answer(old, "install")
    drain(old)
    assert "mock the database" in started(old)
    old.call("redact", *target, "--yes", "--why", "Jane asked", code=None)
    assert "mock the database" not in started(old)


@pytest.mark.slow
def test_another_address_is_not_asked(old: Agent, api: Api) -> None:
    addresses = {key: value for key, value in old.environ.items() if key.endswith("_BASE_URL")}
    assert addresses
    old.environ = {key: value for key, value in old.environ.items() if key not in addresses}
    assert "Anthropic, with your key" in answer(old, "install")
    old.environ |= addresses
    drain(old)
    assert not api.asked
    assert next(iter(addresses.values())) in answer(old, "judge", "allow", "anthropic", "--yes")
    drain(old)
    assert len(api.asked) == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "variable"),
    [
        ("2\n\n\n", {"REFLECTOR_DAILY_REQUESTS": "0"}),
        ("2\n\n\n", {"REFLECTOR_DAILY_REQUESTS": "100"}),
        ("\n\n\n", {"REFLECTOR_DAILY_REQUESTS": "2"}),
    ],
    ids=["none", "a higher one", "a lower one"],
)
def test_environment_raises_no_limit(
    old: Agent, api: Api, limits: str, variable: dict[str, str]
) -> None:
    answer(old, "install", limits=limits)
    old.environ |= variable
    drain(old)
    assert len(api.asked) == 2


@pytest.mark.slow
def test_environment_opens_no_folder(old: Agent, api: Api) -> None:
    answer(old, "install")
    old.call("config", "set", "--global", "never", str(old.project))
    old.environ["REFLECTOR_NEVER"] = "/nowhere"
    drain(old)
    assert not api.asked


@pytest.mark.slow
def test_ledger_that_cannot_be_written_sends_nothing(old: Agent, api: Api) -> None:
    answer(old, "install")
    state = old.project / ".claude" / "reflector"
    state.parent.mkdir(exist_ok=True)
    state.write_text("not a folder")
    exit_code(start_drain(old))
    assert not api.asked
