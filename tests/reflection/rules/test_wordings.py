"""Each wording keeps its word, and the page shows what the backend runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reflector.reflection.rules.findings import FINDINGS, VERSION
from reflector.reflection.rules.wordings import Wording, all_wordings
from tests.conftest import assert_linear
from tests.pages import section


@pytest.mark.parametrize("row", all_wordings(), ids=lambda row: row.id)
def test_a_row_finds_its_example_and_not_its_counter_example(row: Wording) -> None:
    assert row.expression.search(row.example)
    assert not row.expression.search(row.counter)
    assert [one.id for one in all_wordings()].count(row.id) == 1


def pieces() -> Iterator[str]:
    """Yield each table and list of the page, as far as the code knows it."""
    yield f"`{VERSION}`"
    for name, (side, _) in FINDINGS.items():
        yield f"\n| `{name}` | {side} | "
    for kind in ("sign", "person", "agent"):
        yield _listed(kind)
    yield _listed("counted", "check", "line", examples=False)
    yield _listed("mechanics", examples=False)


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


@pytest.mark.parametrize("text", ["no ", "1 "])
def test_no_row_is_quadratic_on_long_dull_text(text: str) -> None:
    for row in all_wordings():
        assert_linear(lambda size, row=row: row.expression.search(text * (size // len(text))), 12_500)
