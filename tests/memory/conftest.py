"""The play of the memory's tests."""

from pathlib import Path

import pytest

from reflector.locate import user_config
from tests.memory.world import World


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What each play begins with."""
    return World.at(tmp_path_factory.mktemp("begun"))


@pytest.fixture
def world(begun: World, tmp_path: Path, ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> World:
    """A project in a home of its own. Its ledger is a file, or a database of its team's server;
    that of the user's files is always a file.
    """
    played = World.copied(begun, tmp_path)
    monkeypatch.setenv("HOME", str(played.home))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "XDG_STATE_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    if not ledger_url.startswith("sqlite"):
        settings = Path(user_config())
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(f'ledger_url = "{ledger_url}"\n')
    return played
