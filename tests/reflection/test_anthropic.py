"""One question to the Messages API: what is sent, how often, what ends it, and what comes out."""

from __future__ import annotations

import asyncio
import socket
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from reflector.prices import Usage
from reflector.reflection.backends.clients.anthropic import AnthropicClient, Pacing
from reflector.reflection.backends.clients.settings import model_settings
from reflector.reflection.backends.model import SCHEMA, CallFailed, Reply, Tries
from tests.reflection.api import KEY, MODEL, TOO_LONG, Api, Behaviour, Hurried, error, raw, serving, sound


def send(client: AnthropicClient, tries: Tries | None = None) -> Reply:
    return asyncio.run(client.send(("before", "after"), SCHEMA, tries or Tries()))


def failure(client: AnthropicClient) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        send(client)
    return caught.value


def test_a_question_is_one_message_with_all_but_its_last_text_cached(official: Api, hurried: Hurried) -> None:
    usage = {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
    official.does = [sound("hello", usage=usage, headers={"request-id": "req_1"})]
    reply = send(official.client(hurried, base_url=None))
    assert reply == Reply("hello", MODEL, "end_turn", Usage(7, 5, 3, 2), "req_1", structured=True)
    (request,) = official.asked
    assert request.path == "/v1/messages"
    assert request.body == {
        "model": MODEL,
        "max_tokens": 4096,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "before", "cache_control": {"type": "ephemeral"}},
                    {"type": "text", "text": "after"},
                ],
            }
        ],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    }


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    "said", ["output_config: Extra inputs are not permitted", "json_schema is not supported", "Unknown parameter"]
)
def test_a_schema_that_is_refused_is_left_out(official: Api, hurried: Hurried, said: str, status: int) -> None:
    official.does = [error(status, "invalid_request_error", said)]
    reply = send(official.client(hurried, base_url=None))
    assert ["output_config" in request.body for request in official.asked] == [True, False]
    assert (reply.structured, hurried.waits) == (False, [])


def test_a_gateway_is_asked_without_a_schema(api: Api, hurried: Hurried) -> None:
    assert not send(api.client(hurried)).structured
    assert "output_config" not in api.asked[0].body


@pytest.mark.parametrize("bearer", [False, True], ids=["an API key", "a token"])
def test_ours_is_the_only_credential_that_is_sent(
    api: Api, hurried: Hurried, monkeypatch: pytest.MonkeyPatch, bearer: bool
) -> None:
    # What the SDK finds in the environment by itself is not for it to use.
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    send(api.client(hurried, bearer=bearer))
    headers = api.asked[0].headers
    sent = {name: headers[name] for name in ("authorization", "x-api-key") if name in headers}
    # An API key goes by x-api-key in some versions of the SDK, and as a bearer token in later ones.
    as_token = {"authorization": f"Bearer {KEY}"}
    assert sent in ([as_token] if bearer else [as_token, {"x-api-key": KEY}])
    assert "another" not in str(headers)


@pytest.mark.parametrize(
    ("key", "said"), [(None, "set ANTHROPIC_API_KEY"), ("sk-ant\nxyz", "such as a line break"), ("schlüssel", "set it")]
)
def test_without_a_usable_key_nobody_is_asked_and_it_is_not_shown(
    api: Api, hurried: Hurried, key: str | None, said: str
) -> None:
    failed = failure(api.client(hurried, key=key))
    assert (failed.stage, failed.attempts, api.asked) == ("access", 0, [])
    assert said in str(failed)
    assert not any(part in str(failed) for part in ("xyz", "schl"))


def test_an_empty_address_in_the_environment_is_anthropics(hurried: Hurried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "  ")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    found = []

    class Client:
        def __init__(self, **options: Any) -> None:
            found.append(options["base_url"])
            raise RuntimeError("seen")

    monkeypatch.setattr("anthropic.AsyncAnthropic", Client)
    failure(AnthropicClient(model_settings(), hurried.pacing))
    assert found == ["https://api.anthropic.com"]


