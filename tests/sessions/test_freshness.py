"""Whether a question may be answered at once: only where nothing happened since the last one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reflector.project import Project
from reflector.sessions import spool
from tests.road.agent import Agent


def _is_seen(agent: Agent) -> bool:
    project = Project.at(agent.project)
    with project.open_ledger() as ledger:
        return spool.was_seen(project, spool.seen(project, ledger))


def _edited(agent: Agent) -> None:
    agent.playbook.write_text(agent.playbook.read_text().replace("Keep functions small.", "Keep them small."))


@pytest.mark.parametrize("happens", [Agent.ended, _edited, lambda agent: agent.call("add", "pat", "More advice.")])
def test_whatever_happens_after_a_question_is_noticed(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Agent], object]
) -> None:
    monkeypatch.setenv("HOME", str(agent.home))
    for _ in range(3):
        agent.call("list")
    assert _is_seen(agent)
    happens(agent)
    assert not _is_seen(agent)
