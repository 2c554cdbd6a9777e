"""The table of mutations, without running them."""

from tests.mutations import CHECKOUT, MUTATIONS, misplaced


def test_each_mutation_changes_one_place() -> None:
    assert misplaced(MUTATIONS) == []


def test_each_mutation_names_tests_that_exist() -> None:
    named = {path for mutation in MUTATIONS for path in mutation.tests}
    assert [
        path for path in sorted(named) if not (CHECKOUT / path.partition("::")[0]).exists()
    ] == []
