"""The user's own playbook: told beside every project's, and counted in its own ledger."""

import json
import os
from pathlib import Path
from unittest.mock import patch

import pytest

from reflector.playbook.names import USER_FIRST
from reflector.project import Project
from reflector.sessions import locks
from reflector.sessions.drain import drain_project, open_pipeline
from reflector.sessions.intake import Source
from tests.conftest import first_fast
from tests.road.agent import Agent
from tests.road.sessions import Session

BRITISH = "Answer in British English."


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """A project with a playbook, of a user who has one bullet: pref-9001."""
    agent.call("--user", "add", "pref", BRITISH)
    return agent


def users(agent: Agent) -> Path:
    return agent.home / ".local/share/reflector/user"


def users_counters(agent: Agent) -> dict[str, tuple[int, int]]:
    return {row["name"]: (row["helpful"], row["harmful"]) for row in agent.json("--user", "list")}


def told(agent: Agent) -> list[str]:
    """The names that a session is told, best first in each section."""
    lines = agent.hook("SessionStart").splitlines()
    return [
        line[1 : line.index("]")] for line in lines if line.startswith("[") and " helpful=" in line
    ]


def ends(agent: Agent, session: Session, *, drain: bool = True) -> None:
    agent.hands("SessionEnd", session.write(agent.home.parent / f"{session.id}.jsonl"), drain=drain)


def other_project(agent: Agent, name: str = "other") -> Agent:
    """Another project of the same user, without a playbook."""
    other = Agent(agent.home.parent / name, agent.home)
    other.project.mkdir()
    return other


def test_text_of_both_playbooks_is_told_once(agent: Agent) -> None:
    agent.call("add", "pref", BRITISH.upper())
    assert told(agent) == ["pat-002", "pat-001", "mis-001", "pref-001"]
    agent.call("remove", "pref-001")
    assert told(agent)[-1] == "pref-9001"


def test_both_playbooks_are_told_in_their_present_state(agent: Agent) -> None:
    other = other_project(agent)
    assert (told(agent), told(other)) == (
        ["pat-002", "pat-001", "mis-001", "pref-9001"],
        ["pref-9001"],
    )
    assert list(other.project.iterdir()) == []
    agent.call("--user", "add", "pref", "Be brief.")
    assert (told(agent)[-2:], told(other)) == (
        ["pref-9001", "pref-9002"],
        ["pref-9001", "pref-9002"],
    )


def test_unreadable_user_playbook_hides_nothing_of_the_project(
    agent: Agent,
) -> None:
    (users(agent) / ".claude/playbook.json").write_text("{")
    process = agent.start_hook("SessionStart")
    out, err = process.communicate(timeout=30)
    assert b"[pat-001]" in out
    assert f"{users(agent)}/.claude/playbook.json cannot be read: line 1, column 2".encode() in out
    assert (process.returncode, err) == (0, b"")


def test_project_bullet_wins_over_the_users_namesake(agent: Agent) -> None:
    bullets = {
        "USER PREFERENCES": [
            {"name": "pref-9001", "text": "Answer in Welsh.", "helpful": 0, "harmful": 0}
        ]
    }
    agent.write_playbook(bullets)
    text = agent.hook("SessionStart")
    assert "Welsh" in text
    assert "British" not in text
    ends(agent, Session().cites("pref-9001"))
    assert agent.counters() == {"pref-9001": (1, 0)}
    assert users_counters(agent) == {"pref-9001": (0, 0)}
    assert agent.json("status")["user"]["hidden"] == ["pref-9001"]


def test_names_of_the_users_playbook_begin_at_9001(agent: Agent) -> None:
    assert list(users_counters(agent)) == [f"pref-{USER_FIRST}"]
    path = users(agent) / ".claude/playbook.json"
    document = json.loads(path.read_text())
    document["sections"]["PATTERNS & APPROACHES"] = [
        {"name": "pat-001", "text": "named by hand"},
        "without a name",
    ]
    path.write_text(json.dumps(document))
    assert told(agent)[-1] == "pref-9001"
    assert sorted(users_counters(agent)) == ["pat-9001", "pat-9002", "pref-9001"]
    legacy = agent.home / "legacy.json"
    legacy.write_text(
        json.dumps({"key_points": [{"name": "kpt_001", "text": "an old one", "helpful": 3}]})
    )
    for count in ("1 rule adopted", "does not contain a new rule"):
        assert count in agent.call("--user", "adopt", legacy).out
    assert users_counters(agent)["kpt_9001"] == (3, 0)


def test_citation_counts_in_the_playbook_of_its_bullet(agent: Agent) -> None:
    path = users(agent) / ".claude/playbook.json"
    # an edit is known when it is cited
    path.write_text(path.read_text().replace(BRITISH, "Answer in Scots."))
    ends(agent, Session("s-1").cites("pref-9001").cites("pat-001", "harmful"))
    ends(agent, Session("s-2").cites("pat-001", "harmful"))
    assert agent.counters()["pat-001"] == (0, 2)
    assert users_counters(agent) == {"pref-9001": (1, 0)}
    assert "pref-9001] helpful=1 harmful=0 :: Answer in Scots." in agent.hook("SessionStart")
    agent.call("verify")
    agent.call("--user", "verify")
    assert "Perfect" in agent.call("--user", "blame", "pref-9001").out
    # Sessions that say nothing of the user's playbook are not in its ledger.
    assert [
        one["session_id"] for one in agent.json("--user", "log", "--type", "session.recorded")
    ] == ["s-1"]


