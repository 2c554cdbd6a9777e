"""What keeps hooks from running, or makes them run twice: the agent's settings seen together.

Invariant: reads only, and never fails. A settings file that cannot be read says nothing here; the command that
changes it tells what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reflector.hooks import install
from reflector.hooks.json_text import MalformedJson, root
from reflector.hooks.settings_file import SCOPES, Scope, SettingsRefused, config_dir, read_text, settings_path

PLUGIN = "reflector"


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


def _handlers(path: Path) -> list[install.Handler]:
    try:
        return install.handlers(read_text(path) or "")
    except (OSError, SettingsRefused, MalformedJson):
        return []


def _settings(path: Path) -> dict[str, Any]:
    try:
        value = root(read_text(path) or "{}").value
    except (OSError, SettingsRefused, MalformedJson):
        return {}
    return value if isinstance(value, dict) else {}
