"""Expressions that are compiled on demand behave as compiled ones."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import reflector
from reflector.text.lazy import lazy_pattern


def _expressions() -> Iterator[re.Pattern[str]]:
    for module in pkgutil.walk_packages(reflector.__path__, "reflector."):
        if not module.name.endswith("__main__"):
            values = vars(importlib.import_module(module.name)).values()
            yield from (value for value in values if type(value) is type(lazy_pattern("")))


def test_every_lazy_expression_compiles() -> None:
    assert all(expression.pattern for expression in _expressions())


def test_flags_are_kept() -> None:
    assert lazy_pattern("a+", re.IGNORECASE).sub("-", "AbA") == "-b-"


def test_wrong_expression_fails_when_used() -> None:
    expression = lazy_pattern("(")
    with pytest.raises(re.error, match="missing"):
        expression.search("")
