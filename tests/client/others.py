"""Codex CLI and Gemini CLI, each with settings, home and stand-in of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from reflector.hooks.install import hook_command
from tests.client.generate_api import GenerateApi
from tests.client.responses_api import ResponsesApi
from tests.client.watched import Watched
from tests.road.agent import PATIENCE, Agent


@dataclass
class Codex(Watched):
    """Codex CLI; our command stands in its hooks.json."""

    binary: Path
    agent: Agent
    api: ResponsesApi

    def __post_init__(self) -> None:
        self.config.mkdir(parents=True)
        (self.config / "config.toml").write_text(
            'model = "gpt-5"\nmodel_provider = "standin"\n'
            f'[model_providers.standin]\nname = "standin"\nbase_url = "{self.api.url}/v1"\n'
            'env_key = "STANDIN_KEY"\nwire_api = "responses"\n'
            f'[projects."{self.agent.project}"]\ntrust_level = "trusted"\n'
        )
        events = (
            "SessionStart",
            "UserPromptSubmit",
            "SubagentStart",
            "SubagentStop",
            "PreCompact",
            "Stop",
            "SessionEnd",
        )
        (self.config / "hooks.json").write_text(json.dumps({"hooks": _hooks(events, self.observer(), timeout=10)}))

    @property
    def requests(self) -> ResponsesApi:
        return self.api

    @property
    def config(self) -> Path:
        return self.agent.home / ".codex"

    def prints(self, prompt: str, *command: str) -> str:
        """Run `codex exec`, or one of its subcommands, to its end; what it writes besides the answer."""
        # Trust in hooks is given in a terminal.
        unattended = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
        words = [self.binary, "exec", *unattended, *command, prompt]
        return _run(words, self.agent, {"STANDIN_KEY": "a-key", "CODEX_HOME": str(self.config)})

    def transcripts(self) -> list[Path]:
        return sorted((self.config / "sessions").rglob("rollout-*.jsonl"))


@dataclass
class Gemini(Watched):
    """Gemini CLI; our command stands in its settings."""

    binary: Path
    agent: Agent
    api: GenerateApi
    repeats: ClassVar[frozenset[str]] = frozenset({"duplicates"})  # a message that grows is written anew

    def __post_init__(self) -> None:
        config = self.agent.home / ".gemini"
        config.mkdir(parents=True)
        events = ("SessionStart", "BeforeAgent", "PreCompress", "AfterAgent", "SessionEnd")
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
            "hooks": _hooks(events, self.observer(), timeout=10_000),
        }
        (config / "settings.json").write_text(json.dumps(settings))

    @property
    def requests(self) -> GenerateApi:
        return self.api

    def prints(self, prompt: str, *flags: str) -> str:
        """Run `gemini -p` to its end; what it writes besides the answer."""
        words = [self.binary, "--skip-trust", "--yolo", "--model", "gemini-2.5-flash", *flags, "--prompt", prompt]
        told = {"GEMINI_API_KEY": "a-key", "GOOGLE_GEMINI_BASE_URL": self.api.url, "GEMINI_CLI_NO_RELAUNCH": "1"}
        return _run(words, self.agent, told)

    def transcripts(self) -> list[Path]:
        return sorted((self.agent.home / ".gemini" / "tmp").rglob("chats/**/*.json*"))


def _hooks(events: Sequence[str], observer: str, *, timeout: int) -> dict[str, Any]:
    handlers = [{"type": "command", "command": command, "timeout": timeout} for command in (hook_command(), observer)]
    return {event: [{"hooks": handlers}] for event in events}


def _run(words: Sequence[str | Path], agent: Agent, told: dict[str, str]) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(agent.home), "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**environ, **told},
        cwd=agent.project,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stderr
