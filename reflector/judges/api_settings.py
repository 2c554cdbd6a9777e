"""The model, address and key of the Messages API.

The nearest setting wins: a flag or REFLECTOR_MODEL, then the variables of agents and of the ACE
tool, then the configuration files, then our default. A key is never shown, stored or logged.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from reflector.config import Config

DEFAULT_MODEL = "claude-sonnet-5-5"
MODEL_VARIABLES = ("AGENTIC_CONTEXT_MODEL", "ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL")
KEY_VARIABLES = ("AGENTIC_CONTEXT_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
URL_VARIABLES = ("AGENTIC_CONTEXT_BASE_URL", "ANTHROPIC_BASE_URL")

#: Requirements A-15 and A-16.
MAX_RETRIES = 3
REQUEST_SECONDS = 30.0
BASE_DELAY = 2.0


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is asked.

    key              the credential, None where there is none
    bearer           True where the credential is a token for the Authorization header, not an API
                     key
    base_url         None for Anthropic's own
    request_seconds  longest wait for one request
    deadline         longest wait for an answer in seconds, retries and pauses included
    """

    model: str
    key: str | None = field(repr=False)
    bearer: bool
    base_url: str | None
    request_seconds: float = REQUEST_SECONDS
    deadline: float = 110.0


def model_settings(config: Config | None = None) -> ModelSettings:
    """Return the settings in force; `config` contains those of files, REFLECTOR_* variables and
    flags.
    """
    config = Config() if config is None else config
    nearer = config.model if config.is_near("model") else ""
    variable, key = _first(KEY_VARIABLES)
    models = (nearer, _first(MODEL_VARIABLES)[1], config.model, DEFAULT_MODEL)
    nearer_url = config.base_url if config.is_near("base_url") else ""
    urls = (nearer_url, _first(URL_VARIABLES)[1], config.base_url)
    return ModelSettings(
        model=next(filter(None, models)),
        key=key or config.api_key or None,
        bearer=variable == "ANTHROPIC_AUTH_TOKEN",
        base_url=next(filter(None, urls), None),
        deadline=float(config.deadline_seconds),
    )


def _first(names: tuple[str, ...]) -> tuple[str, str]:
    """Return the first of these variables that is set: (name, value), else ("", "")."""
    values = ((name, os.environ.get(name, "").strip()) for name in names)
    return next((pair for pair in values if pair[1]), ("", ""))
