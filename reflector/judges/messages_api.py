"""The Messages API of Anthropic or of a gateway, asked by Anthropic's SDK.

Invariant: the SDK's own retries are off, because otherwise three attempts would be nine. Its errors
become those of `http_api.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anthropic
import httpx2

from reflector.judges.api import ApiSettings
from reflector.judges.fields import MESSAGES_COUNTS, text_at, usage_in
from reflector.judges.http_api import OddAnswer, Refused, json_object
from reflector.judges.model import Reply
from reflector.judges.protocol import MAX_TOKENS


async def ask_once(settings: ApiSettings, texts: Sequence[str], http: httpx2.AsyncClient) -> Reply:
    """Send one question as one user message. All its texts except the last are cached."""
    is_token = settings.variable == "ANTHROPIC_AUTH_TOKEN"
    credential: dict[str, Any] = {"auth_token" if is_token else "api_key": settings.key}
    blocks: list[Any] = [{"type": "text", "text": text} for text in texts]
    for block in blocks[:-1]:
        block["cache_control"] = {"type": "ephemeral"}
    client = anthropic.AsyncAnthropic(
        **credential,
        # Without it, an empty ANTHROPIC_BASE_URL would be the address.
        base_url=settings.url,
        max_retries=0,
        timeout=settings.request_seconds,
        http_client=http,
    )
    try:
        response = await client.messages.with_raw_response.create(
            model=settings.model,
            messages=[{"role": "user", "content": blocks}],
            max_tokens=MAX_TOKENS,
        )
    except anthropic.APIStatusError as error:
        raise Refused(error.response) from error
    except anthropic.APIConnectionError as error:
        raise error.__cause__ or error from error
    return _reply(json_object(await response.read()), settings, response.request_id)


def _reply(message: dict[str, Any], settings: ApiSettings, request_id: str | None) -> Reply:
    """Return the reply in an answer. Fields beside its content may be missing or of another type.

    Raises: OddAnswer if it has no list of contents.
    """
    content = message.get("content")
    if not isinstance(content, list):
        raise OddAnswer(message)
    texts = [text_at(block, "text") for block in content if text_at(block, "type") == "text"]
    return Reply(
        text="".join(texts),
        model=text_at(message, "model") or settings.model,
        stop_reason=text_at(message, "stop_reason"),
        usage=usage_in(message.get("usage"), *MESSAGES_COUNTS),
        request_id=request_id,
    )
