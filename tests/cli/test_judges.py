"""`reflector judge`: the list of judges, who is let in, and a verdict that is typed after it."""

import json
from pathlib import Path
from typing import Any

import click
import pytest

from reflector.config import APIS
from reflector.judges.agent_clients import JUDGES
from tests.conftest import first_fast
from tests.judges.played import Played
from tests.road.agent import Agent
from tests.road.sessions import Session

LIMITS = ("daily_requests", "monthly_dollars", "never")
_OLD = "Claude Code 2.1.197 is too old to judge; update Claude Code to 2.1.330 or later"


@pytest.fixture(autouse=True)
def claude(agent: Agent, tmp_path: Path) -> Played:
    """Claude Code, the only installed agent."""
    agent.environ["PATH"] = str((played := Played(tmp_path, "claude")).folder)
    return played


def listed(agent: Agent) -> dict[str, dict[str, Any]]:
    rows = json.loads(agent.call("judge", "--json").out)
    return {row["name"]: row for row in rows}


def make_old(played: Played) -> None:
    (played.folder / "version").write_text("2.1.197")


def add_session(agent: Agent, words: str = "") -> None:
    """Leave a session where Claude Code keeps those of a user."""
    folder = agent.home / ".claude" / "projects" / "shop"
    folder.mkdir(parents=True)
    Session("s-1").cites("pat-001", words or "helpful").write(folder / "s-1.jsonl")


def allowed(agent: Agent) -> set[str]:
    return {name for name, row in listed(agent).items() if row["allowed"] and name in JUDGES}


def test_list_names_every_judge(agent: Agent) -> None:
    assert [*listed(agent)] == ["claude", *APIS, "rules"]
    out = agent.call("judge").out
    assert "2.1.331" in out
    assert "Anthropic, with your login" in out


@pytest.mark.parametrize("key", ["", "k1"])
def test_only_a_missing_key_is_asked_for(agent: Agent, key: str) -> None:
    agent.environ.update(PATH="/nowhere", ANTHROPIC_API_KEY=key)
    shown = agent.call("judge").err
    assert ("export ANTHROPIC_API_KEY=" in shown) is not bool(key)
    assert "Next: reflector judge allow anthropic" in shown


def test_list_changes_nothing(agent: Agent, claude: Played) -> None:
    before = sorted(agent.home.rglob("*"))
    agent.call("judge")
    assert sorted(agent.home.rglob("*")) == before
    assert not (claude.folder / "asked.json").exists()


def test_list_shows_tokens_and_price(agent: Agent) -> None:
    add_session(agent)
    offer = listed(agent)["claude"]
    assert offer["tokens"] > 1_000
    assert 0 < float(offer["price"]) < 0.01
    assert "for your last session in all projects (at most" in agent.call("judge").out


def test_price_is_unknown_without_a_list_price(agent: Agent, tmp_path: Path) -> None:
    add_session(agent)
    (tmp_path / "other").mkdir()
    agent.environ["PATH"] = str(Played(tmp_path / "other", "codex").folder)
    assert listed(agent)["codex"]["price"] is None
    assert "unknown" in agent.call("judge").out


def test_address_of_the_environment_is_shown(agent: Agent) -> None:
    agent.environ["ANTHROPIC_BASE_URL"] = "https://me:secret@models.example/v1?key=1"
    agent.call("config", "set", "--global", "base_url", "https://other.example")
    assert listed(agent)["anthropic"]["goes_to"] == "https://…@models.example/v1?…"


def test_rules_send_nothing(agent: Agent) -> None:
    add_session(agent)
    rules = listed(agent)["rules"]
    assert (rules["allowed"], rules["tokens"], rules["goes_to"]) == (True, 0, "nobody")


