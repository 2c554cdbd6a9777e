"""A program that plays an installed agent, which a user may let judge."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from reflector.judges.agent_clients import JUDGES
from reflector.judges.agent_process import AgentClient
from reflector.judges.model import Reply
from reflector.judges.protocol import BackendError

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
