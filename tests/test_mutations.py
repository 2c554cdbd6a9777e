"""The table of mutations, without running them."""

from tests.mutations import MUTATIONS, misplaced


def test_each_mutation_changes_one_place() -> None:
    assert misplaced(MUTATIONS) == []
