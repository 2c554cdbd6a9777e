"""Whether the agents call the hook: the hooks in their settings, what keeps them from running or makes them run twice,
and when they last ran.

Invariant: looking changes nothing and never fails. A settings file that cannot be read says nothing about conflicts;
the doctor, and the command that changes it, say what is wrong with it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from reflector import files, locate
from reflector.hooks.agents import AGENTS, CLAUDE, Agent, Scope
from reflector.hooks.install import Handler, hook_command, parsed
from reflector.hooks.settings_file import SettingsRefused, install_hooks, read_settings
from reflector.project import Project

T = TypeVar("T")
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
    """One line of the doctor's report; `mend` is what a person can do, "" where nothing is to be done."""

    name: str
    text: str
    mend: str = ""
    fix: Fix | None = None
    is_error: bool = False

    @property
    def state(self) -> str:
        """`ok`, `warning` for what works and is not as it should be, or `error`."""
        return "error" if self.is_error else "warning" if self.mend else "ok"


def checks_of_hooks(project: Project) -> Iterator[Check]:
    """Yield the hooks in the agents' settings, and what keeps them from being called."""
    callers: list[Agent] = []
    unread: list[Path] = []
    for agent in AGENTS.values():
        found: dict[Path, list[Handler]] = {}
        scopes: dict[Path, Scope] = {}
        for scope, path in agent.paths(project.root).items():
            scopes.setdefault(path, scope)
            try:
                if handlers := read_settings(path, agent.form.handlers):
                    found[path] = handlers
            except SettingsRefused as refused:
                unread.append(path)
                yield Check("hooks", refused.what, "correct the file", is_error=True)
        copies = plugins(project.root) if agent is CLAUDE else []
        if found or copies:
            callers.append(agent)
            for path, handlers in found.items():
                yield from _checks_of(agent, path, scopes[path], handlers)
            for path, switch in disabled_by(agent, project.root):
                yield Check("hooks", f"{path}: {switch}", "remove it", is_error=True)
            if len(found) + len(copies) > 1:
                where = ", ".join([*map(str, found), *copies])
                text = f"installed more than once ({where}); everything is counted once all the same"
                yield Check("hooks", text, "keep one of them")
    if callers:
        yield from _fired(project, callers)
    else:
        own = CLAUDE.paths(project.root)["user"]
        mend = f"correct {own}, then reflector install" if own in unread else "reflector install"
        yield Check("hooks", "no agent calls reflector", mend, is_error=True)


def _checks_of(agent: Agent, path: Path, scope: Scope, handlers: list[Handler]) -> Iterator[Check]:
    """Yield what there is to say of the hooks in a settings file."""
    mend, fix = install_command(agent, scope=scope), None
    # A project's file is everybody's who works on it: their program may lie where this says.
    if scope != "project" and any(handler.own for handler in handlers):
        renewed = partial(install_hooks, path, agent.form, hook_command(), private=scope == "user")
        fix = Fix(f"writes the hooks of this installation into {path}", renewed)
    events = dict.fromkeys(handler.event for handler in handlers)
    if missing := [event for event in agent.events if event not in events]:
        yield Check("hooks", f"{path}: nothing at {', '.join(missing)}", mend, fix)
    else:
        yield Check("hooks", f"{path}: {', '.join(events)}")
    if agent.name == "codex" and not _is_trusted(path, agent.folder()):
        text = f"{path}: {agent.title} has no note that you trust these hooks"
        yield Check("hooks", text, "start codex in a terminal here, and trust the hooks")
    for command in dict.fromkeys(handler.command for handler in handlers):
        if (gone := missing_program(command)) is not None:
            yield Check("hooks", f"{path}: {gone} is gone, so the hook does nothing", mend, fix, is_error=True)


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
            yield Check(name, f"{at:%Y-%m-%d %H:%M %Z}")
        except OSError:
            if event in _AT_EVERY_SESSION:
                yield Check(name, never, f"{first}start a session of the agent here, and end it")
            else:
                yield Check(name, never)


def disabled_by(agent: Agent, project: Path) -> list[tuple[Path, str]]:
    """Return the settings files that switch all hooks off, each with the words that do."""
    words = f'"{".".join(agent.switch)}": {json.dumps(agent.off)}'
    paths = dict.fromkeys(agent.paths(project).values()) if agent.switch else ()
    return [(path, words) for path in paths if agent.is_off(_said(path, parsed))]


def plugins(project: Path) -> list[str]:
    """Our plugin's copies, as `reflector@marketplace`: enabled, or in the agent's cache and nowhere disabled."""
    enabled: dict[str, bool] = {}
    for path in CLAUDE.paths(project).values():  # the later decides
        said = (_said(path, parsed) or {}).get("enabledPlugins")
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
        for handler in _said(path, whose.form.handlers) or ():
            is_this = path == own and handler.own
            if not is_this and not (agent.merges and handler.command == command):
                found[path, handler.command] = None
    return list(found)


def other_agents(agent: Agent, project: Path) -> Iterator[tuple[Path, str]]:
    """Yield each settings file by which another agent calls us, and the command that takes the hooks out of it."""
    for other in AGENTS.values():
        for scope, path in other.paths(project).items() if other is not agent else ():
            if any(handler.own for handler in _said(path, other.form.handlers) or ()):
                yield path, install_command(other, "uninstall", scope)


def _said(path: Path, parse: Callable[[str], T]) -> T | None:
    """Return what a settings file says; None for one that cannot be read."""
    with suppress(OSError, SettingsRefused):
        return read_settings(path, parse)
    return None
