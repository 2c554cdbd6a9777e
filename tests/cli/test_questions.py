"""docs/questions.md is executed: each example prints what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from reflector.cli.commands import COMMANDS, GROUPS
from tests.road.agent import Agent

PAGE = (Path(__file__).parents[2] / "docs" / "questions.md").read_text("utf-8")
#: The only thing that differs from run to run.
TIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}")


@pytest.fixture
def demo(tmp_path: Path) -> Agent:
    agent = Agent(tmp_path / "demo", tmp_path / "home")
    agent.home.mkdir()
    agent.call("demo", "--keep", agent.project)
    return agent


def examples() -> list[tuple[str, str]]:
    """(command, what it prints) of every example, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ reflector ", block, flags=re.MULTILINE)[1:]]
    return [(command, told) for command, _, told in (part.partition("\n") for part in parts)]


def test_every_example_prints_what_the_page_shows(demo: Agent) -> None:
    for command, told in examples():
        ran = demo.call("--project", demo.project, *shlex.split(command))
        assert TIME.sub("TIME", ran.out) == TIME.sub("TIME", told), (
            f"docs/questions.md: below `reflector {command}` write what it prints\n{ran.out}"
        )


def test_every_command_of_the_page_exists_and_every_question_is_on_it() -> None:
    named = set(re.findall(r"`(?:reflector )?([a-z]+(?:-[a-z]+)*)(?: [^`]*)?`", PAGE))
    shown = (named | {command.split()[0] for command, _ in examples()}) & set(COMMANDS)
    lacking = {"list", "policy", "export", *GROUPS["Questions"]} - shown
    assert not lacking, f"docs/questions.md lacks {', '.join(sorted(lacking))}"


@pytest.mark.parametrize("moment", ["7", "b83e4d11", "2199-01-01"])
def test_an_export_of_a_moment_is_the_file_of_then(demo: Agent, moment: str) -> None:
    before = demo.call("--project", demo.project, "export", "--as-of", moment).out
    demo.call("--project", demo.project, "policy", "adopt", "once_per_session")
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
