"""A cluster whose primary dies again and again under writers and hooks: what was acknowledged is there."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest

from reflector.ledger.errors import LedgerAway, LedgerLocked
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.ledger.events import added, reflected, window
from tests.road.agent import Agent
from tests.road.sessions import Session

from .patroni import Patroni, patroni, until

pytestmark = pytest.mark.scale

WRITERS = 8
KILLS = 10
#: A pause of a writer between two appends: the subject is the servers, not the machine.
_BREATH = 0.05
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["__main__", "tests.scale.test_failover"])


def _write(url: str, number: int, folder: Path) -> None:
    """Append until told to stop; each append is tried until it is acknowledged, and then noted in a file."""
    own = window(number, f"session-{number}", keys=[number])
    with Ledger.open(url) as ledger, (folder / f"acknowledged-{number}").open("w") as noted:
        ledger.append([own])
        turn = 0
        while not (folder / "stop").exists():
            events = reflected(f"{number}-{turn}", own, ("pat-001", "helpful"), ("mis-001", "harmful"))
            while True:
                try:
                    answers = ledger.append(events)
                    break
                except (LedgerAway, LedgerLocked):
                    time.sleep(0.3)
            noted.writelines(f"{answer.event_id} {answer.position} {int(answer.added)}\n" for answer in answers)
            noted.flush()
            turn += 1
            time.sleep(_BREATH)


def _appends(folder: Path) -> int:
    return sum(file.read_text().count("\n") for file in folder.glob("acknowledged-*"))


def _kill_under(cluster: Patroni, folder: Path, agent: Agent) -> int:
    """Kill the primary ten times while sessions end and others write; how many sessions ended."""
    sessions = 0
    for kill in range(KILLS):
        primary = cluster.primary()
        assert primary is not None
        cluster.machines[primary].cut_power()
        for _ in range(2):  # while nobody takes writes
            sessions += 1
            name = f"s-{sessions}"
            transcript = Session(name).cites("pat-001", "helpful").write(agent.home / f"{name}.jsonl")
            agent.hook("SessionEnd", spawn=True, session_id=name, transcript_path=str(transcript))
        cluster.followed(primary)
        cluster.machines[primary].start()
        cluster.until_whole()
        before = _appends(folder)
        until(lambda before=before: _appends(folder) > before + WRITERS, f"everybody writes after kill {kill + 1}")
    return sessions


def test_a_synchronous_cluster_loses_nothing_when_its_primary_is_killed_ten_times(tmp_path: Path) -> None:
    with patroni(synchronous=True) as cluster:
        with Ledger.open(cluster.url) as ledger:
            ledger.append([added("pat-001"), added("mis-001")])
        agent = Agent.in_folder(tmp_path / "agent")
        agent.environ |= {"REFLECTOR_LEDGER_URL": cluster.url, "REFLECTOR_PLAYBOOK": "agent"}
        agent.call("list")
        writers = [_CONTEXT.Process(target=_write, args=(cluster.url, n, tmp_path)) for n in range(1, WRITERS + 1)]
        for one in writers:
            one.start()
        try:
            until(lambda: all(_noted(tmp_path, n) for n in range(1, WRITERS + 1)), "everybody writes")
            sessions = _kill_under(cluster, tmp_path, agent)
            (tmp_path / "stop").touch()
            for one in writers:
                one.join(60)
            assert [one.exitcode for one in writers] == [0] * WRITERS
        finally:
            for one in writers:
                one.kill()
        # No command was typed: the drains that the hooks started waited for the server.
        agent.wait_until(lambda: agent.deliveries() == [] and agent.counters()["pat-001"] == (sessions, 0))
        assert [check for check in agent.json("doctor", code=None) if check["name"] == "head"] == []

        with Ledger.open(cluster.url) as ledger:
            assert list(verify(ledger)) == []
            with ledger.asking() as sql:
                stored = dict(sql.run("SELECT event_id, position FROM event WHERE playbook_id = ?").fetchall())
            lines = [line.split() for n in range(1, WRITERS + 1) for line in _noted(tmp_path, n)]
            assert {event_id: int(position) for event_id, position, _ in lines}.items() <= stored.items()
            found = sum(added == "0" for *_, added in lines)
            print(f"{len(lines)} events acknowledged, 0 lost; {found} had arrived although their writer saw an error")
        with Ledger.open(cluster.url, "agent") as ledger:
            assert list(verify(ledger)) == []


def _noted(folder: Path, number: int) -> list[str]:
    """The lines of a writer; an OSError where it has not begun."""
    return (folder / f"acknowledged-{number}").read_text().splitlines()
