"""The agents that can judge: how each is called without a screen and without tools, and the place
of its answer.

Invariant: each command line of `clients.toml` gives its client no tool, MCP server, hook, memory
file or project settings, and leaves no session behind. Before a version gets a session, it shows
its request to a stand-in on loopback (`agent.py`). So reflector notices a switch that a new version
ignores.

A client keeps its login. If its settings cannot be switched off, it gets a home of ours with a link
to its login. A copy would use up the token with which a login is renewed.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, NamedTuple

from reflector.config import ConfigError, read_toml
from reflector.files import read_bounded
from reflector.judges.fields import MESSAGES_COUNTS, text_at, usage_in, value_at
from reflector.prices import Usage
from reflector.transcripts.records import JsonObject

#: Replaces the client's own instructions if that is possible; the question has its own.
SYSTEM = (
    "You judge a session of a coding agent. You have no tools. Answer with one JSON object "
    "and nothing else."
)
#: Variables from which clients for models of several makers take a key.
_KEYS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
    "MISTRAL_API_KEY",
)
_MOST_BYTES = 1 << 20
#: The stop reasons of an answer that the model itself ended.
_USUAL_STOPS = ("end_turn", "stop_sequence", "stop")
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Ours(NamedTuple):
    """A folder of ours for one start of a client.

    person   the variables of the user, as they were at the consent
    model    the model to ask; "" for the client's default
    url      the stand-in that receives its request; "" for a question to its own API
    told     the output of the client's own command that runs before (`first`)
    path     of the client's program
    environ  the variables of its start that are the same for all clients
    """

    folder: Path
    person: Mapping[str, str]
    model: str
    url: str = ""
    told: bytes = b""
    path: str = ""
    environ: Mapping[str, str] = _EMPTY

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def theirs(self, variable: str, below_home: str, *names: str) -> Path:
        """Return a path in a folder of the user's: the variable's, else one below their home."""
        folder = self.person.get(variable) or Path(self.person.get("HOME", "/"), below_home)
        return Path(folder, *names)

    def filled(self, text: str, more: Mapping[str, str] = _EMPTY) -> str:
        """Return a text of the table with its placeholders filled; `more` has the values of a
        client's own placeholders.
        """
        values = {
            "folder": self.folder,
            "home": self.home,
            "model": self.model,
            "url": self.url,
            "system": SYSTEM,
        }
        return Template(text).substitute(values, **more)


class Said(NamedTuple):
    """The output of a client: its answer, or its error in its own words.

    stop       why the answer ended, "" for the usual end
    cost       USD as the client reports it, "" without a report
    forbidden  the tools and MCP servers that it should not have had
    """

    text: str = ""
    error: str = ""
    model: str = ""
    stop: str = ""
    usage: Usage = Usage()
    cost: str = ""
    forbidden: str = ""


class JudgeClient(NamedTuple):
    """One client of `clients.toml`.

    name       the value of `--agent`
    maker      the recipient of a question, "" for the provider that the user chose
    names      its name for users, the name under which its sessions are recorded, and how a user
               logs in
    versions   the versions that may be asked: from the tried one to the next with other promises
    worst      most requests that one question may become: the client's own retries
    largest    most bytes of a request with an empty question: a memory file or a tool would not fit
    words      the command line after its name
    logins     the variables that contain its login, or the address of its API
    model      the cheapest one, as the client names it; "" if it names none and the user's default
               is asked
    variables  of its start
    files      their content, by their names in our home
    standin, standin_files, standin_model  added to these, or used instead of them, if it asks a
               stand-in
    option     of its command line that names the model, if `words` do not have it
    links      to a user's files, by their names in our home: variable, below home, name
    first      words of a command of its own that runs before, whose output `_VALUES` needs
    turn       a text that its output has once for each turn; a second one means that it called a
               tool that it does not have
    echoes     how often its output repeats the question
    at_once    most questions that it is asked at a time
    """

    name: str
    names: Sequence[str]
    versions: Sequence[str]
    worst: int
    words: str
    maker: str = ""
    largest: int = 6_000
    logins: Sequence[str] = _KEYS
    model: str = ""
    variables: Mapping[str, str] = _EMPTY
    standin: Mapping[str, str] = _EMPTY
    files: Mapping[str, str] = _EMPTY
    standin_files: Mapping[str, str] = _EMPTY
    standin_model: str = ""
    option: str = ""
    links: Mapping[str, Sequence[str]] = _EMPTY
    first: Sequence[str] = ()
    turn: str = ""
    echoes: int = 0
    at_once: int = 1

    @property
    def title(self) -> str:
        return self.names[0]

    def version_fault(self, version: str) -> str:
        """Return why a version may not judge, with the way out; "" if it may."""
        since, below = self.versions
        if _numbers(version) < _numbers(since):
            way_out = f"update {self.title} to {since} or later"
            return f"{self.title} {version} is too old to judge; {way_out}"
        if _numbers(version) >= _numbers(below):
            tested = f"(tested: from {since} to below {below}); update reflector"
            return f"{self.title} {version} is too new to judge {tested}"
        return ""

    def command(self, ours: Ours) -> list[str]:
        """Return the command line after its name."""
        words = [ours.filled(word) for word in shlex.split(self.words)]
        model = self.asked_model(ours) if self.option else ""
        return [*words, self.option, model] if model else words

    def asked_model(self, ours: Ours) -> str:
        """Return the model to ask, "" for the user's default."""
        if ours.url and self.standin_model:
            return self.standin_model
        theirs = _opencode_settings(ours) if self.name == "opencode" else {}
        return ours.model or text_at(theirs, "small_model") or text_at(theirs, "model")

    def prepare(self, ours: Ours) -> dict[str, str]:
        """Write the files that the client reads, and return its variables."""
        own_values = _VALUES.get(self.name)
        more = own_values(ours) if own_values else {}
        for name, content in {**self.files, **(self.standin_files if ours.url else {})}.items():
            path = ours.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(ours.filled(content, more), "utf-8")
        for name, place in self.links.items():
            link = ours.home / name
            there = ours.theirs(*place)
            if there.exists() and not ours.url:
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(there)
        given = {**self.variables, **(self.standin if ours.url else {})}
        return {name: ours.filled(value, more) for name, value in given.items()}

    def read(self, out: bytes, err: bytes, ours: Ours) -> Said:
        """Return the answer or the error in the client's output. Some clients report errors only on
        standard error.
        """
        printed = _Printed(_lines(out), err.decode("utf-8", "replace")[-400:].strip())
        said = _READ[self.name](printed, ours)
        stop = "" if said.stop in _USUAL_STOPS else said.stop
        return said._replace(model=said.model or ours.model, stop=stop)

    def variables_of(self, environ: Mapping[str, str]) -> Iterator[str]:
        """Yield the variables with a user's login, including the ones that the user's settings of
        the client name.
        """
        yield from self.logins
        if self.name == "codex":
            for provider in (
                _codex_kept(Ours(Path(), environ, "")).get("model_providers", {}).values()
            ):
                yield str(provider.get("env_key", ""))


