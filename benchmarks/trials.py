"""Simulated trials with a known truth: `python -m benchmarks.trials [THOUSANDS] [--plot FILE]`.

THOUSANDS is the number of trials for each true difference, in thousands (default: 1).
`--placebo` plays trials with a placebo arm.

A year has four sessions a day, with a look every day. Three of ten sessions are hard and end worse;
they are those that cite advice. The rate rises by 15 points over the year. In one of ten sessions
the user does not answer, which counts as good in either arm. Arms are drawn as the hook draws them.
For each true difference, the output shows how often a trial finds it or its opposite, how often the
truth was in the interval at every look, and when half of the trials ended, beside the plan.

Trials with a placebo arm have 400 sessions and the default shares. Advice adds its effect to that
of any text (priming). The placebo has the effect of any text, too. For each pair, the output shows
how often advice against the placebo has a false difference, and in how many trials the interval
contained the truth at every look.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lessons import _COMMENT
from reflector.trials.draw import MILLION, PLACEBO_SHARE, is_placebo, is_withheld
from reflector.trials.statistics import LEAST, Arm, difference_interval, ends, stands

#: Pairs of effect and priming, and the number of sessions of a trial with a placebo arm.
WITH_PLACEBO = ((0.0, 0.1), (0.1, 0.0), (0.2, 0.1))
SESSIONS = 400
DAYS, DAILY, SILENT, HARD, EFFECTS = 365, 4, 0.1, 0.3, (0.0, 0.1, -0.1, 0.2, -0.2)


@dataclass(frozen=True, slots=True)
class Played:
    """Trials of one true difference.

    ends    after how many sessions each trial found one, with its sign; 0 for never
    missed  the number of looks at which the interval missed the truth, by day
    ever    the number of trials with such a look
    """

    effect: float
    ends: list[int]
    missed: list[int]
    ever: int


def play(effect: float, ledgers: int, seed: int = 28) -> Played:
    """Play N trials to the end of their year."""
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


@dataclass(frozen=True, slots=True)
class PlacebosPlayed:
    """The results of trials with a placebo arm.

    false_alarms  how many ever showed a false difference of advice against the placebo
    covered       how many had the truth in their interval at every look
    found         how many showed the true difference
    """

    ledgers: int
    false_alarms: int
    covered: int
    found: int


def play_placebos(effect: float, priming: float, ledgers: int, seed: int = 50) -> PlacebosPlayed:
    """Play N trials with a placebo arm, with a look every day."""
    chance = random.Random(f"{seed} {effect} {priming}")
    gains = {"told": effect + priming, "placebo": priming, "without": 0.0}
    share = 0.5
    placebo_share = PLACEBO_SHARE / MILLION
    of_both = placebo_share / (placebo_share + (1 - placebo_share) * (1 - share))
    false_alarms = covered = found = 0
    for _ in range(ledgers):
        key = f"pl1:{chance.getrandbits(256):064x}"
        counts = {arm: [0, 0] for arm in gains}
        is_false = is_missed = is_found = False
        for number in range(1, SESSIONS + 1):
            root = f"{chance.getrandbits(64):x}"
            is_without = is_withheld(key, int(share * MILLION), root)
            arm = "without" if is_without else "told"
            if is_placebo(key, PLACEBO_SHARE, root):
                arm = "placebo"
            base = 0.4 + (-0.15 if chance.random() < HARD else 0.06)
            counts[arm][0] += 1
            counts[arm][1] += chance.random() < base + gains[arm]
            told, placebo = (Arm(*counts[name]) for name in ("told", "placebo"))
            if number % DAILY or told.sessions + placebo.sessions < LEAST:
                continue
            is_missed = is_missed or not stands(told, placebo, of_both, effect)
            if not stands(told, placebo, of_both, 0.0):
                low, _ = difference_interval(told, placebo, of_both)
                says = 1 if low > 0 else -1
                is_found = is_found or says * effect > 0
                is_false = is_false or says * effect <= 0
        false_alarms += is_false
        covered += not is_missed
        found += is_found
    return PlacebosPlayed(ledgers, false_alarms, covered, found)


def report_placebos(ledgers: int) -> list[str]:
    """Return a row of a table for each pair of effect and priming."""
    rows = [
        "| advice adds | any text adds | false alarms | truth held at every look | says so |",
        "|--:|--:|--:|--:|--:|",
    ]
    for effect, priming in WITH_PLACEBO:
        played = play_placebos(effect, priming, ledgers)
        counts = (played.false_alarms, played.covered, played.found)
        shares = " | ".join(f"{count / ledgers:.1%}" for count in counts)
        rows.append(f"| {100 * effect:+.0f} | {100 * priming:+.0f} | {shares} |")
    return rows


def report(played: Sequence[Played]) -> list[str]:
    """Return the results, with a row of a table for each true difference."""
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
    """Write an SVG of the number of trials that have found a difference after N sessions, by the
    true difference.
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
    """Return the sum of trials of one true difference."""
    found = [end for part in parts for end in part.ends]
    missed = [sum(day) for day in zip(*(part.missed for part in parts), strict=True)]
    return Played(parts[0].effect, found, missed, sum(part.ever for part in parts))


if __name__ == "__main__":
    thousands = next((int(word) for word in sys.argv[1:] if word.isdigit()), 1)
    if "--placebo" in sys.argv:
        print("\n".join(report_placebos(1_000 * thousands)))
        raise SystemExit
    trials = [
        whole([play(effect, 1_000, 28_000 + part) for part in range(thousands)])
        for effect in EFFECTS
    ]
    print("\n".join(report(trials)))
    if "--plot" in sys.argv:
        plot(trials, Path(sys.argv[-1]))
