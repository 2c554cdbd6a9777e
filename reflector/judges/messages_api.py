"""The Messages API, of Anthropic or of a gateway.

Invariant: all requests for one question end within its deadline, and every failure is a
`BackendError`. The SDK's own retries are off, because otherwise three attempts would be nine. Its
redirects are off too, because the user, not the API, decides who gets the transcript. An answer
that was paid for never fails because of fields beside its text.

These failures are tried again (requirement A-17): timeouts, broken connections, 429 and 5xx. Any
other would fail the same way once more.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import reprlib
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import anthropic
import httpx2

from reflector.judges.api_settings import BASE_DELAY, MAX_RETRIES, ModelSettings
from reflector.judges.model import SHORTER, Client, Reply
from reflector.judges.protocol import MAX_TOKENS, BackendError
from reflector.prices import Usage

_OFFICIAL = "https://api.anthropic.com"
_TOO_LONG = re.compile(
    r"prompt is too long|too many (?:input )?tokens|context (?:window|limit)|maximum context",
    re.I,
)
#: What an API says whose account has nothing left; some say so with 400.
_NO_CREDIT = re.compile(r"credit balance|billing|insufficient.(?:quota|funds|credit)", re.I)
#: Statuses with which an API refuses us, whatever it is asked, and what a person can do about each.
_REFUSALS = {
    401: "; check the API key",
    402: "; check the account",
    403: "; the key may not use this model",
    404: "; check the model's name and base_url",
}
#: No model reads or writes that many; a number beyond it is nonsense, and would end the month's
#: budget.
_MOST_TOKENS = 10_000_000
#: No answer is that long; one without an end would fill the memory until the deadline.
_MOST_BYTES = 1 << 20
#: An API that asks for more time than this is asked once a day all the same.
_LONGEST_REST = 86_400.0


@dataclass(frozen=True, slots=True)
class AnthropicClient(Client):
    """Sends questions to the API that the settings name. Tests let time pass faster between the
    attempts.
    """

    settings: ModelSettings
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = lambda: random.uniform(0.75, 1.25)

    async def send(self, texts: Sequence[str]) -> Reply:
        """Send one question as one user message, whose texts but the last are cached. Raises
        BackendError and nothing else.
        """
        settings = self.settings
        key = self.settings.key
        if key is None or not (key.isascii() and key.isprintable()):
            said = (
                "the API key is missing: set ANTHROPIC_API_KEY, or api_key in your own "
                "configuration file"
            )
            if key is not None:
                said = (
                    "the API key contains characters that are not allowed, such as a line break; "
                    "set it again"
                )
            raise BackendError(said, stage="access", attempts=0)
        begun: list[float] = []
        try:
            async with asyncio.timeout(settings.deadline):
                return await self._asked(texts, begun)
        except TimeoutError:
            said = f"no answer within {settings.deadline:g} s (requests: {len(begun)})"
            raise BackendError(said, stage="transport", attempts=len(begun)) from None
        except Exception as error:
            raise _failure(error, len(begun), key) from error

    async def _asked(self, texts: Sequence[str], begun: list[float]) -> Reply:
        """Return the reply; `begun` gets the moment of each request."""
        settings = self.settings
        credential: dict[str, Any] = {"auth_token" if settings.bearer else "api_key": settings.key}
        blocks: list[Any] = [{"type": "text", "text": text} for text in texts]
        for block in blocks[:-1]:
            block["cache_control"] = {"type": "ephemeral"}
        asked: Any = {"model": settings.model, "messages": [{"role": "user", "content": blocks}]}
        async with anthropic.AsyncAnthropic(
            **credential,
            # Left out, an empty ANTHROPIC_BASE_URL would be an address.
            base_url=settings.base_url or _OFFICIAL,
            max_retries=0,
            timeout=settings.request_seconds,
            http_client=anthropic.DefaultAsyncHttpxClient(
                verify=_certificates(), follow_redirects=False, event_hooks={"response": [_read]}
            ),
        ) as client:
            wait = BASE_DELAY
            while True:
                begun.append(time.monotonic())
                try:
                    message = await client.messages.create(**asked, max_tokens=MAX_TOKENS)
                    return replace(_reply(message, settings), requests=len(begun))
                except anthropic.APIError as error:
                    rest = max(wait * self.jitter(), _rest_in(error))
                    # An API that asks to wait beyond the deadline is asked at a later drain.
                    is_late = time.monotonic() - begun[0] + rest >= settings.deadline
                    if len(begun) >= MAX_RETRIES or not _is_transient(error) or is_late:
                        raise
                    await self.sleep(rest)
                    wait *= 2


@cache
def _certificates() -> ssl.SSLContext:
    """Return whom to trust, as the SDK's client would; reading it takes longer than a request,
    so it is read once.
    """
    return httpx2.create_ssl_context()


class _Odd(Exception):
    """An answer goes on beyond `_MOST_BYTES`, or is not a message."""


async def _read(response: Any) -> None:
    """Read an answer before the SDK does, which reads what has no end. Raises _Odd."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _MOST_BYTES:
            raise _Odd(f"the API's answer is longer than {_MOST_BYTES:,} bytes")
    response._content = bytes(body)


