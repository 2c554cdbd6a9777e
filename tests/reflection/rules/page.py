"""What docs/judging.md says of the findings, weights and wordings that the backend runs on.

Invariant: the page and the data cannot differ: each of these pieces stands in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files

import reflector.reflection.rules
from reflector.reflection.rules.findings import FINDINGS
from reflector.reflection.rules.weighing import SIDES, Side, shipped
from reflector.reflection.rules.wordings import all_wordings


def pieces() -> Iterator[str]:
    """Yield each table, list and figure of the page."""
    weights = shipped()
    data = json.loads(files(reflector.reflection.rules).joinpath("weights.json").read_text(encoding="utf-8"))
    helpful, harmful = (weights.points[side] for side in SIDES)
    yield f"`{weights.version}`"
    yield f"| | what every citation starts with | {_points(helpful[''])} | {_points(harmful[''])} |\n" + "".join(
        f"| `{name}` | {when} | {_points(helpful[name])} | {_points(harmful[name])} |\n"
        for name, (_, when) in FINDINGS.items()
    )
    examples: tuple[tuple[Side, tuple[str, ...]], ...] = (
        ("helpful", ("accepted", "check-passed")),
        ("harmful", ("objects", "names-the-advice", "objects-strongly")),
    )
    for side, found in examples:
        points = " ".join(_points(weights.points[side][name]) for name in ("", *found))
        yield f"{points} for {side}, an estimate of {weights.estimate(side, found):.2f}"
        yield f"{weights.cutoff(side, 85):.2f}"
    citations, groups = data["fitted_on"]["citations"], data["fitted_on"]["groups"]
    yield f"{citations} labelled citations in real sessions of {groups} groups"
    yield "".join(f"{line}\n" for line in data["curve"])
    shares = sorted(set(weights.cutoffs["helpful"]) | set(weights.cutoffs["harmful"]))
    yield f"| precision asked | {' | '.join(map(str, shares))} |"
    for side in SIDES:
        cuts = (weights.cutoff(side, share) for share in shares)
        yield f"| cutoff for {side} | {' | '.join(f'{cut:.2f}' if cut < 1 else '–' for cut in cuts)} |"
    for kind in ("sign", "person", "agent"):
        yield _listed(kind)
    yield _listed("counted", "check", "line", examples=False)
    yield _listed("mechanics", examples=False)


def _points(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _listed(*kinds: str, examples: bool = True) -> str:
    """Rows by id, with an example where it is short; what fails and what passes of one runner make one entry."""
    shown: dict[str, str] = {}
    for row in all_wordings():
        if row.kind in kinds:
            name = row.id if examples else row.id.removesuffix("-failed").removesuffix("-passed")
            shown.setdefault(name, f'`{name}` ("{" ".join(row.example.split())}")' if examples else f"`{name}`")
    return ", ".join(shown.values())
