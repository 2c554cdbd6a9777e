"""`reflector config`: settings are shown with their origin, and changed without harm to the rest
of a file.
"""

from pathlib import Path

import pytest

from tests.road.agent import Agent


def own(agent: Agent) -> Path:
    return agent.project / ".claude" / "reflector.toml"


def test_each_setting_is_listed_with_its_origin(agent: Agent) -> None:
    agent.call("config", "set", "idle_minutes", "30")
    agent.environ["REFLECTOR_IDLE_MINUTES"] = "9"
    assert (
        "REFLECTOR_IDLE_MINUTES overrides it"
        in agent.call("config", "set", "idle_minutes", "30").err
    )
    agent.environ = {}
    agent.call("config", "set", "--global", "max_attempts", "3")
    agent.call("config", "set", "--global", "projects", "~/a b/*", "~/c")
    assert agent.json("config", "list")["projects"]["value"] == ["~/a b/*", "~/c"]
    agent.environ["REFLECTOR_PLAYBOOK"] = "other"
    listed = agent.json("config", "list")
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
    own(agent).write_text("backned = 'rules'\n")
    assert "did you mean 'backend'?" in agent.call("list", code=2).err
    agent.call("config", "unset", "backned")
    assert not own(agent).exists()


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("idle_minutes", "0"), "at least 1"),
        (("api_key", "k"), "reflector config set --global api_key VALUE"),
        (("ledger_url", "sqlite:///x"), "reflector config set --global ledger_url VALUE"),
        (("memory_user", "true"), "reflector config set --global memory_user true"),
        (("monthly_tokens", "6000000"), "cannot exceed"),
        (("uncited", "true", "false"), "takes one value"),
        (("--global", "projects", '["~/a'), "reflector config set --global projects VALUE VALUE"),
        (("bakend", "1"), "'bakend' is not one of 'backend', 'ledger_url',"),
    ],
)
def test_refused_value_leaves_the_file_unchanged(
    agent: Agent, arguments: tuple[str, ...], wanted: str
) -> None:
    own(agent).write_text("idle_minutes = 5\n")
    assert wanted in " ".join(agent.call("config", "set", *arguments, code=2).err.split())
    assert own(agent).read_text() == "idle_minutes = 5\n"


def test_key_is_private_and_never_shown(agent: Agent) -> None:
    agent.call("config", "set", "--global", "api_key", "sk-secret")
    listed = agent.json("config", "list")["api_key"]
    assert listed["value"] == "(set)"
    assert Path(listed["origin"]).stat().st_mode & 0o077 == 0


def test_linked_settings_of_a_project_are_not_followed(agent: Agent, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.toml"
    target.write_text("idle_minutes = 5\n")
    own(agent).symlink_to(target)
    agent.call("config", "set", "idle_minutes", "6", code=1)
    assert target.read_text() == "idle_minutes = 5\n"


def test_change_reports_the_setting_and_missing_key(agent: Agent) -> None:
    set_ = agent.call("config", "set", "--global", "backend", "anthropic")
    assert set_.out == "backend = anthropic\n"
    assert set_.err.endswith(": the API key is missing; export ANTHROPIC_API_KEY=…\n")
    assert agent.json("status")["backend_lacks"].endswith(
        "the API key is missing; export ANTHROPIC_API_KEY=…"
    )
    agent.environ["ANTHROPIC_API_KEY"] = "k"
    assert agent.call("config", "set", "--global", "backend", "anthropic").err == ""
    assert agent.json("status")["backend_lacks"] is None
    unset = agent.call("config", "unset", "--global", "backend")
    assert (unset.out, unset.err) == ("backend = rules\n", "")


def off_file(agent: Agent) -> str | None:
    value: str | None = agent.json("status")["off"]
    return value


def test_off_stops_hooks_in_a_project(agent: Agent) -> None:
    agent.call("list")
    out = agent.call("off").out
    assert f"reflector is off in {agent.project}" in out
    assert own(agent).read_text() == "enabled = false\n"
    assert agent.hook("SessionStart", source="startup") == ""
    agent.ended()
    assert agent.deliveries() == []
    assert agent.call("on").out == f"reflector is on in {agent.project}.\n"
    assert not own(agent).exists()
    assert "[pat-002]" in agent.hook("SessionStart", source="startup")


def test_status_and_doctor_show_off(agent: Agent) -> None:
    assert off_file(agent) is None
    agent.call("off")
    assert off_file(agent) == str(own(agent))
    assert "; to turn it on: reflector on" in " ".join(agent.call("status").out.split())
    (check,) = [
        check for check in agent.json("doctor", code=None) if "turns reflector off" in check["text"]
    ]
    assert check["mend"] == "reflector on"


def test_off_keeps_other_settings(agent: Agent) -> None:
    own(agent).write_text("# ours\nidle_minutes = 5\n")
    agent.call("off")
    assert own(agent).read_text() == "# ours\nidle_minutes = 5\nenabled = false\n"
    agent.call("on")
    assert own(agent).read_text() == "# ours\nidle_minutes = 5\n"


@pytest.mark.parametrize("setting", [("enabled", "false"), ("off", "{project}")])
def test_on_names_a_setting_of_yours(agent: Agent, setting: tuple[str, str]) -> None:
    key, value = setting
    agent.call("config", "set", "--global", key, value.format(project=agent.project))
    refused = agent.call("on", code=1).err
    assert "config.toml still turns reflector off" in refused


def test_off_is_about_one_project(agent: Agent) -> None:
    refused = agent.call("--user", "off", code=2).err
    assert "reflector config set --global enabled false" in refused


@pytest.mark.parametrize("words", [["turn", "it", "off"], ["turn it off"], ["off"], ["disable"]])
def test_help_finds_off(agent: Agent, words: list[str]) -> None:
    lines = agent.call("help", *words).out.partition("pages:")[0].splitlines()
    assert any(line.split()[:1] == ["off"] for line in lines)
