"""The charts and small pictures of a report: shapes, words and classes, and nothing else."""

import re
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from reflector.audit.blame import Step
from reflector.events import event as ev
from reflector.report import charts, pictures
from tests.ledger.events import about, window
from tests.report.conftest import BEGIN, Reader, at, report
from tests.road.agent import Agent

_ATTRIBUTES = {
    "class",
    "viewBox",
    "width",
    "height",
    "aria-hidden",
    "preserveAspectRatio",
    "x",
    "y",
    "cx",
    "cy",
    "r",
    "rx",
    "d",
    "points",
    "text-anchor",
}


def step(helpful: int, harmful: int) -> Step:
    values = dict.fromkeys(("session_id", "reflection_id", "tag", "rationale"))
    times = dict.fromkeys(("recorded_at", "occurred_at"), "2026-11-21T09:14:00Z")
    return Step(
        position=1,
        name="pat-001",
        counted=True,
        disposition="counted",
        helpful=helpful,
        harmful=harmful,
        event_id="e",
        **values,  # type: ignore[arg-type]
        **times,  # type: ignore[arg-type]
    )


def test_charts_have_shapes_and_classes_alone(agent: Agent) -> None:
    drawn = re.findall(r"<svg.*?</svg>", report(agent), re.S)
    assert len(drawn) > 6
    for svg in drawn:
        for node in ElementTree.fromstring(svg).iter():
            assert node.tag in {"svg", "rect", "path", "text", "circle", "polyline"}
            assert set(node.attrib) <= _ATTRIBUTES


def test_each_chart_is_wide_and_narrow(agent: Agent) -> None:
    html = report(agent)
    widths = re.findall(r'<svg class="chart" viewBox="0 0 (\d+) ', html)
    assert widths == ["700", "330"] * 3


def test_chart_of_tokens_shows_weeks_without_tokens(tmp_path: Path) -> None:
    project = Agent.in_folder(tmp_path, {})
    with at(BEGIN), project.open_ledger() as ledger:
        for number in (0, 1):
            with at(BEGIN + timedelta(days=21 * number)):
                recorded = window(number, f"session-{number}")
                answered = about(ev.REFLECTION_ANSWERED, recorded, answer="{}", model="haiku")
                ledger.append([recorded, replace(answered, meta={"input_tokens": 1000})])
    charts_of_page = re.findall(r'<svg class="chart".*?</svg>', report(project), re.DOTALL)
    wide, _ = [chart for chart in charts_of_page if 'class="m1"' in chart]
    assert re.findall(r">(\d+ \w{3})<", wide) == ["24 Nov", "8 Dec"]


def test_course_of_unjudged_rule_is_empty() -> None:
    assert pictures.course([]) == pictures.course([step(0, 0)]) == ""


def test_course_has_no_line_for_zero() -> None:
    assert "bad" not in pictures.course([step(0, 0), step(1, 0)])
    assert "good" not in pictures.course([step(0, 0), step(0, 1)])


def test_harmful_bars_hang_from_zero() -> None:
    series = [charts.Series("good", [2]), charts.Series("bad", [-1]), charts.Series("warn", [-2])]
    shapes = charts._bars(series, 0, 700, 50)
    bars = re.findall(r'class="(\w+)" x="[\d.]+" y="([\d.]+)" .*?height="([\d.]+)"', shapes)
    assert bars == [("good", "0.0", "20.0"), ("bad", "20.0", "10.0"), ("warn", "30.0", "20.0")]


def test_stacked_bars_add_up() -> None:
    shapes = charts._bars([charts.Series("m1", [1]), charts.Series("m2", [3])], 10, 700, 40)
    bars = re.findall(r'class="(m\d)" x="[\d.]+" y="([\d.]+)" .*?height="([\d.]+)"', shapes)
    assert bars == [("m1", "40.0", "10.0"), ("m2", "10.0", "30.0")]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, [0]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (20, [0, 10, 20]),
        (352_000, [0, 100_000, 200_000, 300_000]),
    ],
)
def test_ticks_are_round(most: int, ticks: list[int]) -> None:
    assert charts._ticks(most) == ticks


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0"), (999, "999"), (-12_000, "12k"), (999_999, "1M"), (1_500_000, "1.5M")],
)
def test_numbers_of_axes_are_short(number: int, words: str) -> None:
    assert charts._short(number) == words


def test_week_labels_keep_their_distance() -> None:
    begins = [f"2025-{month:02d}-{day:02d}" for month in range(1, 13) for day in (1, 8, 15, 22)]
    places = [int(x) for x in re.findall(r'x="(\d+)"', charts._week_labels(begins, 330, 10))]
    assert len(places) > 2
    assert all(right - left >= 50 for left, right in pairwise(places))


def test_page_has_no_other_svg(agent: Agent) -> None:
    page = Reader(report(agent))
    kinds = {own.get("class") for tag, own in page.tags if tag == "svg"}
    assert kinds <= {"chart", "bar", "course", "share"}