def _lines(out: bytes) -> list[JsonObject]:
    """Return the objects of JSON lines, or the only object; other lines are skipped."""
    whole = _parsed(out)
    return [whole] if whole else [value for line in out.splitlines() if (value := _parsed(line))]


def _cost(value: Any) -> str:
    return f"{value:.6f}" if type(value) in (int, float) and 0 <= value < 10_000 else ""


def _parsed(raw: bytes) -> JsonObject:
    """Return an object, or {} for anything else. Text before its first line is ignored."""
    start = 0 if raw[:1] == b"{" else raw.find(b"\n{") + 1
    with suppress(ValueError, RecursionError):
        value = json.loads(raw[start:])
        return value if isinstance(value, dict) else {}
    return {}


def _settings(path: Path) -> JsonObject:
    """Return the content of a settings file, or {} if it is missing or not plain JSON."""
    with suppress(OSError):
        return _parsed(read_bounded(path, _MOST_BYTES))
    return {}


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


class _Printed(NamedTuple):
    """The JSON objects that a client printed, and the end of its standard error."""

    lines: Sequence[JsonObject]
    err: str

    def of_type(self, type: str) -> list[JsonObject]:
        return [line for line in self.lines if line.get("type") == type]

    def last(self, type: str) -> JsonObject:
        """Return the last object of a type, {} without one."""
        return [{}, *self.of_type(type)][-1]

    @property
    def why_silent(self) -> str:
        """Why there is no answer, if the client's own objects do not contain the reason."""
        return self.err or "no answer"


