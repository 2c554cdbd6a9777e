"""The table of mutations, without running them."""

from tests.mutations import MUTATIONS, misplaced


def test_each_mutation_changes_one_place_of_the_code_as_it_is() -> None:
    assert misplaced(MUTATIONS) == []
