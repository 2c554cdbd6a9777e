"""One question to any API over HTTP, with repeated requests.

Invariant: all requests for one question end within its deadline, and every failure is a
`BackendError`. Redirects are off, because the user, not the API, decides who gets the transcript.
An answer that was paid for never fails because of fields beside its text.

These failures are tried again (requirement A-17): timeouts, broken connections, 429 and 5xx. Any
other, and an account without credit, would fail the same way once more.
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
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import httpx2

from reflector.judges.api import ApiSettings, Ask
from reflector.judges.fields import text_at, value_at
from reflector.judges.model import SHORTER, Client, Reply
from reflector.judges.protocol import BackendError
from reflector.text.lazy import lazy_pattern

#: Requirements A-15 and A-16: the most requests for one question, and the first pause in seconds.
_MOST_REQUESTS = 3
_FIRST_PAUSE = 2.0
_TOO_LONG = lazy_pattern(
    r"prompt is too long|too many (?:input )?tokens|context (?:window|limit)|maximum context",
    re.I,
)
#: The words of an API if the account has no credit left. A busy API may mention billing, too.
_NO_CREDIT = {
    400: lazy_pattern(r"credit balance|billing|insufficient.(?:quota|funds|credit)", re.I),
    429: lazy_pattern(r"credit balance|insufficient.(?:quota|funds|credit)", re.I),
}
#: Statuses with which an API refuses every question of ours, and the way out of each.
_REFUSALS = {
    401: "; check the API key",
    402: "; check your account with the API",
    403: "; the API key does not have access to this model",
    404: "; check the model's name and base_url",
}
#: Most bytes of an answer; one without an end would fill the memory until the deadline.
_MOST_BYTES = 1 << 20
#: Most characters of an error that is not in the usual format.
_MOST_SAID = 300
#: The longest rest in seconds: an API that asks for more is still asked once a day.
_LONGEST_REST = 86_400.0


class OddAnswer(Exception):
    """An answer that is not a model's message."""

    def __init__(self, answer: object) -> None:
        super().__init__(f"the API's answer does not contain a message: {reprlib.repr(answer)}")


class _LongAnswer(Exception):
    """An answer that is longer than `_MOST_BYTES`."""


class Refused(Exception):
    """An answer whose status is not a success; the text is the API's own message."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.status = response.status_code
        try:
            error = value_at(response.json(), "error")
        except ValueError:
            error = None
        said = text_at(error, "message") or response.text[:_MOST_SAID]
        super().__init__(f"HTTP {self.status} {text_at(error, 'type')}".rstrip() + f": {said}")


@dataclass(frozen=True, slots=True)
class HttpClient(Client):
    """Sends questions to the API that the settings name. `sleep` and `jitter` let tests shorten the
    pauses between attempts.
    """

    settings: ApiSettings
    ask: Ask
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = lambda: random.uniform(0.75, 1.25)

    async def send(self, texts: Sequence[str]) -> Reply:
        """Send one question.

        Raises: BackendError and nothing else.
        """
        settings = self.settings
        key = settings.key
        fault = ""
        if not key:
            fault = f"is missing: set {settings.variable}, or api_key in your own settings"
        elif not (key.isascii() and key.isprintable()):
            fault = (
                "contains characters that are not allowed, such as a line break; set the key again"
            )
        if fault:
            raise BackendError(f"the API key {fault}", stage="access", attempts=0)
        begun: list[float] = []
        try:
            async with asyncio.timeout(settings.deadline):
                return await self._asked(texts, begun)
        except TimeoutError:
            said = (
                f"the API did not answer within {settings.deadline:g} s (requests sent: "
                f"{len(begun)})"
            )
            raise BackendError(said, stage="transport", attempts=len(begun)) from None
        except Exception as error:
            raise _failure(error, len(begun), key) from error

    async def _asked(self, texts: Sequence[str], begun: list[float]) -> Reply:
        """Return the reply; `begun` gets the moment of each request."""
        pause = _FIRST_PAUSE
        async with httpx2.AsyncClient(
            verify=_certificates(),
            timeout=self.settings.request_seconds,
            event_hooks={"response": [_read]},
        ) as http:
            while True:
                begun.append(time.monotonic())
                try:
                    reply = await self.ask(self.settings, texts, http)
                    return replace(reply, requests=len(begun))
                except (httpx2.RequestError, Refused) as error:
                    rest = max(pause * self.jitter(), _rest_in(error))
                    # An API that asks to wait beyond the deadline is asked at a later drain.
                    is_late = time.monotonic() - begun[0] + rest >= self.settings.deadline
                    if len(begun) >= _MOST_REQUESTS or not _is_transient(error) or is_late:
                        raise
                    await self.sleep(rest)
                    pause *= 2


async def post(
    http: httpx2.AsyncClient, url: str, headers: Mapping[str, str], body: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON object with which an API answers a JSON object.

    Raises: Refused, OddAnswer, ValueError, httpx2.RequestError
    """
    response = await http.post(url, headers=headers, json=body)
    if not response.is_success:
        raise Refused(response)
    return json_object(response.content)


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer.

    Raises: OddAnswer, ValueError.
    """
    answer = json.loads(body)
    if not isinstance(answer, dict):
        raise OddAnswer(answer)
    return answer


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates. Reading them takes longer than a request, so they are read
    once.
    """
    return httpx2.create_ssl_context()


