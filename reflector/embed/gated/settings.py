"""The settings of gated reflection: a host's mapping, or a file of TOML or JSON.

Invariant: a setting is understood or refused, with all faults in one error. No fault becomes a
default or a zero. Unknown keys are ignored, except those of `t3.reflection`.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reflector.config import ConfigError
from reflector.files import read_bounded
from reflector.locate import parse_toml
from reflector.mistakes import check_whole

_BACKENDS = ("rulebased", "llm")
_OWN = "t3.reflection"
_YAML = (".yaml", ".yml")
#: Settings that ship with the package, by the name that `-c` takes.
EXAMPLES = {path.stem: path for path in sorted((Path(__file__).parent / "examples").glob("*.toml"))}


@dataclass(frozen=True, slots=True)
class Fixtures:
    """The settings `t3.llm.fixtures`: the recorded answers of the backend `llm`."""

    enabled: bool = False
    path: str | None = None


@dataclass(frozen=True, slots=True)
class GatedConfig:
    """Every setting and its default, as `load_config` reads them. docs/embedding.md explains each
    setting.
    """

    allow_reflection: bool = False
    backend: str = "rulebased"
    summary_tokens: int = 128
    embed: bool = True
    log: bool = True
    topk_snippets: int = 3
    time_ms_reflection: int = 6000
    ops_reflection: int = 5
    fixtures: Fixtures = field(default_factory=Fixtures)

    def __post_init__(self) -> None:
        if self.backend not in _BACKENDS:
            raise ConfigError(
                f"backend is {self.backend!r}; it must be one of {', '.join(_BACKENDS)}"
            )
        for name in ("summary_tokens", "topk_snippets", "ops_reflection"):
            check_whole(name, getattr(self, name))
        check_whole("time_ms_reflection", self.time_ms_reflection, 1)


def load_config(mapping: Mapping[str, Any]) -> GatedConfig:
    """Return the settings of a host's configuration, which is a mapping read from YAML, TOML or
    JSON.

    Raises: ConfigError, which is a ValueError, with a line for every fault.
    """
    faults: list[str] = []
    found: dict[str, Any] = {}
    for section, readers in SECTIONS.items():
        for key, value in _section(mapping, section, faults).items():
            if key in readers:
                try:
                    found[key] = readers[key](value)
                except ValueError as error:
                    faults.append(f"{section}.{key} is {reprlib.repr(value)}; it {error}")
            elif section == _OWN:
                near = min((_distance(str(key), known), known) for known in readers)
                meant = f" (did you mean {near[1]!r})" if near[0] <= 2 else ""
                faults.append(f"{section}.{key}: unknown key{meant}")
    fixtures = Fixtures(found.pop("enabled", False), found.pop("path", None))
    if fixtures.enabled and fixtures.path is None:
        faults.append(
            "t3.llm.fixtures.path must be a non-empty string if t3.llm.fixtures.enabled is true"
        )
    if found.get("allow_reflection") and found.get("backend") == "llm" and not fixtures.enabled:
        faults.append("t3.reflection.backend is 'llm', which needs t3.llm.fixtures.enabled: true")
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return GatedConfig(**found, fixtures=fixtures)


def _section(mapping: Mapping[str, Any], section: str, faults: list[str]) -> Mapping[str, Any]:
    values = mapping
    where = ""
    for part in section.split("."):
        values = values.get(part) or {}
        where = f"{where}.{part}".lstrip(".")
        if not isinstance(values, Mapping):
            faults.append(
                f"{where} is {reprlib.repr(values)}; it must be a mapping of keys to values"
            )
            return {}
    return values


def _distance(one: str, other: str) -> int:
    """Return the number of letters to add, remove or change (Levenshtein distance)."""
    row = list(range(len(other) + 1))
    for above, letter in enumerate(one, start=1):
        last, row[0] = above - 1, above
        for index, wanted in enumerate(other, start=1):
            last, row[index] = (
                row[index],
                min(row[index] + 1, row[index - 1] + 1, last + (letter != wanted)),
            )
    return row[-1]


def read_flag(
    value: Any,
    true: Collection[str] = ("1", "true", "yes", "on"),
    false: Collection[str] = ("0", "false", "no", "off"),
) -> bool:
    """Return a boolean for a boolean, 0, 1 or one of these words.

    Raises: ValueError.
    """
    word = str(value).strip().lower() if isinstance(value, bool | int | str) else ""
    if word not in true and word not in false:
        raise ValueError("must be true or false")
    return word in true


def _from(least: int) -> Callable[[Any], int]:
    def whole(value: Any) -> int:
        number_or_text = "" if isinstance(value, bool) else value  # True is not a number here
        try:
            number = math.floor(float(number_or_text))
        except (TypeError, ValueError, OverflowError):
            raise ValueError("must be a whole number") from None
        if number < least:
            raise ValueError(f"must be at least {least}")
        return number

    return whole


def _backend(value: Any) -> str:
    if (name := str(value).strip().lower()) not in _BACKENDS:
        raise ValueError(f"must be one of {', '.join(_BACKENDS)}")
    return name


def _path(value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise ValueError("must be a non-empty string")
    return value and value.strip()


#: How each key is read, by its section of the host's mapping.
SECTIONS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "t3": {"allow_reflection": read_flag},
    _OWN: {
        "backend": _backend,
        "summary_tokens": _from(0),
        "embed": read_flag,
        "log": read_flag,
        "topk_snippets": _from(0),
    },
    "t3.llm.fixtures": {"enabled": read_flag, "path": _path},
    "scheduler.budgets": {"time_ms_reflection": _from(1), "ops_reflection": _from(0)},
}


def read_config(path: Path | str) -> GatedConfig:
    """Return the settings in a TOML or JSON file, or in one of `EXAMPLES`. The gate is open unless
    the file closes it.

    A path of fixtures is relative to the file's folder.

    Raises: ConfigError.
    """
    path = EXAMPLES.get(str(path)) or Path(path)
    if path.suffix.lower() in _YAML:
        raise ConfigError(
            f"{path} is YAML, which reflector does not read; write it as TOML or JSON, for "
            f"example {path.stem}.toml"
        )
    try:
        text = read_bounded(path, 1 << 20).decode("utf-8-sig")
        mapping = json.loads(text) if path.suffix.lower() == ".json" else parse_toml(text)
        if not isinstance(mapping, dict):
            raise ConfigError("the file does not contain a table of settings")
        config = load_config(mapping)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from error
    is_open = (mapping.get("t3") or {}).get("allow_reflection") is None or config.allow_reflection
    # A relative path is relative to the folder of the settings.
    fixtures_path = config.fixtures.path and str(path.parent / config.fixtures.path)
    fixtures = replace(config.fixtures, path=fixtures_path)
    return replace(config, allow_reflection=is_open, fixtures=fixtures)
