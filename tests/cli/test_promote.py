"""A bullet given from a project to the user's own playbook: the text moves, the evidence stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.road.agent import Agent


def live(agent: Agent, *which: str) -> dict[str, tuple[str, int, int]]:
    return {row["name"]: (row["text"], row["helpful"], row["harmful"]) for row in agent.json(*which, "list")}


def test_a_promoted_bullet_is_the_users_under_a_new_name_and_begins_without_counts(agent: Agent) -> None:
    told = agent.call("promote", "pat-002", "--to", "user")
    assert told.out == "[pat-9001] helpful=0 harmful=0 :: Keep functions small.\n"
    assert live(agent, "--user") == {"pat-9001": ("Keep functions small.", 0, 0)}
    (added,) = agent.json("--user", "log", "--type", "bullet.added")
    assert added["data"]["origin"] == f"promoted from pat-002 of {agent.project} (helpful=3 harmful=1)"


def test_the_projects_bullet_is_retired_into_the_new_name(agent: Agent) -> None:
    agent.call("promote", "pat-002", "--to", "user")
    assert "pat-002" not in live(agent)
    assert "pat-002" not in agent.counters()
    gone = next(row for row in agent.json("list", "--all") if row["name"] == "pat-002")
    assert (gone["status"], gone["reason"], gone["removed_into"]) == ("removed", "promoted", "pat-9001")
    assert "removed (promoted, into pat-9001)" in agent.call("show", "pat-002").out
    text = agent.hook("SessionStart")
    assert "[pat-9001]" in text
    assert "[pat-002]" not in text


def test_a_bullet_that_is_kept_stays_with_its_counts(agent: Agent) -> None:
    agent.call("promote", "pat-002", "--to", "user", "--keep")
    assert live(agent)["pat-002"] == ("Keep functions small.", 3, 1)
    assert live(agent, "--user") == {"pat-9001": ("Keep functions small.", 0, 0)}


def test_a_promotion_that_was_interrupted_is_finished_by_the_next_one(agent: Agent) -> None:
    agent.call("promote", "pat-002", "--to", "user", "--keep")
    told = agent.call("promote", "pat-002", "--to", "user")
    assert "exactly this already, as pat-9001" in told.err
    assert list(live(agent, "--user")) == ["pat-9001"]
    assert "pat-002" not in live(agent)
    for which in ([], ["--user"]):
        agent.call(*which, "verify")
        agent.call(*which, "rebuild", "--check")


def test_the_same_advice_of_two_projects_becomes_one_bullet(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = Agent.in_folder(tmp_path / "b")
    other.home = agent.home
    agent.call("promote", "pat-002", "--to", "user")
    other.call("promote", "pat-002", "--to", "user")
    assert list(live(agent, "--user")) == ["pat-9001"]


def test_what_cites_the_new_name_counts_for_the_user(agent: Agent) -> None:
    agent.call("promote", "pat-002", "--to", "user")
    agent.counted("pat-9001")
    assert live(agent, "--user") == {"pat-9001": ("Keep functions small.", 1, 0)}


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [
        (["promote", "pat-02", "--to", "user"], 2, "Did you mean pat-002?"),
        (["promote", "pat-002"], 2, "--to"),
        (["promote", "pat-002", "--to", "team"], 2, "user"),
        (["--user", "promote", "pat-9001", "--to", "user"], 2, "is your own playbook already"),
    ],
)
def test_what_cannot_be_promoted_is_refused(agent: Agent, arguments: list[str], code: int, wanted: str) -> None:
    assert wanted in agent.call(*arguments, code=code).err


def test_a_bullet_that_was_promoted_already_is_told_where_it_went(agent: Agent) -> None:
    agent.call("promote", "pat-002", "--to", "user")
    assert "promoted, into pat-9001" in agent.call("promote", "pat-002", "--to", "user", code=1).err
