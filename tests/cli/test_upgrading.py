"""The first command after an upgrade says how far it is."""

from __future__ import annotations

import sqlite3

import pytest

from reflector.cli import app
from reflector.ledger.statements import CODE_VERSION
from tests.processes import REFLECTOR
from tests.road.agent import Agent
from tests.terminal import sent


def _made_by_an_older_version(agent: Agent) -> None:
    agent.call("list")
    with sqlite3.connect(agent.ledger) as connection:
        connection.execute("UPDATE projection SET code_version = ? WHERE name = 'tables'", (CODE_VERSION - 1,))
    connection.close()


def test_an_upgrade_that_takes_long_is_one_line_where_nobody_watches(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    _made_by_an_older_version(agent)
    monkeypatch.setattr(app, "_LONG_S", -1)
    told = agent.call("list")
    assert told.err.count("upgrading") == 1
    assert told.err.startswith("reflector: upgrading the ledger once: ")
    assert agent.call("list").err == ""


def test_a_short_upgrade_says_nothing(agent: Agent) -> None:
    _made_by_an_older_version(agent)
    assert agent.call("list").err == ""


def test_a_terminal_shows_a_bar_of_an_upgrade(agent: Agent) -> None:
    _made_by_an_older_version(agent)
    assert "upgrading the ledger" in sent(agent, 80, [*REFLECTOR, "list"])
