"""A program that plays an installed agent, which a user may let judge."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from reflector.judges import consent
from reflector.judges.agent_clients import JUDGES
from reflector.judges.agent_process import AgentClient
from reflector.judges.model import Reply
from reflector.judges.protocol import BackendError
from tests.conftest import first_fast

_PROGRAM = Path(__file__).with_name("agent_program.py")
TEXTS = ("Judge ", "this.")


class Played:
    """An installed agent that a person let judge; `mode` says how it fares."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder / "bin", name
        self.folder.mkdir()
        self.binary = self.folder / name
        self.binary.write_text(_PROGRAM.read_text().replace("#!PYTHON", f"#!{sys.executable}"))
        self.binary.chmod(0o755)
        self.mode("answer")

    def mode(self, mode: str) -> None:
        (self.folder / "mode").write_text(mode)

    def send(self, **fields: Any) -> Reply:
        client = AgentClient(writer=JUDGES[self.name].names[1], **{"deadline": 20.0, **fields})
        return asyncio.run(client.send(TEXTS))

    def fails(self, **fields: Any) -> BackendError:
        with pytest.raises(BackendError) as caught:
            self.send(**fields)
        return caught.value

    def asked(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "asked.json").read_text())
        return found


@pytest.fixture(params=first_fast(2, JUDGES))
def played(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Played:
    Path.home().mkdir()
    made = Played(tmp_path, request.param)
    for name in ("HTTP", "HTTPS", "ALL"):
        monkeypatch.delenv(f"{name}_PROXY", raising=False)
    monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CODEX_API_KEY", "the-key-of-the-consent")
    monkeypatch.setenv("NODE_OPTIONS", "--no-warnings")  # which no client needs
    consent.keep_consent(consent.installed_clients())
    return made


only_claude = pytest.mark.parametrize("played", ["claude"], indirect=True)
