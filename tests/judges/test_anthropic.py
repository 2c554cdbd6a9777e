"""One question to the Messages API (A-16, A-17, A-20): what is sent, how often, what ends it,
and what comes out.
"""

import asyncio
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from reflector.judges.api import api_settings
from reflector.judges.backends.anthropic import ANTHROPIC
from reflector.judges.http_api import HttpClient
from reflector.judges.messages_api import ask_once
from reflector.judges.model import Reply
from reflector.judges.protocol import BackendError
from reflector.prices import Usage
from tests.conftest import first_fast
from tests.judges.api import KEY, MODEL, TOO_LONG, Api, Behaviour, error, raw, serving, sound


def send(client: HttpClient) -> Reply:
    return asyncio.run(client.send(("before", "after")))


def failure(client: HttpClient) -> BackendError:
    with pytest.raises(BackendError) as caught:
        send(client)
    return caught.value


def test_question_is_one_message_with_a_cached_start(api: Api) -> None:
    usage = {
        "input_tokens": 7,
        "output_tokens": 5,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 2,
    }
    api.does = [sound("hello", usage=usage, headers={"request-id": "req_1"})]
    reply = send(api.client())
    assert reply == Reply("hello", MODEL, "end_turn", Usage(7, 5, 3, 2), "req_1")
    (request,) = api.asked
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
    }


@pytest.mark.parametrize("bearer", [False, True], ids=["an API key", "a token"])
def test_ours_is_the_only_credential_that_is_sent(
    api: Api, monkeypatch: pytest.MonkeyPatch, bearer: bool
) -> None:
    # What the SDK finds in the environment by itself is not for it to use.
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    send(api.client(bearer=bearer))
    headers = api.asked[0].headers
    sent = {name: headers[name] for name in ("authorization", "x-api-key") if name in headers}
    # An API key goes by x-api-key in some versions of the SDK, and as a bearer token in later ones.
    as_token = {"authorization": f"Bearer {KEY}"}
    assert sent in ([as_token] if bearer else [as_token, {"x-api-key": KEY}])
    assert "another" not in str(headers)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "set ANTHROPIC_API_KEY"),
        ("sk-ant\nxyz", "such as a line break"),
        ("schlüssel", "set the key again"),
    ],
)
def test_unusable_key_sends_nothing_and_is_not_shown(api: Api, key: str, said: str) -> None:
    failed = failure(api.client(key=key))
    assert (failed.stage, failed.attempts, api.asked) == ("access", 0, [])
    assert said in str(failed)
    assert not any(part in str(failed) for part in ("xyz", "schl"))


@dataclass(frozen=True)
class Row:
    """What the server does, and what comes of the question: an answer, or a failure whose words
    begin with `said`.
    """

    does: Sequence[Behaviour]
    stage: str
    attempts: int
    said: str
    waits: Sequence[float] = ()
    rest: float = 0.0


def limited(rest: str, status: int = 429) -> Behaviour:
    return error(status, "rate_limit_error", **{"retry-after": rest})


def odd(body: bytes, status: int = 200, kind: str = "application/json") -> Behaviour:
    return Behaviour(status, body, {"content-type": kind})


WHOLE = sound("whole")
LONG = f"the API's answer is longer than {1 << 20:,} bytes"


NO_MESSAGE, NO_JSON = "the API's answer does not contain a message", "the API's answer is not JSON"
TWICE = (2.0, 4.0)
PAST, FUTURE = "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 2999 23:59:59 GMT"
ROWS: dict[str, Row] = {
    "an answer": Row([sound("hello")], "", 1, "hello"),
    **{
        f"{status} at each request": Row(
            [error(status)] * 3, "transport", 3, f"HTTP {status} api_error: it", TWICE
        )
        for status in (429, 500, 502, 503, 504, 529)
    },
    "an API that recovers late": Row(
        [error(529), error(500), sound("hello")], "", 3, "hello", TWICE
    ),
    **{
        f"{status}": Row(
            [error(status)], stage, 1, f"HTTP {status} api_error: it went wrong{way_out}"
        )
        for status, stage, way_out in (
            *(
                (400, "request", ""),
                (409, "request", ""),
                (422, "request", ""),
                (408, "transport", ""),
            ),
            *(
                (401, "access", "; check the API key"),
                (402, "access", "; check your account with the API"),
            ),
            *(
                (403, "access", "; the API key does not have access to this model"),
                (404, "access", "; check the model's name"),
            ),
        )
    },
    "413": Row(
        [error(413)], "request", 1, "HTTP 413 api_error: it went wrong; lower request_tokens"
    ),
    "too long by its words": Row(
        *([TOO_LONG], "request", 1),
        (
            "HTTP 400 invalid_request_error: prompt is too long: 250000 tokens > 200000 maximum; "
            "lower request_tokens"
        ),
    ),
    "no credit": Row(
        [error(400, message=("Your credit balance is too low."))], "access", 1, "HTTP 400"
    ),
    "a key repeated": Row(
        [error(401, message=f"bad {KEY}!")], "access", 1, "HTTP 401 api_error: bad [redacted:key]!"
    ),
    "a time to come again": Row([limited("7")] * 3, "transport", 3, "HTTP 429", (7.0, 7.0), rest=7),
    **{
        f"the time {rest}": Row([limited(rest)] * 3, "transport", 3, "HTTP 429", TWICE)
        for rest in ("-5", "soon", PAST)
    },
    # Beyond the deadline nobody waits: a later drain asks.
    "a time beyond the deadline": Row([limited("70")], "transport", 1, "HTTP 429", rest=70),
    **{
        f"the time {rest}": Row([limited(rest, 529)], "transport", 1, "HTTP 529", rest=86_400)
        for rest in (FUTURE, "inf")
    },
    **{
        f"cut off at {at}": Row([WHOLE.cut(at), WHOLE.cut(at), WHOLE], "", 3, "whole", TWICE)
        for at in (0, 40)
    },
    "always cut off": Row(
        [WHOLE.cut(20)] * 3, "transport", 3, "reflector could not connect to the API (", TWICE
    ),
    **{
        f"the body {body!r}": Row([odd(body)], "answer", 1, NO_JSON)
        for body in (b"<html>gateway</html>", b"\xff\xfe{", b"", b'{"content": [')
    },
    # An answer without an end would be read to the deadline.
    "a long answer": Row([Behaviour(body=b" " * (1 << 21))], "answer", 1, LONG),
    "a long error": Row([Behaviour(500, b" " * (1 << 21))], "answer", 1, LONG),
    "a bomb": Row(
        [Behaviour(200, gzip.compress(b" " * (1 << 21)), {"content-encoding": "gzip"})],
        "answer",
        1,
        LONG,
    ),
    **{
        f"the JSON {value!r}": Row([raw(value)], "answer", 1, NO_MESSAGE)
        for value in ([], None, {}, {"content": "text"}, {"type": "error", "error": {}})
    },
    **{
        f"an error {body!r}": Row([odd(body, 400)], "request", 1, "HTTP 400")
        for body in (b"", b"[]", b'{"error": 7}', b'{"error": {"message": ["x"], "type": 7}}', b"{")
    },
    **{
        f"a redirect to {where!r}": Row(
            [Behaviour(302, b"", where)], "access", 1, "HTTP 302: the API redirects to"
        )
        for where in ({"location": "/elsewhere"}, {"location": "//"}, {})
    },
}


