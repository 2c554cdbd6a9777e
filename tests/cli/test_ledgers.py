"""Playbooks in many ledgers: `ledgers.toml` says where each is, `move` moves one, `ledgers` asks all."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflector.directory import directory
from reflector.ledger.store import Ledger
from tests.cli.conftest import tamper
from tests.conftest import Postgres
from tests.road.agent import Agent
from tests.road.sessions import Session


class Team:
    """Agents whose playbooks are in the ledgers of one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "home" / ".config" / "reflector" / "ledgers.toml"
        self.file.parent.mkdir(parents=True)

    def url(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}.db"

    def names(self, **patterns: str) -> None:
        lines = "".join(f'"{pattern}" = "{self.url(name)}"\n' for pattern, name in patterns.items())
        self.file.write_text(f"# where each playbook is\n[playbooks]\n{lines}")

    def agent(self, playbook: str) -> Agent:
        agent = Agent(self.folder / playbook, self.folder / "home")
        agent.claude.mkdir(parents=True)
        agent.write_playbook({})
        agent.environ["REFLECTOR_PLAYBOOK"] = playbook
        return agent


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Team(tmp_path)


@pytest.fixture
def payments(team: Team) -> Agent:
    """A project whose playbook has a bullet and a session, in the ledger `a`."""
    team.names(**{"web-*": "b", "*": "a"})
    agent = team.agent("payments")
    agent.call("add", "pat", "Write the failing test first.")
    agent.call("ingest", Session("s-1").cites("pat-001", "helpful").write(team.folder / "1.jsonl"))
    return agent


def test_the_first_pattern_that_fits_names_the_ledger(payments: Agent, team: Team) -> None:
    web = team.agent("web-shop")
    web.call("add", "pat", "Measure before you tune.")
    found = payments.json("ledgers")["playbooks"]
    assert [(one["playbook"], one["ledger"]) for one in found] == [
        ("payments", team.url("a")),
        ("web-shop", team.url("b")),
    ]
    assert payments.json("config", "get", "ledger_url") == {"value": team.url("a"), "origin": str(team.file)}
    assert not (payments.state / "ledger.db").exists()


def test_what_is_nearer_than_the_directory_wins(payments: Agent, team: Team) -> None:
    payments.environ["REFLECTOR_LEDGER_URL"] = team.url("c")
    assert payments.json("config", "get", "ledger_url")["value"] == team.url("c")
    del payments.environ["REFLECTOR_LEDGER_URL"]
    payments.call("config", "set", "--global", "ledger_url", team.url("d"))
    assert payments.json("config", "get", "ledger_url")["value"] == team.url("a")
    team.names(**{"web-*": "b"})
    assert payments.json("config", "get", "ledger_url")["value"] == team.url("d")


def test_a_repository_does_not_decide_which_playbook_of_the_team_gets_its_sessions(team: Team) -> None:
    team.names(**{"*": "a"})
    agent = team.agent("payments")
    del agent.environ["REFLECTOR_PLAYBOOK"]
    (agent.claude / "reflector.toml").write_text('playbook = "payments"\n')
    assert f"playbook names a playbook of {team.file}" in agent.call("list", code=2).err
    agent.call("config", "set", "--global", "projects", str(agent.project))
    agent.call("list")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[playbooks\n", "is not TOML"),
        ('payments = "sqlite://"\n', "payments is not known there"),
        ("[playbooks]\npayments = 1\n", "payments is 1; it takes the URL of a ledger"),
        ('playbooks = "sqlite://"\n', "it is a table"),
    ],
)
def test_a_directory_that_is_not_understood_is_refused_and_named(team: Team, text: str, what: str) -> None:
    agent = team.agent("payments")
    team.file.write_text(text)
    ran = agent.call("list", code=2)
    assert str(team.file) in ran.err
    assert what in ran.err


def test_a_moved_playbook_goes_on_for_everybody_who_uses_the_directory(payments: Agent, team: Team) -> None:
    head = payments.call("head").out.strip()
    moved = payments.json("move", "payments", "--to", team.url("c"))
    assert (moved["ledger"], moved["switched"]) == (team.url("c"), True)
    assert team.file.read_text().startswith("# where each playbook is\n[playbooks]\npayments = ")
    payments.call("add", "pat", "Keep functions small.")
    assert payments.call("verify", "--anchor", head).out == ""
    assert payments.json("ledgers")["playbooks"][0]["ledger"] == team.url("c")
    assert payments.json("move", "payments", "--to", team.url("c"))["ledger"] == team.url("c")
    # Another person's directory still has the old place first, and knows the new one by another name.
    team.names(**{"payments": "a", "web-*": "c"})
    assert [one["name"] for one in payments.json("list")] == ["pat-001", "pat-002"]
    payments.call("add", "mis", "Mocking the clock.")
    back = payments.json("move", "payments", "--to", team.url("a"))
    assert back["head"] == payments.call("head").out.strip()
    assert payments.counters() == {"pat-001": (1, 0), "pat-002": (0, 0), "mis-001": (0, 0)}


def test_who_has_only_the_old_place_is_refused_with_the_new_one_and_keeps_the_delivery(
    payments: Agent, team: Team
) -> None:
    payments.call("move", "payments", "--to", team.url("c"))
    team.names(**{"*": "a"})
    path = Session("s-2").cites("pat-001", "helpful").write(team.folder / "2.jsonl")
    payments.hook("SessionEnd", session_id="s-2", transcript_path=str(path))
    for command in (["add", "pat", "Lost?"], ["drain"], ["list"]):
        ran = payments.call(*command, code=1)
        assert f"the playbook 'payments' moved from {team.folder / 'a.db'} to {team.url('c')}" in ran.err
    team.names(**{"*": "c"})
    payments.call("drain")
    assert payments.counters()["pat-001"] == (2, 0)


