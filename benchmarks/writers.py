"""Many processes that append at once: how much they append together, and how long one waits, in
fair turns.

A fair turn of N writers is the time in which each appends once: N times the mean time of one
append. Waiting is also measured by the number of other appends that were committed meanwhile. This
figure is valid on a busy machine as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

#: The default time for which writers append.
SECONDS = 1.5
#: The number of events of an append.
EVENTS = 10
#: More appends a second than a fast machine makes with all writers together.
_MOST = 2500


class Together(NamedTuple):
    """The result of writers that append at once.

    rate     events a second, of all
    longest  the longest time of one append, in seconds
    turns    the same in fair turns
    passed   the most appends that were committed while one waited, in turns of all
    late     the time of one append that one in a hundred exceeds, in seconds
    """

    rate: float
    longest: float
    turns: float
    passed: float
    late: float


def together(
    url: str,
    writers: int,
    seconds: float,
    base: int,
    playbooks: Sequence[str] = (),
    beside: Iterable[Callable[[], object]] = (),
) -> Together:
    """Let some processes append at once, each to its own playbook of `playbooks`, or all to one.
    Meanwhile, this process does the work in `beside`, one after another until the time is over.

    Raises: RuntimeError if a writer fails.
    """
    most = int(seconds * _MOST / (4 if playbooks else writers)) + 200
    processes = [
        subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-m",
                    "benchmarks.writer",
                    url,
                    str(seconds),
                    str(base + number),
                    str(most),
                ),
                *playbooks[number : number + 1],
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    for process in processes:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("a writer could not begin")
    begin = time.monotonic() + 0.1 + 0.01 * writers
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{begin}\n")
        process.stdin.flush()
    for work in beside:
        if time.monotonic() >= begin + seconds:
            break
        work()
    times: list[tuple[float, float]] = []
    for process in processes:
        answer = process.communicate()[0]
        if process.returncode:
            raise RuntimeError(f"a writer failed: exit code {process.returncode}")
        times += [(asked, answered) for asked, answered in json.loads(answer)]
    took = max(answered for _, answered in times) - min(asked for asked, _ in times)
    commits = sorted(answered for _, answered in times)
    passed = max(
        bisect_left(commits, answered) - bisect_left(commits, asked) for asked, answered in times
    )
    waits = sorted(answered - asked for asked, answered in times)
    longest, late = waits[-1], waits[-1 - len(waits) // 100]
    fair = writers * took / len(times)
    return Together(len(times) * EVENTS / took, longest, longest / fair, passed / writers, late)
