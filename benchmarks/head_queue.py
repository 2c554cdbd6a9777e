"""The queue for a playbook's head: the appends a second of one playbook, measured and simulated.

    python -m benchmarks.head_queue [URL]

Each append locks the playbook's row from its first statement to its commit. Therefore, the appends
of one playbook follow one another, with any number of writers. URL names an empty database on
PostgreSQL. Without it, a private server starts.

The simulation uses no number of the run with which it is compared. The same number of processes
takes turns before and after that run (`benchmarks.taking_turns`), so that none waits for another.
They measure the parts of an append's cost: the work without the lock, the work under it, and the
wait for the commit, which needs no processor. An empty round trip is without the lock.

These costs differ for two reasons. The first appends of a connection cost several times as much as
later ones, because the server plans each statement and compiles each trigger in each connection,
under the lock. An append also costs more if other processes ran since the last one, because the
processor's caches contain their data. Therefore, costs are measured for the number of processes,
and by the number of the append in its connection.
"""

from __future__ import annotations

import heapq
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks import made
from benchmarks.bench_postgres import private_server
from benchmarks.taking_turns import Append, joined, mean, taking_turns
from benchmarks.writers import EVENTS, together
from reflector.ledger.store import Ledger

WRITERS = (1, 2, 4, 8, 16)
MORE = (32, 64, 256)
_ROUNDS = 3
#: The time for which writers append, in seconds: enough for several appends of each writer.
_SECONDS = 2.0
#: The number of a new connection's appends that are measured one by one. Later ones cost the mean
#: of the same number of following appends.
_FIRST = 12


@dataclass(slots=True)
class _Turn:
    """The state of a simulated writer: the number of its appends, and the time since which it has
    waited for the current one.
    """

    made: int = 0
    since: float = 0.0


def simulated(
    writers: int, costs: Sequence[Append], cores: int, seconds: float = _SECONDS
) -> tuple[float, float]:
    """Return (appends a second, longest append in seconds) of new connections that append without a
    pause for some seconds.

    `costs` are those of a connection's first appends; later appends cost as much as the last one.
    All working connections share the cores. The lock is given in the order of the requests.
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


def costs_of(url: str, writers: int, numbers: Iterator[int]) -> list[Append]:
    """Return the costs of the first appends of N new connections, and finally the mean of the same
    number of following appends.
    """
    turns = taking_turns(url, writers, 2 * _FIRST, numbers)
    return [*turns[:_FIRST], mean(turns[_FIRST:])]


def main(url: str) -> None:
    """Measure, simulate and print both."""
    numbers, cores = count(10**9), os.cpu_count() or 1
    with Ledger.open(url) as ledger:
        ledger.append([made.playbook()])
    rates: dict[int, list[tuple[float, float, float, float]]] = {writers: [] for writers in WRITERS}
    measured: dict[int, list[list[Append]]] = {writers: [] for writers in WRITERS}
    for turn in range(_ROUNDS):
        for writers in WRITERS:
            before = costs_of(url, writers, numbers)
            run = together(url, writers, _SECONDS, base=10**6 * (100 * turn + writers))
            costs = joined([before, costs_of(url, writers, numbers)])
            measured[writers].append(costs)
            rates[writers].append(
                (run.rate / EVENTS, run.longest, *simulated(writers, costs, cores))
            )
    print(
        f"Appends of ten events by new connections, {cores} cores, load "
        f"{os.getloadavg()[0]:.1f}; times in ms:\n"
    )
    print(
        (
            "| writers | outside the lock | first under it | later | measured, appends/s | "
            "simulated | ratio |"
        ),
        end="",
    )
    print(" longest | simulated |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for writers, runs in rates.items():
        rate, wait, said, longest = map(statistics.median, zip(*runs, strict=True))
        ratio = statistics.median(one[2] / one[0] for one in runs)
        costs = joined(measured[writers])
        times = " | ".join(
            f"{1000 * part:.1f}"
            for part in (costs[-1].outside, costs[0].under, costs[-1].under + costs[-1].disk)
        )
        print(f"| {writers} | {times} | {rate:,.0f} | {said:,.0f} | {ratio:.2f} |", end="")
        print(f" {1000 * wait:.0f} | {1000 * longest:.0f} |")
    print(
        f"\nsimulated, connections in use already, an append's costs as of {WRITERS[-1]} writers:"
    )
    for writers in MORE:
        rate, wait = simulated(writers, joined(measured[WRITERS[-1]])[-1:], cores, 20.0)
        print(f"{writers:>5} writers: {rate:,.0f} appends/s, longest append {wait:.2f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(
        prefix="reflector-queue-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # the server runs as another user if this runs as root
        main(sys.argv[1] if sys.argv[1:] else private_server(Path(folder) / "data") or "")