def _reply(message: Any, settings: ModelSettings) -> Reply:
    """Return what an answer says, of which the SDK checks nothing: what stands beside the text may
    be missing or of another type. Raises _Odd.
    """
    if not isinstance(message, anthropic.types.Message) or not isinstance(message.content, list):
        raise _Odd(f"the API's answer is not a message: {reprlib.repr(message)}")
    blocks = [block for block in message.content if getattr(block, "type", None) == "text"]
    model = _of(str, message, "model")
    stop_reason = _of(str, message, "stop_reason")
    return Reply(
        text="".join(_of(str, block, "text") or "" for block in blocks),
        model=model or settings.model,
        stop_reason=stop_reason or "",
        usage=_usage(message),
        request_id=message._request_id,
    )


def _of(kind: type, message: Any, name: str) -> Any:
    value = getattr(message, name, None)
    return value if type(value) is kind else None


def _usage(message: Any) -> Usage:
    """Return the tokens of a message; anything but a sensible whole number counts as 0."""
    names = (
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
    counts = [_of(int, message.usage, name) or 0 for name in names]
    return Usage(*(count if 0 <= count <= _MOST_TOKENS else 0 for count in counts))


def _is_transient(error: BaseException) -> bool:
    """Return whether the same request might be answered later."""
    if isinstance(error.__cause__, _Odd):
        return False
    if isinstance(
        error, anthropic.APITimeoutError | anthropic.APIConnectionError | anthropic.RateLimitError
    ):
        return True
    return isinstance(error, anthropic.APIStatusError) and error.status_code >= 500


def _rest_in(error: Exception) -> float:
    """Return the seconds for which the API asks to be left alone, 0.0 where it does not."""
    asked = (
        error.response.headers.get("retry-after", "")
        if isinstance(error, anthropic.APIStatusError)
        else ""
    )
    try:
        rest = float(asked)
    except ValueError:
        try:
            rest = parsedate_to_datetime(asked).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return min(_LONGEST_REST, max(0.0, rest))


def _failure(error: Exception, attempts: int, key: str) -> BackendError:
    """Return an error of the SDK in words, without the key, which some gateways repeat."""
    stage = "answer"
    odd = next((one for one in (error, error.__cause__) if isinstance(one, _Odd)), None)
    if isinstance(error, anthropic.APIStatusError):
        stage, text = _refusal(error)
    elif isinstance(error, anthropic.APITimeoutError):
        stage = "transport"
        text = "the API did not answer in time"
    elif odd is not None:
        text = str(odd)
    elif isinstance(error, anthropic.APIConnectionError):
        cause = f" ({type(error.__cause__).__name__}: {error.__cause__})" if error.__cause__ else ""
        stage = "transport"
        text = f"no connection to the API{cause}"
    elif isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        text = f"the API's answer is not JSON: {error}"
    else:
        text = f"{type(error).__name__}: {error}"
    text = text.replace(key, "[redacted:key]")
    return BackendError(text, stage=stage, attempts=attempts, retry_after=_rest_in(error))


def _refusal(error: anthropic.APIStatusError) -> tuple[str, str]:
    """Return the stage of an HTTP error, and its words with the way out."""
    status = error.status_code
    if 300 <= status < 400:
        # By scheme and host alone: the rest of an address may hold secrets.
        other = error.response.next_request
        origin = f"{other.url.scheme}://{other.url.netloc.decode()}" if other else "nowhere"
        way_out = "but reflector sent nothing there; if you trust that address, set base_url to it"
        return "access", f"HTTP {status}: the API redirects to {origin}, {way_out}"
    said = error.api_message if isinstance(error.api_message, str) else str(error)
    is_long = status == 413 or (status == 400 and _TOO_LONG.search(said))
    way_out = SHORTER if is_long else _REFUSALS.get(status, "")
    stage = "transport" if _is_transient(error) or status == 408 else "request"
    if status in _REFUSALS or (status == 400 and _NO_CREDIT.search(said)):
        stage = "access"
    return stage, f"HTTP {status} {error.type or ''}".rstrip() + f": {said}{way_out}"
