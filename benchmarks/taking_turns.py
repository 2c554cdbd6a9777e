"""Processes that append one after another: the cost of an append without waiting for the lock.

The processes pass a token on. The process with the token appends ten events and passes it on.
Therefore, two never append at once. Between two appends of a process, all others have run, as in a
queue, so its memory is no longer in the processor's caches.

`python -m benchmarks.taking_turns URL NUMBER TURNS NEXT` is one of the processes. NUMBER separates
its sessions from those of the others. NEXT is the file descriptor from which the next process reads
the token, as its standard input.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from benchmarks import made
from benchmarks.writers import EVENTS
from reflector.ledger import append
from reflector.ledger.store import Ledger

_TOKEN = b"."
#: The number of almost empty commits that measure the disk's part.
_COMMITS = 12


@dataclass(frozen=True, slots=True)
class Append:
    """The time of one append, in seconds: work without the lock, work under it, and waiting for the
    disk under it.
    """

    outside: float
    under: float
    disk: float


def taking_turns(url: str, processes: int, turns: int, numbers: Iterator[int]) -> list[Append]:
    """Return the costs of the first, second … append of new connections, one for each turn. Each is
    a mean of the processes.
    """
    pipes = [os.pipe() for _ in range(processes)]
    children = []
    for place, (reads, _) in enumerate(pipes):
        hands_to = pipes[(place + 1) % processes][1]
        module = (sys.executable, "-m", "benchmarks.taking_turns")
        command = [*module, url, str(next(numbers)), str(turns), str(hands_to)]
        children.append(
            subprocess.Popen(
                command, stdin=reads, stdout=subprocess.PIPE, text=True, pass_fds=(hands_to,)
            )
        )
    for child in children:
        assert child.stdout is not None
        if child.stdout.readline() != "ready\n":
            raise RuntimeError("a process that was to append could not begin")
    os.write(pipes[0][1], _TOKEN)
    for ends in pipes:
        for end in ends:
            os.close(end)
    answers = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        raise RuntimeError("a process that took its turns failed")
    return joined([[Append(*cost) for cost in json.loads(answer)] for answer in answers])


def joined(measured: Sequence[Sequence[Append]]) -> list[Append]:
    """Return the mean costs of several processes, turn by turn."""
    return [mean(row) for row in zip(*measured, strict=True)]


def mean(costs: Sequence[Append]) -> Append:
    """Return the mean of each part."""
    return Append(
        *(
            statistics.fmean(getattr(one, part) for one in costs)
            for part in ("outside", "under", "disk")
        )
    )


def _main(url: str, number: int, turns: int, hands_to: int) -> None:
    begun: list[float] = []
    real = append._locked  # called when the lock is requested

    def noted(*arguments: object) -> object:
        begun.append(time.perf_counter())
        return real(*arguments)  # type: ignore[arg-type]

    batches = [made.reflection(number * 100_000 + turn, EVENTS)[1:] for turn in range(turns)]
    measured = []
    with Ledger.open(url) as ledger, patch.object(append, "_locked", noted):
        ledger.append([])
        print("ready", flush=True)
        for batch in batches:
            _await_turn()
            asked = time.perf_counter()
            ledger.append(batch)
            measured.append((begun[-1] - asked, time.perf_counter() - begun[-1]))
            _hand_on(hands_to)
        with ledger.engine.connection() as driver:
            waits = [_trip_and_disk(driver, hands_to) for _ in range(_COMMITS)]
    trip, disk = (statistics.fmean(part) for part in zip(*waits, strict=True))
    # Half of a round trip passes before the server takes the lock, and half after the commit
    # released it.
    print(
        json.dumps(
            [(before + trip, max(rest - trip - disk, 0.0), disk) for before, rest in measured]
        )
    )


def _await_turn() -> None:
    if os.read(sys.stdin.fileno(), 1) != _TOKEN:
        raise RuntimeError("the process before this one ended")


def _hand_on(hands_to: int) -> None:
    with suppress(BrokenPipeError):  # after the last turn
        os.write(hands_to, _TOKEN)


def _trip_and_disk(driver: Any, hands_to: int) -> tuple[float, float]:
    """Return two times in seconds. The first is until a nearly empty transaction is answered, in a
    turn like an append. The second is the difference between its commit and an immediate question.
    """
    _await_turn()
    begun = time.perf_counter()
    driver.execute("SELECT pg_current_xact_id()")  # so that the commit has to be written
    answered = time.perf_counter()
    driver.execute("SELECT 1")
    again = time.perf_counter()
    driver.commit()
    committed = time.perf_counter()
    _hand_on(hands_to)
    return answered - begun, max((committed - again) - (again - answered), 0.0)


if __name__ == "__main__":
    _main(sys.argv[1], *(int(argument) for argument in sys.argv[2:]))
