"""What a figure is: a ratio to a floor that was measured in the same run.

Invariant: both sides of a ratio are measured in turn, a moment apart. Absolute times move by half
from run to run on a shared machine; the median of paired ratios stays within a few percent.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

#: A measured side: does the work once and returns the seconds it took, as it sees fit to count
#: them.
Side = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    floor, ours  medians, in seconds where `unit` is "s", else per second or whatever `unit` says
    ratio        ours to floor, median of the pairs; for a rate, how many times ours takes as long
    goal         the ratio that was set for it, None where there is none
    """

    part: str
    floor: float
    ours: float
    ratio: float
    goal: float | None = None
    note: str = ""
    unit: str = "s"

    @property
    def met(self) -> bool:
        """Whether the goal is reached; a part without a goal always is."""
        return self.goal is None or self.ratio <= self.goal


def timed(work: Callable[[], object]) -> Side:
    """A side that takes as long as `work` does."""

    def side() -> float:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    return side


def paired_ratio(
    floor: Side, ours: Side, n: int, *, warm: bool = True
) -> tuple[float, float, float]:
    """Measure both sides `n` times in turn: (median floor, median ours, median of the paired
    ratios).

    With `warm`, one pair is run before and thrown away, so that both sides start with warm caches.
    Which side comes first changes from pair to pair: what the first does to the machine must not
    always hit the second.
    """
    pairs = []
    for number in range(-1 if warm else 0, n):
        if number % 2:
            ours_took, floor_took = ours(), floor()
        else:
            floor_took, ours_took = floor(), ours()
        if number >= 0:
            pairs.append((floor_took, ours_took))
    floors, mine = zip(*pairs, strict=True)
    return (
        statistics.median(floors),
        statistics.median(mine),
        statistics.median(b / a for a, b in pairs),
    )


def table(rows: Iterable[Row]) -> str:
    """The rows as a markdown table."""
    lines = ["| part | floor | ours | ratio | goal | | note |", "|---|--:|--:|--:|--:|---|---|"]
    for row in rows:
        goal = "" if row.goal is None else f"≤ {row.goal:g} ×"
        verdict = "" if row.goal is None else "met" if row.met else "**missed**"
        floor, ours = _shown(row.floor, row.unit), _shown(row.ours, row.unit)
        lines.append(
            f"| {row.part} | {floor} | {ours} | {row.ratio:.2f} × | {goal} | {verdict} | "
            f"{row.note} |"
        )
    return "\n".join(lines) + "\n"


def _shown(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:,.0f} {unit}"
    for factor, name in ((1.0, "s"), (1e3, "ms")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {name}"
    return f"{value * 1e6:.3g} µs"


def machine(sqlite_versions: Sequence[str] = (sqlite3.sqlite_version,)) -> str:
    """One line about where the figures come from."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{usable} cores, {platform.system()} {platform.release()} {platform.machine()}, "
        f"{platform.python_implementation()} {platform.python_version()}, SQLite "
        f"{', '.join(sqlite_versions)}"
    )
