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


_FULL: dict[str, Any] = {
    "$schema": "https://json.schemastore.org/claude-code-settings.json",
    "permissions": {"allow": ["Bash(npm run lint)", "Read(~/.zshrc)"], "deny": ["Read(./.env)"]},
    "hooks": {
        "PostToolUse": [
            {
                "matcher": "Edit",
                "hooks": [{"type": "command", "command": "ruff check", "timeout": 30}],
            }
        ],
    },
}


_EVERY_TYPE: dict[str, Any] = {
    "hooks": {
        "Stop": [
            {
                "hooks": [
                    {"type": "prompt", "prompt": "Are the tests green? $ARGUMENTS", "timeout": 20},
                    {
                        "type": "command",
                        "command": "python3",
                        "args": ["${CLAUDE_PROJECT_DIR}/x.py", "hook"],
                    },
                    {"type": "command"},
                    {"type": "of-tomorrow", "command": ["a", "list"], "args": 7},
                    {},
                ]
            },
            {"matcher": "*"},
            {"matcher": "", "hooks": []},
        ],
        "SessionEnd": [
            {"hooks": [{"type": "command", "command": "other reflector-notes.sh", "async": True}]}
        ],
        "EventOfTomorrow": {"not": "a list"},
    },
}


def _text(value: Any, indent: int | str | None = 2, **options: Any) -> bytes:
    return json.dumps(value, indent=indent, ensure_ascii=False, **options).encode()


#: Files that the standard library writes back as they are: nothing outside our hooks changes.
EXACT: dict[str, bytes] = {
    "tabs": _text(_FULL, "\t") + b"\n",
    "CRLF": _text(_FULL, 4).replace(b"\n", b"\r\n") + b"\r\n",
    "byte order mark": b"\xef\xbb\xbf" + _text(_FULL) + b"\n",
    "empty file": b"",
    "hooks of every type": _text(_EVERY_TYPE) + b"\n",
    "nested deep": b'{"x": ' + b"[" * 200 + b"]" * 200 + b"}",
}


#: Files that the library reformats; `uninstall` restores them from the backup.
REFORMATTED: dict[str, bytes] = {
    "mixed line ends": _text(_FULL).replace(b"\n", b"\r\n", 7),
    "empty hooks between others": b'{\n  "a": 1,\n  "hooks": { },\n  "b": 2\n}\n',
    "empty event": b'{"hooks": {"Stop": [], "SessionEnd": [ ]}, "model": "opus"}',
    "escapes": (
        b'{"\\u0068ooks": {"St\\u006fp": []}, "x": "\\ud83e\\udd89 \\ud800 \\/ \\"hooks\\": {"}\n'
    ),
    "numbers": b'{"b": -0.0, "c": 123456789012345678901234567890, "d": 1E+2, "e": 1.10}',
    "aligned by hand": (
        b'{ "model"   : "opus"\n, "hooks"   : { "Stop" : [ { "hooks" : [ ] } ]\n}}\n'
    ),
}


SHAPES = EXACT | REFORMATTED


#: Content, and what is said of it.
REFUSED: dict[str, tuple[bytes, str]] = {
    "comment": (b'{\n  // mine\n  "model": "opus"\n}', "line 2, column 3: not JSON"),
    "NaN": (
        b'{"NaN": "NaN",\n "x": [NaN]}',
        "the file contains a number or a text that reflector would have to change",
    ),
    "a number too long": (b'{"x": -' + b"1" * 5_000 + b"}", "a number has thousands of digits"),
    ("half a pair beside other text"): (
        '{"é": "\\ud800"}'.encode(),
        "the file contains a number or a text that reflector would have to change",
    ),
    "nested too deep": (b"[" * 200_000, "is nested too deeply"),
    "UTF-16": ("{}".encode("utf-16"), "line 1: not UTF-8"),
    "a list": (b"\n []", "the document is not an object"),
    "hooks null": (b'{"hooks":\n null}', "`hooks` is not an object"),
    "event an object": (b'{"hooks": {"Stop": {"hooks": []}}}', "`hooks.Stop` is not an array"),
    "a key twice": (b'{"env": {"A": "1", "A": "2"}}', '"A" appears twice in one object'),
}
