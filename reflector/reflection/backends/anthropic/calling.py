"""One answer from the Messages API, whatever the API does.

Invariant: at most `MAX_RETRIES` requests are made for one question, and they end within the deadline. The SDK's
own retries are off, or three attempts would be nine. Every way to fail comes out as a `CallFailed`.

What is tried again (requirements A-17): timeouts, broken connections, 429 and 5xx. Everything else would fail
the same way once more.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anthropic
import tenacity

from reflector.reflection.backends.anthropic.prices import Usage
from reflector.reflection.backends.anthropic.settings import BASE_DELAY, MAX_RETRIES, MAX_TOKENS, ModelSettings
from reflector.reflection.protocol import BackendError

#: Models whose answers can be bound to a JSON schema: every family from 4.5 on.
_STRUCTURED = re.compile(r"claude-(?:haiku|sonnet|opus|fable|mythos)-(?:4-[5-9]|[5-9])(?![0-9])")
_TOO_LONG = re.compile(r"prompt is too long|too many (?:input )?tokens|context (?:window|limit)|maximum context", re.I)
_MOST_PAUSES = 3

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "analysis": {"type": "string"},
        "bullet_tags": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "rationale": {"type": "string"},
                    "tag": {"type": "string", "enum": ["helpful", "harmful", "neutral"]},
                },
                "required": ["name", "rationale", "tag"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["analysis", "bullet_tags"],
    "additionalProperties": False,
}


class CallFailed(BackendError):
    """No answer. `too_long` is True where a shorter question might get one."""

    def __init__(self, message: str, *, stage: str, attempts: int, too_long: bool = False, final: bool = False) -> None:
        super().__init__(message, stage=stage, attempts=attempts, final=final)
        self.too_long = too_long


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its text blocks joined, why it ended there, and what it took."""

    text: str
    model: str
    stop_reason: str
    usage: Usage
    attempts: int
    milliseconds: int
    request_id: str | None
    structured: bool


