"""A ledger on a server that goes away and comes back: sessions wait for it, and what it lost is missed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from reflector.sessions import drain
from tests.conftest import Postgres
from tests.ledger.test_server_trouble import at_a_port, nobody, spelled
from tests.road.agent import Agent

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    with postgres.database() as url:
        yield url


def agent_of(folder: Path, url: str) -> Agent:
    agent = Agent.in_folder(folder)
    agent.environ["REFLECTOR_LEDGER_URL"] = url
    return agent


def test_the_drain_of_a_hook_waits_for_the_server_by_itself(tmp_path: Path, url: str) -> None:
    port = nobody()
    agent = agent_of(tmp_path, spelled(url, "libpq", nobody(), port))
    agent.ended(id="s-1", spawn=True)
    agent.wait_until((agent.state / "away.lock").exists)
    agent.ended(id="s-2", spawn=True)
    assert sum(drain.OUTAGE_PAUSES) == 300
    with at_a_port(url, port):
        agent.wait_until(lambda: agent.counters()["pat-001"] == (2, 0))
    assert agent.deliveries() == []


def test_events_that_a_server_lost_are_missed_until_a_person_has_seen_it(
    tmp_path: Path, postgres: Postgres, url: str
) -> None:
    """An asynchronous standby that takes over is the primary as it was a moment ago: here, a copy of its database."""
    agent = agent_of(tmp_path, url)

    def heads() -> list[dict[str, str]]:
        return [check for check in agent.json("doctor", code=None) if check["name"] == "head"]

    agent.counted(id="s-1")
    name = sa.make_url(url).database
    postgres._run(f"CREATE DATABASE {name}_standby TEMPLATE {name}")
    try:
        agent.counted(id="s-2")
        assert heads() == []
        postgres._run(f"ALTER DATABASE {name} RENAME TO {name}_gone")
        postgres._run(f"ALTER DATABASE {name}_standby RENAME TO {name}")
        agent.ended(id="s-3")
        assert "lost events that its server had acknowledged" in agent.call("drain").err
        (check,) = heads()
        assert (check["state"], "reflector import-history" in check["mend"]) == ("error", True)
        assert agent.call("verify", code=1).out != ""
        agent.counted(id="s-2")
        (file,) = (agent.state / "heads").iterdir()
        file.unlink()
        assert (heads(), agent.counters()["pat-001"]) == ([], (3, 0))
        agent.call("verify")
    finally:
        for end in ("_standby", "_gone"):
            postgres._run(f"DROP DATABASE IF EXISTS {name}{end} WITH (FORCE)")
