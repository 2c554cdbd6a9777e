"""One writing process: `python -m benchmarks.writer URL BEGIN SECONDS NUMBER` prints its appends and longest wait.

It waits for the time BEGIN, so that all begin at once, and appends ten events at a time for SECONDS.
"""

from __future__ import annotations

import sys
import time

from benchmarks import made
from reflector.ledger.store import Ledger


def main(url: str, begin: float, seconds: float, number: int) -> None:
    """Append and print; any error of the ledger ends the process with a traceback."""
    # More than a fast machine can append in the time; each writer has session numbers of its own.
    batches = [made.reflection(number * 100_000 + turn, 10)[1:] for turn in range(int(seconds * 2500))]
    appends, longest = 0, 0.0
    with Ledger.open(url) as ledger:
        time.sleep(max(0.0, begin - time.time()))
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            ledger.append(batches[appends])
            longest = max(longest, time.perf_counter() - started)
            appends += 1
    print(appends, longest)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
