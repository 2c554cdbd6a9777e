"""The commands that an answer or an error names can be typed as they stand: they are for the same playbook."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.road.agent import Agent
from tests.road.sessions import Session


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A user who has a bullet that a session cited, and one that did harm."""
    agent = Agent.in_folder(tmp_path)
    agent.call("--user", "add", "pat", "Read the log first.")
    told = agent.home / "advice.json"
    harmful = {"name": "pat-9002", "text": "Restart the server.", "helpful": 0, "harmful": 4}
    told.write_text(f'{{"sections": {{"PATTERNS & APPROACHES": [{str(harmful).replace(chr(39), chr(34))}]}}}}')
    agent.call("--user", "import", told)
    session = Session("s-1").cites("pat-9001").cites("pat-9001")
    agent.call("ingest", session.write(agent.home / "s-1.jsonl"))
    return agent


@pytest.mark.parametrize(
    ("asked", "code", "named"),
    [
        ("show pat-9001", 0, "reflector --user blame pat-9001"),
        ("show zzzz-77", 2, "reflector --user list --all"),
        ("session nobody", 2, "reflector --user log"),
        ("prune --apply", 0, "reflector --user restore pat-9002"),
        ("prune", 0, "reflector --user proposals"),
        ("undo 4000..4001", 1, "reflector --user log --undo"),
    ],
)
def test_a_command_that_an_answer_names_is_for_the_users_own_playbook_too(
    agent: Agent, asked: str, code: int, named: str
) -> None:
    told = agent.call("--user", *asked.split(), code=code)
    assert named in told.out + told.err


def test_a_refusal_says_how_to_bring_back_the_users_bullet_and_not_the_projects_of_that_name(agent: Agent) -> None:
    agent.call("--user", "remove", "pat-9001")
    told = agent.call("--user", "revise", "pat-9001", "Read the whole log first.", code=1).err
    assert "put it back with `reflector --user restore pat-9001`" in told
    agent.call("remove", "pat-001")
    assert "put it back with `reflector restore pat-001`" in agent.call("revise", "pat-001", "No.", code=1).err


def test_a_project_whose_name_has_a_blank_is_named_so_that_it_can_be_typed(agent: Agent, tmp_path: Path) -> None:
    shop = tmp_path / "my shop"
    (shop / ".claude").mkdir(parents=True)
    undo = agent.json("--project", shop, "add", "pat", "Read the log first.")["undo"]
    agent.call(*shlex.split(undo)[1:])
    assert agent.json("--project", shop, "list") == []
