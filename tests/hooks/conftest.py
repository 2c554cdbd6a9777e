"""A project on disk and the hook as the agent runs it: a process with JSON on stdin."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.road.agent import HOOK, Agent


class Project(Agent):
    """A project folder, and the environment that a hook of it runs in."""

    @property
    def path(self) -> Path:
        return self.project

    @property
    def fallback(self) -> Path:
        return self.home / ".local/state/reflector/spool"

    def start(self, command: list[str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """A hook that runs, or another command in its place."""
        env = {**self.env(), "REFLECTOR_NO_SPAWN": "1", **self.environ}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command or HOOK, env=env, **pipes, **{"cwd": self.path, **options})

    def hook(self, payload: dict[str, Any] | bytes, **options: Any) -> tuple[bytes, bytes]:
        """Run the hook to its end; what it wrote to stdout and stderr. It exits 0, always."""
        process = self.start(**options)
        raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        out, err = process.communicate(raw, timeout=30)
        assert process.returncode == 0
        return out, err

    def write_playbook(self, *bullets: tuple[str, str, int, int], title: str = "OTHERS") -> None:
        """One section of (name, text, helpful, harmful)."""
        entries = [
            dict(zip(("name", "text", "helpful", "harmful"), bullet, strict=True))
            for bullet in bullets
        ]
        self.claude.mkdir(parents=True, exist_ok=True)
        super().write_playbook({title: entries})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty folder where hooks are heard all the same: its user names a ledger for all
    projects.
    """
    for name in ("project", "home/.config/reflector"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home/.config/reflector/config.toml").write_text('ledger_url = ""\n')
    return Project(tmp_path / "project", tmp_path / "home")


def event(name: str, **fields: Any) -> dict[str, Any]:
    """A payload with the fields that every event carries."""
    return {
        "session_id": "s-1",
        "transcript_path": "/nowhere.jsonl",
        "hook_event_name": name,
    } | fields


def files(folder: Path) -> list[Path]:
    """Everything that lies directly in a folder, hidden or not; nothing where it is missing."""
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []


def records(folder: Path) -> list[dict[str, Any]]:
    """The records that a reader of the spool sees, oldest first."""
    return [json.loads(path.read_bytes()) for path in files(folder) if path.name[0] != "."]
