"""The settings of gated reflection, from the nested mapping in which a host keeps its own.

Invariant: a value is understood or refused, and every fault is in one error. Words for true and false and numbers
written as text are understood; nothing else becomes a default or a zero. Keys that are not ours pass, but for those of
`t3.reflection`, which is ours alone.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from reflector.config import ConfigError
from reflector.mistakes import check_whole

BACKENDS = ("rulebased", "llm")
_OWN = "t3.reflection"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Fixtures:
    """Where the backend `llm` finds its recorded answers: `t3.llm.fixtures`."""

    enabled: bool = False
    path: str | None = None


@dataclass(frozen=True, slots=True)
class GatedConfig:
    """Every setting and its default, as `load_config` reads them; docs/embedding.md says what each means."""

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
        if self.backend not in BACKENDS:
            raise ConfigError(f"backend is {self.backend!r}; it must be one of {', '.join(BACKENDS)}")
        for name in ("summary_tokens", "topk_snippets", "ops_reflection"):
            check_whole(name, getattr(self, name))
        check_whole("time_ms_reflection", self.time_ms_reflection, 1)


def load_config(mapping: Mapping[str, Any]) -> GatedConfig:
    """Return the settings of a host's configuration, as its YAML, TOML or JSON reads.

    Raises ConfigError, which is a ValueError, with a line for every fault.
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
        faults.append("t3.llm.fixtures.path must be a non-empty string where t3.llm.fixtures.enabled is true")
    if found.get("allow_reflection") and found.get("backend") == "llm" and not fixtures.enabled:
        faults.append("t3.reflection.backend is 'llm', which needs t3.llm.fixtures.enabled: true")
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return GatedConfig(**found, fixtures=fixtures)


def _section(mapping: Mapping[str, Any], section: str, faults: list[str]) -> Mapping[str, Any]:
    values, where = mapping, ""
    for part in section.split("."):
        values, where = values.get(part) or {}, f"{where}.{part}".lstrip(".")
        if not isinstance(values, Mapping):
            faults.append(f"{where} is {reprlib.repr(values)}; it takes a mapping")
            return {}
    return values


def _distance(one: str, other: str) -> int:
    """Return how many letters have to be added, removed or changed (Levenshtein)."""
    row = list(range(len(other) + 1))
    for above, letter in enumerate(one, start=1):
        last, row[0] = above - 1, above
        for index, wanted in enumerate(other, start=1):
            last, row[index] = row[index], min(row[index] + 1, row[index - 1] + 1, last + (letter != wanted))
    return row[-1]


def flag(value: Any, true: Collection[str] = _TRUE, false: Collection[str] = _FALSE) -> bool:
    """Return a boolean, 0, 1 or one of these words as a boolean. Raises ValueError."""
    word = str(value).strip().lower() if isinstance(value, bool | int | str) else ""
    if word not in true and word not in false:
        raise ValueError("takes true or false")
    return word in true


def _from(least: int) -> Callable[[Any], int]:
    def whole(value: Any) -> int:
        try:
            number = math.floor(float("" if isinstance(value, bool) else value))
        except (TypeError, ValueError, OverflowError):
            raise ValueError("takes a whole number") from None
        if number < least:
            raise ValueError(f"must be >= {least}")
        return number

    return whole


def _backend(value: Any) -> str:
    if (name := str(value).strip().lower()) not in BACKENDS:
        raise ValueError(f"must be one of {', '.join(BACKENDS)}")
    return name


def _path(value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise ValueError("must be a non-empty string")
    return value and value.strip()


#: How each key is read, by its section of the host's mapping.
SECTIONS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "t3": {"allow_reflection": flag},
    _OWN: {"backend": _backend, "summary_tokens": _from(0), "embed": flag, "log": flag, "topk_snippets": _from(0)},
    "t3.llm.fixtures": {"enabled": flag, "path": _path},
    "scheduler.budgets": {"time_ms_reflection": _from(1), "ops_reflection": _from(0)},
}
