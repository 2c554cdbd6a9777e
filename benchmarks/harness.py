"""A figure is a ratio to a floor that was measured in the same run.

Invariant: both sides of a ratio are measured in turn, directly after each other. On a shared
machine, absolute times differ by half from run to run, but the median of paired ratios only by a
few percent.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

#: A measured side. It does the work once, and returns the seconds that it took by its own measure.
Side = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    floor, ours  medians, in seconds if `unit` is "s", else per second or in `unit`
    ratio        ours to floor, median of the pairs; for a rate, how many times as long ours takes
    goal         the goal for the ratio, None without one
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
        """Whether the goal is reached. Without a goal, it always is."""
        return self.goal is None or self.ratio <= self.goal


def timed(work: Callable[[], object]) -> Side:
    """Return a side that takes as long as `work`."""

    def side() -> float:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    return side


def paired_ratio(
    floor: Side, ours: Side, n: int, *, warm: bool = True
) -> tuple[float, float, float]:
    """Measure both sides `n` times in turn. Return (median floor, median ours, median of the paired
    ratios).

    With `warm`, the first pair is not counted, so that both sides start with warm caches. The order
    changes from pair to pair, so that an effect of the first side does not always hit the second
    one.
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
    """Return the rows as a Markdown table."""
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
    """Return one line about the machine that was measured."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{usable} cores, {platform.system()} {platform.release()} {platform.machine()}, "
        f"{platform.python_implementation()} {platform.python_version()}, SQLite "
        f"{', '.join(sqlite_versions)}"
    )
