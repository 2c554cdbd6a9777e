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


def test_worth_rises_and_falls_as_outcomes_say(played: lessons.Month) -> None:
    middle, last = played.days[lessons.HALF - 1], played.days[-1]
    outdated, right = played.truths[: lessons.CHANGED], played.truths[lessons.CHANGED : 2 * lessons.CHANGED]
    assert all(middle[one.id].effectiveness > last[one.id].effectiveness for one in outdated)
    assert all(middle[one.id].effectiveness < last[one.id].effectiveness for one in right)
    assert all(middle[one.id].confidence >= last[one.id].confidence for one in outdated)


def test_equal_values_share_their_mean_rank() -> None:
    assert lessons.rank_correlation([1, 2, 2, 3], [10, 20, 20, 30]) == pytest.approx(1.0)
    assert lessons.rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
