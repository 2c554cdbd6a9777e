"""A ledger on a server that goes away and comes back: sessions wait for it, and what it lost is missed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from reflector.sessions import drain
from tests.conftest import Postgres
from tests.ledger.test_several_servers import at_a_port, nobody, spelled
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


def ends(agent: Agent, session: str, *, spawn: bool = False) -> Path:
    """A session that cited a bullet, which helped, and its end."""
    return agent.ended(id=session, spawn=spawn)


def test_a_drain_that_finds_the_server_away_keeps_the_delivery_for_a_later_one(tmp_path: Path, url: str) -> None:
    agent = agent_of(tmp_path, spelled(url, "libpq", nobody(), nobody()))
    ends(agent, "s-1")
    told = agent.call("drain", code=None)
    assert told.code != 0
    assert "has no connection to its server" in told.err
    assert len(agent.deliveries()) == 1
    agent.environ["REFLECTOR_LEDGER_URL"] = url
    agent.call("drain")
    assert agent.deliveries() == []
    assert agent.counters()["pat-001"] == (1, 0)


def test_the_drain_of_a_hook_waits_for_the_server_by_itself(tmp_path: Path, url: str) -> None:
    port = nobody()
    agent = agent_of(tmp_path, spelled(url, "libpq", nobody(), port))
    ends(agent, "s-1", spawn=True)
    agent.wait_until((agent.state / "away.lock").exists)
    ends(agent, "s-2", spawn=True)
    with at_a_port(url, port):
        agent.wait_until(lambda: agent.counters()["pat-001"] == (2, 0))
    assert agent.deliveries() == []


def test_a_drain_waits_five_minutes_for_a_server() -> None:
    assert sum(drain.OUTAGE_PAUSES) == 300


def test_events_that_a_server_lost_are_missed_until_a_person_has_seen_it(
    tmp_path: Path, postgres: Postgres, url: str
) -> None:
    """An asynchronous standby that takes over is the primary as it was a moment ago: here, a copy of its database."""
    agent = agent_of(tmp_path, url)
    ends(agent, "s-1")
    agent.call("drain")
    name = sa.make_url(url).database
    postgres._run(f"CREATE DATABASE {name}_standby TEMPLATE {name}")
    try:
        lost = ends(agent, "s-2")
        agent.call("drain")
        assert [check for check in agent.json("doctor", code=None) if check["name"] == "head"] == []
        agent.call("verify")
        postgres._run(f"ALTER DATABASE {name} RENAME TO {name}_gone")
        postgres._run(f"ALTER DATABASE {name}_standby RENAME TO {name}")
        ends(agent, "s-3")
        told = agent.call("drain")
        assert "lost events that its server had acknowledged" in told.err
        (check,) = (check for check in agent.json("doctor", code=1) if check["name"] == "head")
        assert check["state"] == "error"
        assert agent.call("verify", code=1).out != ""

        assert "reflector import-history" in check["mend"]
        agent.call("ingest", lost)
        (file,) = (agent.state / "heads").iterdir()
        file.unlink()
        assert [check for check in agent.json("doctor", code=None) if check["name"] == "head"] == []
        assert agent.counters()["pat-001"] == (3, 0)
        agent.call("verify")
    finally:
        for end in ("_standby", "_gone"):
            postgres._run(f"DROP DATABASE IF EXISTS {name}{end} WITH (FORCE)")


def test_a_head_is_kept_for_each_ledger_and_a_file_that_is_none_says_nothing(tmp_path: Path, url: str) -> None:
    agent = agent_of(tmp_path, url)
    agent.call("add", "pat", "Read the error first.")
    (file,) = (agent.state / "heads").iterdir()
    assert agent.call("verify", "--anchor", file).out == ""
    agent.environ["REFLECTOR_PLAYBOOK"] = "other"
    agent.call("add", "pat", "Read the error twice.")
    assert len(list((agent.state / "heads").iterdir())) == 2
    file.write_bytes(b"\0\xff")
    agent.environ["REFLECTOR_PLAYBOOK"] = "default"
    agent.call("add", "pat", "Read the error aloud.")
    assert agent.call("verify", "--anchor", file).out == ""


def test_a_ledger_in_a_file_keeps_no_head(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.call("add", "pat", "Read the error first.")
    assert not (agent.state / "heads").exists()