def test_a_project_s_own_ledger_moves_to_a_place_and_the_project_says_where(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.call("drain")
    url = f"sqlite:///{tmp_path / 'team.db'}"
    assert agent.json("move", "default", "--to", url)["switched"] is False
    assert f"to {url}" in agent.call("add", "pat", "Lost?", code=1).err
    agent.call("config", "set", "--global", "ledger_url", url)
    agent.call("add", "pat", "Found.")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["paymens", "--to", "sqlite:///x.db"], "did you mean 'payments'"),
        (["payments", "pat", "--to", "sqlite:///x.db"], "leave out SECTION"),
        (["payments"], "name the section"),
        (["payments", "pat", "--lost"], "name another one with --to"),
    ],
)
def test_a_move_that_cannot_be_meant_is_a_usage_error(payments: Agent, words: list[str], what: str) -> None:
    assert what in payments.call("move", *words, code=2).err


def test_where_the_new_ledger_is_lost_the_playbook_goes_on_behind_the_seal(payments: Agent, team: Team) -> None:
    head = payments.call("head").out.strip()
    payments.call("move", "payments", "--to", team.url("c"))
    assert "which answers" in payments.call("move", "payments", "--to", team.url("a"), "--lost", code=2).err
    team.names(**{"*": "a"})
    (team.folder / "c.db").unlink()
    (team.folder / "c.db.lock").unlink()
    payments.call("move", "payments", "--to", team.url("a"), "--lost")
    payments.call("add", "pat", "Keep functions small.")
    assert payments.call("verify", "--anchor", head).out == ""


@pytest.mark.postgres
def test_a_playbook_moves_to_a_server_without_its_password_being_shown(
    payments: Agent, team: Team, postgres: Postgres
) -> None:
    with postgres.database() as url:
        ran = payments.call("move", "payments", "--to", url)
        assert payments.json("ledgers")["playbooks"][0]["ledger"].startswith("postgresql://")
        payments.call("add", "pat", "Keep functions small.")
        payments.call("move", "payments", "--to", team.url("a"))
    assert "@" not in ran.out + ran.err
    assert payments.call("verify").out == ""


def test_every_playbook_answers_each_question(payments: Agent, team: Team) -> None:
    web = team.agent("web-shop")
    web.call("add", "pat", "Measure before you tune.")
    for question in ("stats", "citations", "failures"):
        (one, other) = payments.json("ledgers", question)["playbooks"]
        assert one["answer"] == _own(payments.json(question))
        assert other["answer"] == _own(web.json(question))
        assert "payments" in payments.call("ledgers", question).out or question == "failures"
    assert payments.json("ledgers", "verify")["playbooks"][0]["answer"] == []
    assert "2 playbooks in 2 ledgers verified" in payments.call("ledgers", "verify").err


def _own(answer: object) -> object:
    return {**answer, "month": None} if isinstance(answer, dict) else answer


def test_a_ledger_that_is_down_is_named_and_the_others_answer(payments: Agent, team: Team) -> None:
    team.file.write_text(f'{team.file.read_text()}"ops" = "postgresql://me:s3cret@127.0.0.1:1/x"\n')
    found = payments.json("ledgers", "stats", code=1)
    assert [one["playbook"] for one in found["playbooks"]] == ["payments"]
    assert [one["ledger"] for one in found["down"]] == ["postgresql://127.0.0.1:1/x"]
    ran = payments.call("ledgers", code=1)
    assert "payments" in ran.out
    assert "No answer: the ledger postgresql://me:***@127.0.0.1:1/x has no connection" in ran.err
    assert "s3cret" not in ran.out + ran.err


def test_a_finding_is_named_with_its_playbook(payments: Agent, team: Team) -> None:
    tamper(payments, Path(team.folder / "a.db"))
    ran = payments.call("ledgers", "verify", code=1)
    assert all(line.startswith("payments: ") for line in ran.out.splitlines())
    assert "payments: position " in ran.out
    assert payments.json("ledgers", "verify", code=1)["playbooks"][0]["answer"]


def test_a_playbook_that_went_to_an_unknown_place_is_listed_with_it(payments: Agent, team: Team) -> None:
    payments.call("move", "payments", "--to", team.url("c"))
    team.names(**{"*": "a"})
    payments.environ["REFLECTOR_PLAYBOOK"] = "other"
    (one,) = payments.json("ledgers", "stats")["playbooks"]
    assert (one["moved_to"], one["answer"]) == (team.url("c"), None)
    assert f"moved to {team.url('c')}" in payments.call("ledgers").out


def test_without_a_directory_the_command_says_how_to_begin_one(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    told = agent.call("ledgers", "stats", code=2).err
    assert "ledgers.toml does not exist" in told
    assert "answers `reflector stats`" in told
    assert "which has no roles" in agent.call("grants", "--role", "reader", code=2).err


@pytest.mark.parametrize("patterns", [{}, {"*": "a"}])
def test_a_bullet_that_is_named_where_a_playbook_moves_is_called_one(team: Team, patterns: dict[str, str]) -> None:
    agent = team.agent("payments")
    if patterns:
        team.names(**patterns)
    agent.call("add", "pat", "Run the tests.")
    assert "pat-001 is the name of a bullet" in agent.call("move", "pat-001", "--to", team.url("c"), code=2).err


def test_nothing_of_a_ledger_that_is_not_there_is_made(payments: Agent, team: Team) -> None:
    team.names(**{"ops": "gone", "*": "a"})
    payments.call("ledgers")
    assert not (team.folder / "gone.db").exists()
    assert list(directory()) == ["ops", "*"]
    with Ledger.open(team.url("a"), "payments") as ledger:
        assert ledger.head().position > 0
