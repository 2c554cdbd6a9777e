"""SIGKILL at random moments, while several processes take sessions in."""

from __future__ import annotations

import json
import multiprocessing
import random
from pathlib import Path

import pytest

from tests.road.agent import Agent
from tests.road.sessions import Session
from tests.road.worker import work

WORKERS = 3


@pytest.mark.parametrize(
    ("kills", "sessions"),
    [
        pytest.param(3, 20, id="3 kills"),
        pytest.param(200, 900, id="200 kills", marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    ],
)
def test_whatever_is_killed_the_ledger_verifies_and_nothing_acknowledged_is_lost(
    agent: Agent, tmp_path: Path, kills: int, sessions: int
) -> None:
    transcripts, told = tmp_path / "transcripts", tmp_path / "told"
    for n in range(sessions):
        Session(f"s-{n}").cites("pat-001").write(transcripts / f"s-{n}.jsonl")
    campaign(agent, transcripts, told, kills)
    acknowledged = [json.loads(line) for line in told.read_bytes().splitlines()]
    in_spool, before = len(agent.deliveries()), agent.counters()["pat-001"][0]

    agent.run("drain")

    assert not agent.deliveries()
    chains = [event["chain"] for event in agent.events()]
    recorded = {event["session_id"] for event in agent.events("session.recorded")}
    assert {a[how] for a in acknowledged for how in ("ingested", "delivered") if how in a} <= recorded
    for position, _, chain in (a["head"].partition(":") for a in acknowledged if "head" in a):
        assert chains[int(position) - 1] == chain
    assert not agent.json("status")["failures"]
    agent.run("verify")
    assert agent.counters()["pat-001"] == (len(recorded), 0)

    agent.call("ingest", *transcripts.iterdir())
    assert agent.counters() == {"pat-001": (sessions, 0), "pat-002": (3, 1), "mis-001": (0, 0)}
    assert len(agent.events("session.recorded")) == len(agent.events("reflection.completed")) == sessions
    assert {path.name for path in agent.claude.iterdir()} == {"playbook.json", "reflector"}
    print(
        f"{kills} kills; {len(acknowledged)} acknowledgements, all there; {before} of {sessions} sessions counted, "
        f"{in_spool} deliveries in the spool; {len(recorded)} after the drain, {sessions} after ingesting again"
    )


def campaign(agent: Agent, transcripts: Path, told: Path, kills: int) -> None:
    """Keep `WORKERS` processes at work and kill one of them at random moments; the playbook is whole each time."""
    chance = random.Random(kills)
    context = multiprocessing.get_context("forkserver")
    # Without the imports nearly every kill would hit an import.
    context.set_forkserver_preload(["tests.road.worker", "reflector.sessions.pipeline", "reflector.cli.sessions"])

    def start() -> multiprocessing.process.BaseProcess:
        arguments = (agent.project, transcripts, told, agent.env(), chance.randrange(1 << 30), 1_000_000)
        process = context.Process(target=work, args=arguments)
        process.start()
        return process

    workers = [start() for _ in range(WORKERS)]
    for _ in range(kills):
        index = chance.randrange(WORKERS)
        workers[index].join(chance.uniform(0.01, 0.2))
        assert all(worker.exitcode is None for worker in workers), "a worker ended by itself"
        workers[index].kill()
        workers[index].join()
        assert "pat-001" in agent.counters()
        workers[index] = start()
    for worker in workers:
        worker.kill()
        worker.join()
