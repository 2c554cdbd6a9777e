"""The strings that are looked for before a wording is tried lose nothing that it finds."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.reflection.rules.needles import _finder, absent, folded
from reflector.reflection.rules.wordings import all_wordings, found
from tests.reflection.rules.needles import FILE, needles, written

#: Words of the wordings' own examples, so that drawn texts come close to what they find.
_WORDS = sorted({word for row in all_wordings() for word in f"{row.example} {row.counter}".split()})
_PIECES = st.one_of(
    st.sampled_from(_WORDS),
    st.sampled_from([row.example for row in all_wordings()]),
    st.sampled_from(["İ", "ı", "ſ", "\u212a", "Σ", "ς", "🔴", "✅", "\n", "\t", "’", "1", ".", "\ud800"]),
)
_KINDS = ("sign", "person", "agent", "counted", "check", "line", "mechanics")


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "ahocorasick", None)
    _finder.cache_clear()
    absent.cache_clear()
    yield
    _finder.cache_clear()
    absent.cache_clear()


def test_the_strings_are_those_of_the_wordings() -> None:
    assert FILE.read_text(encoding="utf-8") == written(), "run `make docs`"


@given(st.lists(_PIECES, max_size=12), st.sampled_from([str, str.upper, str.lower, str.title, str.swapcase]))
def test_a_wording_that_a_text_holds_is_found(pieces: list[str], spelled: type[str]) -> None:
    text = spelled(" ".join(pieces))
    for kind in _KINDS:
        rows = [row for row in all_wordings() if row.kind == kind]
        plain = [(row.id, match.span()) for row in rows if (match := row.expression.search(text))]
        assert [(row.id, match.span()) for row, match in found(rows, text)] == plain


def test_most_wordings_are_passed_over_in_most_texts() -> None:
    text = "Reading the parser before the values of its records are joined."
    assert len(absent(text, "printed") | absent(text, "folded")) > 0.8 * len(all_wordings())


@pytest.mark.usefixtures("without_library")
def test_without_the_library_every_wording_is_tried() -> None:
    assert absent("", "printed") == absent("", "folded") == frozenset()
    rows = [row for row in all_wordings() if row.kind == "counted"]
    assert "pytest-passed" in [row.id for row, _ in found(rows, "=== 33 passed in 4.10s ===")]


@pytest.mark.parametrize(
    ("pattern", "strings"),
    [
        (r"(?:un)?related\b", ["related"]),
        (r"a?b*cc+", []),
        (r"a?b*(?:cc)+", ["cc"]),
        (r"(?:fail|err)(?:ed|or)", ["error", "erred", "failed", "failor"]),
        (r"(?=now)\w+", []),
        (r"(?<!x)yes|no", ["no", "yes"]),
        (r"\d+ of \d+", [" of "]),
        (r"(?:|ab)", []),
        (r"(?i:A)bc", ["bc"]),
        (r"(\w)\1", []),
        (r"[ab]c", ["ac", "bc"]),
        (r"[^a]bc", ["bc"]),
        (r"(?>ab)c", ["abc"]),
        (r"(?:xy){2,3}", ["xy"]),
    ],
)
def test_each_match_of_a_pattern_holds_one_of_its_strings(pattern: str, strings: list[str]) -> None:
    assert sorted(needles(pattern, fold=False)) == sorted(strings)


def test_every_letter_that_an_expression_takes_for_another_is_found() -> None:
    letters = {letter for row in all_wordings() if row.folds for letter in "".join(needles(row.pattern, fold=True))}
    same = re.compile("[" + re.escape("".join(sorted(letters))) + "]", re.IGNORECASE)
    alike = [letter for letter in map(chr, range(sys.maxunicode + 1)) if same.match(letter)]
    assert len(alike) > len(letters)
    for letter in alike:
        assert {one for one in letters if re.match(re.escape(one), letter, re.IGNORECASE)} == {folded(letter)}