def _claude_said(printed: _Printed, _: Ours) -> Said:
    result = printed.last("result")
    # The client's own report comes before it asks anything.
    report = next((line for line in printed.lines if line.get("subtype") == "init"), {})
    kept = [name for key in ("tools", "mcp_servers") for name in (report.get(key) or ())]
    text = text_at(result, "result")
    # `subtype` is "success" for a failed request, too.
    failed = f"{text or result.get('subtype') or 'no result'} ({result.get('api_error_status')})"
    return Said(
        text,
        "" if result.get("is_error") is False else failed,
        _claude_model(printed.lines, result),
        text_at(result, "stop_reason"),
        usage_in(result.get("usage"), *MESSAGES_COUNTS),
        _cost(result.get("total_cost_usd")),
        ", ".join(map(str, kept))[:200],
    )


def _claude_model(lines: Sequence[JsonObject], result: JsonObject) -> str:
    """Return the model that wrote the answer, "" if it is unknown. The client also asks other
    models, for a title or if the first one is busy: `modelUsage` has all.
    """
    authors = [name for line in lines if (name := text_at(line, "message", "model"))]
    models = [*(result.get("modelUsage") or ())]
    if authors:
        return authors[-1]
    return str(models[0]) if len(models) == 1 else ""


#: The kept settings of a user's Codex CLI: its provider, and the place of its login.
_CODEX_KEPT = (
    "model_provider",
    "model_providers",
    "openai_base_url",
    "chatgpt_base_url",
    "cli_auth_credentials_store",
)
#: The tools in a model's own entry win over every switch.
_NO_TOOLS: JsonObject = {
    "tool_mode": None,
    "multi_agent_version": None,
    "apply_patch_tool_type": None,
    "use_responses_lite": False,
    "experimental_supported_tools": [],
}


def _codex_kept(ours: Ours) -> JsonObject:
    with suppress(ConfigError):
        theirs = read_toml(ours.theirs("CODEX_HOME", ".codex", "config.toml"))
        return {key: theirs[key] for key in _CODEX_KEPT if key in theirs}
    return {}


def _codex(ours: Ours) -> dict[str, str]:
    import tomlkit

    models = _parsed(ours.told).get("models") or []
    ours_alone = [model | _NO_TOOLS for model in models if model.get("slug") == ours.model]
    catalog = json.dumps({"models": ours_alone})
    return {"config": tomlkit.dumps(_codex_kept(ours)), "catalog": catalog}


def _codex_said(printed: _Printed, _: Ours) -> Said:
    said = [
        text_at(line, "item", "text")
        for line in printed.lines
        if value_at(line, "item", "type") == "agent_message"
    ]
    errors = [
        text_at(line, "error", "message") or text_at(line, "message")
        for line in printed.lines
        if "error" in line or line.get("type") == "error"
    ]
    done = printed.last("turn.completed")
    names = ("input_tokens", "output_tokens", "cached_input_tokens")
    usage = usage_in(done.get("usage"), *names, cached_in_input=True)
    error = ""
    if not done:
        error = next(filter(None, reversed(errors)), "the agent did not finish the turn")
    return Said(said[-1] if said else "", error, usage=usage)


def _gemini(ours: Ours) -> dict[str, str]:
    theirs = _settings(ours.theirs("GEMINI_CLI_HOME", "", ".gemini/settings.json"))
    chosen = text_at(theirs, "security", "auth", "selectedType") or "oauth-personal"
    has_key = ours.url or ours.person.get("GEMINI_API_KEY")
    return {"auth": json.dumps("gemini-api-key" if has_key else chosen)}


def _gemini_said(printed: _Printed, _: Ours) -> Said:
    answer = printed.lines[0] if printed.lines else {}
    # An error is on standard error, after warnings.
    silence = "" if "response" in answer else printed.why_silent
    models = value_at(answer, "stats", "models") or {}
    usage = Usage()
    for model in models.values():
        tokens = value_at(model, "tokens")
        usage += usage_in(tokens, "prompt", "candidates", "cached", cached_in_input=True)
        usage += usage_in(tokens, "", "thoughts")
    # It asks another model on its own if the first one is busy.
    return Said(
        text_at(answer, "response"),
        text_at(answer, "error", "message") or silence,
        ", ".join(models),
        usage=usage,
    )


