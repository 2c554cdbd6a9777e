"""The settings of gated reflection, from the nested mapping in which a host keeps its own.

Invariant: a value is understood or refused, and every fault is in one error. Words for true and false and numbers
written as text are understood; nothing else becomes a default or a zero. Of sections that the host shares with
others, keys that are not ours pass, unless they are nearly one of ours.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reflector.config import ConfigError
from reflector.mistakes import check_whole

BACKENDS = ("rulebased", "llm")
_LEAST = {"summary_tokens": 0, "topk_snippets": 0, "time_ms_reflection": 1, "ops_reflection": 0}
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
            raise ConfigError(f"backend is {_shown(self.backend)}; it must be one of {', '.join(BACKENDS)}")
        for name, least in _LEAST.items():
            check_whole(name, getattr(self, name), least)


def load_config(mapping: Mapping[str, Any]) -> GatedConfig:
    """Return the settings of a host's configuration, as its YAML, TOML or JSON reads.

    Raises ConfigError, which is a ValueError, with a line for every fault.
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"the settings are {reprlib.repr(mapping)}; they take a mapping with t3 and scheduler")
    faults: list[str] = []
    found = {name: _read(mapping, name, faults) for name in SECTIONS}
    fixtures = Fixtures(**found.pop("t3.llm.fixtures"))
    settings = {key: value for values in found.values() for key, value in values.items()}
    config = GatedConfig(**settings, fixtures=fixtures)
    if fixtures.enabled and fixtures.path is None:
        faults.append("t3.llm.fixtures.path must be a non-empty string where t3.llm.fixtures.enabled is true")
    if config.allow_reflection and config.backend == "llm" and not fixtures.enabled:
        faults.append("t3.reflection.backend is 'llm', which needs t3.llm.fixtures.enabled: true")
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return config


def _read(mapping: Mapping[str, Any], section: str, faults: list[str]) -> dict[str, Any]:
    """Return the settings of one section; what is wrong with it goes to `faults`."""
    values: Any = mapping
    for number, part in enumerate(parts := section.split("."), start=1):
        values = values.get(part)
        if values is None:
            return {}
        if not isinstance(values, Mapping):
            faults.append(f"{'.'.join(parts[:number])} is {_shown(values)}; it takes a mapping")
            return {}
    readers, found = SECTIONS[section], {}
    for key, value in values.items():
        if key in readers:
            try:
                found[key] = readers[key](value)
            except ValueError as error:
                faults.append(f"{section}.{key} is {_shown(value)}; it {error}")
        elif fault := _unknown(str(key), section):
            faults.append(f"{section}.{reprlib.repr(str(key))[1:-1]}: {fault}")
    return found


def _shown(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # of Python's own limit
        return "a number of thousands of digits"


def _unknown(key: str, section: str) -> str:
    """Return what is wrong with a key that is not ours; "" where it may be another's."""
    own = section == "t3.reflection"
    inner = {name.split(".")[1] for name in SECTIONS if name.startswith(f"{section}.")}
    if key in inner:
        return ""
    # Of a short word, any other short word is two letters away.
    near = _nearest(key, [word for word in (*SECTIONS[section], *inner) if own or len(word) > 4])
    return f"unknown key (did you mean {near!r})" if near else "unknown key" if own else ""


def _nearest(word: str, known: Iterable[str]) -> str:
    distances = [(_distance(word, other), other) for other in known if abs(len(word) - len(other)) <= 2]
    return min([found for found in distances if found[0] <= 2], default=(0, ""))[1]


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
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError("takes a whole number")
        try:
            number = int(value)
        except (ValueError, OverflowError) as error:
            raise ValueError("takes a whole number") from error
        if number.bit_length() > 1000:  # it could not be shown
            raise ValueError("takes a whole number of at most 300 digits")
        if number < least or (isinstance(value, float) and value < least):
            raise ValueError(f"must be >= {least}")
        return number

    return whole


def _backend(value: Any) -> str:
    name = value.strip().lower() if isinstance(value, str) else ""
    if name not in BACKENDS:
        raise ValueError(f"must be one of {', '.join(BACKENDS)}")
    return name


def _path(value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise ValueError("must be a non-empty string")
    return value and value.strip()


#: How each key is read, by its section of the host's mapping.
SECTIONS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "t3": {"allow_reflection": flag},
    "t3.reflection": {
        "backend": _backend,
        "summary_tokens": _from(_LEAST["summary_tokens"]),
        "embed": flag,
        "log": flag,
        "topk_snippets": _from(_LEAST["topk_snippets"]),
    },
    "t3.llm": {},
    "t3.llm.fixtures": {"enabled": flag, "path": _path},
    "scheduler": {},
    "scheduler.budgets": {name: _from(_LEAST[name]) for name in ("time_ms_reflection", "ops_reflection")},
}
