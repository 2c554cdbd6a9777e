"""Each row of the rule table keeps its word, and the page shows all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflector.reflection.rules.page import ALL_RULES, page
from reflector.reflection.rules.table import Rule, found


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_a_row_matches_its_example_and_not_its_counter_example(rule: Rule) -> None:
    assert found(rule, rule.example)
    assert not found(rule, rule.counter)


def test_ids_are_unique() -> None:
    ids = [rule.id for rule in ALL_RULES]
    assert len(ids) == len(set(ids))


def test_the_page_in_docs_is_current() -> None:
    docs = Path(__file__).parents[3] / "docs" / "rules.md"
    write = "python -c \"from reflector.reflection.rules.page import page; print(page(), end='')\" > docs/rules.md"
    assert docs.read_text(encoding="utf-8") == page(), f"run: {write}"


@pytest.mark.parametrize("text", ["no ", "1 "])
def test_no_row_is_quadratic_on_long_dull_text(text: str) -> None:
    """The time limit of the suite ends it: a pattern that tries each start against the rest takes minutes here."""
    for rule in ALL_RULES:
        found(rule, text * (150_000 // len(text)))
