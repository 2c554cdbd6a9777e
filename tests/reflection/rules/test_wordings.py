"""Each wording keeps its word, and the page shows what the backend runs on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files

import pytest

import reflector.reflection.rules
from reflector.reflection.rules.findings import FINDINGS, SIDES, Side, shipped
from reflector.reflection.rules.wordings import Wording, all_wordings
from tests.conftest import assert_linear
from tests.pages import section


@pytest.mark.parametrize("row", all_wordings(), ids=lambda row: row.id)
def test_a_row_finds_its_example_and_not_its_counter_example(row: Wording) -> None:
    assert row.expression.search(row.example)
    assert not row.expression.search(row.counter)
    assert [one.id for one in all_wordings()].count(row.id) == 1


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


PAGE = section("judging.md", "The rules")


@pytest.mark.parametrize("piece", list(pieces()), ids=lambda piece: piece[:30])
def test_the_page_in_docs_is_current(piece: str) -> None:
    assert piece in PAGE


@pytest.mark.parametrize("side", SIDES)
def test_every_finding_has_a_weight_and_a_stricter_policy_never_a_lower_cutoff(side: Side) -> None:
    assert set(shipped().points[side]) == {"", *FINDINGS}
    cutoffs = [shipped().cutoff(side, share) for share in range(50, 101)]
    assert cutoffs == sorted(cutoffs)


@pytest.mark.parametrize("text", ["no ", "1 "])
def test_no_row_is_quadratic_on_long_dull_text(text: str) -> None:
    for row in all_wordings():
        assert_linear(lambda size, row=row: row.expression.search(text * (size // len(text))), 12_500)
