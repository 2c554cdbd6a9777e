"""The queue for a playbook's head: how many appends a second one playbook takes, measured and simulated.

    python -m benchmarks.head_queue [URL]

Each append locks the playbook's row from its first statement to its commit, so the appends of one playbook follow one
another, however many write. URL names an empty database on PostgreSQL; without it a private server starts.

The simulation uses no number of the run that it is compared with. One writer, alone, gives what an append costs: the
work without the lock, the work under it, and the wait for the commit, which needs no processor. A round trip that asks
nothing is without the lock: half of it passes before the server takes the lock, and half after the commit released it,
until the client wakes. The first appends of a
connection cost several times as much as later ones, because the server plans each statement and compiles each trigger
in each connection, and it does so under the lock. So the costs are measured by the number of the append in its
connection. Measurements of the parts stand directly before and after each run of writers, so that the load of the
machine falls on both.
"""

from __future__ import annotations

import heapq
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from unittest.mock import patch

from benchmarks import made
from benchmarks.bench_postgres import private_server
from benchmarks.writers import EVENTS, together
from reflector.ledger.store import Ledger
from reflector.ledger.writer import Writer

WRITERS = (1, 2, 4, 8, 16)
MORE = (32, 64, 256)
_ROUNDS = 3
#: Seconds that writers append: enough for several appends of each of the most writers.
_SECONDS = 2.0
#: Appends of a new connection that are measured one by one; later ones cost the mean of as many that follow.
_FIRST = 12
_CONNECTIONS = 1


@dataclass(frozen=True, slots=True)
class Append:
    """What one append takes, in seconds: work without the lock, work under it, and waiting for the disk under it."""

    outside: float
    under: float
    disk: float


@dataclass(slots=True)
class _Turn:
    """Where a simulated writer is: how many appends it has made, and since when it has waited for the one it makes."""

    made: int = 0
    since: float = 0.0


def simulated(writers: int, costs: Sequence[Append], cores: int, seconds: float = _SECONDS) -> tuple[float, float]:
    """(appends a second, longest append in seconds) of new connections that append without a pause for some seconds.

    `costs` are those of a connection's first appends; later ones cost what the last does. Whoever works shares the
    cores with the others that do; the lock is given in the order in which it was asked for.
    """
    now, done, longest = 0.0, 0, 0.0
    turns = [_Turn() for _ in range(writers)]
    working = dict.fromkeys(range(writers), costs[0].outside)
    asked: list[tuple[float, int]] = []
    holder: int | None = None
    on_disk = 0.0  # how long the holder's commit still waits
    while working or asked or holder is not None:
        if holder is None and asked:
            _, holder = heapq.heappop(asked)
            working[holder] = _cost(costs, turns[holder]).under
        rate = min(1.0, cores / len(working)) if working else 1.0
        step = min([left / rate for left in working.values()] + ([on_disk] if on_disk else []))
        now += step
        working = {who: left - step * rate for who, left in working.items()}
        on_disk = max(0.0, on_disk - step)
        for who in [who for who, left in working.items() if left <= 1e-12]:
            del working[who]
            if who == holder:
                on_disk = _cost(costs, turns[who]).disk
            else:
                heapq.heappush(asked, (now, who))
        if holder is not None and holder not in working and on_disk <= 1e-12:
            longest = max(longest, now - turns[holder].since)
            done += 1
            turns[holder] = _Turn(turns[holder].made + 1, now)
            if now < seconds:
                working[holder] = _cost(costs, turns[holder]).outside
            holder, on_disk = None, 0.0
    return done / now, longest


def _cost(costs: Sequence[Append], turn: _Turn) -> Append:
    return costs[min(turn.made, len(costs) - 1)]