def test_recorded_answers_are_listed_with_their_file(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    agent.environ["REFLECTOR_FIXTURES"] = str(path)
    assert "fixtures" not in listed(agent)
    path.touch()
    assert listed(agent)["fixtures"]["allowed"]


def test_list_shows_who_is_allowed(agent: Agent) -> None:
    assert not listed(agent)["claude"]["allowed"]
    assert "Next: reflector judge allow" in agent.call("judge").err
    agent.call("judge", "allow", "--yes")
    assert listed(agent)["claude"]["allowed"]
    assert "To stop all judges: reflector judge forbid" in agent.call("judge").err


def test_list_names_an_old_version(agent: Agent, claude: Played) -> None:
    make_old(claude)
    assert listed(agent)["claude"]["fault"] == _OLD
    assert f"claude: {_OLD}" in agent.call("judge").err


def test_allow_names_an_old_version(agent: Agent, claude: Played) -> None:
    make_old(claude)
    refused = agent.call("judge", "allow", "--yes", code=1).err
    assert _OLD in refused
    assert allowed(agent) == set()


def test_allow_asks_first(agent: Agent) -> None:
    refused = agent.call("judge", "allow", code=2).err
    assert "your agents may judge only with your permission: add --yes" in refused
    assert allowed(agent) == set()


def test_allow_shows_the_terms(agent: Agent, claude: Played) -> None:
    add_session(agent)
    out = agent.call("judge", "allow", "--yes").out
    assert f"Claude Code 2.1.331, {claude.binary}: haiku, less than $0.01" in out
    assert "Next: reflector check\n" in out


def answered(agent: Agent, *command: str, typed: str = "") -> str:
    """The screen of a command on whose question a user typed these lines."""
    return agent.sent(80, *command, typed=typed.encode(), code=None)


def test_one_answer_lets_a_judge_in(agent: Agent) -> None:
    add_session(agent)
    screen = answered(agent, "judge", "allow", typed="1\n\n\n\n")
    assert "Who may read your sessions to judge whether a rule helped?" in screen
    assert "the built-in judge" in screen
    assert allowed(agent) == {"claude"}


@pytest.mark.parametrize("typed", ["\n", "2\n"], ids=["Enter", "nobody"])
def test_nobody_reads_sessions_by_default(agent: Agent, typed: str) -> None:
    screen = answered(agent, "judge", "allow", typed=typed)
    assert "No judge reads your sessions." in screen
    assert allowed(agent) == set()
    assert agent.call("config", "get", "backend").out == "rules\n"


def test_the_question_sets_the_limits(agent: Agent) -> None:
    answered(agent, "judge", "allow", typed="1\n7\n2\n~/work/acme, /srv/x\n")
    kept = {key: agent.call("config", "get", key).out.strip() for key in LIMITS}
    assert kept == {
        "daily_requests": "7",
        "monthly_dollars": "2",
        "never": "~/work/acme, /srv/x",
    }


def test_install_asks_the_same_question(agent: Agent) -> None:
    screen = answered(agent, "install", typed="1\n\n\n\n\n")
    assert "your own memory files, such as ~/.claude/CLAUDE.md?" in screen
    assert "reflector now records changes to your own memory files" not in screen
    assert "Who may read your sessions to judge whether a rule helped?" in screen
    assert allowed(agent) == {"claude"}


def test_install_confirms_your_own_memory(agent: Agent) -> None:
    assert "reflector now records changes to your own memory files" in answered(
        agent, "install", typed="\ny\n"
    )


def test_install_asks_nothing_without_a_terminal(agent: Agent, claude: Played) -> None:
    out = agent.call("install").out
    assert "Who may read" not in out
    assert not (claude.folder / "asked.json").exists()


def test_an_old_agent_is_no_choice(agent: Agent, claude: Played) -> None:
    make_old(claude)
    assert "Who may read" not in answered(agent, "judge", "allow")


def test_the_question_fits_eighty_columns(agent: Agent) -> None:
    add_session(agent)
    screen = click.unstyle(answered(agent, "judge", "allow", typed="\n"))
    assert max(map(len, screen.splitlines())) <= 80


def test_allow_takes_the_agent_named(agent: Agent, tmp_path: Path) -> None:
    for name in ("claude", "codex"):
        (tmp_path / name).mkdir()
    folders = [str(Played(tmp_path / name, name).folder) for name in ("claude", "codex")]
    agent.environ["PATH"] = ":".join(folders)
    agent.call("judge", "allow", "codex", "--yes")
    assert allowed(agent) == {"codex"}
    agent.call("judge", "allow", "claude", "--yes")
    assert allowed(agent) == {"claude", "codex"}
    assert agent.call("judge", "forbid", "codex").out == "codex no longer judges your sessions.\n"
    assert allowed(agent) == {"claude"}
    assert agent.call("config", "get", "backend").out == "agent\n"
    agent.call("judge", "forbid", "claude")
    assert agent.call("config", "get", "backend").out == "rules\n"


def test_allow_refuses_an_agent_that_is_missing(agent: Agent) -> None:
    refused = agent.call("judge", "allow", "codex", "--yes", code=1).err
    assert "Codex CLI is not on your PATH; install it" in refused


def test_allow_refuses_an_unknown_name(agent: Agent) -> None:
    refused = agent.call("judge", "allow", "gpt", "--yes", code=2).err
    assert "'gpt' is not a judge; the judges are claude, codex" in refused


def test_allow_of_the_api_needs_a_key(agent: Agent) -> None:
    refused = agent.call("judge", "allow", "anthropic", "--yes", code=1).err
    assert "export ANTHROPIC_API_KEY=" in refused
    agent.environ["ANTHROPIC_API_KEY"] = "sk-ant-x"
    agent.call("judge", "allow", "anthropic", "--yes")
    assert agent.call("config", "get", "backend").out == "anthropic\n"
    assert listed(agent)["anthropic"]["allowed"]
    forbidden = agent.call("judge", "forbid", "claude").out
    assert forbidden == "claude was not allowed to judge your sessions.\n"
    assert agent.call("config", "get", "backend").out == "anthropic\n"
    agent.call("judge", "forbid")
    assert agent.call("config", "get", "backend").out == "rules\n"


def test_forbid_without_a_judge(agent: Agent) -> None:
    assert agent.call("judge", "forbid").out == "No judge was allowed to read your sessions.\n"


def test_rules_need_no_permission(agent: Agent) -> None:
    assert "needs no permission" in agent.call("judge", "allow", "rules").out
    assert "you cannot forbid" in agent.call("judge", "forbid", "rules", code=2).err


@pytest.mark.parametrize("options", first_fast(1, [[], ["--why", "it found it"]]))
def test_typed_verdict_prints_the_review_command(
    agent: Agent, claude: Played, options: list[str]
) -> None:
    agent.ended()
    agent.call("list")
    before = agent.counters()
    agent.call("judge", "allow", "--yes")
    refused = agent.call("judge", "s-1", "pat-001", "harmful", *options, code=2).err
    assert "reflector review pat-001 harmful --session s-1" in refused
    assert ("--why 'it found it'" in refused) == bool(options)
    assert agent.counters() == before
    assert not (claude.folder / "asked.json").exists()


def test_session_is_not_a_judge_command(agent: Agent) -> None:
    assert "reflector reflect s-1" in agent.call("judge", "s-1", code=2).err


def recorded_session(agent: Agent) -> None:
    """Record a session that cites a rule, which nobody judged."""
    agent.call("add", "pat", "Read the error first.")
    path = Session("s-1").cites("pat-001", None).write(agent.project / "s-1.jsonl")
    agent.call("ingest", path, "--judge", "claude", code=1)


@pytest.mark.slow
def test_one_run_needs_no_lasting_permission(agent: Agent, claude: Played) -> None:
    recorded_session(agent)
    agent.call("reflect", "s-1", "--judge", "claude", "--yes", code=None)
    assert (claude.folder / "asked.json").exists()
    assert allowed(agent) == set()


def test_one_run_asks_first(agent: Agent, claude: Played) -> None:
    recorded_session(agent)
    refused = agent.call("reflect", "s-1", "--judge", "claude", code=2).err
    assert "Claude Code needs your permission to read sessions: add --yes" in refused
    assert not (claude.folder / "asked.json").exists()


def test_one_run_names_the_version_it_needs(agent: Agent, claude: Played) -> None:
    recorded_session(agent)
    make_old(claude)
    assert _OLD in agent.call("reflect", "s-1", "--judge", "claude", "--yes", code=1).err


def checked_session(agent: Agent, number: int = 1) -> None:
    """Leave a rule, and sessions that started with it, as git shows."""
    agent.environ["PATH"] += ":/usr/bin:/bin"
    (agent.project / "CLAUDE.md").write_text("- Never mock the database\n")
    agent.commit_long_ago()
    for session_id in (f"s-{place}" for place in range(1, number + 1)):
        made = Session(session_id).user("Fix the cart.").agent("Done.")
        for record in made.records:
            record["cwd"] = str(agent.project)
        made.write(agent.home / f".claude/projects/-shop/{session_id}.jsonl")


def test_minutes_are_those_of_three_questions_at_once(agent: Agent) -> None:
    checked_session(agent, 10)
    agent.environ["REFLECTOR_NO_SPAWN"] = "1"
    screen = agent.sent(80, "judge", "allow", typed=b"1\n\n\n\n", code=None)
    assert "The judge now reads your last 10 sessions" in screen
    assert "about 2 minutes." in " ".join(screen.split())


def test_answered_questions_a_day_are_kept(agent: Agent) -> None:
    """An API has no such limit without the setting."""
    agent.sent(80, "judge", "allow", typed=b"1\n20\n\n\n", code=None)
    assert "daily_requests = 20" in (agent.home / ".config/reflector/config.toml").read_text()


@pytest.mark.slow
def test_one_check_needs_no_lasting_permission(agent: Agent, claude: Played) -> None:
    checked_session(agent)
    agent.call("check", "--judge", "claude", "--yes", code=None)
    assert (claude.folder / "asked.json").exists()
    assert allowed(agent) == set()


def test_one_check_sends_nothing_before_you_agree(agent: Agent, claude: Played) -> None:
    checked_session(agent)
    agent.call("check", "--judge", "claude", code=None)
    assert not (claude.folder / "asked.json").exists()


def test_one_check_names_the_version_it_needs(agent: Agent, claude: Played) -> None:
    checked_session(agent)
    make_old(claude)
    assert _OLD in agent.call("check", "--judge", "claude", "--yes", code=1).err


@pytest.fixture
def with_key(agent: Agent) -> Agent:
    """A user whose API has a key, and who has no agent."""
    agent.environ |= {"ANTHROPIC_API_KEY": "key-of-the-tests", "PATH": "/nowhere"}
    return agent


def users_settings(agent: Agent) -> str:
    return (agent.home / ".config" / "reflector" / "config.toml").read_text()


def test_api_keeps_the_limit_that_was_shown(with_key: Agent) -> None:
    screen = with_key.sent(80, "judge", "allow", "anthropic", typed=b"y\n")
    assert "at most 20 questions a day" in " ".join(screen.split())
    assert "daily_requests = 20" in users_settings(with_key)


def test_uninstall_keeps_a_later_choice_by_hand(with_key: Agent) -> None:
    with_key.call("install")
    with_key.call("judge", "allow", "anthropic", "--yes")
    with_key.call("config", "set", "--global", "backend", "rules")
    with_key.call("uninstall")
    assert 'backend = "rules"' in users_settings(with_key)
