"""`reflector config`: settings are shown with their origin, and changed without harm to the rest of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.road.agent import Agent


def own(agent: Agent) -> Path:
    return agent.project / ".claude" / "reflector.toml"


def test_each_setting_is_listed_with_where_it_comes_from(agent: Agent) -> None:
    agent.call("config", "set", "idle_minutes", "30")
    agent.call("config", "set", "--global", "max_attempts", "3")
    agent.environ["REFLECTOR_PLAYBOOK"] = "other"
    listed = json.loads(agent.call("config", "list", "--json").out)
    assert listed["idle_minutes"] == {"value": 30, "origin": str(own(agent))}
    assert listed["max_attempts"]["value"] == 3
    assert listed["max_attempts"]["origin"].endswith("reflector/config.toml")
    assert listed["backend"] == {"value": "rules", "origin": "default"}
    assert "idle_minutes" in agent.call("config").out


def test_comments_and_order_of_a_file_stay(agent: Agent) -> None:
    own(agent).write_text("# ours\nidle_minutes = 5  # short\nuncited = true\n")
    agent.call("config", "set", "idle_minutes", "7")
    assert own(agent).read_text() == "# ours\nidle_minutes = 7  # short\nuncited = true\n"
    agent.call("config", "unset", "uncited")
    assert own(agent).read_text() == "# ours\nidle_minutes = 7  # short\n"
    assert agent.call("config", "get", "idle_minutes").out == "7\n"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("idle_minutes", "soon"), "it takes a whole number"),
        (("idle_minutes", "0"), "at least 1"),
        (("backend", "rule"), "did you mean 'rules'"),
        (("api_key", "k"), "add --global"),
        (("monthly_tokens", "6000000"), "may only be lowered"),
        (("uncited", "true", "false"), "takes one value"),
    ],
)
def test_a_value_that_is_refused_leaves_the_file_as_it_was(
    agent: Agent, arguments: tuple[str, ...], wanted: str
) -> None:
    own(agent).write_text("idle_minutes = 5\n")
    assert wanted in agent.call("config", "set", *arguments, code=2).err
    assert own(agent).read_text() == "idle_minutes = 5\n"


def test_a_misspelt_setting_can_be_removed(agent: Agent) -> None:
    own(agent).write_text("backned = 'rules'\n")
    assert "did you mean" in agent.call("config", code=2).err
    agent.call("config", "unset", "backned")
    assert agent.call("config", "get", "backend").out == "rules\n"


def test_a_key_is_kept_from_others_and_never_shown(agent: Agent) -> None:
    agent.call("config", "set", "--global", "api_key", "sk-secret")
    listed = json.loads(agent.call("config", "list", "--json").out)["api_key"]
    assert listed["value"] == "(set)"
    assert Path(listed["origin"]).stat().st_mode & 0o077 == 0


def test_a_setting_that_something_nearer_overrides_says_so(agent: Agent) -> None:
    agent.environ["REFLECTOR_IDLE_MINUTES"] = "9"
    assert "REFLECTOR_IDLE_MINUTES wins" in agent.call("config", "set", "idle_minutes", "5").err


def test_a_link_in_the_place_of_a_projects_settings_is_not_followed(agent: Agent, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.toml"
    target.write_text("idle_minutes = 5\n")
    own(agent).symlink_to(target)
    agent.call("config", "set", "idle_minutes", "6", code=1)
    assert target.read_text() == "idle_minutes = 5\n"


@pytest.mark.parametrize("values", [("~/a b/*", "~/c"), ('["~/a b/*", "~/c"]',), ("""['~/a b/*', "~/c"]""",)])
def test_a_list_is_set_value_by_value_or_as_the_file_spells_it(agent: Agent, values: tuple[str, ...]) -> None:
    agent.call("config", "set", "--global", "projects", *values)
    assert agent.json("config", "list")["projects"]["value"] == ["~/a b/*", "~/c"]


@pytest.mark.parametrize("value", ['["~/a', "[1, 2]", '["~/a"] = 1', '["~/a"]\ny = ["~/b"]', "[" * 5000 + "]" * 5000])
def test_a_list_that_cannot_be_read_is_not_taken_for_a_value(agent: Agent, value: str) -> None:
    told = agent.call("config", "set", "--global", "projects", value, code=2).err
    assert "reflector config set projects --global VALUE VALUE" in " ".join(told.split())
    assert agent.json("config", "list")["projects"]["value"] == []


def test_a_single_value_that_begins_with_a_bracket_is_refused_with_the_form_that_takes_it(agent: Agent) -> None:
    told = " ".join(agent.call("config", "set", "--global", "projects", "[a-z]*/x", code=2).err.split())
    assert """reflector config set projects --global '["…"]'""" in told
    agent.call("config", "set", "--global", "projects", '["[a-z]*/x"]')
    assert agent.json("config", "list")["projects"]["value"] == ["[a-z]*/x"]


def test_a_key_that_is_no_setting_gets_the_nearest_one_or_the_way_to_the_list(agent: Agent) -> None:
    assert "'bakend' is not a setting; did you mean 'backend'?" in agent.call("config", "get", "bakend", code=2).err
    told = agent.call("config", "set", "zzz", "1", code=2).err
    assert "'zzz' is not a setting; `reflector config` lists the settings" in told
    assert "config set [OPTIONS] KEY VALUE..." in told


def test_a_change_says_what_is_in_force_and_what_the_backend_lacks(agent: Agent) -> None:
    set_ = agent.call("config", "set", "--global", "backend", "anthropic")
    assert set_.out == "backend = anthropic\n"
    assert set_.err.endswith(": no API key; export ANTHROPIC_API_KEY=…\n")
    assert "no API key; export ANTHROPIC_API_KEY=…" in agent.call("status").out
    assert agent.json("status")["backend_lacks"].endswith("no API key; export ANTHROPIC_API_KEY=…")
    agent.environ["ANTHROPIC_API_KEY"] = "k"
    assert agent.call("config", "set", "--global", "backend", "anthropic").err == ""
    assert agent.json("status")["backend_lacks"] is None
    unset = agent.call("config", "unset", "--global", "backend")
    assert (unset.out, unset.err) == ("backend = rules\n", "")


def test_a_file_that_is_left_empty_is_removed_and_one_with_a_comment_is_not(agent: Agent) -> None:
    agent.call("config", "set", "idle_minutes", "7")
    agent.call("config", "unset", "idle_minutes")
    assert not own(agent).exists()
    own(agent).write_text("# ours\nidle_minutes = 7\n")
    agent.call("config", "unset", "idle_minutes")
    assert own(agent).read_text() == "# ours\n"
