"""A cluster whose primary dies again and again under writers and hooks: what was acknowledged is there."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from reflector.ledger.errors import LedgerAway, LedgerLocked
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.ledger.events import added, reflected, window
from tests.road.agent import Agent

from .patroni import patroni, until

pytestmark = pytest.mark.scale

WRITERS = 8
KILLS = 10
#: A pause of a writer between two appends: the subject is the servers, not the machine.
_BREATH = 0.05
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["__main__", "tests.scale.test_failover"])


def _write(url: str, number: int, folder: Path) -> None:
    """Append until told to stop; each append is tried until it is acknowledged, and then noted in a file."""
    with (folder / f"said-{number}").open("w") as said:
        os.dup2(said.fileno(), 2)  # the traceback with which it ends is there too
    own = window(number, f"session-{number}", keys=[number])
    with _again(lambda: Ledger.open(url)) as ledger, (folder / f"acknowledged-{number}").open("w") as noted:
        _again(lambda: ledger.append([own]))
        turn = 0
        while not (folder / "stop").exists():
            events = reflected(f"{number}-{turn}", own, ("pat-001", "helpful"), ("mis-001", "harmful"))
            answers = _again(lambda events=events: ledger.append(events))
            noted.writelines(f"{answer.event_id} {answer.position} {int(answer.added)}\n" for answer in answers)
            noted.flush()
            turn += 1
            time.sleep(_BREATH)


def _again(what: Callable[[], Any]) -> Any:
    """Do it as often as it takes: a failover passes by itself."""
    while True:
        try:
            return what()
        except (LedgerAway, LedgerLocked):
            time.sleep(0.3)


class _Writers:
    """Processes that append to a cluster."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        self._processes = [_CONTEXT.Process(target=_write, args=(url, n, folder)) for n in range(1, WRITERS + 1)]
        for one in self._processes:
            one.start()

    def all_append(self, words: str) -> None:
        """Wait until each has appended once more."""
        before = [len(lines) for lines in self.noted()]

        def appended() -> bool:
            assert self._ended() == {}, "a writer has ended"
            return all(len(lines) > past for lines, past in zip(self.noted(), before, strict=True))

        until(appended, words)

    def noted(self) -> list[list[str]]:
        """The lines of each: the events that were acknowledged, none where it has not begun."""
        files = [self._folder / f"acknowledged-{number}" for number in range(1, WRITERS + 1)]
        return [file.read_text().splitlines() if file.exists() else [] for file in files]

    def finish(self) -> None:
        """Tell them to stop, and wait for their ends."""
        (self._folder / "stop").touch()
        for one in self._processes:
            one.join(60)
        assert self._ended() == dict.fromkeys(range(1, WRITERS + 1), 0)

    def close(self) -> None:
        for one in self._processes:
            one.kill()

    def _ended(self) -> dict[int, int]:
        """The exit codes of those that have ended."""
        codes = enumerate((one.exitcode for one in self._processes), 1)
        return {number: code for number, code in codes if code is not None}


@contextmanager
def _writing(url: str, folder: Path, agent: Agent) -> Iterator[_Writers]:
    """Writers; an error in the block comes with what they said, and with what the hooks' drains left in the spool."""
    writers = _Writers(url, folder)
    try:
        yield writers
    except BaseException as error:
        for file in (*sorted(folder.glob("said-*")), *sorted(agent.spool.rglob("*.*"))):
            with suppress(OSError):  # a drain may take it meanwhile
                error.add_note(f"--- {file.name}\n{file.read_text(errors='replace')}")
        raise
    finally:
        writers.close()


def test_a_synchronous_cluster_loses_nothing_when_its_primary_is_killed_ten_times(tmp_path: Path) -> None:
    with patroni() as cluster:
        with Ledger.open(cluster.url) as ledger:
            ledger.append([added("pat-001"), added("mis-001")])
        agent = Agent.in_folder(tmp_path / "agent")
        agent.environ |= {"REFLECTOR_LEDGER_URL": cluster.url, "REFLECTOR_PLAYBOOK": "agent"}
        agent.call("list")
        with _writing(cluster.url, tmp_path, agent) as writers:
            writers.all_append("everybody writes")
            for kill in range(KILLS):
                primary = cluster.primary()
                assert primary is not None
                cluster.machines[primary].cut_power()
                for number in range(2):  # sessions that end while nobody takes writes
                    agent.ended(id=f"s-{kill}-{number}", spawn=True)
                cluster.followed(primary)
                cluster.machines[primary].start()
                cluster.until_whole()
                writers.all_append(f"everybody writes after kill {kill + 1}")
            writers.finish()
            # No command was typed: the drains that the hooks started waited for the server.
            agent.wait_until(lambda: agent.deliveries() == [] and agent.counters()["pat-001"] == (2 * KILLS, 0))
        assert [check for check in agent.json("doctor", code=None) if check["name"] == "head"] == []

        with Ledger.open(cluster.url) as ledger:
            assert list(verify(ledger)) == []
            with ledger.asking() as sql:
                stored = dict(sql.run("SELECT event_id, position FROM event WHERE playbook_id = ?").fetchall())
            lines = [line.split() for own in writers.noted() for line in own]
            assert {event_id: int(position) for event_id, position, _ in lines}.items() <= stored.items()
            found = sum(added == "0" for *_, added in lines)
            print(f"{len(lines)} events acknowledged, 0 lost; {found} had arrived although their writer saw an error")
        with Ledger.open(cluster.url, "agent") as ledger:
            assert list(verify(ledger)) == []
