"""The queue for a playbook's head: how many appends a second one playbook takes, measured and simulated.

    python -m benchmarks.head_queue URL

Each append locks the playbook's row from its first statement to its commit, so the appends of one playbook follow one
another, however many write. URL names an empty database on PostgreSQL. One writer, alone, gives the simulation its
three numbers: the work before the lock, the work under it, and the wait for the commit, which needs no processor. The
table then compares what 1 to 16 writers do with what the simulation says that they do.
"""

from __future__ import annotations

import heapq
import os
import statistics
import sys
import time
from dataclasses import dataclass
from itertools import count

from benchmarks import made
from benchmarks.writers import EVENTS, SECONDS, together
from reflector.ledger.admission import prepare
from reflector.ledger.store import Ledger

WRITERS = (1, 2, 4, 8, 16)
_ROUNDS = 3
_ALONE = 300
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Append:
    """What one append takes, in seconds: work before the lock, work under it, and waiting for the disk under it."""

    before: float
    under: float
    disk: float


def simulated(writers: int, one: Append, cores: int, seconds: float = _SECONDS) -> tuple[float, float]:
    """(appends a second, longest wait for the lock in seconds) of writers that append without a pause.

    Whoever works shares the cores with the others that do; the lock is given in the order in which it was asked for.
    """
    now, done, longest = 0.0, 0, 0.0
    working = dict.fromkeys(range(writers), one.before)
    asked: list[tuple[float, int]] = []
    holder: int | None = None
    on_disk = 0.0  # how long the holder's commit still waits
    while now < seconds:
        if holder is None and asked:
            since, holder = heapq.heappop(asked)
            longest = max(longest, now - since)
            working[holder] = one.under
        rate = min(1.0, cores / len(working)) if working else 1.0
        ends = [left / rate for left in working.values()] + ([on_disk] if on_disk else [])
        step = min(ends)
        now += step
        working = {who: left - step * rate for who, left in working.items()}
        on_disk = max(0.0, on_disk - step)
        for who in [who for who, left in working.items() if left <= 1e-12]:
            del working[who]
            if who == holder:
                on_disk = one.disk
            else:
                heapq.heappush(asked, (now, who))
        if holder is not None and holder not in working and on_disk <= 1e-12:
            done += 1
            working[holder], holder, on_disk = one.before, None, 0.0
    return done / now, longest


def measured_alone(url: str) -> Append:
    """What an append of ten events takes with nobody else there."""
    numbers = count(5_000_000)
    before, total, disk = [], [], []
    with Ledger.open(url) as ledger:
        ledger.append([made.playbook()])
        for _ in range(_ALONE):
            events = made.reflection(next(numbers), 10)[1:]
            begun = time.perf_counter()
            for event in events:
                prepare(event)
            between = time.perf_counter()
            ledger.append(events)
            before.append(between - begun)
            total.append(time.perf_counter() - between)
        with ledger.engine.connection() as driver:
            for _ in range(_ALONE):
                driver.execute("SELECT pg_current_xact_id()")  # a transaction that has to be written
                begun = time.perf_counter()
                driver.commit()
                disk.append(time.perf_counter() - begun)
    first, whole, commit = map(statistics.median, (before, total, disk))
    return Append(first, max(whole - first - commit, 0.0), commit)


def main(url: str) -> None:
    """Measure, simulate and print both."""
    one, cores = measured_alone(url), os.cpu_count() or 1
    print(f"one append of ten events: {one.before * 1000:.2f} ms before the lock, {one.under * 1000:.2f} under it,")
    print(f"{one.disk * 1000:.2f} for the disk; {cores} cores\n")
    print("| writers | measured, appends/s | simulated | longest wait, measured | simulated |\n|--:|--:|--:|--:|--:|")
    for writers in WRITERS:
        runs = [together(url, writers, SECONDS, base=10**6 * (100 * turn + writers)) for turn in range(_ROUNDS)]
        rate, wait = simulated(writers, one, cores)
        medians = statistics.median(run.rate / EVENTS for run in runs), statistics.median(run.longest for run in runs)
        print(f"| {writers} | {medians[0]:,.0f} | {rate:,.0f} | {medians[1] * 1000:.0f} ms | {wait * 1000:.0f} ms |")


if __name__ == "__main__":
    main(sys.argv[1])
