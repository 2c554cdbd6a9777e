"""One answer from the Messages API, whatever the API does.

Invariant: at most `MAX_RETRIES` requests are made for one question, whatever they are for, and they end within the
deadline. The SDK's own retries are off, or three attempts would be nine. Its redirects are off too: who gets the
transcript is for the user to say, not for the API. Every way to fail comes out as a `CallFailed`, and an
answer that was paid for never fails for what is beside its text.

What is tried again (requirements A-17): timeouts, broken connections, 429 and 5xx. Everything else would fail
the same way once more.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import reprlib
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any
from urllib.parse import urljoin, urlsplit

import anthropic
import httpx2
import tenacity

from reflector.events.spent import Usage
from reflector.playbook.counting import VERDICTS
from reflector.reflection.backends.anthropic.schemas import remember_no_schema, takes_schema
from reflector.reflection.backends.anthropic.settings import BASE_DELAY, MAX_RETRIES, MAX_TOKENS, ModelSettings
from reflector.reflection.protocol import BackendError

#: Models whose answers can be bound to a JSON schema: every family from 4.5 on.
_STRUCTURED = re.compile(r"claude-(?:haiku|sonnet|opus|fable|mythos)-(?:4-[5-9]|[5-9])(?![0-9])")
_TOO_LONG = re.compile(r"prompt is too long|too many (?:input )?tokens|context (?:window|limit)|maximum context", re.I)
#: What an API says that knows no schemas.
_NO_SCHEMA = re.compile(
    r"output_config|output_format|response_format|json_schema|structured.output"
    r"|\b(?:unknown|unrecogni[sz]ed|unexpected|unsupported|additional|extra|invalid)"
    r" (?:request |body |json )?(?:parameter|field|argument|key|propert|input|keyword)"
    r"|(?:parameter|field|argument|key|property|properties|inputs?) (?:is |are )?not (?:permitted|allowed|supported)",
    re.I,
)
#: What an API says whose account has nothing left; some say so with 400.
_NO_CREDIT = re.compile(r"credit balance|billing|insufficient.(?:quota|funds|credit)", re.I)
_OFFICIAL = "https://api.anthropic.com"
#: No model reads or writes that many; a number beyond it is nonsense, and would end the month's budget.
_MOST_TOKENS = 10_000_000
#: No answer is that long; one without an end would fill the memory until the deadline.
_MOST_BYTES = 1 << 20
#: An API that asks for more time than this is asked once a day all the same.
_LONGEST_REST = 86_400.0
#: A key that is shorter is only taken out as a word of its own: it may be a word, or a part of many.
_LONG_KEY = 12

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
                    "tag": {"type": "string", "enum": list(VERDICTS)},
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

    def __init__(
        self, message: str, *, stage: str, attempts: int, too_long: bool = False, retry_after: float = 0.0
    ) -> None:
        super().__init__(message, stage=stage, attempts=attempts, retry_after=retry_after)
        self.too_long = too_long


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its text blocks joined, why it ended there, and what it took; `attempts` and `milliseconds` are those
    of the whole question so far."""

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


@dataclass(slots=True)
class Tries:
    """What a question has used up, in whatever form it was put: requests, and time since the first of them."""

    made: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun


async def ask(
    settings: ModelSettings,
    blocks: Sequence[Mapping[str, Any]],
    pacing: Pacing | None = None,
    tries: Tries | None = None,
    schema: Mapping[str, object] | None = SCHEMA,
) -> Reply:
    """Put one question, as content blocks of one user message. Raises CallFailed and nothing else.

    `tries` are those of the same question in other words; it must have some left. `schema` is that of the answer, where
    the API takes one.
    """
    if settings.key is None:
        raise CallFailed(
            "there is no API key: set ANTHROPIC_API_KEY, or api_key in the user's configuration file",
            stage="access",
            attempts=0,
        )
    if not (settings.key.isascii() and settings.key.isprintable()):
        raise CallFailed(
            "the API key holds characters that no key has, such as a line break; set it again",
            stage="access",
            attempts=0,
        )
    tries = Tries() if tries is None else tries
    try:
        async with asyncio.timeout(settings.deadline - tries.seconds):
            return await _conversation(settings, blocks, pacing or Pacing(), tries, schema)
    except TimeoutError:
        raise CallFailed(
            f"no answer within {settings.deadline:g} s (requests: {tries.made})",
            stage="transport",
            attempts=tries.made,
        ) from None
    except CallFailed:
        raise
    except Exception as error:
        raise _failure(error, tries.made, settings) from error


