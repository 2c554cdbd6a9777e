"""The real client at work in a project of its own, and what its hooks, files and requests came to.

Whatever a scenario does, `check` holds afterwards: no hook was refused or failed, every transcript is read to its
last record, and taking all of it in again counts nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reflector.hooks.install import EVENTS
from tests.client.messages_api import MessagesApi
from tests.client.watched import Watched
from tests.road.agent import PATIENCE, Agent

MODEL = "claude-sonnet-4-6"
KEY = "sk-ant-key-of-the-tests-" + "0" * 20
#: How the client says that it did not like what a hook printed, or how it ended.
_REFUSED = re.compile(r"hook (json )?(output )?validation failed|hook[_ ]error|invalid hook|hook cancelled", re.I)
_REFUSALS = {"hook_non_blocking_error", "hook_blocking_error", "hook_error_during_execution", "hook_cancelled"}


@dataclass(frozen=True)
class Printed:
    """A `claude -p` that ended: the lines of its stream-json."""

    lines: list[dict[str, Any]]

    @property
    def session_id(self) -> str:
        return str(self.result["session_id"])

    @property
    def result(self) -> dict[str, Any]:
        (result,) = (line for line in self.lines if line["type"] == "result")
        return result

    @property
    def hooks(self) -> list[dict[str, Any]]:
        """Hooks that ended, with event, exit code, stdout and stderr. SessionEnd's come after the last line."""
        return [line for line in self.lines if line.get("subtype") == "hook_response"]


@dataclass
class Client(Watched):
    """Claude Code with settings, home and stand-in of its own.

    binary   the client's executable
    flags    what every start of it is given besides
    """

    binary: Path
    agent: Agent
    api: MessagesApi
    flags: list[str] = field(default_factory=list)
    _starts: int = 0

    def __post_init__(self) -> None:
        self.config.mkdir(parents=True)
        handler = {"type": "command", "command": self.observer(), "timeout": 10}
        hooks = {event: [{"hooks": [handler]}] for event in [*EVENTS, "UserPromptSubmit", "StopFailure"]}
        settings = {"permissions": {"defaultMode": "default", "allow": ["Bash", "Task", "Agent"]}, "hooks": hooks}
        (self.config / "settings.json").write_text(json.dumps(settings, indent=2))
        known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(self.agent.project): known},
        }
        (self.config / ".claude.json").write_text(json.dumps(state))
        self.agent.environ["CLAUDE_CONFIG_DIR"] = str(self.config)

    @property
    def config(self) -> Path:
        return self.root / "config"

    def environ(self) -> dict[str, str]:
        """The client's environment; nothing of the one that runs the tests."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.agent.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "SHELL": "/bin/sh",
            "CLAUDE_CONFIG_DIR": str(self.config),
            "ANTHROPIC_BASE_URL": self.api.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }

    def command(self, *arguments: str) -> list[str]:
        """The client's command line; each start has a debug log of its own."""
        self._starts += 1
        log = str(self.root / f"debug-{self._starts}.log")
        return [str(self.binary), "--model", MODEL, "--debug-file", log, *self.flags, *arguments]

    def start(self, prompt: str, *arguments: str) -> subprocess.Popen[str]:
        """A `claude -p` that runs."""
        stream = ["--output-format", "stream-json", "--verbose", "--include-hook-events"]
        return subprocess.Popen(
            self.command("-p", prompt, *stream, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ(),
            cwd=self.agent.project,
        )

    def prints(self, prompt: str, *arguments: str) -> Printed:
        """Run `claude -p` to its end."""
        process = self.start(prompt, *arguments)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, ""), (process.returncode, out[-2000:], err)
        printed = Printed([json.loads(line) for line in out.splitlines()])
        for hook in printed.hooks:
            assert (hook["exit_code"], hook["outcome"], hook["stderr"]) == (0, "success", ""), hook
        return printed

    @contextmanager
    def terminal(self, *arguments: str) -> Iterator[Terminal]:
        """An interactive client in a terminal, which is closed at the end."""
        command = self.command(*arguments)
        pairs = [f"{name}={value}" for name, value in self.environ().items()]
        terminal = Terminal(self.root / f"tmux-{self._starts}")
        terminal.start(["env", "-i", *pairs, *command], self.agent.project)
        try:
            yield terminal
        finally:
            terminal.close()

    def transcripts(self) -> list[Path]:
        """Every transcript the client wrote, of subagents, too."""
        found = sorted((self.config / "projects").rglob("*.jsonl"))
        return [path for path in found if path.name != "journal.jsonl"]

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The records of all transcripts, or those of one type."""
        lines = [line for path in self.transcripts() for line in path.read_bytes().splitlines()]
        records = [json.loads(line) for line in lines]
        return [record for record in records if kind in (None, record["type"])]

    def check(self) -> None:
        self.settle()
        for record in self.records("attachment"):
            assert record["attachment"]["type"] not in _REFUSALS, record
        for record in self.records("system"):
            assert not record.get("hookErrors"), record
        for path in [*self.transcripts(), *self.root.glob("debug-*.log")]:
            assert not (refused := _REFUSED.findall(path.read_text())), (path, refused)
        super().check()


class Terminal:
    """A client in tmux."""

    def __init__(self, socket: Path) -> None:
        self._pid = socket.with_suffix(".pid")
        self._tmux = ["tmux", "-S", str(socket), "-f", os.devnull]

    def start(self, command: list[str], folder: Path) -> None:
        """Start a command; its exit code is shown when it ends."""
        client = shlex.join(["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(self._pid), *command])
        shown = f"cd {shlex.quote(str(folder))} && {client}; echo ended with $?; exec sleep 1000"
        self._run("new-session", "-d", "-x", "160", "-y", "50", shown)

    def type(self, text: str) -> None:
        """Type a line and send it. The client takes keys that come with the line's for a part of a paste."""
        self._run("send-keys", "-l", text)
        self.see(text)
        time.sleep(0.5)
        self._run("send-keys", "Enter")

    def ask(self, ready: str, prompt: str, answer: str) -> None:
        """Wait until the client is ready, type a prompt, and wait for the answer."""
        self.see(ready)
        self.type(prompt)
        self.see(answer)

    def press(self, *keys: str) -> None:
        """Press keys, in tmux' words."""
        for key in keys:
            self._run("send-keys", key)
            time.sleep(0.3)

    def screen(self) -> str:
        """What is shown."""
        return self._run("capture-pane", "-p")

    def see(self, text: str) -> str:
        """Wait until something is shown; the screen then."""
        end = time.monotonic() + PATIENCE
        while text not in (screen := self.screen()):
            assert time.monotonic() < end, f"{text!r} is not shown:\n{screen}"
            time.sleep(0.1)
        return screen

    def client_pid(self) -> int:
        """The client's process."""
        return int(self._pid.read_text())

    def close(self) -> None:
        """Close the terminal as its window's cross does."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True)
        return done.stdout