@dataclass(frozen=True)
class Row:
    """What the server does, and what comes of the question.

    stage   of the failure; "" for an answer
    said    how the failure's words begin, or the answer's text
    """

    does: Sequence[Behaviour]
    stage: str
    attempts: int
    said: str
    waits: Sequence[float] = ()
    too_long: bool = False
    rest: float = 0.0


def limited(status: int = 429, **headers: str) -> Behaviour:
    return error(status, "rate_limit_error", **headers)


def odd(body: bytes, status: int = 200, kind: str = "application/json") -> Behaviour:
    return Behaviour(status, body, {"content-type": kind})


def cut(at: int) -> Behaviour:
    whole = sound("whole")
    return Behaviour(body=whole.body, headers=whole.headers, cut=at)


NO_MESSAGE, NO_JSON = "the API's answer is not a message", "the API's answer is not JSON"
TWICE = (2.0, 4.0)
PAST, FUTURE = "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 2999 23:59:59 GMT"
ROWS: dict[str, Row] = {
    "an answer": Row([sound("hello")], "", 1, "hello"),
    **{
        f"{status} at each request": Row([error(status)] * 3, "transport", 3, f"HTTP {status} api_error: it", TWICE)
        for status in (429, 500, 502, 503, 504, 529)
    },
    "an API that recovers": Row([error(529), sound("hello")], "", 2, "hello", (2.0,)),
    "an API that recovers late": Row([error(529), error(500), sound("hello")], "", 3, "hello", TWICE),
    "400": Row([error(400, "invalid_request_error")], "request", 1, "HTTP 400 invalid_request_error: it went wrong"),
    "401": Row([error(401)], "access", 1, "HTTP 401 api_error: it went wrong; check the API key"),
    "402": Row([error(402)], "access", 1, "HTTP 402 api_error: it went wrong; check the account"),
    "403": Row([error(403)], "access", 1, "HTTP 403 api_error: it went wrong; the key may not use this model"),
    "404": Row([error(404)], "access", 1, "HTTP 404 api_error: it went wrong; check the model's name"),
    "408": Row([error(408)], "transport", 1, "HTTP 408"),
    "409": Row([error(409)], "request", 1, "HTTP 409"),
    "413": Row([error(413)], "request", 1, "HTTP 413", too_long=True),
    "422": Row([error(422)], "request", 1, "HTTP 422"),
    "too long by its words": Row([TOO_LONG], "request", 1, "HTTP 400 invalid_request_error: prompt", too_long=True),
    "no credit": Row([error(400, message="Your credit balance is too low.")], "access", 1, "HTTP 400"),
    "a key repeated": Row([error(401, message=f"bad {KEY}!")], "access", 1, "HTTP 401 api_error: bad [redacted:key]!"),
    "a time to come again": Row([limited(**{"retry-after": "7"})] * 3, "transport", 3, "HTTP 429", (7.0, 7.0), rest=7),
    "a short time": Row([limited(**{"retry-after": "0.5"})] * 3, "transport", 3, "HTTP 429", TWICE, rest=0.5),
    "a time long ago": Row([limited(**{"retry-after": "-5"})] * 3, "transport", 3, "HTTP 429", TWICE),
    "a time in words": Row([limited(**{"retry-after": "soon"})] * 3, "transport", 3, "HTTP 429", TWICE),
    "a date long ago": Row([limited(**{"retry-after": PAST})] * 3, "transport", 3, "HTTP 429", TWICE),
    "a date to come": Row([limited(529, **{"retry-after": FUTURE})], "transport", 1, "HTTP 529", rest=86_400),
    # Beyond the deadline nobody waits: a later drain asks.
    "a time beyond the deadline": Row([limited(**{"retry-after": "70"})], "transport", 1, "HTTP 429", rest=70),
    "a time without end": Row([limited(529, **{"retry-after": "inf"})], "transport", 1, "HTTP 529", rest=86_400),
    **{f"cut off at {at}": Row([cut(at), cut(at), sound("whole")], "", 3, "whole", TWICE) for at in (0, 1, 40, 200)},
    "always cut off": Row([cut(20)] * 3, "transport", 3, "no connection to the API (", TWICE),
    "a gateway's page": Row([odd(b"<html>gateway</html>")], "answer", 1, NO_JSON),
    "a page as HTML": Row([odd(b"<html>gateway</html>", kind="text/html")], "answer", 1, NO_MESSAGE),
    "not UTF-8": Row([odd(b"\xff\xfe{")], "answer", 1, NO_JSON),
    "nothing": Row([odd(b"")], "answer", 1, NO_JSON),
    "half a message": Row([odd(b'{"content": [')], "answer", 1, NO_JSON),
    **{
        f"the JSON {value!r}": Row([raw(value)], "answer", 1, NO_MESSAGE)
        for value in ([], "text", None, 7, {}, {"content": None}, {"content": "text"}, {"type": "error", "error": {}})
    },
    **{
        f"an error {body!r}": Row([odd(body, 400)], "request", 1, "HTTP 400")
        for body in (b"", b"<html>", b"[]", b'{"error": 7}', b'{"error": {"message": ["x"], "type": 7}}', b"{")
    },
    **{
        f"a redirect {status} to {where!r}": Row([Behaviour(status, b"", where)], "access", 1, f"HTTP {status}: the")
        for status in (301, 302, 303, 307, 308)
        for where in ({"location": "/elsewhere"}, {"location": "//"}, {})
    },
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_the_server_does_decides_the_stage_the_attempts_and_the_words(
    api: Api, hurried: Hurried, row: Row
) -> None:
    api.does, api.else_ = [*row.does], sound("one too many")
    tries = Tries()
    if row.stage:
        with pytest.raises(CallFailed) as caught:
            send(api.client(hurried), tries)
        failed = caught.value
        assert (failed.stage, failed.attempts, failed.too_long, failed.retry_after) == (
            *(row.stage, row.attempts, row.too_long),
            row.rest,
        )
        assert str(failed).startswith(row.said)
    else:
        assert send(api.client(hurried), tries).text == row.said
    assert (tries.made, len(api.asked), hurried.waits) == (row.attempts, row.attempts, [*row.waits])


def test_no_mixture_of_troubles_takes_more_than_three_requests(official: Api, hurried: Hurried) -> None:
    refused = error(400, "invalid_request_error", "output_config: Extra inputs are not permitted")
    for does in (
        [error(500), refused, error(500)],
        [refused, error(500), error(500)],
        [error(500), error(500), refused],
    ):
        official.reset()
        official.does = does
        assert failure(official.client(hurried, base_url=None)).attempts == len(official.asked) == 3


@pytest.mark.parametrize(("jitter", "waits"), [(0.75, [1.5, 3.0]), (1.25, [2.5, 5.0])])
def test_waits_have_a_jitter_of_a_quarter(api: Api, jitter: float, waits: list[float]) -> None:
    hurried = Hurried(jitter)
    api.else_ = error(500)
    failure(api.client(hurried))
    assert hurried.waits == waits
    drawn = [Pacing().jitter() for _ in range(2000)]
    assert 0.75 <= min(drawn) < 0.8
    assert 1.2 < max(drawn) <= 1.25


def test_an_api_that_hangs_is_asked_three_times(api: Api, hurried: Hurried) -> None:
    api.else_ = Behaviour(silent=True)
    failed = failure(api.client(hurried, request_seconds=0.2))
    assert (str(failed), failed.stage, failed.attempts) == ("the API did not answer in time", "transport", 3)
    assert len(hurried.waits) == 2


def test_the_deadline_ends_whatever_goes_on(api: Api, hurried: Hurried) -> None:
    api.else_ = Behaviour(silent=True)
    failed = failure(api.client(hurried, deadline=0.3))
    # On a busy machine the deadline may come before the request.
    assert (failed.stage, failed.attempts) in [("transport", 0), ("transport", 1)]
    assert str(failed) == f"no answer within 0.3 s (requests: {failed.attempts})"


def test_nobody_who_listens_is_a_failure_in_words(api: Api, hurried: Hurried) -> None:
    failed = failure(api.client(hurried, base_url="http://127.0.0.1:9"))
    assert (failed.stage, failed.attempts, len(hurried.waits)) == ("transport", 3, 2)
    assert "no connection to the API" in str(failed)


@contextmanager
def endless(head: bytes, part: bytes) -> Iterator[str]:
    """The address of a server whose answer goes on until nobody listens."""

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(head)
            while True:
                connection.sendall(part)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("status", ["200 OK", "500 Oh"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_an_answer_without_an_end_is_not_read_to_the_deadline(
    api: Api, hurried: Hurried, status: str, encoding: str
) -> None:
    # A member of a gzip file may follow another.
    part = b" " * 65536 if encoding == "identity" else zlib.compress(b" " * (1 << 22), wbits=31)
    with endless(f"HTTP/1.1 {status}\r\ncontent-encoding: {encoding}\r\n\r\n".encode(), part) as url:
        failed = failure(api.client(hurried, base_url=url))
    assert (failed.stage, failed.attempts) == ("answer", 1)
    assert str(failed) == "the API's answer is longer than 1,048,576 bytes"


def test_a_redirect_names_the_other_host_and_sends_it_nothing(api: Api, hurried: Hurried) -> None:
    with serving() as other:
        address = f"{other.url.replace('://', '://someone:secret@')}/v1/messages?token=secret"
        api.else_ = Behaviour(307, b"", {"location": address})
        said = str(failure(api.client(hurried)))
        assert f"HTTP 307: the API redirects to {other.url}, and nothing was sent there" in said
        assert "secret" not in said
        assert other.asked == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([], ""),
        ([{"type": "thinking", "thinking": "hm", "signature": "s"}], ""),
        (
            [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": '{"analysis": '},
                {"type": "something_new", "text": "no"},
                {"type": "text", "text": '"a"}'},
                *({"type": "text"}, {"type": "text", "text": 7}, 3, None),
            ],
            '{"analysis": "a"}',
        ),
    ],
)
def test_text_blocks_are_joined_and_others_left_out(api: Api, hurried: Hurried, content: list[Any], text: str) -> None:
    api.does = [sound(content=content)]
    assert send(api.client(hurried)).text == text


@pytest.mark.parametrize(
    "usage",
    [
        *(None, {}, "many"),
        {"input_tokens": None, "output_tokens": None, "cache_read_input_tokens": None},
        {"input_tokens": "7", "output_tokens": -1, "cache_read_input_tokens": -7},
        {"input_tokens": 1.5, "output_tokens": [1], "cache_creation_input_tokens": 10**30},
        {"input_tokens": 10**12, "output_tokens": 10**7 + 1},
    ],
)
def test_a_usage_in_any_form_costs_no_answer(api: Api, hurried: Hurried, usage: Any) -> None:
    api.does = [sound("text", usage=usage)]
    reply = send(api.client(hurried))
    assert (reply.text, reply.usage) == ("text", Usage())


@pytest.mark.parametrize("other", [None, 7, ["x"], {}, ""])
def test_a_model_and_a_stop_reason_in_any_form_cost_no_answer(api: Api, hurried: Hurried, other: Any) -> None:
    api.does = [sound("text", model=other, stop_reason=other, id=other, role=other, type=other)]
    reply = send(api.client(hurried))
    assert (reply.text, reply.model, reply.stop_reason) == ("text", MODEL, "")


@pytest.mark.parametrize(("key", "said"), [("any", "check [redacted:key] company"), ("k", "check any company")])
def test_a_short_key_is_taken_out_where_it_stands_alone(api: Api, hurried: Hurried, key: str, said: str) -> None:
    api.else_ = error(400, "invalid_request_error", "check any company")
    assert said in str(failure(api.client(hurried, key=key)))