async def _read(response: httpx2.Response) -> None:
    """Read an answer before its caller does, because the caller would read an endless one.

    Raises: _LongAnswer.
    """
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _MOST_BYTES:
            raise _LongAnswer(f"the API's answer is longer than {_MOST_BYTES:,} bytes")
    response._content = bytes(body)  # as its own `aread` does, which does not have a limit


def _is_transient(error: Exception) -> bool:
    """Return whether the same request might be answered later."""
    if isinstance(error, Refused):
        is_busy = error.status == 429 and not _lacks_credit(error)
        return is_busy or error.status >= 500
    return isinstance(error, httpx2.RequestError)


def _lacks_credit(error: Refused) -> bool:
    """Return whether the account has no credit left, so that waiting does not help."""
    words = _NO_CREDIT.get(error.status)
    return words is not None and words.search(str(error)) is not None


def _rest_in(error: Exception) -> float:
    """Return the seconds that the API asks to wait, 0.0 if it does not ask."""
    asked = error.response.headers.get("retry-after", "") if isinstance(error, Refused) else ""
    try:
        rest = float(asked)
    except ValueError:
        try:
            rest = parsedate_to_datetime(asked).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return min(_LONGEST_REST, max(0.0, rest))


def _failure(error: Exception, attempts: int, key: str) -> BackendError:
    """Return an error in words, without the key, because some gateways repeat it."""
    stage = "transport" if isinstance(error, httpx2.RequestError) else "answer"
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, Refused):
        stage, text = _refusal(error)
    elif isinstance(error, OddAnswer | _LongAnswer):
        text = str(error)
    elif isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        text = f"the API's answer is not JSON: {error}"
    elif isinstance(error, httpx2.TimeoutException):
        text = "the API did not answer in time"
    elif isinstance(error, httpx2.RequestError):
        text = f"reflector could not connect to the API ({text})"
    text = text.replace(key, "[redacted:key]")
    return BackendError(text, stage=stage, attempts=attempts, retry_after=_rest_in(error))


def _refusal(error: Refused) -> tuple[str, str]:
    """Return the stage of an HTTP error, and its words with the way out."""
    status = error.status
    if 300 <= status < 400:
        # Only scheme and host, because the rest of an address may contain secrets.
        other = error.response.next_request
        origin = f"{other.url.scheme}://{other.url.netloc.decode()}" if other else "nowhere"
        way_out = (
            "but reflector sent nothing to this address; if you trust the address, set base_url "
            "to this address"
        )
        return "access", f"HTTP {status}: the API redirects to {origin}, {way_out}"
    said = str(error)
    is_long = status == 413 or (status == 400 and _TOO_LONG.search(said))
    refusal = _REFUSALS.get(402 if _lacks_credit(error) else status, "")
    way_out = SHORTER if is_long else refusal
    stage = "transport" if _is_transient(error) or status == 408 else "request"
    return "access" if refusal else stage, f"{said}{way_out}"
