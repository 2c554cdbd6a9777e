"""An export of a moment, and what `list` finds and sorts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.road.agent import Agent


@pytest.fixture
def demo(tmp_path: Path) -> Agent:
    agent = Agent(tmp_path / "demo", tmp_path / "home")
    agent.home.mkdir()
    agent.call("demo", "--keep", agent.project)
    return agent


@pytest.mark.parametrize("moment", ["7", "b83e4d11", "2199-01-01"])
def test_an_export_of_a_moment_is_the_file_of_then(demo: Agent, moment: str) -> None:
    before = demo.call("--project", demo.project, "export", "--as-of", moment).out
    demo.call("--project", demo.project, "ledger", "policy", "once_per_session")
    demo.call("--project", demo.project, "add", "oth", "Something new")
    after = demo.call("--project", demo.project, "export", "--as-of", moment).out
    assert after == before or moment == "2199-01-01"
    if moment == "2199-01-01":
        assert after.encode() == demo.playbook.read_bytes()


def test_list_finds_sorts_and_cuts(lived_in: Agent) -> None:
    def names(*options: str) -> list[str]:
        return [row["name"] for row in lived_in.json("list", *options)]

    assert names("--section", "mistakes") == ["mis-001"]
    assert names("--search", "failing TEST")[0] == "pat-001"
    assert names("--search", "zebra") == []
    assert len(names("--limit", "2")) == 2
    assert names("--sort", "used")[0] == "pat-001"
    assert "pat-001" not in names("--stale", "1")
    assert "mis-001" in names("--stale", "1")
    assert "No bullet matches." in lived_in.call("list", "--search", "zebra").err


def test_list_shows_how_often_and_when_a_bullet_was_used(lived_in: Agent) -> None:
    row = next(row for row in lived_in.json("list") if row["name"] == "pat-001")
    assert (row["used"], row["told"]) == (2, True)
    header, *rows = lived_in.call("list").out.splitlines()
    assert header.split() == ["name", "helpful", "harmful", "used", "trend", "text"]
    assert any(line.startswith("pat-001") and "+." in line for line in rows)
