"""From findings to a tag: how much each weighs, and when that is enough to speak.

Invariant: neutral is the default. A tag is given only where its estimate reaches the cutoff at which verdicts of its
kind were right as often as the policy asks, on labelled sessions that had no part in the weights. Weights and cutoffs
are data: `python -m benchmarks.judgement --fit` writes them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from reflector.playbook.counting import Verdict, decisive
from reflector.reflection.rules.citation import Citation
from reflector.reflection.rules.findings import FINDINGS, findings, unread

Side = Literal["helpful", "harmful"]
SIDES: tuple[Side, Side] = ("helpful", "harmful")


@dataclass(frozen=True, slots=True)
class Weights:
    """What the fit wrote.

    version   goes into every answer as its model
    points    per side, the weight of each finding; "" is what a citation starts with
    cutoffs   per side, the estimate from which on that share of 100 verdicts was right, by that share
    """

    version: str
    points: Mapping[Side, Mapping[str, float]]
    cutoffs: Mapping[Side, Mapping[int, float]]

    def estimate(self, side: Side, names: Sequence[str]) -> float:
        """Return how likely a citation with these findings was helpful, or harmful."""
        points = self.points[side]
        return 1 / (1 + math.exp(-points[""] - sum(points.get(name, 0.0) for name in names)))

    def cutoff(self, side: Side, precision: int) -> float:
        """Return the estimate that a verdict has to reach where `precision` of 100 are to be right."""
        reached = [cutoff for share, cutoff in self.cutoffs[side].items() if share >= precision]
        return min(reached, default=1.0)


@dataclass(frozen=True, slots=True)
class Weighed:
    """A verdict on one citation, or on all of a bullet in a window.

    reason     a few words without quotes
    quote      the decisive evidence, "" where there is none
    rule       the decisive finding and the wordings that it rests on
    estimates  how likely it was helpful and harmful, by findings alone
    found      the names of what was found
    """

    tag: Verdict
    reason: str
    quote: str = ""
    rule: str = ""
    estimates: tuple[float, float] = (0.0, 0.0)
    found: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def shipped() -> Weights:
    """Return the weights that ship with the package."""
    data = json.loads(Path(__file__).with_name("weights.json").read_text(encoding="utf-8"))
    cutoffs = {side: {int(share): float(cut) for share, cut in data["cutoffs"][side].items()} for side in SIDES}
    points = {side: {name: float(value) for name, value in data["points"][side].items()} for side in SIDES}
    return Weights(str(data["version"]), points, cutoffs)


def judge(citation: Citation, precision: int, weights: Weights) -> Weighed:
    """Return the verdict on one citation, where `precision` of 100 verdicts are to be right."""
    if citation.declined:
        return Weighed("neutral", "the agent named the advice to decline it")
    found = findings(citation)
    names = tuple(found)
    estimates = (weights.estimate("helpful", names), weights.estimate("harmful", names))
    side = SIDES[estimates[1] > estimates[0]]
    # The finding with a quote that speaks most for that side.
    points = weights.points[side]
    quoted = [one for one in found.values() if one.quote and points.get(one.name, 0.0) > 0]
    best = max(quoted, key=lambda one: points[one.name], default=None)
    if max(estimates) < weights.cutoff(side, precision) or best is None:
        reason = "no evidence" if best is None else "too little for a verdict"
        return Weighed("neutral", reason, estimates=estimates, found=names)
    if side == "helpful" and unread(citation):
        return Weighed("neutral", "a person's words are not in English", estimates=estimates, found=names)
    rule = ", ".join(dict.fromkeys(part for part in (best.name, best.rule) if part))
    return Weighed(side, FINDINGS[best.name][0], best.quote, rule, estimates, names)


def merge(judgements: Sequence[Weighed]) -> Weighed:
    """Return one verdict for several citations of a bullet in one window, by the rule of `decisive`."""
    decided = decisive(judgements, lambda one: one.tag)
    if not decided:
        return max(judgements, key=lambda one: max(one.estimates), default=Weighed("neutral", "no evidence"))
    if len(decided) == 1:
        return decided[0]
    return Weighed("neutral", "helpful at one citation and harmful at another", decided[-1].quote, decided[-1].rule)
