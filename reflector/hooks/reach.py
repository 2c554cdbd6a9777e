"""Whether the agents call the hook: the hooks in their settings, what keeps them from running or makes them run twice,
and when they last ran.

Invariant: looking changes nothing and never fails. A settings file that cannot be read says nothing about conflicts;
the doctor, and the command that changes it, say what is wrong with it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from reflector import files, locate
from reflector.hooks.agents import AGENTS, CLAUDE, Agent, Scope
from reflector.hooks.install import Handler, MalformedSettings, hook_command, parsed
from reflector.hooks.settings_file import SettingsRefused, install_hooks, read_text
from reflector.project import Project

PLUGIN = "reflector"
#: Hooks of a session that works: an installation that never fired at these does not reach the agent.
_AT_EVERY_SESSION = ("SessionStart", "SessionEnd")


@dataclass(frozen=True, slots=True)
class Fix:
    """One thing that `doctor --fix` does, which is safe to repeat: its words after "which", and how."""

    text: str
    apply: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's report; `mend` is what a person can do, "" where all is well."""

    name: str
    state: Literal["ok", "warning", "error"]
    text: str
    mend: str = ""
    fix: Fix | None = None


def ok(name: str, text: str) -> Check:
    """Return a check of what is in order."""
    return Check(name, "ok", text)


def warning(name: str, text: str, mend: str, fix: Fix | None = None) -> Check:
    """Return a check of what works and is not as it should be."""
    return Check(name, "warning", text, mend, fix)


def error(name: str, text: str, mend: str, fix: Fix | None = None) -> Check:
    """Return a check of what does not work."""
    return Check(name, "error", text, mend, fix)


def checks_of_hooks(project: Project) -> Iterator[Check]:
    """Yield the hooks in the agents' settings, and what keeps them from being called."""
    callers: list[Agent] = []
    unread: list[Path] = []
    for agent in AGENTS.values():
        found: list[tuple[Path, Handler]] = []
        scopes: dict[Path, Scope] = {}
        for scope, path in agent.paths(project.root).items():
            scopes.setdefault(path, scope)
            try:
                found += [(path, handler) for handler in agent.form.handlers(read_text(path) or "")]
            except (SettingsRefused, MalformedSettings) as refused:
                unread.append(path)
                text = str(refused) if isinstance(refused, SettingsRefused) else f"{path}: {refused}"
                yield error("hooks", text, "correct the file")
        copies = plugins(project.root) if agent is CLAUDE else []
        if found or copies:
            callers.append(agent)
            yield from _checks_of(agent, found, scopes, copies, project)
    if callers:
        yield from _fired(project, callers)
    else:
        own = CLAUDE.paths(project.root)["user"]
        mend = f"correct {own}, then reflector install" if own in unread else "reflector install"
        yield error("hooks", "no agent calls reflector", mend)


def _checks_of(
    agent: Agent, found: list[tuple[Path, Handler]], scopes: dict[Path, Scope], copies: list[str], project: Project
) -> Iterator[Check]:
    """Yield what there is to say of one agent's hooks and its copies of our plugin."""
    paths = list(dict.fromkeys(path for path, _ in found))
    for path in paths:
        events = [handler.event for where, handler in found if where == path]
        if missing := [event for event in agent.events if event not in events]:
            yield warning("hooks", f"{path}: nothing at {', '.join(missing)}", *_mending(agent, path, scopes[path]))
        else:
            yield ok("hooks", f"{path}: {', '.join(dict.fromkeys(events))}")
        if agent.name == "codex" and not _is_trusted(path, agent.folder()):
            text = f"{path}: {agent.title} has no note that you trust these hooks"
            yield warning("hooks", text, "start codex in a terminal here, and trust the hooks")
    for path, command in dict.fromkeys((path, handler.command) for path, handler in found):
        if (gone := missing_program(command)) is not None:
            text = f"{path}: {gone} is gone, so the hook does nothing"
            yield error("hooks", text, *_mending(agent, path, scopes[path]))
    for path, switch in disabled_by(agent, project.root):
        yield error("hooks", f"{path}: {switch}", "remove it")
    if len(paths) + len(copies) > 1:
        where = ", ".join([*map(str, paths), *copies])
        yield warning("hooks", f"installed more than once ({where}); everything is counted once all the same", "")


def install_command(agent: Agent, verb: str = "install", scope: Scope = "user") -> str:
    """Return the command that installs an agent's hooks, or does with them what another verb says."""
    named = "" if agent is CLAUDE else f" --agent {agent.name}"
    return f"reflector {verb}{named}" + ("" if scope == "user" else f" --scope {scope}")


