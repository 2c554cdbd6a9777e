"""Each wording keeps its word, and the page shows what the backend runs on."""

from __future__ import annotations

import pytest

from reflector.reflection.rules.findings import FINDINGS
from reflector.reflection.rules.weighing import SIDES, shipped
from reflector.reflection.rules.wordings import Wording, all_wordings
from tests.conftest import assert_linear
from tests.pages import section
from tests.reflection.rules.page import pieces


@pytest.mark.parametrize("row", all_wordings(), ids=lambda row: row.id)
def test_a_row_finds_its_example_and_not_its_counter_example(row: Wording) -> None:
    assert row.expression.search(row.example)
    assert not row.expression.search(row.counter)


def test_ids_are_unique() -> None:
    ids = [row.id for row in all_wordings()]
    assert len(ids) == len(set(ids))


PAGE = section("judging.md", "The rules")


@pytest.mark.parametrize("piece", list(pieces()), ids=lambda piece: piece[:30])
def test_the_page_in_docs_is_current(piece: str) -> None:
    assert piece in PAGE


def test_the_page_fits_on_three_printed_pages() -> None:
    assert len(PAGE.split()) <= 1_800


def test_every_finding_has_a_weight_on_both_sides_and_no_other_has() -> None:
    for side in SIDES:
        assert set(shipped().points[side]) == {"", *FINDINGS}


def test_a_stricter_policy_never_has_a_lower_cutoff() -> None:
    for side in SIDES:
        cutoffs = [shipped().cutoff(side, share) for share in range(50, 101)]
        assert cutoffs == sorted(cutoffs)


@pytest.mark.parametrize("text", ["no ", "1 "])
def test_no_row_is_quadratic_on_long_dull_text(text: str) -> None:
    for row in all_wordings():
        assert_linear(lambda size, row=row: row.expression.search(text * (size // len(text))), 12_500)
