"""A bullet that goes to the user's own playbook, and commands that answers name for that playbook."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.road.agent import Agent


def live(agent: Agent, *which: str) -> dict[str, tuple[str, int, int]]:
    return {row["name"]: (row["text"], row["helpful"], row["harmful"]) for row in agent.json(*which, "list")}


def test_a_bullet_is_the_users_under_a_new_name_and_begins_without_counts(agent: Agent) -> None:
    told = agent.call("revise", "pat-002", "--to-user")
    assert told.out == "[pat-9001] helpful=0 harmful=0 :: Keep functions small.\n"
    assert live(agent, "--user") == {"pat-9001": ("Keep functions small.", 0, 0)}
    (added,) = agent.json("--user", "log", "--type", "bullet.added")
    assert added["data"]["origin"] == f"promoted from pat-002 of {agent.project} (helpful=3 harmful=1)"
    gone = next(row for row in agent.json("list", "--all") if row["name"] == "pat-002")
    assert (gone["status"], gone["reason"], gone["removed_into"]) == ("removed", "promoted", "pat-9001")
    assert "[pat-9001]" in (text := agent.hook("SessionStart"))
    assert "[pat-002]" not in text
    assert "promoted, into pat-9001" in agent.call("revise", "pat-002", "--to-user", code=1).err
    agent.counted("pat-9001")
    assert live(agent, "--user") == {"pat-9001": ("Keep functions small.", 1, 0)}


def test_the_same_text_of_two_projects_becomes_one_bullet(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = Agent.in_folder(tmp_path / "b")
    other.home = agent.home
    agent.call("revise", "pat-002", "--to-user")
    assert "exactly this already, as pat-9001" in other.call("revise", "pat-002", "--to-user").err
    assert list(live(agent, "--user")) == ["pat-9001"]
    for which in ([], ["--user"]):
        agent.call(*which, "verify")
        agent.call(*which, "rebuild", "--check")


def test_what_cannot_go_there_is_refused(agent: Agent) -> None:
    agent.call("--user", "add", "pat", "Read the log first.")
    for arguments, wanted in (
        (["revise", "pat-02", "--to-user"], "Did you mean pat-002?"),
        (["revise", "pat-002"], "TEXT, --section SECTION or --to-user"),
        (["revise", "pat-002", "New.", "--to-user"], "--to-user moves the bullet as it is"),
        (["--user", "revise", "pat-9001", "--to-user"], "is your own playbook already"),
    ):
        assert wanted in agent.call(*arguments, code=2).err


@pytest.mark.parametrize(
    ("asked", "code", "named"),
    [
        ("show pat-9001", 0, "reflector --user blame pat-9001"),
        ("blame zzzz-77", 2, "reflector --user list --all"),
        ("show nobody", 2, "reflector --user log"),
        ("proposals find", 0, "reflector --user proposals decide"),
        ("undo 4000..4001", 1, "reflector --user log"),
        ("revise pat-9002 Other.", 1, "bring it back with `reflector --user undo pat-9002`"),
    ],
)
def test_a_command_that_an_answer_names_is_for_the_same_playbook(
    agent: Agent, asked: str, code: int, named: str
) -> None:
    agent.call("--user", "add", "pat", "Read the log first.")
    agent.call("--user", "add", "pat", "Always read the log first.")
    if "9002" in asked:
        agent.call("--user", "remove", "pat-9002")
    told = agent.call("--user", *asked.split(), code=code)
    assert named in told.out + told.err


def test_a_project_whose_name_has_a_blank_is_named_so_that_it_can_be_typed(agent: Agent, tmp_path: Path) -> None:
    shop = tmp_path / "my shop"
    (shop / ".claude").mkdir(parents=True)
    undo = agent.json("--project", shop, "add", "pat", "Read the log first.")["undo"]
    agent.call(*shlex.split(undo)[1:])
    assert agent.json("--project", shop, "list") == []
