"""Patterns of paths: what they describe, and the time of a search."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, strategies as st

from reflector.counts.globs import glob_expression


def _describes(pattern: str, path: str) -> bool:
    return re.fullmatch(glob_expression(pattern), path) is not None


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*.ts", "a.ts"),
        ("src/**/*.ts", "src/a.ts"),
        ("src/**/*.ts", "src/a/b/c.ts"),
        ("**/api/**/test_*.py", "x/api/v1/api/test_a.py"),
        ("./src/**", "src/a/b.py"),
        ("**", "src/a.py"),
        ("*.{ts,tsx}", "a.tsx"),
        ("{src,lib}/{a,b}.py", "lib/a.py"),
        ("app/[id]/page.tsx", "app/[id]/page.tsx"),
    ],
)
def test_a_pattern_describes_a_path(pattern: str, path: str) -> None:
    assert _describes(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*.ts", "a/b.ts"),
        ("src/*.ts", "src/a/b.ts"),
        ("src/**/*.ts", "source/a.ts"),
        ("app/[id]/page.tsx", "app/i/page.tsx"),
        ("*.{ts,tsx}", "a.js"),
    ],
)
def test_a_pattern_excludes_other_paths(pattern: str, path: str) -> None:
    assert not _describes(pattern, path)


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_stars_in_names_are_those_of_fnmatch(pattern: str, name: str) -> None:
    assert _describes(pattern, name) == fnmatchcase(name, pattern)


@given(
    st.lists(st.sampled_from(["a", "b", "**"]), min_size=1, max_size=6),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=6),
)
def test_folders_are_those_of_all_readings(pattern: list[str], path: list[str]) -> None:
    """The plain search, which tries every reading, describes the same paths."""
    *folders, name = pattern
    every = "".join("(?:[^/]+/)*" if folder == "**" else f"{folder}/" for folder in folders)
    every += "(?:[^/]+/)*[^/]*" if name == "**" else name
    expected = re.fullmatch(every, "/".join(path)) is not None
    assert _describes("/".join(pattern), "/".join(path)) == expected


@pytest.mark.parametrize(
    "pattern",
    ["**/a/" * 30, "*a" * 30, "**/*a" * 20, "{a,b}" * 20, "{a,a}/**/" * 20, "*a{b,*}" * 9],
)
def test_hostile_pattern_is_searched_in_bounded_time(pattern: str) -> None:
    """Without the cure, most take more than the time limit of a test."""
    expression = re.compile(glob_expression(f"{pattern}x"))
    for path in ("a/" * 1_000, "a" * 2_000, "ab/" * 700):
        assert not expression.search(path)