async def _conversation(
    settings: ModelSettings,
    blocks: Sequence[Mapping[str, Any]],
    pacing: Pacing,
    tries: Tries,
    schema: Mapping[str, object] | None,
) -> Reply:
    """Return the request, without the schema where the API does not take it, continued where the API pauses."""
    credential: dict[str, Any] = {"auth_token" if settings.bearer else "api_key": settings.key}
    messages: list[dict[str, Any]] = [{"role": "user", "content": list(blocks)}]
    if schema is not None and (_STRUCTURED.match(settings.model) is None or not takes_schema(settings)):
        schema = None
    form = schema
    usage, texts = Usage(), list[str]()
    async with anthropic.AsyncAnthropic(
        **credential,
        # Left out, an empty ANTHROPIC_BASE_URL would be taken for an address.
        base_url=settings.base_url or _OFFICIAL,
        max_retries=0,
        timeout=settings.request_seconds,
        http_client=anthropic.DefaultAsyncHttpxClient(
            verify=_certificates(), follow_redirects=False, event_hooks={"response": [_read]}
        ),
    ) as client:
        while True:
            try:
                message = await _request(client, settings, messages, pacing, tries, form)
            except (anthropic.BadRequestError, anthropic.UnprocessableEntityError) as error:
                if form is not None and tries.made < MAX_RETRIES and _NO_SCHEMA.search(str(error)):
                    form = None
                    continue
                raise
            content = _content(message, tries)
            usage += _usage(message)
            texts += [block.text for block in content if _is_text(block)]
            if message.stop_reason != "pause_turn" or tries.made >= MAX_RETRIES:
                break
            messages.append({"role": "assistant", "content": content})
    if schema is not None and form is None:
        remember_no_schema(settings)
    # The SDK does not check what it is given: any of these may be missing or of another type.
    model, stop_reason = message.model, message.stop_reason
    return Reply(
        text="".join(texts),
        model=model if isinstance(model, str) and model else settings.model,
        stop_reason=stop_reason if isinstance(stop_reason, str) else "",
        usage=usage,
        attempts=tries.made,
        milliseconds=round(tries.seconds * 1000),
        request_id=message._request_id,
        structured=form is not None,
    )


@cache
def _certificates() -> ssl.SSLContext:
    """Return whom to trust, as the SDK's client would; reading it takes longer than a request, so it is read once."""
    return httpx2.create_ssl_context()


class _TooMuch(Exception):
    """An answer goes on beyond `_MOST_BYTES`."""


