"""When a delivery that waits is looked at again, by a clock that may have been wrong.

Invariant: a time in the future is not a reason to wait. A clock that was ahead and is right again delays nothing longer
than one that was right all along.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

#: How often a delivery is tried without being asked to. With the pauses between them that takes a month at least.
MOST_ATTEMPTS = 40
_FIRST_NS = 60 * 1_000_000_000
_LONGEST_NS = 24 * 3600 * 1_000_000_000
#: The pauses of a drain in the background that finds the ledger's server away, in seconds: five minutes. A cluster has
#: another primary within one; a server that stays away is asked by the next drain.
OUTAGE_PAUSES = (1, 2, 4, 8, 15, 30, 60, 60, 60, 60)


def is_over(attempts: int, failed_at_ns: int) -> bool:
    """True where the pause after a failed attempt is over: 1, 2, 4 … minutes, a day at most; never after the last."""
    pause = min(_FIRST_NS << max(attempts - 1, 0), _LONGEST_NS)
    return attempts < MOST_ATTEMPTS and not 0 <= time.time_ns() - failed_at_ns < pause


def heard_at_ns(file: Path, received_at_ns: int) -> int:
    """Return when what a file holds was received, nanoseconds since the epoch.

    A time in the future counts from when it is first looked at, which the time of its file keeps.
    """
    now = time.time_ns()
    if received_at_ns <= now:
        return received_at_ns
    try:
        seen = file.stat().st_mtime_ns
        if seen <= now:
            return seen
        os.utime(file)
    except FileNotFoundError:  # recorded meanwhile
        pass
    return now
