"""The backends by name. Each is imported when it is used: a model's SDK takes seconds to import."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import BACKENDS, CONSENT, Config, ConfigError

if TYPE_CHECKING:
    from reflector.judges.protocol import Backend

#: The backends that judge each window together with those before it of its session, as each says
#: itself.
REREADING = frozenset({"rules"})


def backend_of(config: Config, project: Path | None = None) -> Backend:
    """Return the backend that a configuration names. Raises ConfigError."""
    if config.backend == "rules":
        from reflector.judges.rules.judge import RulesBackend

        return RulesBackend(wrong_counts=config.wrong_counts)
    if config.backend == "fixtures":
        from reflector.judges.fixtures import FixturesBackend

        if not config.fixtures.strip():
            raise ConfigError(
                "the backend fixtures needs a file: set fixtures, such as fixtures "
                '= "answers.jsonl"'
            )
        try:
            path = Path(config.fixtures.strip()).expanduser()
        except RuntimeError as error:
            raise ConfigError(f"fixtures is {config.fixtures!r}: {error}") from None
        return FixturesBackend((project or Path()) / path)
    if config.backend == "anthropic":
        from reflector.judges.anthropic import AnthropicClient
        from reflector.judges.model import ModelBackend, model_settings

        asked = AnthropicClient(model_settings(config))
        return ModelBackend(asked, project, config.request_tokens, allowed=config.templates)
    if config.backend == "agent":
        from reflector.judges.agent import AgentClient
        from reflector.judges.model import ModelBackend

        client = AgentClient(config.judge_client, config.model, float(config.deadline_seconds))
        return ModelBackend(
            client, project, config.request_tokens, name="agent", allowed=config.templates
        )
    if config.backend in config.judges:
        from reflector.judges.extensions import extension_judge

        return extension_judge(config, project)
    raise ConfigError(
        f"{config.backend!r} is not a backend; the backends are {', '.join(BACKENDS)}"
    )


def judge_of(config: Config) -> Callable[[str], str]:
    """Return who judges a session that an agent wrote, as `judge_named` has it, by a
    configuration.
    """
    if config.backend != "agent":
        return lambda _: config.backend
    from reflector.judges.agent import AgentClient
    from reflector.judges.protocol import judge_named

    client = AgentClient(config.judge_client)
    return lambda writer: judge_named("agent", client.of(writer).name())


def described(config: Config, project: Path) -> tuple[str, str]:
    """Return the backend in force in words, and how it gets what it lacks; "" where it lacks
    nothing.
    """
    if config.backend == "anthropic":
        from reflector.judges.model import model_settings

        settings = model_settings(config)
        if settings.key is None:
            return f"anthropic, {settings.model}: no API key", "export ANTHROPIC_API_KEY=…"
        where = settings.base_url or "Anthropic's API"
        return f"anthropic, {settings.model} at {where}, with a key", ""
    if config.backend == "agent":
        from reflector.judges import consent
        from reflector.judges.agent_clients import JUDGES

        agreed = consent.read()
        if not agreed or config.judge_client not in ("", *agreed):
            who = JUDGES[config.judge_client].title if config.judge_client else "an agent"
            return f"agent: you have not let {who} judge", CONSENT
        named = [config.judge_client] if config.judge_client else list(agreed)
        rests = [consent.rest_words(name) for name in named]
        return f"agent: {', '.join(map(' '.join, zip(named, rests, strict=True)))}".replace(
            " ,", ","
        ), ""
    if config.backend in config.judges:
        from reflector.judges.extensions import describe_judge

        return describe_judge(config.backend)
    fixtures = project / os.path.expanduser(config.fixtures.strip())  # noqa: PTH111 - Path raises where there is no home
    if config.backend == "fixtures" and not fixtures.is_file():
        return f"fixtures: {config.fixtures or 'no file'} is not there", "set `fixtures`"
    return config.backend, ""
