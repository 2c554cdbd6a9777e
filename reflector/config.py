"""Configuration: flags over environment over the project's file over the user's file over defaults.

Invariant: a setting is either understood or refused. A misspelt key or a bad value is an error that names
where it stands, its value and the right one; nothing is coerced silently.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from reflector.bounded_file import read_bounded

#: More than anybody writes by hand.
_MOST_BYTES = 1 << 20
BACKENDS = ("rules",)

#: Environment variables of ours that are not settings.
_OTHER_VARIABLES = frozenset({"REFLECTOR_PROJECT", "REFLECTOR_NO_SPAWN", "REFLECTOR_TRANSCRIPTS"})


class ConfigError(ValueError):
    """A setting that is not understood; the text says where it stands and what would be right."""


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting and its default.

    backend        who judges a session: `rules` needs no network and no key
    ledger_url     SQLAlchemy URL of the ledger; empty means `<project>/.claude/reflector/ledger.db`
    playbook       name of the playbook in the ledger
    idle_minutes   a session that only ever stopped counts as ended after this long without a sign of life
    max_attempts   how often a failed reflection is tried before it waits for `drain --retry-failed`
    """

    backend: str = "rules"
    ledger_url: str = ""
    playbook: str = "default"
    idle_minutes: int = 60
    max_attempts: int = 5


def load_config(
    project: Path, *, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Config:
    """The settings in force for a project. Raises ConfigError."""
    environ = os.environ if environ is None else environ
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".config")
    config = Config()
    for path in (home / "reflector" / "config.toml", project / ".claude" / "reflector.toml"):
        config = _over(config, _read(path), partial(_in_file, path))
    variables = {
        name.removeprefix("REFLECTOR_").lower(): value
        for name, value in environ.items()
        if name.startswith("REFLECTOR_")
        and not name.startswith("REFLECTOR_TEST_")
        and name not in _OTHER_VARIABLES
        and value
    }
    numbers = {key: int(value) if _is_number(value) else value for key, value in variables.items()}
    config = _over(config, numbers, lambda key: f"environment variable REFLECTOR_{key.upper()}")
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    return _over(config, given, lambda key: f"--{key.replace('_', '-')}")


def _in_file(path: Path, key: str) -> str:
    return f"{path}: {key}"


def _is_number(value: str) -> bool:
    return value.isascii() and value.removeprefix("-").isdigit()


def _read(path: Path) -> dict[str, Any]:
    try:
        text = read_bounded(path, _MOST_BYTES).decode()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); mend or remove it") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def _over(config: Config, values: Mapping[str, Any], where: Callable[[str], str]) -> Config:
    known = {field.name: field for field in fields(Config)}
    for key, value in values.items():
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the settings are {', '.join(known)}"
            raise ConfigError(f"{where(key)} is not a setting; {hint}")
        wanted = type(getattr(Config(), key))
        if type(value) is not wanted:
            raise ConfigError(
                f"{where(key)} is {value!r}; it takes {_KINDS[wanted]}, such as {getattr(Config(), key)!r}"
            )
        _check(key, value, where(key))
        config = replace(config, **{key: value})
    return config


_KINDS = {str: "a text", int: "a whole number"}


def _check(key: str, value: Any, where: str) -> None:
    if key == "backend" and value not in BACKENDS:
        near = get_close_matches(value, BACKENDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the backends are {', '.join(BACKENDS)}"
        raise ConfigError(f"{where} is {value!r}, which is no backend; {hint}")
    if key in {"idle_minutes", "max_attempts"} and value < 1:
        raise ConfigError(f"{where} is {value}; it must be at least 1")
    if key == "playbook" and not (0 < len(value) <= 64 and value.replace("-", "").replace("_", "").isalnum()):
        raise ConfigError(f"{where} is {value!r}; a playbook's name is 1 to 64 letters, digits, '-' and '_'")
