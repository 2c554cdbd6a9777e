"""The simulated month of docs/learning.md: its figures and its plots are those of `python -m benchmarks.lessons`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import lessons

pytestmark = pytest.mark.slow
DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture(scope="module")
def played() -> lessons.Month:
    return lessons.month()


def test_the_page_shows_the_figures_of_the_month(played: lessons.Month) -> None:
    page = (DOCS / "learning.md").read_text("utf-8")
    assert "\n".join(lessons.report(played)) in page


def test_the_plots_of_the_page_are_those_of_the_month(played: lessons.Month, tmp_path: Path) -> None:
    pytest.importorskip("pygal")
    for path in lessons.plot(played, tmp_path):
        assert path.read_bytes() == (DOCS / path.name).read_bytes()