@pytest.mark.parametrize("row", first_fast(20, ROWS.values()), ids=ROWS)
def test_server_reaction_decides_stage_attempts_and_words(api: Api, row: Row) -> None:
    api.does, api.else_ = [*row.does], sound("one too many")
    if row.stage:
        with pytest.raises(BackendError) as caught:
            send(api.client())
        failed = caught.value
        assert (failed.stage, failed.attempts) == (row.stage, row.attempts)
        assert failed.retry_after == row.rest
        assert str(failed).startswith(row.said)
    else:
        reply = send(api.client())
        assert (reply.text, reply.requests) == (row.said, row.attempts)
    assert (len(api.asked), api.waits) == (row.attempts, [*row.waits])


@pytest.mark.parametrize(("jitter", "waits"), [(0.75, [1.5, 3.0]), (1.25, [2.5, 5.0])])
def test_waits_have_a_jitter_of_a_quarter(api: Api, jitter: float, waits: list[float]) -> None:
    api.jitter, api.else_ = jitter, error(500)
    failure(api.client())
    assert api.waits == waits
    drawn = [HttpClient(api_settings(ANTHROPIC), ask_once).jitter() for _ in range(2000)]
    assert 0.75 <= min(drawn) < 0.8
    assert 1.2 < max(drawn) <= 1.25


@pytest.mark.parametrize(
    ("fields", "said"),
    first_fast(
        1,
        [
            ({"request_seconds": 0.2}, "the API did not answer in time"),
            ({"base_url": "http://127.0.0.1:9"}, "reflector could not connect to the API"),
        ],
    ),
)
@pytest.mark.slow
def test_hanging_or_missing_api_is_asked_three_times(
    api: Api, fields: dict[str, Any], said: str
) -> None:
    api.else_ = Behaviour(silent=True)
    failed = failure(api.client(**fields))
    assert (str(failed)[: len(said)], failed.stage, failed.attempts, len(api.waits)) == (
        said,
        "transport",
        3,
        2,
    )


@pytest.mark.slow
def test_the_deadline_ends_whatever_goes_on(api: Api) -> None:
    api.else_ = Behaviour(silent=True)
    failed = failure(api.client(deadline=0.3))
    # On a busy machine the deadline may come before the request.
    assert (failed.stage, failed.attempts) in [("transport", 0), ("transport", 1)]
    assert str(failed) == f"the API did not answer within 0.3 s (requests sent: {failed.attempts})"


def test_redirect_is_named_and_gets_nothing(api: Api) -> None:
    with serving() as other:
        address = f"{other.url.replace('://', '://someone:secret@')}/v1/messages?token=secret"
        api.else_ = Behaviour(307, b"", {"location": address})
        said = str(failure(api.client()))
        assert (
            f"HTTP 307: the API redirects to {other.url}, but reflector sent nothing to this "
            "address"
        ) in said
        assert "secret" not in said
        assert other.asked == []


def test_text_blocks_are_joined_and_others_left_out(api: Api) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    texts = [{"type": "text", "text": '{"analysis": '}, {"type": "something_new", "text": "no"}]
    texts += [{"type": "text", "text": '"a"}'}, {"type": "text"}, {"type": "text", "text": 7}]  # type: ignore[dict-item]
    api.does = [sound(content=[thought, *texts, 3, None]), sound(content=[thought])]
    assert [send(api.client()).text for _ in range(2)] == ['{"analysis": "a"}', ""]


@pytest.mark.parametrize("odd", [None, {}, ["x"], 1.5, -1, 10**7 + 1])
def test_odd_fields_beside_the_text_cost_no_answer(api: Api, odd: Any) -> None:
    usage = (
        odd
        if isinstance(odd, dict | None)
        else {"input_tokens": odd, "cache_read_input_tokens": odd}
    )
    api.does = [sound("text", usage=usage, model=odd, stop_reason=odd, id=odd, role=odd, type=odd)]
    assert send(api.client()) == Reply("text", MODEL, "", Usage())
