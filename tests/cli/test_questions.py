"""What `log` and `list` find, follow and sort, an export of a moment, and the first question after an upgrade."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from reflector.ledger.statements import CODE_VERSION
from tests.road.agent import Agent


def test_an_export_of_a_moment_is_the_file_of_then(tmp_path: Path) -> None:
    demo = Agent(tmp_path / "demo", tmp_path / "home")
    demo.home.mkdir()
    demo.call("demo", "--keep", demo.project)

    def exports() -> list[str]:
        moments = ("7", "b83e4d11", "2199-01-01")
        return [demo.call("--project", demo.project, "export", "--as-of", moment).out for moment in moments]

    before = exports()
    assert before[-1].encode() == demo.playbook.read_bytes()
    demo.call("--project", demo.project, "ledger", "policy", "once_per_session")
    demo.call("--project", demo.project, "add", "oth", "Something new")
    assert exports() == [*before[:-1], demo.playbook.read_text()]


def test_list_finds_sorts_and_cuts_and_shows_how_often_a_bullet_was_used(lived_in: Agent) -> None:
    for options, names in (
        ("--section mistakes", ["mis-001"]),
        ("--search zebra", []),
        ("--stale 36500", ["mis-001", "ctx-001"]),
        ("--sort used --limit 1", ["pat-001"]),
    ):
        assert [row["name"] for row in lived_in.json("list", *options.split())] == names, options
    assert lived_in.json("list", "--search", "failing TEST")[0]["name"] == "pat-001"
    assert "No bullet matches." in lived_in.call("list", "--search", "zebra").err
    row = next(row for row in lived_in.json("list") if row["name"] == "pat-001")
    assert (row["used"], row["told"]) == (2, True)
    header, *rows = lived_in.call("list").out.splitlines()
    assert header.split() == ["name", "helpful", "harmful", "used", "trend", "text"]
    assert any(line.startswith("pat-001") and "+." in line for line in rows)


def test_an_upgrade_is_said_once(agent: Agent) -> None:
    agent.call("list")
    with closing(sqlite3.connect(agent.ledger, isolation_level=None)) as connection:
        connection.execute("UPDATE projection SET code_version = ? WHERE name = 'tables'", (CODE_VERSION - 1,))
    assert ["filled again, once after an upgrade" in agent.call("list").err for _ in range(2)] == [True, False]
