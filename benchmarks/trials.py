"""Simulated trials whose truth is known: `python -m benchmarks.trials [LEDGERS] [--plot FILE]`, by default 1,000 each.

A year of four sessions a day, looked at every day. Three of ten sessions are hard and end worse (they are those that
cite advice), the rate rises by 15 points over the year, and in one of ten nobody answers, so that it counts as good in
either arm. Arms are drawn as the hook draws them. Everything follows from one seed. Prints for each true difference how
often a trial says something false, at how many looks the interval held the truth, and when half of the trials ended,
beside the plan.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lessons import _COMMENT
from reflector.trials.draw import MILLION, is_withheld
from reflector.trials.statistics import LEAST, Arm, ends, interval, stands

SEED, DAYS, DAILY, SILENT, HARD = 28, 365, 4, 0.1, 0.3
EFFECTS = (0.0, 0.1, -0.1, 0.2, -0.2)


@dataclass(frozen=True, slots=True)
class Played:
    """Trials of one true difference: after how many sessions each found one, with its sign; 0 for those that did not.

    missed  looks at which the interval did not hold the truth, by day; `ever` trials in which there was such a look
    """

    effect: float
    ends: list[int]
    missed: list[int]
    ever: int


def play(effect: float, ledgers: int, seed: int = SEED) -> Played:
    """Play so many trials to the end of their year."""
    chance, ends_, missed, ever = random.Random(f"{seed} {effect}"), list[int](), [0] * DAYS, 0
    for _ in range(ledgers):
        key, counts, end, failed = f"pl1:{chance.getrandbits(256):064x}", [[0, 0], [0, 0]], 0, False
        for day in range(DAYS):
            for _ in range(DAILY):
                told = not is_withheld(key, MILLION // 2, f"{chance.getrandbits(64):x}")
                base = 0.45 + 0.15 * day / DAYS + (-0.15 if chance.random() < HARD else 0.06)
                # Half of the difference up and half down, so that no rate leaves 0 to 1.
                rate = base + (effect if told else -effect) / (2 * (1 - SILENT))
                counts[told][0] += 1
                counts[told][1] += chance.random() < SILENT or chance.random() < rate
            if (day + 1) * DAILY >= LEAST:
                arms = Arm(*counts[1]), Arm(*counts[0])
                if not stands(*arms, 0.5, effect):
                    missed[day] += 1
                    failed = True
                if not end and not stands(*arms, 0.5, 0.0):
                    end = (day + 1) * DAILY * (1 if interval(*arms, 0.5)[0] > 0 else -1)
        ends_.append(end)
        ever += failed
    return Played(effect, ends_, missed, ever)


def report(played: Sequence[Played]) -> list[str]:
    """Return what was found, a line for each true difference."""
    lines = ["true difference  says so  says the opposite  truth held at every look  worst look  half end after  plan"]
    for one in played:
        n, sign = len(one.ends), -1 if one.effect < 0 else 1
        says, false = (sum(end * side > 0 for end in one.ends) / n for side in (sign, -sign))
        half = sorted(abs(end) or 10**6 for end in one.ends)[n // 2]
        plan = ends(one.effect, 0.6, 0.5, DAYS * DAILY)[200] if one.effect else 10**6
        both = [f"{at} sessions" if at <= DAYS * DAILY else "-" for at in (half, plan)]
        held, worst = 1 - one.ever / n, 1 - max(one.missed) / n
        cells = (f"{100 * one.effect:+.0f} points", f"{says:.1%}", f"{false:.1%}", f"{held:.1%}", f"{worst:.1%}", *both)
        lines.append(
            "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, (15, 7, 17, 24, 10, 14, 12), strict=True))
        )
    return lines


def plot(played: Sequence[Played], path: Path) -> None:
    """Write an SVG: how many trials have found a difference after so many sessions, by the true one."""
    import pygal
    from pygal.style import CleanStyle

    look = {"js": (), "no_prefix": True, "style": CleanStyle, "width": 800, "height": 400, "show_dots": False}
    chart = pygal.XY(
        range=(0, 100),
        legend_at_bottom=True,
        x_title="sessions",
        title="Trials that say there is a difference (%)",
        **look,
    )
    for one in played:
        points = range(0, DAYS * DAILY + 1, 40)
        found = [(at, 100 * sum(0 < abs(end) <= at for end in one.ends) / len(one.ends)) for at in points]
        chart.add(f"{100 * one.effect:+.0f} points", found)
    path.write_bytes(_COMMENT.sub(b"", chart.render()))


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word.isdigit()]
    trials = [play(effect, int(given[0]) if given else 1_000) for effect in EFFECTS]
    print("\n".join(report(trials)))
    if "--plot" in sys.argv:
        plot(trials, Path(sys.argv[sys.argv.index("--plot") + 1]))
