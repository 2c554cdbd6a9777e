"""Whether the agents call the hook: the hooks in their settings, obstacles, double calls, and the
last runs.

Invariant: a check changes nothing and never fails. A settings file that cannot be read is not a
conflict. The doctor, and the command that changes this file, report the fault.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from reflector import files, locate
from reflector.hooks.agents import AGENTS, CLAUDE, Agent, Scope
from reflector.hooks.install import (
    Handler,
    SettingsRefused,
    hook_command,
    install_hooks,
    parsed,
    read_settings,
)
from reflector.project import Project

PLUGIN = "reflector"
#: Hooks that every session calls: if they never fired, the agent does not use the installation.
_AT_EVERY_SESSION = ("SessionStart", "SessionEnd")


@dataclass
class Check:
    """One line of the doctor's report.

    mend   the repair that the user can make, "" if nothing is to be repaired
    fix    the repair of --fix, which is safe to repeat; null without one
    state  ok, warning for a part that works but should be different, or error
    """

    name: str
    text: str
    mend: str = ""
    fix: str | None = None
    apply: Callable[[], object] | None = field(default=None, repr=False)
    is_error: bool = field(default=False, repr=False)
    state: str = ""

    def __post_init__(self) -> None:
        self.state = "error" if self.is_error else "warning" if self.mend else "ok"


class Caller(NamedTuple):
    """A settings file with hooks by which an agent calls us."""

    agent: Agent
    scope: Scope
    path: Path
    handlers: list[Handler]


def callers(project: Path, refused: list[SettingsRefused]) -> Iterator[Caller]:
    """Yield each settings file that calls us. A file that cannot be read is added to `refused`."""
    for agent in AGENTS.values():
        looked_at: set[Path] = set()  # the project may be the user's home
        for scope, path in agent.paths(project).items():
            try:
                if path not in looked_at and (handlers := read_settings(path, agent.form.handlers)):
                    yield Caller(agent, scope, path, handlers)
            except SettingsRefused as error:
                refused.append(error)
            looked_at.add(path)


def callers_of(project: Path) -> Iterator[tuple[Agent, str, str]]:
    """Yield each settings file and plugin by which an agent calls us, and the command or act that
    ends it.
    """
    for caller in callers(project, []):
        is_own = any(handler.own for handler in caller.handlers)
        yield (
            caller.agent,
            str(caller.path),
            install_command(caller.agent, "uninstall", caller.scope)
            if is_own
            else "edit this file",
        )
    for name in plugins(project):
        yield CLAUDE, f"the plugin {name}", f"claude plugin uninstall {name}"


def checks_of_hooks(project: Project) -> Iterator[Check]:
    """Yield the checks of the hooks in the agents' settings, and the obstacles to calling them."""
    refused: list[SettingsRefused] = []
    calling_files = list(callers(project.root, refused))
    for unread in refused:
        yield Check("hooks", unread.what, "correct the file", is_error=True)
    places_of: dict[str, list[str]] = {}  # settings files and plugins, by agent
    for agent, where, _ in callers_of(project.root):
        places_of.setdefault(agent.name, []).append(where)
    calling = [agent for agent in AGENTS.values() if agent.name in places_of]
    for agent in calling:
        places = places_of[agent.name]
        for caller in [file for file in calling_files if file.agent is agent]:
            yield from _checks_of(caller, project.root)
        for path, switch in disabled_by(agent, project.root):
            text = f"{path} turns off all hooks: {switch}"
            yield Check("hooks", text, "remove this setting", is_error=True)
        if len(places) > 1:
            text = f"the hooks are installed in {len(places)} places: {', '.join(places)}. Each "
            text += "session still counts once"
            yield Check("hooks", text, "remove the hooks from all but one place")
    if calling:
        yield from _fired(project, calling)
    else:
        yield Check("hooks", "no agent calls reflector", "reflector install", is_error=True)


