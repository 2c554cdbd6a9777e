"""The play of the memory's tests."""

from pathlib import Path

import pytest

from tests.memory.world import World


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What each play begins with."""
    return World.at(tmp_path_factory.mktemp("begun"))


@pytest.fixture
def world(begun: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A project in a home of its own."""
    played = World.copied(begun, tmp_path)
    monkeypatch.setenv("HOME", str(played.home))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "XDG_STATE_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return played
