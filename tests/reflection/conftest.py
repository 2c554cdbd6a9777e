"""The stand-in for the Messages API, one a run and fresh for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reflector.ledger.store import Ledger
from tests.reflection.api import Api, serving


@pytest.fixture(scope="session")
def listening() -> Iterator[Api]:
    with serving() as api:
        yield api


@pytest.fixture
def api(listening: Api, monkeypatch: pytest.MonkeyPatch) -> Api:
    """An API that answers soundly until it is told otherwise; no proxy stands before it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    listening.reset()
    return listening


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger in a file: what reflecting does is the same on each engine."""
    with Ledger.open_file(tmp_path / "ledger.db") as opened:
        yield opened
