"""Comparisons of two versions of a text."""

import pytest

from reflector.text.compared import compared
from tests.conftest import assert_linear


@pytest.mark.parametrize("repeated", ["", "}"])
def test_repeated_lines_cost_no_cube(repeated: str) -> None:
    def work(size: int) -> None:
        versions = [
            [repeated if number % 2 else f"{name}{number}" for number in range(size)]
            for name in ("old", "new")
        ]
        compared(*versions).get_opcodes()

    assert_linear(work, 1_000)


def test_repeated_lines_of_a_usual_file_stay() -> None:
    old = [line for number in range(60) for line in (f"{number}.", "")]
    new = [*old[:60], "new", "", *old[60:]]
    sizes = [match.size for match in compared(old, new).get_matching_blocks()]
    assert sum(sizes) == len(old)
