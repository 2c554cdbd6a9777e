"""The other agents after `reflector install --agent`, each with settings, home and stand-in of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from reflector.hooks.install import EVENTS
from tests.client.client import MODEL, Terminal
from tests.client.generate_api import GenerateApi
from tests.client.messages_api import MessagesApi
from tests.client.responses_api import ResponsesApi
from tests.client.scripted import Scripted, Step, step
from tests.client.watched import Watched
from tests.road.agent import PATIENCE, Agent


@dataclass
class Other(Watched):
    """What the other agents have in common.

    name      the value of `--agent`
    recorded  what its sessions are recorded as
    settings  its settings file below the home, where it has hooks in one
    timeout   of a hook, in the unit of its settings
    heard     events at which the observer keeps what hooks are given
    tool      the name of its shell
    resume    words that go on with its last session
    """

    binary: Path
    agent: Agent
    api: Scripted
    name: ClassVar[str]
    recorded: ClassVar[str]
    settings: ClassVar[str] = ""
    timeout: ClassVar[int] = 10
    heard: ClassVar[tuple[str, ...]] = ()
    tool: ClassVar[str] = "bash"
    resume: ClassVar[tuple[str, ...]] = ("--continue",)
    stand_in: ClassVar[type[Scripted]] = MessagesApi

    @abstractmethod
    def prints(self, prompt: str, *arguments: str) -> str:
        """Run the client on one prompt to its end; what it writes besides the answer."""

    def install(self, settings: dict[str, Any] | None = None) -> None:
        """Install our hook behind an observer's."""
        if self.settings:
            path = self.agent.home / self.settings
            path.parent.mkdir(parents=True, exist_ok=True)
            handler = {"type": "command", "command": self.observer(), "timeout": self.timeout}
            hooks = {event: [{"hooks": [handler]}] for event in self.heard}
            path.write_text(json.dumps({**(settings or {}), "hooks": hooks}))
        self.agent.run("install", "--agent", self.name)

    def asked(self, cue: str, *steps: Step) -> None:
        """Script an answer whose steps call this client's own shell."""
        for_it = [
            [{**block, "name": self.tool} if block.get("name") == "Bash" else block for block in one.blocks]
            for one in steps
        ]
        self.api.when(cue, *(step(*blocks) for blocks in for_it))

    def run(self, *words: str, **told: str) -> str:
        """Run the client to its end; what it writes besides the answer."""
        environ = {"HOME": str(self.agent.home), "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        # A client may come with a Node of its own.
        environ["PATH"] = f"{self.binary.parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [self.binary, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**environ, **told},
            cwd=self.agent.project,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done.stderr


@dataclass
class Codex(Other):
    """Codex CLI."""

    name: ClassVar[str] = "codex"
    recorded: ClassVar[str] = "codex"
    stand_in: ClassVar[type[Scripted]] = ResponsesApi
    resume: ClassVar[tuple[str, ...]] = ("resume", "--last")
    settings: ClassVar[str] = ".codex/hooks.json"
    heard: ClassVar[tuple[str, ...]] = (*EVENTS, "UserPromptSubmit")

    def __post_init__(self) -> None:
        self.install()
        (self.agent.home / ".codex/config.toml").write_text(
            'model = "gpt-5"\nmodel_provider = "standin"\n'
            f'[model_providers.standin]\nname = "standin"\nbase_url = "{self.api.url}/v1"\n'
            'env_key = "STANDIN_KEY"\nwire_api = "responses"\n'
            f'[projects."{self.agent.project}"]\ntrust_level = "trusted"\n'
        )

    def prints(self, prompt: str, *command: str) -> str:
        # Trust in hooks is given in a terminal.
        unattended = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
        return self.run("exec", *unattended, *command, prompt, STANDIN_KEY="a-key")

    @contextmanager
    def terminal(self) -> Iterator[Terminal]:
        """Codex CLI in a terminal, without the server that would outlive it."""
        environ = {"HOME": str(self.agent.home), "STANDIN_KEY": "a-key", "PATH": os.environ["PATH"]}
        environ |= {"LANG": "C.UTF-8", "TERM": "xterm-256color"}
        pairs = [f"{name}={value}" for name, value in environ.items()]
        terminal = Terminal(self.root / "tmux")
        terminal.start(["env", "-i", *pairs, str(self.binary), "--no-daemon"], self.agent.project)
        try:
            yield terminal
        finally:
            terminal.close()

    def transcripts(self) -> list[Path]:
        return sorted((self.agent.home / ".codex/sessions").rglob("rollout-*.jsonl"))


@dataclass
class Gemini(Other):
    """Gemini CLI."""

    name: ClassVar[str] = "gemini"
    recorded: ClassVar[str] = "gemini-cli"
    stand_in: ClassVar[type[Scripted]] = GenerateApi
    resume: ClassVar[tuple[str, ...]] = ("--resume", "latest")
    settings: ClassVar[str] = ".gemini/settings.json"
    timeout: ClassVar[int] = 10_000
    heard: ClassVar[tuple[str, ...]] = ("SessionStart", "BeforeAgent", "PreCompress", "AfterAgent", "SessionEnd")
    repeats: ClassVar[frozenset[str]] = frozenset({"duplicates"})  # a message that grows is written anew

    def __post_init__(self) -> None:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
        }
        self.install(settings)

    def prints(self, prompt: str, *flags: str) -> str:
        words = ["--skip-trust", "--yolo", "--model", "gemini-2.5-flash", *flags, "--prompt", prompt]
        told = {"GEMINI_API_KEY": "a-key", "GOOGLE_GEMINI_BASE_URL": self.api.url, "GEMINI_CLI_NO_RELAUNCH": "1"}
        return self.run(*words, **told)

    def transcripts(self) -> list[Path]:
        return sorted((self.agent.home / ".gemini" / "tmp").rglob("chats/**/*.json*"))


