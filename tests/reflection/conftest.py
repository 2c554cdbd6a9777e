"""A ledger in a file: what reflecting does is the same on each engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reflector.ledger.store import Ledger
from tests.building import add_bullets


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger in a file."""
    with Ledger.open_file(tmp_path / "ledger.db") as opened:
        yield opened


@pytest.fixture
def book(ledger: Ledger) -> Ledger:
    """The same with two bullets."""
    add_bullets(ledger, "pat-001", "pat-002")
    return ledger