def _copilot_said(printed: _Printed, ours: Ours) -> Said:
    said = printed.of_type("assistant.message")
    usage = Usage()
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    metrics = value_at(_settings(ours.home / "usage.json"), "modelMetrics") or {}
    for model in metrics.values():
        usage += usage_in(value_at(model, "usage"), *names, cached_in_input=True)
    # Each message is a part of an answer that was too long for one.
    text = text_at(said[0], "data", "content") if len(said) == 1 else ""
    error = "" if text else printed.why_silent
    if errors := printed.of_type("session.error"):
        error = text_at(errors[-1], "data", "message")
    return Said(text, error, text_at(said, -1, "data", "model"), usage=usage)


def _opencode(ours: Ours) -> dict[str, str]:
    """Return the values of our configuration. It has only the user's providers and their models."""
    provider = _opencode_settings(ours).get("provider") or {}
    if ours.url:
        provider = {"anthropic": {"options": {"baseURL": f"{ours.url}/v1", "apiKey": "stand-in"}}}
    return {"provider": json.dumps(provider)}


def _opencode_settings(ours: Ours) -> JsonObject:
    return _settings(ours.theirs("XDG_CONFIG_HOME", ".config", "opencode", "opencode.json"))


def _opencode_said(printed: _Printed, ours: Ours) -> Said:
    text = "".join(text_at(line, "part", "text") for line in printed.of_type("text"))
    end = printed.last("step_finish").get("part")
    failed = printed.last("error").get("error")
    tokens = value_at(end, "tokens")
    words = [
        text_at(failed, "name"),
        text_at(failed, "data", "message"),
        str(value_at(failed, "data", "statusCode") or ""),
    ]
    error = " ".join(words).strip() or ("" if end else printed.why_silent)
    # the client reports no more if it is logged out, or if its model does not exist
    if "Unexpected server error" in error:
        error += " (check that the agent is logged in, and that the model exists)"
    return Said(
        text,
        error,
        JUDGES["opencode"].asked_model(ours) or "its default model",
        text_at(end, "reason"),
        usage_in(tokens, "input", "output", "cache.read", "cache.write")
        + usage_in(tokens, "", "reasoning"),
        _cost(value_at(end, "cost")),
    )


def _pi_said(printed: _Printed, _: Ours) -> Said:
    ends = [line.get("message") for line in printed.of_type("message_end")]
    answers = [message for message in ends if text_at(message, "role") == "assistant"]
    last = answers[-1] if answers else {}
    parts = value_at(last, "content")
    stop = text_at(last, "stopReason")
    # Its exit code is 0 for every failure of the API.
    error = ""
    if not last or stop == "error":
        error = text_at(last, "errorMessage") or printed.why_silent
    return Said(
        "".join(text_at(part, "text") for part in parts) if isinstance(parts, list) else "",
        error,
        text_at(last, "model"),
        stop,
        usage_in(value_at(last, "usage"), "input", "output", "cacheRead", "cacheWrite"),
        _cost(value_at(last, "usage", "cost", "total")),
    )


#: By client: the values of further names in the table, and how its output is read.
_VALUES: Mapping[str, Callable[[Ours], dict[str, str]]] = {
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
}
_READ: Mapping[str, Callable[[_Printed, Ours], Said]] = {
    "claude": _claude_said,
    "codex": _codex_said,
    "gemini": _gemini_said,
    "copilot": _copilot_said,
    "opencode": _opencode_said,
    "pi": _pi_said,
}
_TABLE = tomllib.loads(Path(__file__).with_name("clients.toml").read_text("utf-8"))
JUDGES = {name: JudgeClient(name, **fields) for name, fields in _TABLE.items()}


def most_at_once(judges: Iterable[str]) -> int:
    """Return how many questions each of these judges may be asked at a time."""
    return min((JUDGES[judge].at_once if judge in JUDGES else 1 for judge in judges), default=1)
