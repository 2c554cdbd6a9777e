"""`reflector ledger revisions` and `upgrade`: where a ledger's schema is, and bringing it on."""

import sqlite3
from contextlib import closing

import pytest

from reflector.ledger.migration import HEAD_REVISION
from tests.road.agent import Agent


@pytest.fixture
def older(agent: Agent) -> Agent:
    """A project whose ledger says that it has the revision before the newest."""
    agent.call("list")
    with closing(sqlite3.connect(agent.ledger)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0009'")
    return agent


def revision(agent: Agent) -> str:
    with closing(sqlite3.connect(agent.ledger)) as connection:
        (found,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(found)


def test_revisions_names_the_one_in_force(older: Agent) -> None:
    rows = [line.split() for line in older.call("ledger", "revisions").out.splitlines()]
    assert [row[0] for row in rows if "force" in row] == ["0009"]
    assert revision(older) == "0009"


def test_looking_leaves_the_journal_mode(older: Agent) -> None:
    with closing(sqlite3.connect(older.ledger)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    before = older.ledger.read_bytes()
    older.call("ledger", "revisions")
    older.call("ledger", "upgrade", "--dry-run")
    assert older.ledger.read_bytes() == before


def test_looking_makes_no_ledger(agent: Agent) -> None:
    agent.environ["REFLECTOR_LEDGER_URL"] = f"sqlite:///{agent.home}/nope.db"
    agent.call("ledger", "revisions", code=None)
    assert not (agent.home / "nope.db").exists()


def test_printed_upgrade_changes_nothing(older: Agent) -> None:
    printed = older.call("ledger", "upgrade", "--dry-run").out
    assert "DROP TABLE IF EXISTS bullet_status" in printed
    assert revision(older) == "0009"


def test_upgrade_brings_the_newest_revision(older: Agent) -> None:
    older.call("ledger", "upgrade")
    assert revision(older) == HEAD_REVISION
    assert older.call("verify").out == ""


def test_upgrade_has_nothing_to_do(agent: Agent) -> None:
    agent.call("list")
    assert "already has the newest revision" in agent.call("ledger", "upgrade").err
