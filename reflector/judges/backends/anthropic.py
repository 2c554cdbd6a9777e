"""The judge `anthropic`, which asks a model through the Messages API (`messages_api.py`).

reflector sends `ANTHROPIC_AUTH_TOKEN` as a bearer token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reflector.judges.api import Api, ApiSettings
from reflector.judges.api_judge import api_judge
from reflector.prices import Price

if TYPE_CHECKING:
    import httpx2

    from reflector.judges.model import Reply

ANTHROPIC = Api(
    name="anthropic",
    title="Anthropic's API",
    maker="Anthropic",
    url="https://api.anthropic.com",
    model="claude-sonnet-5-5",
    keys=("AGENTIC_CONTEXT_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"),
    models=("AGENTIC_CONTEXT_MODEL", "ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL"),
    urls=("AGENTIC_CONTEXT_BASE_URL", "ANTHROPIC_BASE_URL"),
)
#: The list prices of October 2026. Source: Anthropic's pricing page, 2026-10-24.
PRICES = (
    Price("claude-haiku-5-5", "0.50", "2.50", threshold=100_000),
    Price("claude-haiku-5-5", "0.10", "0.50"),
    Price("claude-sonnet-5-5", "2", "10", read="0.05"),
    Price("claude-sonnet-5", "2", "10"),
    Price("claude-sonnet-4", "3", "15"),
    Price("claude-opus-5-5", "4", "20", read="0.05"),
    Price("claude-opus-5", "5", "25"),
    Price("claude-opus-4-1", "15", "75"),
    Price("claude-opus-4", "5", "25"),
    Price("claude-fable-5-1", "10", "50", read="0.025"),
    Price("claude-fable-5", "10", "50"),
    Price("claude-haiku-4", "1", "5"),
)


async def _ask(settings: ApiSettings, texts: Sequence[str], http: httpx2.AsyncClient) -> Reply:
    from reflector.judges.messages_api import ask_once

    return await ask_once(settings, texts, http)


JUDGE = api_judge(ANTHROPIC, _ask, PRICES)
