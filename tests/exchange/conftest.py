"""The ledgers of two machines."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from reflector.ledger.store import Ledger
from tests.conftest import Fresh


@pytest.fixture
def machines(fresh: Fresh) -> Iterator[list[Ledger]]:
    """The empty ledgers of two machines."""
    with ExitStack() as stack:
        yield [stack.enter_context(Ledger.open(stack.enter_context(fresh()))) for _ in range(2)]


@pytest.fixture
def one(machines: list[Ledger]) -> Ledger:
    return machines[0]


@pytest.fixture
def two(machines: list[Ledger]) -> Ledger:
    return machines[1]
