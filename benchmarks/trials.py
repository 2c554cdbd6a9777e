"""Simulated trials whose truth is known: `python -m benchmarks.trials [THOUSANDS] [--plot FILE]`,
by default 1 of each.

A year of four sessions a day, looked at every day. Three of ten sessions are hard and end worse
(they are those that cite advice), the rate rises by 15 points over the year, and in one of ten
nobody answers, which counts as good in either arm. Arms are drawn as the hook draws them. Prints
for each true difference how often a trial says so or the opposite, in how many it held the truth at
every look, and when half of them ended, beside the plan.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lessons import _COMMENT
from reflector.trials.draw import MILLION, is_withheld
from reflector.trials.statistics import LEAST, Arm, difference_interval, ends, stands

DAYS, DAILY, SILENT, HARD, EFFECTS = 365, 4, 0.1, 0.3, (0.0, 0.1, -0.1, 0.2, -0.2)


@dataclass(frozen=True, slots=True)
class Played:
    """Trials of one true difference: after how many sessions each found one, with its sign, 0 for
    never; the looks at which the interval `missed` the truth, by day; and in how many trials there
    `ever` was one.
    """

    effect: float
    ends: list[int]
    missed: list[int]
    ever: int


def play(effect: float, ledgers: int, seed: int = 28) -> Played:
    """Play so many trials to the end of their year."""
    chance, ends_, missed, ever = random.Random(f"{seed} {effect}"), list[int](), [0] * DAYS, 0
    for _ in range(ledgers):
        key, counts, end, failed = f"pl1:{chance.getrandbits(256):064x}", [[0, 0], [0, 0]], 0, False
        for day in range(DAYS):
            for _ in range(DAILY):
                told = not is_withheld(key, MILLION // 2, f"{chance.getrandbits(64):x}")
                base = 0.45 + 0.15 * day / DAYS + (-0.15 if chance.random() < HARD else 0.06)
                rate = base + (effect if told else -effect) / (2 * (1 - SILENT))
                counts[told][0] += 1
                counts[told][1] += chance.random() < SILENT or chance.random() < rate
            without, with_ = (Arm(*arm) for arm in counts)
            if (day + 1) * DAILY >= LEAST:
                missed[day] += (misses := not stands(with_, without, 0.5, effect))
                failed = failed or misses
                if not end and not stands(with_, without, 0.5, 0.0):
                    low, _ = difference_interval(with_, without, 0.5)
                    end = (day + 1) * DAILY * (1 if low > 0 else -1)
        ends_.append(end)
        ever += failed
    return Played(effect, ends_, missed, ever)


def report(played: Sequence[Played]) -> list[str]:
    """Return what was found, a row of a table for each true difference."""
    heads = (
        "true difference|says so|says the opposite|truth held at every look|at the worst "
        "look|half end after|planned"
    )
    rows = [f"| {heads.replace('|', ' | ')} |", "|--:|--:|--:|--:|--:|--:|--:|"]
    for one in played:
        n, sign = len(one.ends), -1 if one.effect < 0 else 1
        half = sorted(abs(end) or 10**6 for end in one.ends)[n // 2]
        plan = ends(one.effect, 0.6, 0.5, DAYS * DAILY)[200] if one.effect else 10**6
        shares = (
            *(sum(end * side > 0 for end in one.ends) / n for side in (sign, -sign)),
            1 - one.ever / n,
        )
        cells = [f"{share:.1%}" for share in (*shares, 1 - max(one.missed) / n)]
        cells += [f"{at} sessions" if at <= DAYS * DAILY else "–" for at in (half, plan)]
        rows.append(f"| {100 * one.effect:+.0f} | {' | '.join(cells)} |")
    return rows


def plot(played: Sequence[Played], path: Path) -> None:
    """Write an SVG: how many trials have found a difference after so many sessions, by the true
    one.
    """
    import pygal
    from pygal.style import CleanStyle

    look = {
        "js": (),
        "no_prefix": True,
        "style": CleanStyle,
        "width": 800,
        "height": 400,
        "show_dots": False,
    }
    chart = pygal.XY(
        legend_at_bottom=True,
        x_title="sessions",
        title=("Trials that found a difference (%)"),
        **look,
    )
    for one in played:
        points = range(0, DAYS * DAILY + 1, 40)
        found = [
            (at, 100 * sum(0 < abs(end) <= at for end in one.ends) / len(one.ends)) for at in points
        ]
        chart.add(f"{100 * one.effect:+.0f} points", found)
    path.write_bytes(_COMMENT.sub(b"", chart.render()))


def whole(parts: Sequence[Played]) -> Played:
    """Return trials of one true difference together."""
    found = [end for part in parts for end in part.ends]
    missed = [sum(day) for day in zip(*(part.missed for part in parts), strict=True)]
    return Played(parts[0].effect, found, missed, sum(part.ever for part in parts))


if __name__ == "__main__":
    thousands = next((int(word) for word in sys.argv[1:] if word.isdigit()), 1)
    trials = [
        whole([play(effect, 1_000, 28_000 + part) for part in range(thousands)])
        for effect in EFFECTS
    ]
    print("\n".join(report(trials)))
    if "--plot" in sys.argv:
        plot(trials, Path(sys.argv[-1]))
