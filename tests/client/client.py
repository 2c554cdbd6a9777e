"""Claude Code, and the other agents, at work in projects of their own, and what its hooks, files and requests came to.

Whatever a scenario does, `check` holds afterwards: no hook was refused or failed, every transcript is read to its
last record, and taking all of it in again counts nothing.
"""

from __future__ import annotations

import json
import re
import shutil
from abc import abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, ClassVar

from reflector.hooks.install import EVENTS
from tests.client.apis import GenerateApi, MessagesApi, ResponsesApi, Scripted
from tests.client.watched import Terminal, Watched

Done = CompletedProcess[str]


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