@dataclass(frozen=True, slots=True)
class Pacing:
    """How time passes between attempts; tests let it pass faster."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = lambda: random.uniform(0.75, 1.25)


async def ask(settings: ModelSettings, blocks: Sequence[Mapping[str, Any]], pacing: Pacing | None = None) -> Reply:
    """Put one question, as content blocks of one user message. Raises CallFailed and nothing else."""
    if settings.key is None:
        raise CallFailed(
            "there is no API key: set ANTHROPIC_API_KEY, or api_key in the user's configuration file",
            stage="request",
            attempts=0,
        )
    attempts = _Attempts()
    begun = time.monotonic()
    try:
        async with asyncio.timeout(settings.deadline):
            return await _conversation(settings, blocks, pacing or Pacing(), attempts, begun)
    except TimeoutError:
        raise CallFailed(
            f"no answer within {settings.deadline:g} s ({attempts.made} requests)",
            stage="transport",
            attempts=attempts.made,
        ) from None
    except CallFailed:
        raise
    except Exception as error:
        raise _failure(error, attempts.made) from error


@dataclass(slots=True)
class _Attempts:
    made: int = 0


async def _conversation(
    settings: ModelSettings,
    blocks: Sequence[Mapping[str, Any]],
    pacing: Pacing,
    attempts: _Attempts,
    begun: float,
) -> Reply:
    """The request, without the schema where the API does not take it, continued where the API pauses."""
    credential: dict[str, Any] = {"auth_token" if settings.bearer else "api_key": settings.key}
    messages: list[dict[str, Any]] = [{"role": "user", "content": list(blocks)}]
    structured = _STRUCTURED.match(settings.model) is not None
    usage, texts = Usage(), list[str]()
    async with anthropic.AsyncAnthropic(
        **credential, base_url=settings.base_url, max_retries=0, timeout=settings.request_seconds
    ) as client:
        for _ in range(_MOST_PAUSES + 2):
            try:
                message = await _request(client, settings, messages, pacing, attempts, structured=structured)
            except anthropic.BadRequestError as error:
                if structured and "output_config" in str(error):
                    structured = False
                    continue
                raise
            usage += _usage(message)
            texts += [block.text for block in message.content if block.type == "text"]
            if message.stop_reason != "pause_turn":
                break
            messages.append({"role": "assistant", "content": message.content})
    return Reply(
        text="".join(texts),
        model=message.model,
        stop_reason=message.stop_reason or "",
        usage=usage,
        attempts=attempts.made,
        milliseconds=round((time.monotonic() - begun) * 1000),
        request_id=message._request_id,
        structured=structured,
    )


async def _request(
    client: anthropic.AsyncAnthropic,
    settings: ModelSettings,
    messages: list[Any],
    pacing: Pacing,
    attempts: _Attempts,
    *,
    structured: bool,
) -> anthropic.types.Message:
    options: dict[str, Any] = {}
    if structured:
        options["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
    left = MAX_RETRIES - attempts.made
    async for attempt in tenacity.AsyncRetrying(
        # An API that asks to wait beyond the deadline is asked at a later drain.
        stop=tenacity.stop_after_attempt(max(left, 1)) | tenacity.stop_before_delay(settings.deadline),
        wait=lambda state: _wait(state, pacing),
        retry=tenacity.retry_if_exception(is_transient),
        sleep=pacing.sleep,
        reraise=True,
    ):
        with attempt:
            attempts.made += 1
            message: anthropic.types.Message = await client.messages.create(
                model=settings.model, max_tokens=MAX_TOKENS, messages=messages, **options
            )
            return message
    raise AssertionError("tenacity ends with an answer or an error")


def is_transient(error: BaseException) -> bool:
    """Whether the same request might be answered later."""
    if isinstance(error, anthropic.APITimeoutError | anthropic.APIConnectionError | anthropic.RateLimitError):
        return True
    return isinstance(error, anthropic.APIStatusError) and error.status_code >= 500


def _wait(state: tenacity.RetryCallState, pacing: Pacing) -> float:
    """2 s, then 4 s, each times 0.75 to 1.25; longer where the API says so."""
    wait = BASE_DELAY * 2.0 ** (state.attempt_number - 1) * pacing.jitter()
    error = state.outcome.exception() if state.outcome is not None else None
    return max(wait, _retry_after(error) if error is not None else 0.0)


def _retry_after(error: BaseException) -> float:
    """Seconds the API asks to wait, 0.0 where it asks nothing."""
    if not isinstance(error, anthropic.APIStatusError):
        return 0.0
    for header, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return max(0.0, float(error.response.headers.get(header, "")) / unit)
        except ValueError:
            continue
    return 0.0


def _usage(message: anthropic.types.Message) -> Usage:
    """The tokens of a message; whatever is no whole number counts as none."""

    def count(name: str) -> int:
        value = getattr(message.usage, name, None)
        return value if type(value) is int and value >= 0 else 0

    return Usage(
        count("input_tokens"),
        count("output_tokens"),
        count("cache_read_input_tokens"),
        count("cache_creation_input_tokens"),
    )


def _failure(error: Exception, attempts: int) -> CallFailed:
    """An error of the SDK in words: what happened, and where it is worth saying, the way out."""
    if isinstance(error, anthropic.APIStatusError):
        said = error.api_message or str(error)
        hint = _HINTS.get(error.status_code, "")
        too_long = error.status_code == 413 or (error.status_code == 400 and bool(_TOO_LONG.search(said)))
        stage = "transport" if is_transient(error) else "request"
        text = f"HTTP {error.status_code} {error.type or ''}".rstrip() + f": {said}{hint}"
        return CallFailed(text, stage=stage, attempts=attempts, too_long=too_long)
    if isinstance(error, anthropic.APITimeoutError):
        return CallFailed("the API did not answer in time", stage="transport", attempts=attempts)
    if isinstance(error, anthropic.APIConnectionError):
        cause = f" ({type(error.__cause__).__name__}: {error.__cause__})" if error.__cause__ else ""
        return CallFailed(f"no connection to the API{cause}", stage="transport", attempts=attempts)
    return CallFailed(f"{type(error).__name__}: {error}", stage="answer", attempts=attempts)


_HINTS = {
    401: "; check the API key",
    403: "; the key may not use this model",
    404: "; check the model's name",
}
