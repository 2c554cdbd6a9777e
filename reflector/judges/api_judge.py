"""The judge of an API, made of an `Api`, the function that asks it, and its prices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import Config
from reflector.judges.api import Api, Ask, api_settings
from reflector.judges.kind import JudgeKind, Readiness
from reflector.prices import Price

if TYPE_CHECKING:
    from reflector.judges.protocol import Backend


def api_judge(api: Api, ask: Ask, prices: Sequence[Price]) -> JudgeKind:
    """Return the judge that asks an API by the user's key."""

    def build(config: Config, project: Path | None) -> Backend:
        from reflector.judges.http_api import HttpClient
        from reflector.judges.model import model_backend

        client = HttpClient(api_settings(api, config), ask)
        return model_backend(api.name, client, config, project, prices)

    def readiness(config: Config, _: Path) -> Readiness:
        settings = api_settings(api, config)
        words = f"{api.name}, {settings.model}"
        if not settings.key:
            return Readiness(f"{words}: the API key is missing", f"export {settings.variable}=…")
        return Readiness(f"{words} at {settings.base_url or api.title}, with a key")

    return JudgeKind(
        name=api.name,
        title=api.title,
        build=build,
        settings=("model", "base_url", "api_key"),
        readiness=readiness,
        model=lambda config, _: api_settings(api, config).model,
        prices=prices,
        maker=api.maker,
        address=lambda config: api_settings(api, config).base_url,
    )
