"""Backups from the command line: playbook.json and the agent's text follow the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.road.agent import Agent


@pytest.fixture
def kept(agent: Agent, tmp_path: Path) -> Agent:
    """A project with a backup of the day before its last session."""
    agent.counted()
    head = agent.call("ledger", "backup", tmp_path / "b.db").out
    assert head == agent.call("ledger", "head").out
    agent.counted(id="s-2")
    return agent


def test_a_restored_playbook_is_that_of_the_backup_and_what_came_since_is_taken_in_again(
    kept: Agent, tmp_path: Path
) -> None:
    assert "--force" in kept.call("ledger", "restore", tmp_path / "b.db", code=1).err
    assert kept.counters()["pat-001"] == (2, 0)
    kept.call("ledger", "restore", "--force", tmp_path / "b.db")
    assert kept.counters()["pat-001"] == (1, 0)
    assert kept.events("bullet.recounted") == []
    assert "helpful=1 " in kept.hook("SessionStart", source="startup")
    kept.call("ingest", kept.home / "s-1.jsonl", kept.home / "s-2.jsonl")
    assert kept.counters()["pat-001"] == (2, 0)
    kept.call("verify")
    kept.call("rebuild", "--check")


def test_advice_from_after_the_backup_comes_back_with_its_counts_as_restore_says(agent: Agent, tmp_path: Path) -> None:
    agent.call("add", "pat", "Read the log.")
    agent.call("ledger", "backup", tmp_path / "b.db")
    name = agent.call("add", "pat", "Ask first.").out[1:8]
    agent.counted(name)
    assert agent.counters()[name] == (1, 0)
    told = agent.call("ledger", "restore", "--force", tmp_path / "b.db").err
    sessions, advice = told.index("`reflector import-history`"), told.index("`reflector import /")
    assert sessions < advice
    agent.call("ingest", agent.home / "s-1.jsonl")
    agent.call("import", told[advice:].split("`")[1].removeprefix("reflector import "))
    assert agent.counters()[name] == (1, 0)


def test_an_edit_by_hand_is_kept_where_the_ledger_is_broken(kept: Agent, tmp_path: Path) -> None:
    edited = kept.playbook.read_text().replace("Keep functions small.", "Keep functions tiny.")
    kept.playbook.write_text(edited)
    for part in kept.state.glob("ledger.db-*"):
        part.unlink()
    kept.ledger.write_bytes(b"broken" * 1000)
    told = kept.call("ledger", "restore", "--force", tmp_path / "b.db").err
    assert "Keep functions small." in kept.playbook.read_text()
    assert edited in [path.read_text() for path in (kept.state / "kept").iterdir()]
    assert str(kept.state / "kept") in told
    assert kept.counters()["pat-001"] == (1, 0)


def test_a_new_checkout_with_a_playbook_and_no_ledger_takes_the_backup(kept: Agent, tmp_path: Path) -> None:
    for path in kept.state.glob("ledger.db*"):
        path.unlink()
    kept.call("ledger", "restore", tmp_path / "b.db")
    assert kept.counters()["pat-001"] == (1, 0)


def test_where_there_is_no_ledger_nothing_is_backed_up(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    agent = Agent(tmp_path / "empty", tmp_path)
    assert "no ledger" in agent.call("--project", tmp_path / "empty", "ledger", "backup", tmp_path / "b.db", code=2).err
    assert not (tmp_path / "b.db").exists()
