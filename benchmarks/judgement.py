"""How often `rules` is right on real sessions that had no part in it: `python -m benchmarks.judgement FOLDER`.

Invariant: what was fitted, chosen or worded by looking at a group of sessions is not counted on that group. Each group
is judged with weights and cutoffs of all other groups, and without the wordings that are tagged with it. Points that a
reader chose because something could be judged there, and points drawn at random, are never mixed.

FOLDER holds `labels.jsonl`, `playbook.json` and `transcripts/`, and is no part of the project: other people's sessions.
`--fit` writes weights, cutoffs and the measured curve of all groups to `reflector/reflection/rules/weights.json`, which
docs/judging.md shows; `--precision 90` asks for another policy than 85; `--cases` lists every case.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reflector.playbook.bullet import Bullet
from reflector.playbook.counting import Verdict
from reflector.playbook.document import load
from reflector.reflection.rules import wordings as rows_of
from reflector.reflection.rules.citation import Citation
from reflector.reflection.rules.findings import FINDINGS, SIDES, Side, Weighed, Weights, findings, judge
from reflector.reflection.rules.follow import Reader
from reflector.transcripts.reading import read_messages

TAGS: tuple[Verdict, ...] = ("helpful", "harmful", "neutral")
VERSION = "rules/4"
POLICY = 85
WEIGHTS = Path(__file__).parent.parent / "reflector/reflection/rules/weights.json"
#: What a label counts for in the fit, by how sure the reader was.
SURE = {"high": 1.0, "medium": 0.8, "low": 0.5}
#: How much a weight costs: the more, the nearer the weights stay to zero.
RIDGE = 1.0
#: Groups whose messages were read while findings and wordings were designed; the others were never opened for that.
DESIGNED_ON = frozenset({"g03", "g04", "g05", "g11", "g12"})
#: Shares of 100 for which cutoffs are kept, and how many verdicts have to lie above a cutoff to say what it is worth.
SHARES, ENOUGH = (70, 75, 80, 85, 90, 95), 10


@dataclass(frozen=True)
class Case:
    """One labelled citation."""

    group: str
    sampling: str
    label: Verdict
    weight: float
    citation: Citation

    @property
    def found(self) -> tuple[str, ...]:
        return tuple(findings(self.citation))


# -- reading ---------------------------------------------------------------------------------------


def cases_of(folder: Path) -> list[Case]:
    """All labelled citations of a folder, each read without the wordings that were made in view of its group."""
    bullets = {bullet.name: bullet for bullet in load((folder / "playbook.json").read_bytes()).bullets}
    by_transcript: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        by_transcript[row["transcript"]].append(row)
    cases = []
    for name, rows in by_transcript.items():
        wanted = {row["bullet"]: bullets[row["bullet"]] for row in rows}
        with _without(rows[0]["group"]):
            cited = {one.name: one for one in _citations(folder / "transcripts" / name, wanted)}
        cases += [
            Case(row["group"], row["sampling"], row["label"], SURE[row["confidence"]], cited[row["bullet"]])
            for row in rows
        ]
    return cases


def _citations(path: Path, bullets: Mapping[str, Bullet]) -> list[Citation]:
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(lzma.decompress(path.read_bytes()))
        file.flush()
        return list(Reader(bullets).read(read_messages(file.name)))


@contextmanager
def _without(group: str) -> Iterator[None]:
    """Leaves the wordings out that are tagged with a group."""
    everything = rows_of.all_wordings
    kept = tuple(row for row in everything() if group not in row.worded_for)
    rows_of.all_wordings = lambda: kept  # type: ignore[assignment]
    rows_of.wordings.cache_clear()
    try:
        yield
    finally:
        rows_of.all_wordings = everything
        rows_of.wordings.cache_clear()


# -- fitting ---------------------------------------------------------------------------------------


def fitted(cases: Sequence[Case]) -> Weights:
    """Weights of these cases, without cutoffs: whatever is quoted is said."""
    return Weights(VERSION, {side: points(cases, side) for side in SIDES}, {side: {0: 0.0} for side in SIDES})


def points(cases: Sequence[Case], side: Side) -> dict[str, float]:
    """The weight of each finding for a side, rounded to hundredths: logistic regression with ridge, by Newton's method.

    Weights shrink to zero, but for what a citation starts with ("").
    """
    names = ["", *FINDINGS]
    index = {name: at for at, name in enumerate(names)}
    rows = [([0, *(index[name] for name in case.found)], float(case.label == side), case.weight) for case in cases]
    costs = [RIDGE if name else 0.0 for name in names]
    values = [0.0 for _ in names]
    for _ in range(20):
        slope = [-cost * value for cost, value in zip(costs, values, strict=True)]
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


# -- measuring -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """A case as weights of all other groups judge it."""

    case: Case
    said: Weighed

    @property
    def estimate(self) -> float:
        return self.said.estimates[SIDES.index(self.said.tag)] if self.said.tag in SIDES else 0.0


def held_out(cases: Sequence[Case]) -> list[Judged]:
    """Every case judged by weights of the other groups, with no cutoff."""
    judged = []
    for group in sorted({case.group for case in cases}):
        weights = fitted([case for case in cases if case.group != group])
        judged += [Judged(case, judge(case.citation, 0, weights)) for case in cases if case.group == group]
    return judged


def cutoffs(judged: Iterable[Judged]) -> dict[Side, dict[int, float]]:
    """The lowest estimate from which on verdicts, at chosen and random points, were right as often as asked."""
    everything = list(judged)
    found: dict[Side, dict[int, float]] = {side: {} for side in SIDES}
    for side in SIDES:
        for hundredth in range(97, 39, -1):
            above = [one for one in everything if one.said.tag == side and one.estimate >= hundredth / 100]
            right = sum(one.case.label == side for one in above)
            for share in SHARES:
                if len(above) >= ENOUGH and 100 * right >= share * len(above):
                    found[side][share] = hundredth / 100
    return found


def decided(judged: Sequence[Judged], precision: int) -> list[tuple[Case, Verdict]]:
    """Each case with its tag, where the cutoffs for a group come from the other groups as well."""
    tags: list[tuple[Case, Verdict]] = []
    for group in sorted({one.case.group for one in judged}):
        weights = Weights("", {}, cutoffs([one for one in judged if one.case.group != group]))
        for one in (one for one in judged if one.case.group == group):
            tag = one.said.tag
            speaks = tag in SIDES and one.estimate >= weights.cutoff(tag, precision)
            tags.append((one.case, tag if speaks else "neutral"))
    return tags


def interval(right: int, given: int) -> str:
    """A share with the 95 % interval of Wilson."""
    if not given:
        return "-"
    share, z = right / given, 1.96
    middle = (share + z * z / (2 * given)) / (1 + z * z / given)
    reach = z * math.sqrt(share * (1 - share) / given + z * z / (4 * given * given)) / (1 + z * z / given)
    return f"{right}/{given} = {share:.2f} ({middle - reach:.2f}–{middle + reach:.2f})"


def report(title: str, tags: Sequence[tuple[Case, Verdict]]) -> str:
    """Confusion, precision and recall of some cases."""
    pairs = Counter((case.label, tag) for case, tag in tags)
    lines = [f"{title}: {len(tags)} citations", f"{'label':10}" + "".join(f"{'→ ' + tag:>11}" for tag in TAGS)]
    lines += [f"{label:10}" + "".join(f"{pairs[label, tag]:>11}" for tag in TAGS) for label in TAGS]
    for side in SIDES:
        given = sum(pairs[label, side] for label in TAGS)
        wanted = sum(pairs[side, tag] for tag in TAGS)
        right = pairs[side, side]
        lines.append(
            f"{side}: precision {interval(right, given)}, recall {interval(right, wanted)}, wrong {given - right}"
        )
    return "\n".join(lines) + "\n"


def curve(judged: Sequence[Judged]) -> str:
    """Precision against recall by cutoff, as the table of docs/judging.md."""
    lines = [
        "| cutoff | helpful: right of said | recall | wrong of 50 at random "
        "| harmful: right of said | recall | wrong of 50 at random |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for hundredth in (40, 45, 50, 55, 60, 65, 70, 75, 80):
        cells = []
        for side in SIDES:
            above = [one for one in judged if one.said.tag == side and one.estimate >= hundredth / 100]
            said = [one.case.label == side for one in above if one.case.sampling == "chosen"]
            wrong = sum(one.case.label != side for one in above if one.case.sampling == "random")
            wanted = sum(one.case.label == side and one.case.sampling == "chosen" for one in judged)
            share = f"{sum(said)}/{len(said)} = {sum(said) / len(said):.2f}" if said else "–"
            cells += [share, f"{sum(said) / wanted:.2f}", str(wrong)]
        lines.append(f"| 0.{hundredth} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judgement", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit", action="store_true", help="write weights, cutoffs and the curve")
    parser.add_argument("--precision", type=int, default=POLICY)
    parser.add_argument("--cases", action="store_true", help="list every case with its verdict")
    given = parser.parse_args(arguments)
    if not (given.folder / "labels.jsonl").is_file():
        print(f"{given.folder} has no labels.jsonl; name the folder of the judged citations", file=sys.stderr)
        return 2
    cases = cases_of(given.folder)
    judged = held_out(cases)
    tags = decided(judged, given.precision)
    parts: dict[str, Callable[[Case], bool]] = {
        "chosen points": lambda case: case.sampling == "chosen",
        "random points": lambda case: case.sampling == "random",
        "chosen points of groups not read for the design": lambda case: (
            case.sampling == "chosen" and case.group not in DESIGNED_ON
        ),
    }
    print(f"leave one group out, precision {given.precision} of 100 asked\n")
    for title, belongs in parts.items():
        print(report(title, [(case, tag) for case, tag in tags if belongs(case)]))
    print(curve(judged))
    if given.cases:
        for one, (case, tag) in zip(judged, tags, strict=True):
            helpful, harmful = one.said.estimates
            about = f"{case.group} {case.sampling} {case.citation.name} {case.label} → {tag}"
            print(f"{about} {helpful:.2f} {harmful:.2f} {' '.join(case.found)}")
    if given.fit:
        fit(cases, judged)
    return 0


def fit(cases: Sequence[Case], judged: Sequence[Judged]) -> None:
    """Writes the weights of all cases, the cutoffs, and the page."""
    everything = {
        "version": VERSION,
        "fitted_on": {"citations": len(cases), "groups": len({case.group for case in cases})},
        "points": fitted(cases).points,
        "cutoffs": cutoffs(judged),
        "curve": curve(judged).splitlines(),
    }
    WEIGHTS.write_text(json.dumps(everything, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {WEIGHTS}")


if __name__ == "__main__":
    sys.exit(main())
