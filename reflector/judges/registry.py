"""The judges by name.

A built-in judge is one entry of `BACKENDS` in `reflector/config.py` and one module of this package
with a `JUDGE`. Each is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import BACKENDS, Config, ConfigError
from reflector.judges.kind import JudgeKind, Readiness

if TYPE_CHECKING:
    from reflector.judges.protocol import Backend


def judge_kind(name: str) -> JudgeKind:
    """Return the judge with this name.

    Raises: ConfigError for a name that is not a judge's.
    """
    if name not in BACKENDS:
        names = ", ".join(BACKENDS)
        raise ConfigError(f"{name!r} is not a backend; the backends are {names}")
    kind: JudgeKind = import_module(f"reflector.judges.{name}").JUDGE
    return kind


def judge_names() -> tuple[str, ...]:
    """Return the names of the judges that ship, and of the agents that can judge."""
    from reflector.judges.agent_clients import JUDGES

    return (*BACKENDS, *JUDGES)


def judge_settings(name: str | None) -> dict[str, str]:
    """Return the settings that select a judge by its name; None leaves the judge in force."""
    if name is None:
        return {}
    from reflector.judges.agent_clients import JUDGES

    if name in JUDGES:
        return {"backend": "agent", "judge_client": name}
    return {"backend": name}


def backend_of(config: Config, project: Path | None = None) -> Backend:
    """Return the backend that a configuration names.

    Raises: ConfigError.
    """
    if config.backend in config.judges:
        from reflector.judges.extensions import extension_judge

        return extension_judge(config, project)
    return judge_kind(config.backend).build(config, project)


def is_rereading(name: str) -> bool:
    """Return whether a judge judges each window together with the earlier ones of its session.

    A model never does, because each of its answers costs money; so it is not imported for this.
    """
    return BACKENDS.get(name) is False and judge_kind(name).rereads


def judge_of(config: Config) -> Callable[[str], str]:
    """Return a function that names the judge of a session by the agent that wrote it, as
    `judge_named` has it.
    """
    if config.backend in config.judges:
        return lambda _: config.backend
    client_for = judge_kind(config.backend).client_for
    if client_for is None:
        return lambda _: config.backend
    from reflector.judges.protocol import judge_named

    return lambda writer: judge_named(config.backend, client_for(config, writer))


def described(config: Config, project: Path) -> Readiness:
    """Return the judge in force in words, and how it gets what it lacks."""
    if config.backend in config.judges:
        from reflector.judges.extensions import describe_judge

        return Readiness(*describe_judge(config.backend))
    kind = judge_kind(config.backend)
    return Readiness(kind.name) if kind.readiness is None else kind.readiness(config, project)