def alone(url: str, numbers: Iterator[int]) -> list[Append]:
    """Return what the first appends of a new connection take with no other writer, made as by `benchmarks.writer`."""
    begun: list[float] = []
    real = Writer._begun  # called when the lock is asked for

    def noted(*arguments: object) -> object:
        begun.append(time.perf_counter())
        return real(*arguments)  # type: ignore[arg-type]

    batches = [made.reflection(next(numbers), EVENTS)[1:] for _ in range(2 * _FIRST)]
    measured = []
    with Ledger.open(url) as ledger, patch.object(Writer, "_begun", noted):
        ledger.append([])
        for batch in batches:
            asked = time.perf_counter()
            ledger.append(batch)
            measured.append((begun[-1] - asked, time.perf_counter() - begun[-1]))
        trip, disk = _trip_and_disk(ledger)
    costs = [Append(before + trip, max(rest - trip - disk, 0.0), disk) for before, rest in measured]
    return [*costs[:_FIRST], _mean(costs[_FIRST:])]


def _trip_and_disk(ledger: Ledger) -> tuple[float, float]:
    """Return the seconds of a round trip that asks nothing, and those that a commit of almost nothing takes longer."""
    trips, commits = [], []
    with ledger.engine.connection() as driver:
        for _ in range(_FIRST):
            driver.execute("SELECT pg_current_xact_id()")  # a transaction that has to be written
            asked = time.perf_counter()
            driver.execute("SELECT 1")
            answered = time.perf_counter()
            driver.commit()
            trips.append(answered - asked)
            commits.append(time.perf_counter() - answered)
    trip = statistics.fmean(trips)
    return trip, max(statistics.fmean(commits) - trip, 0.0)


def _mean(costs: Sequence[Append]) -> Append:
    return Append(*(statistics.fmean(getattr(one, part) for one in costs) for part in ("outside", "under", "disk")))


def _joined(measured: Sequence[Sequence[Append]]) -> list[Append]:
    """Return the mean costs of several connections."""
    return [_mean(row) for row in zip(*measured, strict=True)]


def main(url: str) -> None:
    """Measure, simulate and print both."""
    numbers, cores = count(10**9), os.cpu_count() or 1
    with Ledger.open(url) as ledger:
        ledger.append([made.playbook()])
    rates: dict[int, list[tuple[float, float, float, float]]] = {writers: [] for writers in WRITERS}
    every: list[list[Append]] = []
    for turn in range(_ROUNDS):
        for writers in WRITERS:
            parts = [alone(url, numbers) for _ in range(_CONNECTIONS)]
            run = together(url, writers, _SECONDS, base=10**6 * (100 * turn + writers))
            parts += [alone(url, numbers) for _ in range(_CONNECTIONS)]
            every += parts
            rates[writers].append((run.rate / EVENTS, run.longest, *simulated(writers, _joined(parts), cores)))
    costs = _joined(every)
    print(f"one append of ten events, {cores} cores: {costs[-1].outside * 1000:.1f} ms without the lock,")
    print(f"{costs[-1].under * 1000:.1f} under it (first of a connection: {costs[0].under * 1000:.1f}),")
    print(f"{costs[-1].disk * 1000:.2f} for the disk; load {os.getloadavg()[0]:.1f}\n")
    print("| writers | measured, appends/s | simulated | simulated ÷ measured | longest append | simulated |")
    print("|--:|--:|--:|--:|--:|--:|")
    for writers, runs in rates.items():
        rate, wait, said, longest = map(statistics.median, zip(*runs, strict=True))
        ratio = statistics.median(one[2] / one[0] for one in runs)
        print(f"| {writers} | {rate:,.1f} | {said:,.1f} | {ratio:.2f} | {wait:.2f} s | {longest:.2f} s |")
    print("\nsimulated, connections that are in use already:")
    for writers in (*WRITERS, *MORE):
        rate, wait = simulated(writers, costs[-1:], cores, 20.0)
        print(f"{writers:>5} writers: {rate:,.0f} appends/s, longest append {wait:.2f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="reflector-queue-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # the server runs as another user where this runs as root
        main(sys.argv[1] if sys.argv[1:] else private_server(Path(folder) / "data") or "")