def test_repeated_session_counts_once_for_the_user(
    agent: Agent,
) -> None:
    other = other_project(agent)
    session = Session().cites("pref-9001")
    for where in (agent, other, agent):
        ends(where, session)
    agent.call("ingest", agent.home.parent / "s-1.jsonl")
    assert users_counters(agent) == {"pref-9001": (1, 0)}
    ends(other, session.fork("s-2").cites("pref-9001"))
    agent.call("ingest", Session("s-3").cites("pref-9001").write(agent.home / "s-3.jsonl"))
    assert users_counters(agent) == {"pref-9001": (3, 0)}


@pytest.mark.parametrize(
    "killed_at",
    first_fast(
        1,
        [
            "reflector.sessions.intake.take_in",
            "reflector.sessions.spool.settle_delivery",
            "reflector.reflection.runner.Runner.finish_pending",
        ],
    ),
)
def test_interrupted_drain_counts_once_in_both_ledgers(agent: Agent, killed_at: str) -> None:
    ends(agent, Session().cites("pref-9001").cites("pat-001"), drain=False)
    with (
        patch.dict(os.environ, agent.env()),
        patch(killed_at, side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        drain_project(Project.at(agent.project))
    for _ in range(2):
        agent.call("drain")
    assert users_counters(agent) == {"pref-9001": (1, 0)}
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.deliveries() == []


def test_broken_user_ledger_costs_the_project_nothing(
    agent: Agent,
) -> None:
    ledger = users(agent) / ".claude/reflector/ledger.db"
    sound = ledger.read_bytes()
    for name in ("ledger.db-wal", "ledger.db-shm"):
        ledger.with_name(name).unlink(missing_ok=True)
    ledger.write_bytes(b"no database" * 1000)
    ends(agent, Session().cites("pref-9001").cites("pat-001"), drain=False)
    ran = agent.call("drain", code=1)
    assert "your own playbook was not updated" in ran.err
    assert agent.counters()["pat-001"] == (1, 0)
    assert [name.partition("/")[0] for name in agent.deliveries()] == ["failed"]
    ledger.write_bytes(sound)
    agent.call("drain", "--retry-failed")
    assert users_counters(agent) == {"pref-9001": (1, 0)}
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.deliveries() == []


@pytest.mark.parametrize("is_users", [False, True])
def test_the_projects_lock_is_held_before_users(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, is_users: bool
) -> None:
    for name, value in agent.env().items():
        monkeypatch.setenv(name, value)
    path = Session().cites("pref-9001").write(agent.home / "1.jsonl")
    mine = users(agent) / ".claude/reflector"
    with (
        patch.object(locks, "held", wraps=locks.held) as held,
        open_pipeline(Project.of_user() if is_users else Project.at(agent.project)) as pipeline,
    ):
        pipeline.take(Source(path, "SessionEnd"))
        pipeline.finish()
    first, *others = [call.args[0] for call in held.call_args_list]
    assert (first, set(others)) == ((mine, set()) if is_users else (agent.state, {mine}))


def test_project_settings_do_not_apply_to_the_user(
    agent: Agent,
) -> None:
    config = agent.home / ".config/reflector/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        'backend = "anthropic"\nledger_url = "sqlite:////nowhere/x.db"\nplaybook = "team"\n'
    )
    status = agent.json("--user", "status")
    assert status["backend"] == "rules"
    assert "/reflector/user/.claude/reflector/ledger.db" in status["ledger"]["url"]
    assert list(users_counters(agent)) == ["pref-9001"]


def test_question_about_a_missing_user_playbook_writes_nothing(
    tmp_path: Path,
) -> None:
    agent = Agent.in_folder(tmp_path)
    for question in ("list", "log", "status", "export"):
        agent.call("--user", question)
    assert list(agent.home.iterdir()) == []
    assert "--user" in agent.call("--user", "--project", agent.project, "list", code=2).err


@pytest.mark.parametrize("by_link", [False, True])
def test_transcript_inside_a_project_counts_by_ingest_only(
    agent: Agent, tmp_path: Path, *, by_link: bool
) -> None:
    path = (
        Session("s-1")
        .cites("pref-9001")
        .user("No, that advice is wrong.")
        .write(agent.project / "1.jsonl")
    )
    named = tmp_path / "link.jsonl" if by_link else path
    if by_link:
        named.symlink_to(path)
    agent.hands("SessionEnd", named)
    assert f"reflector ingest {named}" in agent.call("drain").err
    assert users_counters(agent) == {"pref-9001": (0, 0)}
    agent.call("ingest", str(named))
    assert users_counters(agent) != {"pref-9001": (0, 0)}


@pytest.mark.parametrize(("variable", "counted"), [("CLAUDE_CONFIG_DIR", 0), ("HOME", 1)])
def test_no_agent_folder_of_a_project_is_trusted(agent: Agent, variable: str, counted: int) -> None:
    """It may have come with the project, as a variable may that names it; only a person's home
    is theirs.
    """
    folder = agent.project / ".claude"
    agent.environ = {"CLAUDE_CONFIG_DIR": str(folder)}
    if variable == "HOME":
        agent.home.rename(agent.home.with_name("before"))
        agent = Agent(agent.project, agent.project)
        agent.call("--user", "add", "pref", "Say it in short.")
    agent.hands(
        "SessionEnd",
        Session("s-1").cites("pref-9001").write(folder / "projects" / "x" / "s-1.jsonl"),
    )
    agent.call("drain")
    assert users_counters(agent) == {"pref-9001": (counted, 0)}


def test_pins_of_both_playbooks_come_first(agent: Agent) -> None:
    agent.call("--user", "add", "pref", "Be brief.")
    agent.call("--user", "config", "set", "pinned", "pref-9002")
    agent.call("config", "set", "pinned", "pat-001")
    agent.call("--user", "drain")
    agent.call("drain")
    assert told(agent) == ["pat-001", "pat-002", "pref-9002", "pref-9001", "mis-001"]
