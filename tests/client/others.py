"""The other agents after `reflector install --agent`, each with settings, home and stand-in of its own."""

from __future__ import annotations

import json
import shutil
from abc import abstractmethod
from dataclasses import dataclass
from subprocess import CompletedProcess
from typing import Any, ClassVar

from reflector.hooks.install import EVENTS
from tests.client.apis import GenerateApi, MessagesApi, ResponsesApi, Scripted
from tests.client.client import MODEL
from tests.client.watched import Watched

Done = CompletedProcess[str]


@dataclass
class Other(Watched):
    """What the other agents have in common.

    name      the value of `--agent`
    recorded  what its sessions are recorded as
    settings  its settings file below the home, where it has hooks in one
    timeout   of a hook, in the unit of its settings
    heard     events at which the observer keeps what hooks are given
    resume    words that go on with its last session
    """

    name: ClassVar[str]
    recorded: ClassVar[str]
    settings: ClassVar[str] = ""
    timeout: ClassVar[int] = 10
    heard: ClassVar[tuple[str, ...]] = ()
    resume: ClassVar[tuple[str, ...]] = ("--continue",)
    stand_in: ClassVar[type[Scripted]] = MessagesApi

    def __post_init__(self) -> None:
        self.install()

    @abstractmethod
    def prints(self, prompt: str, *arguments: str) -> Done:
        """Run the client on one prompt to its end."""

    def install(self, settings: dict[str, Any] | None = None) -> None:
        """Install our hook behind an observer's."""
        self.api.shell = "bash"
        if self.settings:
            path = self.agent.home / self.settings
            path.parent.mkdir(parents=True, exist_ok=True)
            hooks = self.observers(*self.heard, timeout=self.timeout)
            path.write_text(json.dumps({**(settings or {}), "hooks": hooks}))
        self.agent.run("install", "--agent", self.name)


class Codex(Other):
    """Codex CLI."""

    name = "codex"
    kept = (".codex/sessions", "rollout-*.jsonl")
    given: ClassVar = {"STANDIN_KEY": "a-key"}
    recorded = "codex"
    stand_in = ResponsesApi
    resume = ("resume", "--last")
    settings = ".codex/hooks.json"
    heard = (*EVENTS, "UserPromptSubmit")
    # An interruption is written as an event and as a note to the model, and is read once.
    repeats = frozenset({"duplicates"})

    def __post_init__(self) -> None:
        self.install()
        (self.agent.home / ".codex/config.toml").write_text(
            'model = "gpt-5"\nmodel_provider = "standin"\n'
            f'[model_providers.standin]\nname = "standin"\nbase_url = "{self.api.url}/v1"\n'
            'env_key = "STANDIN_KEY"\nwire_api = "responses"\n'
            f'[projects."{self.agent.project}"]\ntrust_level = "trusted"\n'
        )

    def prints(self, prompt: str, *command: str) -> Done:
        # Trust in hooks is given in a terminal.
        unattended = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
        return self.run("exec", *unattended, *command, prompt)


class Gemini(Other):
    """Gemini CLI."""

    name = "gemini"
    kept = (".gemini/tmp", "chats/**/*.json*")
    given: ClassVar = {"GEMINI_API_KEY": "a-key", "GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_CLI_NO_RELAUNCH": "1"}
    recorded = "gemini-cli"
    stand_in = GenerateApi
    resume = ("--resume", "latest")
    settings = ".gemini/settings.json"
    timeout = 10_000
    heard = ("SessionStart", "BeforeAgent", "PreCompress", "AfterAgent", "SessionEnd")
    repeats = frozenset({"duplicates"})  # a message that grows is written anew

    def __post_init__(self) -> None:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
        }
        self.install(settings)

    def prints(self, prompt: str, *flags: str) -> Done:
        words = ["--skip-trust", "--yolo", "--model", "gemini-2.5-flash", *flags, "--prompt", prompt]
        return self.run(*words)


class Copilot(Other):
    """Copilot CLI with a model of somebody else's, which needs no login."""

    name = "copilot"
    kept = (".copilot/session-state", "*/events.jsonl")
    given: ClassVar = {
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_MODEL": MODEL,
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_API_KEY": "a-key",
        "COPILOT_PROVIDER_BASE_URL": "{url}",
    }
    recorded = "copilot-cli"
    teller = "hook"
    settings = ".copilot/settings.json"
    heard = ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "SessionEnd")

    def prints(self, prompt: str, *flags: str) -> Done:
        return self.run("--allow-all-tools", *flags, "--prompt", prompt)


class OpenCode(Other):
    """OpenCode."""

    name = "opencode"
    kept = (".local/share/opencode/reflector", "*.json")
    given: ClassVar = {"OPENCODE_DISABLE_MODELS_FETCH": "1"}
    recorded = "opencode"
    teller = "hook"

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

    def prints(self, prompt: str, *flags: str) -> Done:
        return self.run("run", "--auto", *flags, prompt)


class Pi(Other):
    """pi."""

    name = "pi"
    kept = (".pi/agent/sessions", "*.jsonl")
    given: ClassVar = {"PI_OFFLINE": "1"}
    recorded = "pi"
    teller = "hook"

    def __post_init__(self) -> None:
        self.install()
        standin = {"baseUrl": self.api.url, "api": "anthropic-messages", "apiKey": "a-key", "models": [{"id": MODEL}]}
        (self.agent.home / ".pi/agent/models.json").write_text(json.dumps({"providers": {"standin": standin}}))

    def prints(self, prompt: str, *flags: str) -> Done:
        return self.run("--model", f"standin/{MODEL}", *flags, "-p", prompt)


OTHERS: list[type[Other]] = [Codex, Gemini, Copilot, OpenCode, Pi]