@dataclass
class Copilot(Other):
    """Copilot CLI with a model of somebody else's, which needs no login."""

    name: ClassVar[str] = "copilot"
    recorded: ClassVar[str] = "copilot-cli"
    teller: ClassVar[str] = "hook"
    settings: ClassVar[str] = ".copilot/settings.json"
    heard: ClassVar[tuple[str, ...]] = ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "SessionEnd")

    def __post_init__(self) -> None:
        self.install()

    def prints(self, prompt: str, *flags: str) -> str:
        told = {"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": self.api.url, "COPILOT_AUTO_UPDATE": "false"}
        told |= {"COPILOT_PROVIDER_TYPE": "anthropic", "COPILOT_PROVIDER_API_KEY": "a-key", "COPILOT_MODEL": MODEL}
        return self.run("--allow-all-tools", *flags, "--prompt", prompt, **told)

    def transcripts(self) -> list[Path]:
        return sorted((self.agent.home / ".copilot" / "session-state").glob("*/events.jsonl"))


@dataclass
class OpenCode(Other):
    """OpenCode."""

    name: ClassVar[str] = "opencode"
    recorded: ClassVar[str] = "opencode"
    teller: ClassVar[str] = "hook"

    def __post_init__(self) -> None:
        self.install()
        folder, installed = self.agent.home / ".config/opencode", self.binary.parents[2]
        # It fetches a package for plugins from the registry, unless that is there.
        (folder / "node_modules").symlink_to(installed / "node_modules")
        for name in ("package.json", "package-lock.json"):
            shutil.copy(installed / name, folder)
        options = {"baseURL": f"{self.api.url}/v1", "apiKey": "a-key"}
        config = {"autoupdate": False, "model": f"anthropic/{MODEL}", "provider": {"anthropic": {"options": options}}}
        (folder / "opencode.json").write_text(json.dumps(config))

    def prints(self, prompt: str, *flags: str) -> str:
        return self.run("run", "--auto", *flags, prompt, OPENCODE_DISABLE_MODELS_FETCH="1")

    def transcripts(self) -> list[Path]:
        return sorted((self.agent.home / ".local/share/opencode/reflector").glob("*.json"))


@dataclass
class Pi(Other):
    """pi."""

    name: ClassVar[str] = "pi"
    recorded: ClassVar[str] = "pi"
    teller: ClassVar[str] = "hook"

    def __post_init__(self) -> None:
        self.install()
        standin = {"baseUrl": self.api.url, "api": "anthropic-messages", "apiKey": "a-key", "models": [{"id": MODEL}]}
        (self.agent.home / ".pi/agent/models.json").write_text(json.dumps({"providers": {"standin": standin}}))

    def prints(self, prompt: str, *flags: str) -> str:
        return self.run("--model", f"standin/{MODEL}", *flags, "-p", prompt, PI_OFFLINE="1")

    def transcripts(self) -> list[Path]:
        return sorted((self.agent.home / ".pi/agent/sessions").rglob("*.jsonl"))


OTHERS: list[type[Other]] = [Codex, Gemini, Copilot, OpenCode, Pi]
