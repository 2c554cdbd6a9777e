"""What `status` shows of a project."""

from pathlib import Path

import pytest

from reflector.sessions import former_shares
from tests.ledger.events import added, reflected, window
from tests.road.agent import Agent


def test_status_shows_that_the_project_is_off(agent: Agent) -> None:
    agent.call("config", "set", "enabled", "false")
    file = agent.claude / "reflector.toml"
    assert f"off       switched off in {file}; on again: reflector on\n" in agent.call("status").out
    assert agent.json("status")["off"] == str(file)


def test_status_of_a_recorded_project_omits_off(agent: Agent) -> None:
    assert "\noff " not in agent.call("status").out
    assert agent.json("status")["off"] is None


def test_status_names_a_playbook_that_cannot_be_opened(agent: Agent, tmp_path: Path) -> None:
    agent.call("drain")
    agent.playbook.unlink()
    agent.playbook.symlink_to(tmp_path / "elsewhere.json")
    said = agent.call("status", code=1).out
    assert f"problem   {agent.playbook}" in said


@pytest.fixture
def uneven(agent: Agent) -> Agent:
    """A rule that one session of three windows calls harmful, and one session helpful."""
    with agent.open_ledger() as ledger:
        ledger.append([added("oth-001", "Keep it small")])
        for number in range(4):
            seen = window(number, "long" if number else "short")
            tag = "harmful" if number else "helpful"
            ledger.append([seen, *reflected(f"r{number}", seen, ("oth-001", tag))])
    return agent


def test_status_shows_changed_figures_once(uneven: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former_shares, "_SINCE", "9999")
    change = "oth-001 helped 1, harmed 1; before 1, 3: each session has one vote now"
    assert change in uneven.call("status", code=None).err
    assert "each session has one vote" not in uneven.call("status", code=None).err


def test_status_of_a_new_ledger_shows_no_change(uneven: Agent) -> None:
    assert "each session has one vote" not in uneven.call("status", code=None).err
