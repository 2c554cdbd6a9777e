"""The judge `anthropic`: a model behind the Messages API.

`api_settings.py` chooses the model, the address and the key, and `messages_api.py` asks the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import Config
from reflector.judges.api_settings import model_settings
from reflector.judges.kind import JudgeKind, Readiness

if TYPE_CHECKING:
    from reflector.judges.protocol import Backend


def _build(config: Config, project: Path | None) -> Backend:
    from reflector.judges.messages_api import AnthropicClient
    from reflector.judges.model import ModelBackend

    client = AnthropicClient(model_settings(config))
    return ModelBackend("anthropic", client, project, config.request_tokens, config.templates)


def _readiness(config: Config, _: Path) -> Readiness:
    settings = model_settings(config)
    if settings.key is None:
        return Readiness(f"anthropic, {settings.model}: no API key", "export ANTHROPIC_API_KEY=…")
    where = settings.base_url or "Anthropic's API"
    return Readiness(f"anthropic, {settings.model} at {where}, with a key")


JUDGE = JudgeKind(
    name="anthropic",
    title="Anthropic's API",
    build=_build,
    is_model=True,
    settings=("model", "base_url", "api_key"),
    readiness=_readiness,
    priced_model=lambda config, _: model_settings(config).model,
    maker="Anthropic",
    address=lambda config: model_settings(config).base_url or "",
)
