"""Claude Code, and the other agents, at work in projects of their own, and what its hooks, files
and requests came to.

Whatever a scenario does, `check` holds afterwards: no hook was refused or failed, every transcript
is read to its last record, and taking all of it in again counts nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, ClassVar

from reflector.hooks.agents import CLAUDE
from reflector.transcripts.reading import scan
from reflector.transcripts.tellings import telling_of
from tests.client.apis import GenerateApi, MessagesApi, ResponsesApi, Scripted
from tests.road.agent import PATIENCE, Agent

Done = CompletedProcess[str]


#: What stands beside ours in the settings: it keeps each payload with what lay on the disk at that
#: moment.
_OBSERVER = """\
import json, os, sys, time
payload = json.loads(sys.stdin.buffer.read())
for key in ("transcript_path", "agent_transcript_path"):
    path = payload.get(key)
    payload["_" + key] = os.path.getsize(path) if path and os.path.exists(path) else None
path = os.path.join(sys.argv[1], f"{time.time_ns()}-{os.getpid()}.json")
with open(path + ".tmp", "w") as file:
    json.dump(payload, file)
os.rename(path + ".tmp", path)
"""


#: The text of the hook in a request, from the template's first words to its last.
_TEXT = re.compile(
    r"This project keeps a playbook: .*? so that the next session knows\.",
    re.DOTALL,
)


@dataclass
class Watched(ABC):
    """What all clients have in common.

    api    the stand-in that it asks
    given  what its environment has besides
    kept   where its transcripts are: a folder below the home, and a pattern in it
    """

    binary: Path
    agent: Agent
    api: Scripted
    given: ClassVar[dict[str, str]] = {}
    kept: ClassVar[tuple[str, str]]
    #: What its transcripts say again and again, as a part of how it writes them.
    repeats: ClassVar[frozenset[str]] = frozenset()
    #: Who says what a session was told: its transcript, where that has an echo of it, else our
    #: hook.
    teller: ClassVar[str] = "transcript"
    #: Seconds that a run may take.
    patience: ClassVar[float] = PATIENCE

    @property
    def root(self) -> Path:
        return self.agent.home.parent

    @property
    def observed(self) -> Path:
        return self.root / "observed"

    def observers(self, *events: str, timeout: int = 10) -> dict[str, Any]:
        """Hooks, as settings have them, that keep their payloads."""
        self.observed.mkdir(exist_ok=True)
        (self.root / "observer.py").write_text(_OBSERVER)
        command = shlex.join(
            [sys.executable, "-I", "-S", str(self.root / "observer.py"), str(self.observed)]
        )
        handler = {"type": "command", "command": command, "timeout": timeout}
        return {event: [{"hooks": [handler]}] for event in events}

    def environ(self) -> dict[str, str]:
        """The client's environment; nothing of the one that runs the tests."""
        # A client may come with a Node of its own.
        path = f"{self.binary.parent}{os.pathsep}{os.environ['PATH']}"
        environ = {
            "HOME": str(self.agent.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "PATH": path,
        }
        return environ | {
            name: value.format(url=self.api.url, root=self.root)
            for name, value in self.given.items()
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the client to its end, which is a good one."""
        done = subprocess.run(
            [self.binary, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environ(),
            cwd=self.agent.project,
            timeout=self.patience,
            check=False,
        )
        assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done

    @contextmanager
    def terminal(self, *words: str) -> Iterator[Terminal]:
        """The client in a terminal, which is closed at the end."""
        pairs = [f"{name}={value}" for name, value in self.environ().items()]
        terminal = Terminal(Path(tempfile.mkdtemp(dir=self.root)) / "tmux")
        terminal.start(["env", "-i", *pairs, str(self.binary), *words], self.agent.project)
        try:
            yield terminal
        finally:
            terminal.close()

    def transcripts(self) -> list[Path]:
        """Every transcript the client wrote, of subagents, too."""
        folder, pattern = self.kept
        return sorted((self.agent.home / folder).rglob(pattern))

    def payloads(self, event: str | None = None) -> list[dict[str, Any]]:
        """What the client's hooks were given, oldest first; sizes under the key's name with an
        underscore.
        """
        found = [json.loads(path.read_bytes()) for path in sorted(self.observed.glob("*.json"))]
        return [payload for payload in found if event in (None, payload["hook_event_name"])]

    def wait_for(self, event: str, times: int = 1) -> list[dict[str, Any]]:
        """Wait until that many hooks of an event ran; their payloads."""
        self.agent.wait_until(lambda: len(self.payloads(event)) >= times)
        return self.payloads(event)

    def cited(self) -> list[tuple[str, str]]:
        """(trigger, name) of each citation that was recorded, once a window."""
        windows = self.agent.events("session.recorded")
        return [
            (window["data"]["trigger"], name)
            for window in windows
            for name in window["data"]["cited"]
        ]

    def told(self) -> dict[str, list[str]]:
        """The bullets of each text that the model got in a request, by the text's digest."""
        texts = {
            text
            for body in self.api.asked
            for said in _strings(body)
            for text in _TEXT.findall(said)
        }
        found = [telling for telling in map(telling_of, texts) if telling is not None]
        return {telling.digest: list(telling.bullets) for telling in found}

    def settle(self) -> None:
        """Take in what is pending, behind the drains that hooks started; a Stop may wait for its
        session's end.
        """
        left = ("waiting/", "failed/", "silent/")
        self.agent.wait_until(
            lambda: all(name.startswith(left) for name in self.agent.deliveries())
        )
        self.agent.run("drain")
        assert not any(name.startswith("failed/") for name in self.agent.deliveries()), (
            self.agent.deliveries()
        )

    def check(self, *cited: tuple[str, str], helpful: int | None = None) -> None:
        """What holds after every scenario; what it cites, and how often pat-001 helped."""
        self.settle()
        for path in self.transcripts():
            tally = scan(path).tally
            assert (tally.malformed, tally.oversized, tally.unknown_types) == (0, 0, {}), (
                path,
                tally,
            )
        for window in self.agent.events("session.recorded"):
            assert not set(window["data"]["unread"]) - self.repeats, window
        assert self.agent.run("status").err == ""
        assert self.agent.run("verify") == self.agent.run("verify")
        before = self.cited(), self.agent.counters()
        assert sorted(before[0]) == sorted(cited)
        assert helpful is None or before[1]["pat-001"][0] == helpful
        if transcripts := self.transcripts():
            self.agent.run("ingest", *transcripts)
        assert (self.cited(), self.agent.counters()) == before
        tellings = self.agent.events("advice.told")
        assert {one["data"]["digest"]: one["data"]["bullets"] for one in tellings} == self.told()
        assert {one["data"]["source"] for one in tellings} <= {self.teller}


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
        """Type a line and send it. The client takes keys that come with the line's for a part of
        a paste.
        """
        self._run("send-keys", "-l", text)
        self.see(text)
        time.sleep(0.5)
        self._run("send-keys", "Enter")

    def ask(self, prompt: str, answer: str) -> None:
        """Type a prompt, and wait for the answer."""
        self.type(prompt)
        self.see(answer)

    def press(self, *keys: str) -> None:
        """Press keys, in tmux' words."""
        for key in keys:
            self._run("send-keys", key)
            time.sleep(0.3)

    def leave(self, *keys: str) -> None:
        """Leave the client by keys, else by its command, which ends well."""
        if keys:
            self.press(*keys)
        else:
            self.type("/exit")
        self.see("ended with 0")

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


def _strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _strings(inner)


MODEL = "claude-sonnet-4-6"
KEY = "sk-ant-key-of-the-tests-" + "0" * 20
#: How the client says that it did not like what a hook printed, or how it ended.
_REFUSED = re.compile(
    r"hook (json )?(output )?validation failed|hook[_ ]error|invalid hook|hook cancelled",
    re.I,
)
_REFUSALS = {
    "hook_non_blocking_error",
    "hook_blocking_error",
    "hook_error_during_execution",
    "hook_cancelled",
}


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
        """Hooks that ended, with event, exit code, stdout and stderr. SessionEnd's come after
        the last line.
        """
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
        hooks = self.observers(*CLAUDE.events, "UserPromptSubmit", "StopFailure")
        settings = {
            "permissions": {"defaultMode": "default", "allow": ["Bash", "Task", "Agent"]},
            "hooks": hooks,
        }
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
    installs  whether it gets our hooks at once
    """

    name: ClassVar[str]
    recorded: ClassVar[str]
    settings: ClassVar[str] = ""
    timeout: ClassVar[int] = 10
    heard: ClassVar[tuple[str, ...]] = ()
    resume: ClassVar[tuple[str, ...]] = ("--continue",)
    stand_in: ClassVar[type[Scripted]] = MessagesApi
    installs: bool = True

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
        if self.installs:
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
    heard = (*CLAUDE.events, "UserPromptSubmit")
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
        unattended = [
            "--dangerously-bypass-approvals-and-sandbox",
            "--dangerously-bypass-hook-trust",
        ]
        return self.run("exec", *unattended, *command, prompt)


class Gemini(Other):
    """Gemini CLI."""

    name = "gemini"
    kept = (".gemini/tmp", "chats/**/*.json*")
    given: ClassVar = {
        "GEMINI_API_KEY": "a-key",
        "GOOGLE_GEMINI_BASE_URL": "{url}",
        "GEMINI_CLI_NO_RELAUNCH": "1",
    }
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
        words = [
            "--skip-trust",
            "--yolo",
            "--model",
            "gemini-2.5-flash",
            *flags,
            "--prompt",
            prompt,
        ]
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
    _began = 0.0
    kept = (".local/share/opencode/reflector", "*.json")
    given: ClassVar = {"OPENCODE_DISABLE_MODELS_FETCH": "1"}
    recorded = "opencode"
    teller = "hook"

    def __post_init__(self) -> None:
        self.install()
        folder, installed = self.agent.home / ".config/opencode", self.binary.parents[2]
        folder.mkdir(parents=True, exist_ok=True)
        # It fetches a package for plugins from the registry, unless that is there.
        (folder / "node_modules").symlink_to(installed / "node_modules")
        for name in ("package.json", "package-lock.json"):
            shutil.copy(installed / name, folder)
        options = {"baseURL": f"{self.api.url}/v1", "apiKey": "a-key"}
        config = {
            "autoupdate": False,
            "model": f"anthropic/{MODEL}",
            "provider": {"anthropic": {"options": options}},
        }
        (folder / "opencode.json").write_text(json.dumps(config))

    def prints(self, prompt: str, *flags: str) -> Done:
        self._began = time.time()
        return self.run("run", "--auto", *flags, prompt)

    def cited(self) -> list[tuple[str, str]]:
        """As ever; its stop and its end come at once, and the first of the two brings the
        session.
        """
        return [
            ("SessionEnd" if trigger == "Stop" else trigger, name)
            for trigger, name in super().cited()
        ]

    def settle(self) -> None:
        """As ever, behind the hooks that outlive the client."""
        fired = self.agent.state / "fired" / "SessionEnd"
        self.agent.wait_until(lambda: fired.exists() and fired.stat().st_mtime >= self._began)
        super().settle()


class Pi(Other):
    """pi."""

    name = "pi"
    kept = (".pi/agent/sessions", "*.jsonl")
    given: ClassVar = {"PI_OFFLINE": "1"}
    recorded = "pi"
    teller = "hook"

    def __post_init__(self) -> None:
        self.install()
        standin = {
            "baseUrl": self.api.url,
            "api": "anthropic-messages",
            "apiKey": "a-key",
            "models": [{"id": MODEL}],
        }
        (self.agent.home / ".pi/agent/models.json").write_text(
            json.dumps({"providers": {"standin": standin}})
        )

    def prints(self, prompt: str, *flags: str) -> Done:
        return self.run("--model", f"standin/{MODEL}", *flags, "-p", prompt)


OTHERS: list[type[Other]] = [Codex, Gemini, Copilot, OpenCode, Pi]
