"""What `status` shows of a project."""

from pathlib import Path

from tests.road.agent import Agent


def test_status_shows_that_the_project_is_off(agent: Agent) -> None:
    agent.call("config", "set", "enabled", "false")
    file = agent.claude / "reflector.toml"
    assert f"off       switched off in {file}; on again: reflector on\n" in agent.call("status").out
    assert agent.json("status")["off"] == str(file)


def test_status_of_a_recorded_project_has_no_row_off(agent: Agent) -> None:
    assert "\noff " not in agent.call("status").out
    assert agent.json("status")["off"] is None


def test_status_names_a_playbook_that_cannot_be_opened(agent: Agent, tmp_path: Path) -> None:
    agent.call("drain")
    agent.playbook.unlink()
    agent.playbook.symlink_to(tmp_path / "elsewhere.json")
    said = agent.call("status", code=1).out
    assert f"problem   {agent.playbook}" in said
