"""Verifying a ledger on SQLite: against the sum of its parts, in memory, and beside other
playbooks.

The figures are CPU seconds of whole processes. SQLite checks its file in a thread, so wall time
would hide a part of the work.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

from benchmarks import made
from benchmarks.harness import Row, paired_ratio
from benchmarks.process import CHECKOUT, Asked, run
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify

#: The maximum memory of a process in mebibytes, for a ledger of any size.
_PEAK = 200
_OTHERS = 400


def rows(files: dict[int, Path], folder: Path) -> list[Row]:
    """Verify at the larger sizes of existing ledgers, and in a file of many playbooks."""
    sizes = sorted(files)[1:]
    return [
        *(row for size in sizes for row in _one(files[size], size, folder)),
        *_among_others(folder),
    ]


def _one(path: Path, size: int, folder: Path) -> list[Row]:
    asked, floor = Asked(folder, path), [sys.executable, "-m", "benchmarks.verify_floor", str(path)]
    environ = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    peaks: list[float] = []

    def ours() -> float:
        took = asked.run("verify")
        peaks.append(took.peak / 2**20)
        return took.seconds

    repeats, warm = (5 if size < 10**6 else 3, True) if size < 10**7 else (1, False)
    everything = paired_ratio(lambda: run(floor, environ).seconds, ours, repeats, warm=warm)
    peak = statistics.median(peaks)
    note = (
        "CPU of a process; floor: fetch, hash, count the tags, integrity_check. Ours also "
        "fills the tables again"
    )
    return [
        Row(f"verify everything, {size:,} events", *everything, 1.8, note),
        Row(
            f"verify, peak of {size:,} events",
            _PEAK,
            peak,
            peak / _PEAK,
            1.0,
            "floor: the limit that was set",
            "MiB",
        ),
    ]


def _among_others(folder: Path) -> list[Row]:
    """Verify one of many playbooks in a file, against the same playbook alone and SQLite's check of
    the whole file.
    """
    alone, many = folder / "alone.db", folder / "many.db"
    for path, count in ((alone, 1), (many, _OTHERS)):
        for number in range(count):
            with Ledger.open_file(path, f"playbook-{number}") as ledger:
                ledger.append([made.playbook()])
                ledger.append([event for session in range(20) for event in made.session(session)])

    def cpu(path: Path) -> float:
        with Ledger.open_file(path, "playbook-0") as ledger:
            begun = time.process_time()
            assert not list(verify(ledger))
            return time.process_time() - begun

    def floor() -> float:
        with Ledger.open_file(many) as ledger, ledger.engine.connection() as connection:
            begun = time.process_time()
            connection.execute("PRAGMA integrity_check").fetchall()
            connection.execute("PRAGMA foreign_key_check").fetchall()
            took = time.process_time() - begun
        return took + cpu(alone)

    note = f"CPU; floor: it alone, and SQLite's check of the file of {_OTHERS}"
    return [
        Row(
            f"verify one of {_OTHERS} playbooks",
            *paired_ratio(floor, lambda: cpu(many), 7),
            1.3,
            note,
        )
    ]