def _checks_of(caller: Caller, root: Path) -> Iterator[Check]:
    """Yield the checks of the hooks in a settings file."""
    agent, scope, path, handlers = caller
    mend = install_command(agent, scope=scope)
    fix = None
    renewed = None
    # All users of a project share its file, and for others the program may be at this path.
    if scope != "project" and any(handler.own for handler in handlers):
        renewed = partial(
            install_hooks,
            path,
            agent.form,
            hook_command(),
            within=None if scope == "user" else root,
        )
        fix = f"writes the hooks of this installation into {path}"
    events = dict.fromkeys(handler.event for handler in handlers)
    missing = [event for event in agent.events if event not in events]
    if missing:
        yield Check(
            "hooks", f"{path}: the hooks for {', '.join(missing)} are missing", mend, fix, renewed
        )
    else:
        yield Check("hooks", f"{path}: {', '.join(events)}")
    if agent.name == "codex" and not _is_trusted(path, agent.folder()):
        text = f"{path}: {agent.title} has not recorded that you trust these hooks"
        yield Check("hooks", text, "start codex in this project, and trust the hooks")
    for command in dict.fromkeys(handler.command for handler in handlers):
        if (lost_program := missing_program(command)) is not None:
            yield Check(
                "hooks",
                f"{path}: the hooks do nothing, because {lost_program} no longer exists",
                mend,
                fix,
                renewed,
                is_error=True,
            )


def install_command(agent: Agent, verb: str = "install", scope: Scope = "user") -> str:
    """Return the command that installs an agent's hooks, or the one with another verb."""
    named = "" if agent is CLAUDE else f" --agent {agent.name}"
    return f"reflector {verb}{named}" + ("" if scope == "user" else f" --scope {scope}")


def _is_trusted(path: Path, home: Path) -> bool:
    """Return whether Codex CLI noted that the user trusts a file's hooks; True if its notes cannot
    be read.
    """
    try:
        settings = locate.parse_toml((home / "config.toml").read_text("utf-8"))
        state = settings.get("hooks", {}).get("state", {})
        of_file = [note for key, note in state.items() if key.startswith(f"{path}:")]
        return any("trusted_hash" in note for note in of_file)
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError, TypeError):
        return True


def missing_program(command: str) -> str | None:
    """Return the first absolute path in a command that does not exist; None if all exist."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    for word in words:
        path = Path(word)
        if path.is_absolute() and not path.exists():
            return word
    return None


def _fired(project: Project, agents: list[Agent]) -> Iterator[Check]:
    """Yield the time at which each hook last ran in the project."""
    fired = Path(files.state_folder(str(project.root))) / "fired"
    # In a folder without anything of ours, a hook does not leave the time at which it fired.
    begin = "" if locate.is_project(project.root.as_posix()) else 'reflector add pat "…", then '
    for event in dict.fromkeys(event for agent in agents for event in agent.events):
        name = f"fired {event}"
        never = "never in this project"
        try:
            at = datetime.fromtimestamp((fired / event).stat().st_mtime).astimezone()
            yield Check(name, f"{at:%Y-%m-%d %H:%M %Z}")
        except OSError:
            if event in _AT_EVERY_SESSION:
                way_out = (
                    f"{begin}start a session of your agent in this project, and end the session"
                )
                yield Check(name, never, way_out)
            else:
                yield Check(name, never)


def disabled_by(agent: Agent, project: Path) -> list[tuple[Path, str]]:
    """Return the settings files that switch all hooks off, each with its setting for that."""
    words = f'"{".".join(agent.switch)}": {json.dumps(agent.off)}'
    return [
        (path, words)
        for path in dict.fromkeys(agent.paths(project).values())
        if agent.is_off(_settings_in(path))
    ]


def plugins(project: Path) -> list[str]:
    """Return the copies of our plugin that Claude Code's settings enable, as
    `reflector@marketplace`.
    """
    enabled: dict[str, object] = {}
    for path in CLAUDE.paths(project).values():  # the last file decides
        settings = _settings_in(path).get("enabledPlugins")
        enabled |= settings if isinstance(settings, dict) else {}
    ours = [name for name in enabled if name.partition("@")[0] == PLUGIN]
    return [name for name in ours if enabled[name] is not False]


def _settings_in(path: Path) -> dict[str, Any]:
    """Return the settings in a file; {} if it cannot be read."""
    with suppress(SettingsRefused):
        return read_settings(path, parsed)
    return {}
