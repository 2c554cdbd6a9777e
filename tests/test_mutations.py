"""The table of mutations, without running them."""

import ast
from collections import Counter

from tests.mutations import CHECKOUT, MUTATIONS, misplaced


def test_each_mutation_changes_one_place() -> None:
    assert misplaced(MUTATIONS) == []


def test_each_mutation_names_tests_that_exist() -> None:
    named = {path for mutation in MUTATIONS for path in mutation.tests}
    assert [
        path for path in sorted(named) if not (CHECKOUT / path.partition("::")[0]).exists()
    ] == []


def test_each_group_of_tests_has_one_definition() -> None:
    table = ast.parse((CHECKOUT / "tests" / "mutations.py").read_text("utf-8"))
    assigned = (target for node in table.body for target in _targets(node))
    names = Counter(node.id for node in assigned if isinstance(node, ast.Name))
    assert [name for name, times in names.items() if times > 1] == []


def _targets(node: ast.stmt) -> list[ast.expr]:
    """The names that a statement of the table assigns to."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [name for target in targets for name in getattr(target, "elts", [target])]
