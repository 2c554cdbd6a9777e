"""A server whose primary dies again and again under writers and hooks: what was acknowledged is
there.
"""

import socket
from pathlib import Path

import psycopg
import pytest

from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.ledger.writer import prepare, writers
from tests.road.agent import Agent
from tests.servers import DEBIAN, Cluster, as_user, own_folder, until

pytestmark = pytest.mark.scale

KILLS = 10
#: A commit waits for the standby, and is lost with neither of the two.
_IN_STEP = "synchronous_standby_names=*"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def test_synchronous_pair_loses_nothing_in_ten_failovers(
    tmp_path: Path,
) -> None:
    if not (DEBIAN / "initdb").exists():
        pytest.skip(f"there is no PostgreSQL in {DEBIAN}; apt-get install postgresql-15")
    user, ports = as_user(), (_free_port(), _free_port())
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    url = f"postgresql://postgres@{servers}/postgres?target_session_attrs=read-write&connect_timeout=3"
    with own_folder(user) as folder:
        primary = Cluster(folder / "0", user, _IN_STEP, port=ports[0])
        standby = Cluster(folder / "1", user, _IN_STEP, port=ports[1], of=primary)
        try:
            prepare(url)
            agent = Agent.in_folder(tmp_path / "agent")
            agent.environ |= {"REFLECTOR_LEDGER_URL": url, "REFLECTOR_PLAYBOOK": "agent"}
            agent.call("list")
            with writers(url, *range(8), batches=None, tags=2, pause=0.05) as made:
                for writer in made:
                    writer.begin()
                for kill in range(KILLS):
                    heard = [writer.heard() for writer in made]
                    until(
                        lambda heard=heard: all(
                            w.heard() > n for w, n in zip(made, heard, strict=True)
                        ),
                        "all write",
                    )
                    primary.kill()
                    for number in range(2):  # sessions that end while nobody takes writes
                        agent.ended(id=f"s-{kill}-{number}", spawn=True)
                    with psycopg.connect(standby.url) as connection:
                        connection.execute("SELECT pg_promote()")
                    again = Cluster(
                        folder / f"{kill + 2}", user, _IN_STEP, port=primary.port, of=standby
                    )
                    primary, standby = standby, again
                # No command was typed: the drains that the hooks started waited for the server.
                agent.wait_until(
                    lambda: (
                        agent.deliveries() == [] and agent.counters()["pat-001"] == (2 * KILLS, 0)
                    )
                )
                for writer in made:
                    writer.kill()
            assert [writer.error for writer in made] == [None] * 8
            assert [
                check for check in agent.json("doctor", code=None) if check["name"] == "head"
            ] == []
            with Ledger.open(url) as ledger:
                assert list(verify(ledger)) == []
                stored = {event.position: event.reflection_id for event in ledger.events()}
            acks = [ack for writer in made for ack in writer.acks]
            assert [
                ack
                for ack in acks
                if {stored.get(ack.first), stored.get(ack.last)} != {ack.reflection}
            ] == []
            print(f"{len(acks)} appends acknowledged, 0 lost")
            with Ledger.open(url, "agent") as ledger:
                assert list(verify(ledger)) == []
        finally:
            primary.kill()
            standby.kill()