async def _read(response: Any) -> None:
    """Read an answer before the SDK does, which reads what has no end. Raises _TooMuch."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _MOST_BYTES:
            raise _TooMuch(f"the API's answer is longer than {_MOST_BYTES:,} bytes")
    response._content = bytes(body)


def _content(message: Any, tries: Tries) -> list[Any]:
    """Return the content blocks. Raises CallFailed if the answer is not a message."""
    if not isinstance(message, anthropic.types.Message) or not isinstance(message.content, list):
        raise CallFailed(
            f"the API's answer is not a message: {reprlib.repr(message)}", stage="answer", attempts=tries.made
        )
    return message.content


def _is_text(block: Any) -> bool:
    return getattr(block, "type", None) == "text" and isinstance(block.text, str)


async def _request(
    client: anthropic.AsyncAnthropic,
    settings: ModelSettings,
    messages: list[Any],
    pacing: Pacing,
    tries: Tries,
    schema: Mapping[str, object] | None,
) -> anthropic.types.Message:
    options: dict[str, Any] = {}
    if schema is not None:
        options["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    async for attempt in tenacity.AsyncRetrying(
        # An API that asks to wait beyond the deadline is asked at a later drain.
        stop=lambda state: tries.made >= MAX_RETRIES or tries.seconds + state.upcoming_sleep >= settings.deadline,
        wait=lambda state: _wait(state, pacing),
        retry=tenacity.retry_if_exception(is_transient),
        sleep=pacing.sleep,
        reraise=True,
    ):
        with attempt:
            tries.made += 1
            message: anthropic.types.Message = await client.messages.create(
                model=settings.model, max_tokens=MAX_TOKENS, messages=messages, **options
            )
            return message
    raise AssertionError("tenacity ends with an answer or an error")


def is_transient(error: BaseException) -> bool:
    """Return whether the same request might be answered later."""
    if isinstance(error.__cause__, _TooMuch):
        return False
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
    return min(_LONGEST_REST, _rest_in(error.response.headers))


def _rest_in(headers: Mapping[str, str]) -> float:
    for header, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return max(0.0, float(headers.get(header, "")) / unit)
        except ValueError:
            continue
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return 0.0


def _usage(message: anthropic.types.Message) -> Usage:
    """Return the tokens of a message; anything but a sensible whole number counts as 0."""

    def count(name: str) -> int:
        value = getattr(message.usage, name, None)
        return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0

    return Usage(
        count("input_tokens"),
        count("output_tokens"),
        count("cache_read_input_tokens"),
        count("cache_creation_input_tokens"),
    )


def _failure(error: Exception, attempts: int, settings: ModelSettings) -> CallFailed:
    """Return an error of the SDK in words: what happened, and where it is worth saying, the way out.

    Some gateways repeat the key that they refuse; it is taken out.
    """

    def failed(text: str, stage: str, *, too_long: bool = False) -> CallFailed:
        said = _without_key(text, settings.key or "")
        return CallFailed(said, stage=stage, attempts=attempts, too_long=too_long, retry_after=_retry_after(error))

    if isinstance(error, anthropic.APIStatusError):
        status = error.status_code
        if 300 <= status < 400:
            return failed(_redirected(error), "access")
        said = error.api_message if isinstance(error.api_message, str) else str(error)
        too_long = status == 413 or (status == 400 and bool(_TOO_LONG.search(said)))
        stage = "transport" if is_transient(error) or status == 408 else "request"
        if status in _HINTS or (status == 400 and _NO_CREDIT.search(said)):
            stage = "access"
        text = f"HTTP {status} {error.type or ''}".rstrip() + f": {said}{_HINTS.get(status, '')}"
        return failed(text, stage, too_long=too_long)
    if isinstance(error, anthropic.APITimeoutError):
        return failed("the API did not answer in time", "transport")
    if isinstance(error.__cause__, _TooMuch):
        return failed(str(error.__cause__), "answer")
    if isinstance(error, anthropic.APIConnectionError):
        cause = f" ({type(error.__cause__).__name__}: {error.__cause__})" if error.__cause__ else ""
        return failed(f"no connection to the API{cause}", "transport")
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return failed(f"the API's answer is not JSON: {error}", "answer")
    return failed(f"{type(error).__name__}: {error}", "answer")


def _redirected(error: anthropic.APIStatusError) -> str:
    """Return who would be asked instead, by scheme and host alone: the rest of an address may hold secrets."""
    asked = str(error.request.url)
    try:
        other = urlsplit(urljoin(asked, error.response.headers.get("location", "")))
        origin = f"{other.scheme}://{other.netloc.rpartition('@')[2]}"
    except ValueError:
        origin = "an invalid address"
    return (
        f"HTTP {error.status_code}: the API redirects to {origin}, and nothing was sent there; "
        "if you trust it, set it as base_url"
    )


def _without_key(text: str, key: str) -> str:
    alone = r"(?<![A-Za-z0-9_-]){}(?![A-Za-z0-9_-])" if len(key) < _LONG_KEY else "{}"
    return re.sub(alone.format(re.escape(key)), "[redacted:key]", text)


#: Statuses with which an API refuses us, whatever it is asked.
_HINTS = {
    401: "; check the API key",
    402: "; check the account",
    403: "; the key may not use this model",
    404: "; check the model's name and base_url",
}