def _is_trusted(path: Path, home: Path) -> bool:
    """Return whether Codex CLI noted that a person trusts a file's hooks; also where its notes cannot be read."""
    try:
        known = locate.parse_toml((home / "config.toml").read_text("utf-8"))
        state = known.get("hooks", {}).get("state", {})
        return any(key.startswith(f"{path}:") and "trusted_hash" in said for key, said in state.items())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError, TypeError):
        return True


def _mending(agent: Agent, path: Path, scope: Scope) -> tuple[str, Fix | None]:
    """Return the command that brings the hooks of a settings file up to date, and how it is done, if some are ours.

    A project's file is everybody's who works on it: their program may lie where this says.
    """
    command = install_command(agent, scope=scope)
    if scope == "project" or not any(handler.own for handler in _handlers(agent, path)):
        return command, None
    renewed = partial(install_hooks, path, agent.form, hook_command(), private=scope == "user")
    return command, Fix(f"writes the hooks of this installation into {path}", renewed)


def missing_program(command: str) -> str | None:
    """Return the absolute path in a command that is not there any more."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return next((word for word in words if Path(word).is_absolute() and not Path(word).exists()), None)


def _fired(project: Project, callers: list[Agent]) -> Iterator[Check]:
    fired = Path(files.state_folder(str(project.root))) / "fired"
    # A folder without anything of ours gets no state for a hook that fired.
    first = "" if locate.is_project(project.root.as_posix()) else 'reflector add pat "…", then '
    for event in dict.fromkeys(event for agent in callers for event in agent.events):
        name, never = f"fired {event}", "never in this project"
        try:
            at = datetime.fromtimestamp((fired / event).stat().st_mtime).astimezone()
            yield ok(name, f"{at:%Y-%m-%d %H:%M %Z}")
        except OSError:
            if event in _AT_EVERY_SESSION:
                yield warning(name, never, f"{first}start a session of the agent here, and end it")
            else:
                yield ok(name, never)


def disabled_by(agent: Agent, project: Path) -> list[tuple[Path, str]]:
    """Return the settings files that switch all hooks off, each with the words that do."""
    words = f'"{".".join(agent.switch)}": {json.dumps(agent.off)}'
    paths = dict.fromkeys(agent.paths(project).values()) if agent.switch else ()
    return [(path, words) for path in paths if agent.is_off(_settings(path))]


def plugins(project: Path) -> list[str]:
    """Our plugin's copies, as `reflector@marketplace`: enabled, or in the agent's cache and nowhere disabled."""
    enabled: dict[str, bool] = {}
    for path in CLAUDE.paths(project).values():  # the later decides
        said = _settings(path).get("enabledPlugins")
        for name, value in said.items() if isinstance(said, dict) else ():
            enabled[name] = value is not False
    try:
        cache = CLAUDE.folder() / "plugins/cache"
        cached = [f"{PLUGIN}@{folder.parent.name}" for folder in cache.glob(f"*/{PLUGIN}")]
    except OSError:
        cached = []
    names = dict.fromkeys([*enabled, *sorted(cached)])
    return [name for name in names if name.partition("@")[0] == PLUGIN and enabled.get(name, True)]


def other_handlers(agent: Agent, scope: Scope, project: Path, command: str) -> list[tuple[Path, str]]:
    """Settings file and command of hooks by which an agent calls us beside the ones of a scope: each runs as well.

    Some agents run the same command in two files once.
    """
    own = agent.paths(project)[scope]
    settings = [(path, agent) for path in agent.paths(project).values()]
    settings += [(project / name, CLAUDE) for name in agent.also]
    found: dict[tuple[Path, str], None] = {}
    for path, whose in dict.fromkeys(settings):
        for handler in _handlers(whose, path):
            is_this = path == own and handler.own
            if not is_this and not (agent.merges and handler.command == command):
                found[path, handler.command] = None
    return list(found)


def other_agents(agent: Agent, project: Path) -> Iterator[tuple[Path, str]]:
    """Yield each settings file by which another agent calls us, and the command that takes the hooks out of it."""
    for other in AGENTS.values():
        for scope, path in other.paths(project).items() if other is not agent else ():
            if any(handler.own for handler in _handlers(other, path)):
                yield path, install_command(other, "uninstall", scope)


def _handlers(agent: Agent, path: Path) -> list[Handler]:
    try:
        return agent.form.handlers(read_text(path) or "")
    except (OSError, SettingsRefused, MalformedSettings):
        return []


def _settings(path: Path) -> dict[str, Any]:
    try:
        return parsed(read_text(path) or "")
    except (OSError, SettingsRefused, MalformedSettings):
        return {}
