"""Whether the agent calls the hook: the hooks in its settings, what keeps them from running or makes them run twice,
and when they last ran.

Invariant: looking changes nothing and never fails. A settings file that cannot be read says nothing about conflicts;
the doctor, and the command that changes it, say what is wrong with it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from reflector import folders, locate
from reflector.hooks.install import EVENTS, Handler, handlers, hook_command
from reflector.hooks.json_text import MalformedJson, root
from reflector.hooks.mending import Fix
from reflector.hooks.settings_file import (
    SCOPES,
    Scope,
    SettingsRefused,
    config_dir,
    install_hooks,
    read_text,
    settings_path,
)
from reflector.project import Project

PLUGIN = "reflector"
#: Hooks of a session that works: an installation that never fired at these does not reach the agent.
_AT_EVERY_SESSION = ("SessionStart", "SessionEnd")

State = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's report; `mend` is what to do, "" where all is well, `fix` what `doctor --fix` does."""

    name: str
    state: State
    text: str
    mend: str = ""
    fix: Fix | None = None


def checks_of_hooks(project: Project, environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield the hooks in the agent's settings, and what keeps them from being called."""
    found: list[tuple[Path, Handler]] = []
    scopes: dict[Path, Scope] = {}
    for scope in SCOPES:
        path = settings_path(scope, project.root, environ)
        scopes.setdefault(path, scope)
        try:
            found += [(path, handler) for handler in handlers(read_text(path) or "")]
        except (SettingsRefused, MalformedJson) as error:
            yield Check("hooks", "error", f"{path}: {error}", "mend the file; the agent cannot read it either")
    copies = plugins(project.root, environ)
    if not found and not copies:
        yield Check("hooks", "error", "the agent does not call reflector", "reflector install")
        return
    for path in dict.fromkeys(path for path, _ in found):
        events = [handler.event for where, handler in found if where == path]
        missing = [event for event in EVENTS if event not in events]
        if missing:
            text = f"{path}: nothing at {', '.join(missing)}"
            yield Check("hooks", "warning", text, _command(scopes[path]), _renewal(path, scopes[path]))
        else:
            yield Check("hooks", "ok", f"{path}: {', '.join(dict.fromkeys(events))}")
    for path, command in dict.fromkeys((path, handler.command) for path, handler in found):
        if (gone := missing_program(command)) is not None:
            text = f"{path}: {gone} is gone, so the hook does nothing"
            yield Check("hooks", "error", text, _command(scopes[path]), _renewal(path, scopes[path]))
    for path in disabled_by(project.root, environ):
        yield Check("hooks", "error", f"{path}: disableAllHooks is true", "take it out")
    if len({path for path, _ in found}) + len(copies) > 1:
        where = ", ".join([*(str(path) for path in dict.fromkeys(path for path, _ in found)), *copies])
        yield Check(
            "hooks", "warning", f"installed more than once ({where}); everything is counted once all the same", ""
        )
    yield from _fired(project)


def _command(scope: Scope) -> str:
    return "reflector install" + ("" if scope == "user" else f" --{scope}")


def _renewal(path: Path, scope: Scope) -> Fix | None:
    """Return how the hooks of a settings file are brought up to date, where it has some of ours.

    A project's file is everybody's who works on it: their program may lie where this says.
    """
    if scope == "project" or not any(handler.own for handler in _handlers(path)):
        return None
    renewed = partial(install_hooks, path, hook_command(), private=scope == "user")
    return Fix(f"writes the hooks of this installation into {path}", renewed)


def missing_program(command: str) -> str | None:
    """Return the absolute path in a command that is not there any more."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return next((word for word in words if Path(word).is_absolute() and not Path(word).exists()), None)


def _fired(project: Project) -> Iterator[Check]:
    folder = Path(folders.state_folder(str(project.root))) / "fired"
    # A folder without anything of ours gets no state for a hook that fired.
    first = "" if locate.is_project(project.root.as_posix()) else 'reflector add pat "…", then '
    for event in EVENTS:
        try:
            at = (folder / event).stat().st_mtime
        except OSError:
            state: State = "warning" if event in _AT_EVERY_SESSION else "ok"
            mend = f"{first}start a session of the agent here, and end it" if state == "warning" else ""
            yield Check(f"fired {event}", state, "never in this project", mend)
            continue
        yield Check(f"fired {event}", "ok", datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds"))


def disabled_by(project: Path, environ: Mapping[str, str] | None = None) -> list[Path]:
    """Settings files in which `disableAllHooks` is true."""
    paths = {scope: settings_path(scope, project, environ) for scope in SCOPES}
    return [path for path in dict.fromkeys(paths.values()) if _settings(path).get("disableAllHooks") is True]


def plugins(project: Path, environ: Mapping[str, str] | None = None) -> list[str]:
    """Our plugin's copies, as `reflector@marketplace`: enabled, or in the agent's cache and nowhere disabled."""
    enabled: dict[str, bool] = {}
    for scope in SCOPES:  # the later decides
        said = _settings(settings_path(scope, project, environ)).get("enabledPlugins")
        for name, value in said.items() if isinstance(said, dict) else ():
            enabled[name] = value is not False
    try:
        cached = [
            f"{PLUGIN}@{folder.parent.name}" for folder in (config_dir(environ) / "plugins/cache").glob(f"*/{PLUGIN}")
        ]
    except OSError:
        cached = []
    names = dict.fromkeys([*enabled, *sorted(cached)])
    return [name for name in names if name.partition("@")[0] == PLUGIN and enabled.get(name, True)]


def other_handlers(
    scope: Scope, project: Path, command: str, environ: Mapping[str, str] | None = None
) -> list[tuple[Path, str]]:
    """Settings file and command of hooks that call us beside the ones of a scope: each runs as well.

    The same command in two files runs once.
    """
    own = settings_path(scope, project, environ)
    found: dict[tuple[Path, str], None] = {}
    for path in dict.fromkeys(settings_path(other, project, environ) for other in SCOPES):
        for handler in _handlers(path):
            if handler.command != command and (path != own or not handler.own):
                found[path, handler.command] = None
    return list(found)


def _handlers(path: Path) -> list[Handler]:
    try:
        return handlers(read_text(path) or "")
    except (OSError, SettingsRefused, MalformedJson):
        return []


def _settings(path: Path) -> dict[str, Any]:
    try:
        value = root(read_text(path) or "{}").value
    except (OSError, SettingsRefused, MalformedJson):
        return {}
    return value if isinstance(value, dict) else {}
