"""Whether a question may be answered at once: only where nothing happened since the last one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reflector.project import Project
from reflector.sessions import spool
from tests.road.agent import Agent


def _is_seen(agent: Agent) -> bool:
    project = Project.at(agent.project)
    with project.open_ledger() as ledger:
        return spool.was_seen(project, spool.seen(project, ledger))


def _ended(agent: Agent) -> None:
    agent.ended()


def _edited(agent: Agent) -> None:
    document = json.loads(agent.playbook.read_text())
    document["sections"]["PATTERNS & APPROACHES"] = []
    agent.playbook.write_text(json.dumps(document))


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    agent = Agent.in_folder(tmp_path)
    monkeypatch.setenv("HOME", str(agent.home))
    for _ in range(3):
        agent.call("list")
    return agent


def test_a_question_after_which_nothing_happened_is_known(agent: Agent) -> None:
    assert _is_seen(agent)


@pytest.mark.parametrize("happens", [_ended, _edited, lambda agent: agent.call("add", "pat", "More advice.")])
def test_whatever_happens_is_noticed(agent: Agent, happens: Callable[[Agent], object]) -> None:
    happens(agent)
    assert not _is_seen(agent)
