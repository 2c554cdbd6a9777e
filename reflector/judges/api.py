"""The facts of an API, and its settings: model, address and key.

The nearest setting wins: a flag or REFLECTOR_MODEL, then the variables of the API, then the
configuration files, then the API's own values. Invariant: a key is never shown, stored or logged,
and the key, address and model of one API never reach another API.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reflector.config import APIS, DEFAULT_API, Config, users_config

if TYPE_CHECKING:
    import httpx2

    from reflector.judges.model import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The facts of one API.

    maker   the recipient of the text at `url`, the API's own address
    model   the model to ask if nothing names another one
    keys    the variables of its key, the nearest first; messages name the last one
    models, urls  the variables of its model and of its address, the nearest first
    """

    name: str
    title: str
    maker: str
    url: str
    model: str
    keys: Sequence[str]
    models: Sequence[str] = ()
    urls: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The settings for asking a model.

    key              the credential, "" if there is none
    variable         the environment variable that contains it, else the one that may
    base_url         "" for the maker's own
    request_seconds  longest wait for one request
    deadline         longest wait for an answer in seconds, including retries and pauses
    """

    api: Api
    model: str
    key: str = field(repr=False)
    variable: str
    base_url: str = ""
    request_seconds: float = 30.0
    deadline: float = 110.0

    @property
    def url(self) -> str:
        """The address to ask."""
        return self.base_url or self.api.url


#: Sends one question once, over a client for HTTP. `http_api.py` has the errors that it may raise.
Ask = Callable[[ApiSettings, Sequence[str], "httpx2.AsyncClient"], Awaitable["Reply"]]


def api_settings(api: Api, config: Config | None = None) -> ApiSettings:
    """Return the settings in force; `config` contains those of files, REFLECTOR_* variables and
    flags.
    """
    config = Config() if config is None else config
    key = _value(config, api, "api_key", api.keys)
    return ApiSettings(
        api,
        _value(config, api, "model", api.models).text or api.model,
        key.text,
        key.variable or api.keys[-1],
        _value(config, api, "base_url", api.urls).text,
        deadline=float(config.deadline_seconds),
    )


class _Value(NamedTuple):
    """The value of a setting, "" if it is not set, and the variable that sets it, "" for a file."""

    text: str
    variable: str = ""


def _value(config: Config, api: Api, setting: str, variables: Sequence[str]) -> _Value:
    """Return a setting of an API: of a flag or a REFLECTOR_* variable, else of the API's variables,
    else of the configuration files if their settings belong to this API.
    """
    own: str = getattr(config, setting)
    if own and config.is_near(setting):
        return _Value(own)
    for variable in variables:
        if text := os.environ.get(variable, "").strip():
            return _Value(text, variable)
    return _Value(own if own and api.name == _api_of_files() else "")


def _api_of_files() -> str:
    """Return the API to which the model, address and key of the user's own settings belong: the one
    that `backend` names there.
    """
    backend = users_config().backend
    return backend if backend in APIS else DEFAULT_API
