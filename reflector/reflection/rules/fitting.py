"""Weights of findings from labelled citations: logistic regression with ridge.

Invariant: the weights follow from the labels alone. A fit for one person's sessions starts from weights that are there
and leaves a weight where nothing speaks against it: few labels move little.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from reflector.playbook.counting import Verdict
from reflector.reflection.rules.findings import FINDINGS
from reflector.reflection.rules.weighing import SIDES, Side, Weights

#: How much a weight costs: the more, the nearer the weights stay to where they start.
RIDGE = 1.0


class Label(NamedTuple):
    """A citation by what was found of it, and what it was. `weight` is from 0 to 1: how sure the label is."""

    found: Sequence[str]
    verdict: Verdict
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Fit:
    """Weights of a person's own labels, and how often they and the ones before are right on labels held out.

    before, after  of `held_out` verdicts that are not neutral, those that equal the label
    """

    weights: Weights
    labels: int
    before: tuple[int, int]
    after: tuple[int, int]


def points(labels: Sequence[Label], side: Side, start: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the weight of each finding for a side, rounded to hundredths, by Newton's method.

    Without a `start` the weights shrink to zero, and what a citation starts with ("") not at all.
    """
    names = ["", *FINDINGS]
    index = {name: at for at, name in enumerate(names)}
    rows = [
        ([0, *(index[name] for name in one.found if name in index)], float(one.verdict == side), one.weight)
        for one in labels
    ]
    first = [(start or {}).get(name, 0.0) for name in names]
    costs = [RIDGE if start is not None or name else 0.0 for name in names]
    values = list(first)
    for _ in range(20):
        slope = [cost * (begin - value) for cost, begin, value in zip(costs, first, values, strict=True)]
        curve = [[(cost + 1e-9) * (at == other) for other in range(len(names))] for at, cost in enumerate(costs)]
        for there, is_side, weight in rows:
            chance = 1 / (1 + math.exp(-sum(values[at] for at in there)))
            for at in there:
                slope[at] += weight * (is_side - chance)
                for other in there:
                    curve[at][other] += weight * chance * (1 - chance)
        step = _solved(curve, slope)
        values = [value + change for value, change in zip(values, step, strict=True)]
        if max(map(abs, step)) < 1e-6:
            break
    return {name: round(value, 2) for name, value in zip(names, values, strict=True)}


def refitted(labels: Sequence[Label], weights: Weights, precision: int) -> Fit:
    """Return weights that a person's labels moved, with what ten rounds of held-out labels say of them."""
    after: list[tuple[Label, Verdict]] = []
    for fold in range(10):
        moved = _moved([one for at, one in enumerate(labels) if at % 10 != fold], weights)
        after += [(one, _verdict(one.found, moved, precision)) for at, one in enumerate(labels) if at % 10 == fold]
    before = [(one, _verdict(one.found, weights, precision)) for one in labels]
    return Fit(_moved(labels, weights), len(labels), _right(before), _right(after))


def written(weights: Weights) -> str:
    """Return weights as the text of a file that `reflector.reflection.rules.weighing.weights_of` reads."""
    return json.dumps(asdict(weights), indent=2, ensure_ascii=False) + "\n"


def _moved(labels: Sequence[Label], weights: Weights) -> Weights:
    moved = {side: points(labels, side, weights.points[side]) for side in SIDES}
    digest = sha256(json.dumps(moved, sort_keys=True).encode()).hexdigest()[:8]
    return replace(weights, version=f"{weights.version.partition('+')[0]}+{digest}", points=moved)


def _verdict(found: Sequence[str], weights: Weights, precision: int) -> Verdict:
    chances = [weights.estimate(side, found) for side in SIDES]
    side = SIDES[chances[1] > chances[0]]
    return side if max(chances) >= weights.cutoff(side, precision) else "neutral"


def _right(judged: Sequence[tuple[Label, Verdict]]) -> tuple[int, int]:
    said = [(label, verdict) for label, verdict in judged if verdict != "neutral"]
    return sum(label.verdict == verdict for label, verdict in said), len(said)


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Return the solution of a system of linear equations, by elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(len(rows)):
        best = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        rows[at], rows[best] = rows[best], rows[at]
        for row in rows[at + 1 :]:
            factor = row[at] / rows[at][at]
            row[at:] = [value - factor * above for value, above in zip(row[at:], rows[at][at:], strict=True)]
    solution = [0.0] * len(rows)
    for at in reversed(range(len(rows))):
        known = sum(rows[at][column] * solution[column] for column in range(at + 1, len(rows)))
        solution[at] = (rows[at][-1] - known) / rows[at][at]
    return solution
