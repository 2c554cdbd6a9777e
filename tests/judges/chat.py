"""The judge `chat`: a model behind the chat completions of a server. It does not ship: copy it for
a judge of another API.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reflector.judges.api import Api, ApiSettings
from reflector.judges.api_judge import api_judge
from reflector.judges.fields import text_at, usage_in
from reflector.prices import Price

if TYPE_CHECKING:
    import httpx2

    from reflector.judges.model import Reply

API = Api(
    name="chat",
    title="a server with chat completions",
    maker="Example",
    url="https://chat.example/v1",
    model="small",
    keys=("CHAT_API_KEY",),
    models=("CHAT_MODEL",),
    urls=("CHAT_BASE_URL",),
)
PRICES = (Price("small-2", "1", "2", read="0.5"),)
_COUNTS = (
    "prompt_tokens",
    "completion_tokens",
    "prompt_tokens_details.cached_tokens",
    "prompt_tokens_details.cache_write_tokens",
)
#: The ends of an answer in the words of `Reply`, by the words of the API.
_ENDS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


async def _ask(settings: ApiSettings, texts: Sequence[str], http: httpx2.AsyncClient) -> Reply:
    # They are loaded to ask, because `status` loads this module too.
    from reflector.judges.http_api import post
    from reflector.judges.model import Reply
    from reflector.judges.protocol import MAX_TOKENS

    answer = await post(
        http,
        f"{settings.url}/chat/completions",
        {"Authorization": f"Bearer {settings.key}"},
        {
            "model": settings.model,
            "messages": [{"role": "user", "content": "".join(texts)}],
            "max_tokens": MAX_TOKENS,
        },
    )
    end = text_at(answer, "choices", 0, "finish_reason")
    return Reply(
        text_at(answer, "choices", 0, "message", "content"),
        text_at(answer, "model") or settings.model,
        _ENDS.get(end, end),
        usage_in(answer.get("usage"), *_COUNTS, cached_in_input=True),
    )


JUDGE = api_judge(API, _ask, PRICES)
