"""Playbooks on four clusters, which move from one to the other under their writers while clusters are killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reflector.directory import ledger_of
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.exchange import relocation
from reflector.exchange.transfer import exported
from reflector.ledger.errors import LedgerLocked, LedgerMoved, LedgerUnavailable
from reflector.ledger.store import Ledger, playbooks_in
from reflector.project import Project
from tests.ledger.events import added, window
from tests.processes import REFLECTOR
from tests.scale.clusters import Cluster, clusters

pytestmark = [pytest.mark.scale, pytest.mark.timeout(900)]

_TEAMS = "abcd"
#: Events that each playbook has before its writer begins.
_BEFORE = 2_000
_NAMES = [f"{team}-{number}" for team in _TEAMS for number in range(4)]
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["__main__", "tests.scale.test_shards"])


def _session(number: int) -> NewEvent:
    return window(number, f"session-{number}", keys=[number])


def _write(playbook: str, folder: str, acknowledged: str, until: Any, home: str) -> None:
    """Append until told to stop; each event again, wherever the playbook is by then, until it is acknowledged."""
    os.environ["HOME"] = home  # what forks the processes was started by the run's first test, with a home of its own
    number, ledger = _BEFORE, None
    with open(acknowledged, "w", encoding="utf-8", buffering=1) as told:
        while not until.is_set():
            event = _session(number)
            try:
                ledger = ledger or Project.at(Path(folder), flags={"playbook": playbook}).open_ledger()
                ledger.append([event])
            except (LedgerMoved, LedgerUnavailable, LedgerLocked):
                if ledger is not None:
                    ledger.close()
                ledger = None
                time.sleep(0.05)
                continue
            told.write(f"{event.event_id}\n")
            number += 1
            time.sleep(0.25)


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Cluster]]:
    """Four clusters, one for each team, in the directory of this user."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with clusters(len(_TEAMS)) as made:
        lines = [f'"{team}-*" = "{one.url}"' for team, one in zip(_TEAMS, made, strict=True)]
        file = tmp_path / "home" / ".config" / "reflector" / "ledgers.toml"
        file.parent.mkdir(parents=True)
        file.write_text("\n".join(["[playbooks]", *lines, ""]))
        for name in _NAMES:
            with Ledger.open(ledger_of(name), name) as ledger:
                ledger.append([added("pat-001"), *(_session(number) for number in range(_BEFORE))])
        yield made


def _reflector(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*REFLECTOR, "--project", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def _moved(folder: Path, playbook: str, to: Cluster) -> int:
    """Move a playbook by the command, as often as it takes; how often."""
    for times in range(1, 60):
        ran = _reflector(folder, "move", playbook, "--to", to.url)
        assert "Traceback" not in ran.stderr, ran.stderr
        if ran.returncode == 0:
            return times
        time.sleep(0.3)
    raise AssertionError(ran.stderr)


def _kill_during(folder: Path, playbook: str, to: Cluster, victim: Cluster, moment: float) -> int:
    """Move a playbook, kill a cluster so many seconds later and start it again; how often the command was run."""
    times: list[int] = []
    mover = threading.Thread(target=lambda: times.append(_moved(folder, playbook, to)))
    mover.start()
    time.sleep(moment)
    victim.kill()
    down = json.loads(_reflector(folder, "ledgers", "--json").stdout)
    assert len(down["down"]) == 1
    assert down["playbooks"]
    victim.start()
    mover.join()
    return times[0]


def _kill_between(folder: Path, playbook: str, to: Cluster, victim: Cluster) -> int:
    """Move a playbook, and kill a cluster when the old ledger is sealed and the new one lacks the rest."""

    def killing(source: Ledger, **named: Any) -> Iterator[str]:
        if source.seal() is not None:
            victim.kill()
        return exported(source, **named)

    with pytest.MonkeyPatch.context() as patched, Ledger.open(ledger_of(playbook), playbook) as source:
        patched.setattr(relocation, "exported", killing)
        with pytest.raises(LedgerUnavailable):
            relocation.relocate(source, to.url, actor="human")
    victim.start()
    with Ledger.open(ledger_of(playbook), playbook) as source, pytest.raises(LedgerMoved):
        source.append([added("oth-001")])
    return 1 + _moved(folder, playbook, to)


def test_sixteen_playbooks_move_between_four_clusters_under_writers_and_kills(
    shards: list[Cluster], tmp_path: Path
) -> None:
    random.seed(20261122)
    folder = tmp_path / "project"
    folder.mkdir()
    until = _CONTEXT.Event()
    told = {name: tmp_path / f"{name}.acknowledged" for name in _NAMES}
    attempts: list[int] = []
    with ExitStack() as stack:
        writers = [
            _CONTEXT.Process(
                target=_write, args=(name, str(folder), str(told[name]), until, os.environ["HOME"]), daemon=True
            )
            for name in _NAMES
        ]
        for writer in writers:
            writer.start()
            stack.callback(writer.join, 60)
        stack.callback(until.set)  # called before they are waited for
        time.sleep(2)
        attempts.append(_moved(folder, "a-0", shards[1]))
        for number, playbook in enumerate(["a-1", "b-1", "c-1", "d-1", "a-2", "b-2", "a-1", "b-1"]):
            places = [one.url for one in shards]
            home = places.index(ledger_of(playbook))
            to = shards[(home + 1) % len(shards)]
            victim = shards[home] if number % 2 else to
            if number < 4:
                attempts.append(_kill_between(folder, playbook, to, victim))
            else:
                attempts.append(_kill_during(folder, playbook, to, victim, random.uniform(0.8, 3)))
        attempts.append(_moved(folder, "a-0", shards[0]))  # and back
        time.sleep(1)
    assert [writer.exitcode for writer in writers] == [0] * len(writers)
    events = 0
    for name in _NAMES:
        acknowledged = told[name].read_text().split()
        with Ledger.open(ledger_of(name), name) as ledger:
            there = [event.event_id for event in ledger.events(types=[ev.SESSION_RECORDED])][_BEFORE:]
            history = list(exported(ledger))[1:]
        assert there == acknowledged, name
        assert len(acknowledged) > 20, name
        events += len(there)
        # Wherever it was, there is the beginning of this one history.
        for url in {one.url for one in shards} - {ledger_of(name)}:
            if name in playbooks_in(url):
                with Ledger.open(url, name) as left:
                    lines = list(exported(left))[1:]
                    assert left.seal() is not None
                    assert lines == history[: len(lines)]
    verified = _reflector(folder, "ledgers", "verify")
    assert (verified.returncode, verified.stdout) == (0, ""), verified.stdout + verified.stderr
    assert f"{len(_NAMES)} playbooks in {len(shards)} ledgers verified" in verified.stderr
    print(f"{events} events, {len(attempts)} moves, attempts {attempts}")
