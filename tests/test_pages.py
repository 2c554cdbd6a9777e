"""The pages for every day are played in a project, command by command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import play, section
from tests.road.agent import Agent
from tests.road.sessions import Session

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def you(tmp_path: Path) -> Agent:
    """A person with an empty home, who is in an empty project."""
    agent = Agent(tmp_path / "you" / "shop", tmp_path / "you")
    agent.claude.mkdir(parents=True)
    return agent


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def test_the_page_about_editing_does_what_it_says(you: Agent) -> None:
    play(page("editing").partition("\n## How the playbook grows\n")[0], you)


def test_the_page_about_context_shows_what_a_session_is_told(you: Agent) -> None:
    you.claude.rmdir()
    you.project.rmdir()
    you.call("demo", "--keep", you.project)
    play(section("counting.md", "What it costs in context"), you)


def test_the_page_about_trouble_follows_a_session_to_its_count(you: Agent) -> None:
    you.call("--project", you.project, "add", "pat", "Run the tests before you commit")
    Session("7d1e04aa").user("Rename the function.").agent("Done.").write(you.project / "uncited.jsonl")
    Session("c40a95f2").cites("pat-001", None).write(you.project / "cited.jsonl")
    Session("b83e4d11").cites("pat-001", "helpful").write(you.project / "helped.jsonl")
    play(page("troubleshooting"), you)
