"""The step on a fixed turn, for a host that wants to know that its settings do what it thinks, and how fast.

Invariant: the figures are the same on every machine; a time is among them only where it is asked for outside of CI.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from reflector.config import ConfigError
from reflector.files import read_bounded
from reflector.gating.config import GatedConfig, load_config
from reflector.gating.step import reflect, shown_ms
from reflector.gating.turn import ReflectionBundle
from reflector.locate import parse_toml

#: Settings that ship with the package, by the name that `-c` takes.
EXAMPLES = {path.stem: path for path in sorted((Path(__file__).parent / "examples").glob("*.toml"))}
_MOST_BYTES = 1 << 20
_TURN = ReflectionBundle(
    ctx={},
    state_view={},
    plan={},
    utter="assistant: summary: . next: question",
    snippets=(
        "user asked to summarise prior step",
        "agent proposed next action planning",
        "note: constraints unchanged in this turn",
        "hint: prefer concise phrasing",
        "meta: deterministic test path",
    ),
)


def measure(config: GatedConfig, *, repeats: int = 1, raw_time: bool = False) -> dict[str, Any]:
    """Return the figures of the last of several reflections on the fixed turn, whether the gate is open or not."""
    for _ in range(max(repeats, 1)):
        result = reflect(_TURN, config)
    figures = {
        "allow_reflection": config.allow_reflection,
        "backend": config.backend,
        "embed": config.embed,
        "ms": shown_ms(result.ms) if raw_time else 0.0,
        "ops": len(result.memory_entries),
        "ops_cap": config.ops_reflection,
        "reason": result.reason,
        "summary_len": len(result.summary.split()),
        "time_budget_ms": config.time_ms_reflection,
        "tokens_budget": config.summary_tokens,
    }
    key = result.metrics.get("fixture_key")
    return figures if key is None else {**figures, "fixture_key": key}


def read_config(path: Path | str) -> GatedConfig:
    """Return the settings in a file of TOML or JSON, or in one of `EXAMPLES`; the gate is open unless it says no.

    A path of fixtures is one from here, or else from the file's folder. Raises ConfigError.
    """
    path = EXAMPLES.get(str(path)) or Path(path)
    mapping = _parsed(path) or {}
    if isinstance(mapping, dict) and isinstance(gate := mapping.get("t3") or {}, dict):
        mapping["t3"] = {"allow_reflection": True, **gate}
    try:
        config = load_config(mapping)
    except ConfigError as error:
        raise ConfigError("\n".join(f"{path}: {fault}" for fault in str(error).split("\n"))) from error
    fixtures = config.fixtures
    if fixtures.path and not os.path.exists(fixtures.path):  # noqa: PTH110 - a NUL is no error here
        fixtures = replace(fixtures, path=str(path.parent / fixtures.path))
    return replace(config, fixtures=fixtures)


def _parsed(path: Path) -> Any:
    try:
        text = read_bounded(path, _MOST_BYTES).decode("utf-8-sig")
        return _PARSERS[path.suffix.lower()](text)
    except KeyError:
        raise ConfigError(f"{path} is none of {', '.join(_PARSERS)}; name the file by what it holds") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be parsed: {error}") from error


_PARSERS: dict[str, Callable[[str], Any]] = {".toml": parse_toml, ".json": json.loads}
