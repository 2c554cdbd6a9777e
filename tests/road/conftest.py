"""An agent in a project of its own, for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.road.agent import Agent


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent.in_folder(tmp_path)
