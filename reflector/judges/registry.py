"""The judges by name.

A judge that ships is one module of `backends/` with a `JUDGE`, which is imported when it is asked
for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import BACKENDS, OFFLINE, Config, ConfigError
from reflector.judges.kind import JudgeKind, Readiness
from reflector.prices import estimated_cost

if TYPE_CHECKING:
    from decimal import Decimal

    from reflector.judges.protocol import Backend


def judge_kind(name: str, config: Config | None = None) -> JudgeKind:
    """Return the judge with this name, which can also be an agent or listed by a configuration.

    Raises: ConfigError for a name that is not a judge's.
    """
    if config is not None and name in config.judges:
        from reflector.judges.extensions import extension_kind

        return extension_kind(name)
    module = judge_settings(name)["backend"]
    if module not in BACKENDS:
        names = ", ".join(BACKENDS)
        raise ConfigError(f"{name!r} is not a backend; the backends are {names}")
    kind: JudgeKind = import_module(f"reflector.judges.backends.{module}").JUDGE
    return kind


def kind_of(config: Config) -> JudgeKind:
    """Return the judge in force.

    Raises: ConfigError.
    """
    return judge_kind(config.backend, config)


def judge_names() -> tuple[str, ...]:
    """Return the names of the agents that can judge, and of the judges that ship."""
    from reflector.judges.agent_clients import JUDGES

    return (*JUDGES, *BACKENDS)


def judge_settings(name: str | None) -> dict[str, str]:
    """Return the settings that select a judge by its name; None leaves the judge in force."""
    if name is None:
        return {}
    if name in BACKENDS or name not in judge_names():
        return {"backend": name}
    return {"backend": "agent", "judge_client": name}


def backend_of(config: Config, project: Path | None = None) -> Backend:
    """Return the backend that a configuration names.

    Raises: ConfigError.
    """
    return kind_of(config).build(config, project)


def is_rereading(name: str) -> bool:
    """Return whether a judge judges each window together with the earlier ones of its session.

    A model never does, because each of its answers costs money. So no model is imported for this.
    """
    return name in OFFLINE and judge_kind(name).rereads


def judge_of(config: Config) -> Callable[[str], str]:
    """Return a function that returns a judge's name (see `judge_named`) for the agent that wrote a
    session.
    """
    from reflector.judges.protocol import judge_named

    kind = kind_of(config)
    return lambda writer: judge_named(kind.name, kind.client_for(config, writer))


def described(config: Config, project: Path) -> Readiness:
    """Return the current judge in words, and the way to repair what is missing."""
    return kind_of(config).readiness(config, project)


def priced(config: Config, name: str, prompts: Sequence[int]) -> Decimal | None:
    """Return the price of questions to a judge, each given by its tokens; None if the judge or its
    price is not known.
    """
    if name not in judge_names():
        return None
    kind = judge_kind(name)
    return estimated_cost(kind.prices, kind.model(config, name), prompts)
