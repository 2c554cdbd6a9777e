"""The real client at work in a project of its own, and what its hooks, files and requests came to.

Whatever a scenario does, `check` holds afterwards: no hook was refused or failed, every transcript is read to its
last record, and taking all of it in again counts nothing.
"""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from reflector.hooks.install import EVENTS
from tests.client.watched import Terminal, Watched

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
        (result,) = (line for line in self.lines if line["type"] == "result")
        return str(result["session_id"])

    @property
    def hooks(self) -> list[dict[str, Any]]:
        """Hooks that ended, with event, exit code, stdout and stderr. SessionEnd's come after the last line."""
        return [line for line in self.lines if line.get("subtype") == "hook_response"]


@dataclass
class Client(Watched):
    """Claude Code with settings, home and stand-in of its own.

    flags    what every start of it is given besides
    """

    given: ClassVar = {
        "SHELL": "/bin/sh",
        "CLAUDE_CONFIG_DIR": "{root}/config",
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }
    flags: list[str] = field(default_factory=list)
    _starts: int = 0

    def __post_init__(self) -> None:
        self.config.mkdir(parents=True)
        hooks = self.observers(*EVENTS, "UserPromptSubmit", "StopFailure")
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

    def words(self, *arguments: str) -> list[str]:
        """What the client is started with; each start has a debug log of its own."""
        self._starts += 1
        log = str(self.root / f"debug-{self._starts}.log")
        return ["--model", MODEL, "--debug-file", log, *self.flags, *arguments]

    def prints(self, prompt: str, *arguments: str) -> Printed:
        """Run `claude -p` to its end."""
        stream = ["--output-format", "stream-json", "--verbose", "--include-hook-events"]
        done = self.run(*self.words("-p", prompt, *stream, *arguments))
        assert done.stderr == ""
        printed = Printed([json.loads(line) for line in done.stdout.splitlines()])
        for hook in printed.hooks:
            assert (hook["exit_code"], hook["outcome"], hook["stderr"]) == (0, "success", ""), hook
        return printed

    def terminal(self, *arguments: str) -> AbstractContextManager[Terminal]:
        return super().terminal(*self.words(*arguments))

    def transcripts(self) -> list[Path]:
        """Every transcript the client wrote, of subagents, too."""
        found = sorted((self.config / "projects").rglob("*.jsonl"))
        return [path for path in found if path.name != "journal.jsonl"]

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The records of all transcripts, or those of one type."""
        lines = [line for path in self.transcripts() for line in path.read_bytes().splitlines()]
        records = [json.loads(line) for line in lines]
        return [record for record in records if kind in (None, record["type"])]

    def check(self, *cited: tuple[str, str], helpful: int | None = None) -> None:
        super().check(*cited, helpful=helpful)
        for record in self.records("attachment"):
            assert record["attachment"]["type"] not in _REFUSALS, record
        for record in self.records("system"):
            assert not record.get("hookErrors"), record
        for path in [*self.transcripts(), *self.root.glob("debug-*.log")]:
            assert not (refused := _REFUSED.findall(path.read_text())), (path, refused)
