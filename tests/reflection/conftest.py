"""A ledger in a file: what reflecting does is the same on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reflector.ledger.store import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger in a file."""
    with Ledger.open_file(tmp_path / "ledger.db") as opened:
        yield opened
