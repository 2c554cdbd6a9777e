"""One writing process: `python -m benchmarks.writer URL SECONDS NUMBER APPENDS [PLAYBOOK]`.

It prints that it is ready, waits for a line with the common start time, and appends ten events at a
time for SECONDS, at most APPENDS times. Then it prints the times of each request and its answer, on
the clock that all processes of a machine share.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks import made
from reflector.ledger.store import Ledger


def main(url: str, seconds: float, number: int, appends: int, playbook: str = "default") -> None:
    """Append and print. Any error of the ledger ends the process with a traceback."""
    # Each writer has session numbers of its own.
    batches = [made.reflection(number * 100_000 + turn, 10)[1:] for turn in range(appends)]
    times: list[tuple[float, float]] = []
    with Ledger.open(url, playbook) as ledger:
        ledger.append([])
        print("ready", flush=True)
        begin = float(sys.stdin.readline())
        time.sleep(max(0.0, begin - time.monotonic()))
        for batch in batches:
            asked = time.monotonic()
            if asked >= begin + seconds:
                break
            ledger.append(batch)
            times.append((asked, time.monotonic()))
    print(json.dumps(times))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
