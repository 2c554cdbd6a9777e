"""One question to the Messages API: how often it is asked, what ends it, and what comes out."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from reflector.events.spent import Usage
from reflector.reflection.answers import parse_answer
from reflector.reflection.backends.anthropic.calling import CallFailed, Reply, ask
from reflector.reflection.backends.anthropic.settings import ModelSettings
from tests.reflection.api import (
    KEY,
    MODEL,
    TOO_LONG,
    Api,
    Behaviour,
    Hurried,
    answer,
    error,
    head_of,
    raw,
    serving,
    sound,
)

BLOCKS = [
    {"type": "text", "text": "before", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": "after"},
]
#: No patience is needed where nobody listens or everybody waits.
SHORT = {"request_seconds": 0.2}


def asked(settings: ModelSettings, hurried: Hurried) -> Reply:
    return asyncio.run(ask(settings, BLOCKS, hurried.pacing))


def failure(settings: ModelSettings, hurried: Hurried) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        asked(settings, hurried)
    return caught.value


def test_a_sound_answer_takes_one_request_and_tells_what_it_took(api: Api, hurried: Hurried) -> None:
    usage = {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
    api.does = [raw({**sound_message("hello"), "usage": usage}, **{"request-id": "req_1"})]
    reply = asked(api.settings(), hurried)
    assert (reply.text, reply.model, reply.stop_reason) == ("hello", MODEL, "end_turn")
    assert reply.usage == Usage(7, 5, 3, 2)
    assert (reply.attempts, reply.request_id, reply.structured) == (1, "req_1", True)
    assert reply.milliseconds >= 0
    assert hurried.waits == []


def sound_message(text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "message", "role": "assistant", "model": MODEL, "content": content, "stop_reason": "end_turn"}


def test_the_request_holds_the_model_the_blocks_and_the_answers_form(api: Api, hurried: Hurried) -> None:
    asked(api.settings(), hurried)
    (request,) = api.asked
    assert request.path == "/v1/messages"
    assert request.body["model"] == MODEL
    assert request.body["max_tokens"] == 4096
    assert request.body["messages"] == [{"role": "user", "content": BLOCKS}]
    schema = request.body["output_config"]["format"]["schema"]
    assert request.body["output_config"]["format"]["type"] == "json_schema"
    assert schema["required"] == ["analysis", "bullet_tags"]
    assert schema["properties"]["bullet_tags"]["items"]["required"] == ["name", "rationale", "tag"]
    assert set(request.body) == {"model", "max_tokens", "messages", "output_config"}


@pytest.mark.parametrize(
    ("model", "supports"),
    [
        ("claude-sonnet-5-5", True),
        ("claude-haiku-4-5-20251001", True),
        ("claude-opus-5", True),
        ("claude-sonnet-4", False),
        ("claude-3-9-sonnet", False),
        ("some-gateways-model", False),
    ],
)
def test_a_schema_is_sent_to_models_that_know_it(api: Api, hurried: Hurried, model: str, supports: bool) -> None:
    reply = asked(api.settings(model=model), hurried)
    assert ("output_config" in api.asked[0].body) == supports == reply.structured


@pytest.mark.parametrize("bearer", [False, True], ids=["an API key", "a token"])
def test_ours_is_the_only_credential_that_is_sent(
    api: Api, hurried: Hurried, monkeypatch: pytest.MonkeyPatch, bearer: bool
) -> None:
    # What the SDK finds in the environment by itself is not for it to use.
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    asked(api.settings(bearer=bearer), hurried)
    headers = api.asked[0].headers
    sent = {name: headers[name] for name in ("authorization", "x-api-key") if name in headers}
    # An API key goes by x-api-key in some versions of the SDK, and as a bearer token in later ones.
    as_token = {"authorization": f"Bearer {KEY}"}
    assert sent in ([as_token] if bearer else [as_token, {"x-api-key": KEY}])
    assert "another" not in str(headers)


@pytest.mark.parametrize(
    ("key", "told"), [(None, "set ANTHROPIC_API_KEY"), ("sk-ant\nxyz", "such as a line break"), ("schlüssel", "set it")]
)
def test_without_a_usable_key_nobody_is_asked_and_it_is_not_shown(
    api: Api, hurried: Hurried, key: str | None, told: str
) -> None:
    failed = failure(api.settings(key=key), hurried)
    assert (failed.stage, failed.attempts) == ("access", 0)
    assert told in str(failed)
    assert "xyz" not in str(failed)
    assert "schl" not in str(failed)
    assert api.asked == []


def test_an_empty_address_in_the_environment_is_none(hurried: Hurried, monkeypatch: pytest.MonkeyPatch) -> None:
    from reflector.reflection.backends.anthropic.settings import model_settings

    monkeypatch.setenv("ANTHROPIC_BASE_URL", "  ")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    found = []

    class Client:
        def __init__(self, **options: Any) -> None:
            found.append(options["base_url"])
            raise RuntimeError("seen")

    monkeypatch.setattr("anthropic.AsyncAnthropic", Client)
    failure(model_settings(), hurried)
    assert found == ["https://api.anthropic.com"]


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529, 429])
def test_what_may_pass_is_tried_three_times_with_two_waits(api: Api, hurried: Hurried, status: int) -> None:
    api.else_ = error(status, "overloaded_error", "try later")
    failed = failure(api.settings(), hurried)
    assert (failed.stage, failed.attempts, failed.too_long) == ("transport", 3, False)
    assert str(failed) == f"HTTP {status} overloaded_error: try later"
    assert len(api.asked) == 3
    assert hurried.waits == [2.0, 4.0]


@pytest.mark.parametrize(("jitter", "waits"), [(0.75, [1.5, 3.0]), (1.25, [2.5, 5.0])])
def test_waits_have_a_jitter_of_a_quarter(api: Api, jitter: float, waits: list[float]) -> None:
    hurried = Hurried(jitter)
    api.else_ = error(500)
    failure(api.settings(), hurried)
    assert hurried.waits == waits


def test_our_own_jitter_stays_within_a_quarter() -> None:
    from reflector.reflection.backends.anthropic.calling import Pacing

    drawn = [Pacing().jitter() for _ in range(2000)]
    assert 0.75 <= min(drawn) < 0.8
    assert 1.2 < max(drawn) <= 1.25


@pytest.mark.parametrize("before", [1, 2])
def test_an_api_that_recovers_is_heard(api: Api, hurried: Hurried, before: int) -> None:
    api.does = [error(529)] * before
    reply = asked(api.settings(), hurried)
    assert (reply.attempts, len(api.asked), len(hurried.waits)) == (before + 1, before + 1, before)


@pytest.mark.parametrize(
    ("status", "type_", "stage", "told"),
    [
        (400, "invalid_request_error", "request", "HTTP 400 invalid_request_error: it went wrong"),
        (401, "authentication_error", "access", "check the API key"),
        (402, "billing_error", "access", "check the account"),
        (403, "permission_error", "access", "may not use this model"),
        (404, "not_found_error", "access", "check the model's name"),
        (408, "timeout_error", "transport", "HTTP 408"),
        (409, "conflict_error", "request", "HTTP 409"),
        (413, "request_too_large", "request", "HTTP 413"),
        (422, "invalid_request_error", "request", "HTTP 422"),
    ],
)
def test_what_would_fail_again_is_asked_once(
    api: Api, hurried: Hurried, status: int, type_: str, stage: str, told: str
) -> None:
    api.else_ = error(status, type_)
    failed = failure(api.settings(), hurried)
    assert (failed.stage, failed.attempts, failed.too_long) == (stage, 1, status == 413)
    assert told in str(failed)
    assert (len(api.asked), hurried.waits) == (1, [])


def test_a_question_that_is_too_long_is_known_by_its_words(api: Api, hurried: Hurried) -> None:
    api.else_ = TOO_LONG
    assert failure(api.settings(), hurried).too_long
    assert len(api.asked) == 1


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({"retry-after": "7"}, [7.0, 7.0]),
        ({"retry-after": "0.5"}, [2.0, 4.0]),
        ({"retry-after-ms": "9500"}, [9.5, 9.5]),
        ({"retry-after-ms": "soon", "retry-after": "7"}, [7.0, 7.0]),
        ({"retry-after": "-5"}, [2.0, 4.0]),
        ({"retry-after": "nan"}, [2.0, 4.0]),
        ({"retry-after": "soon"}, [2.0, 4.0]),
        ({"retry-after": ""}, [2.0, 4.0]),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, [2.0, 4.0]),
        # Beyond the deadline nobody waits: a later drain asks.
        ({"retry-after": "20"}, []),
        ({"retry-after": "3600"}, []),
        ({"retry-after": "inf"}, []),
        ({"retry-after": "Fri, 31 Dec 2999 23:59:59 GMT"}, []),
    ],
)
def test_an_api_that_says_when_to_come_again_is_heeded(
    api: Api, hurried: Hurried, headers: dict[str, str], waits: list[float]
) -> None:
    api.else_ = error(429, "rate_limit_error", **headers)
    failed = failure(api.settings(deadline=18.0), hurried)
    assert hurried.waits == waits
    assert failed.attempts == len(api.asked) == len(waits) + 1


def test_the_time_to_come_again_may_be_a_date(api: Api, hurried: Hurried) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    api.else_ = error(429, "rate_limit_error", **{"retry-after": at})
    failure(api.settings(deadline=3_000.0), hurried)
    assert len(hurried.waits) == 2
    assert all(300 < wait <= 600 for wait in hurried.waits)


def test_a_slow_answer_is_waited_for(api: Api, hurried: Hurried) -> None:
    api.does = [Behaviour(body=sound("late").body, headers=sound().headers, delay=0.3)]
    reply = asked(api.settings(), hurried)
    assert (reply.text, reply.attempts) == ("late", 1)
    assert reply.milliseconds >= 300


def test_an_api_that_hangs_is_asked_three_times(api: Api, hurried: Hurried) -> None:
    api.else_ = Behaviour(silent=True)
    failed = failure(api.settings(**SHORT), hurried)
    assert (str(failed), failed.stage, failed.attempts) == ("the API did not answer in time", "transport", 3)
    assert len(hurried.waits) == 2


def test_the_deadline_ends_whatever_goes_on(api: Api, hurried: Hurried) -> None:
    api.else_ = Behaviour(silent=True)
    failed = failure(api.settings(deadline=0.3), hurried)
    # On a busy machine the deadline may come before the request.
    assert (failed.stage, failed.attempts) in [("transport", 0), ("transport", 1)]
    assert str(failed) == f"no answer within 0.3 s (requests: {failed.attempts})"


def test_a_wait_that_would_end_behind_the_deadline_is_not_begun(api: Api) -> None:
    api.else_ = error(500)
    patient = Hurried(jitter=60.0)
    failed = failure(api.settings(deadline=60.0), patient)
    assert (failed.attempts, patient.waits) == (1, [])


@pytest.mark.parametrize("cut", [0, 1, 40, 200])
def test_a_connection_that_ends_inside_the_answer_is_tried_again(api: Api, hurried: Hurried, cut: int) -> None:
    whole = sound("whole")
    api.does, api.else_ = [Behaviour(body=whole.body, headers=whole.headers, cut=cut)] * 2, whole
    reply = asked(api.settings(), hurried)
    assert (reply.text, reply.attempts, hurried.waits) == ("whole", 3, [2.0, 4.0])


@contextmanager
def resetting(times: int) -> Iterator[str]:
    """The address of a server that resets so many connections in the middle of its answer, then answers."""

    def serve(listener: socket.socket) -> None:
        for number in range(times + 1):
            connection, _ = listener.accept()
            with connection:
                while b"after" not in connection.recv(65536):
                    pass
                whole = sound("whole")
                connection.sendall(head_of(whole) + whole.body[:40])
                if number == times:
                    connection.sendall(whole.body[40:])
                    connection.recv(1)
                    continue
                time.sleep(0.05)  # or the reset overtakes what was sent
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def test_a_connection_that_is_reset_inside_the_answer_is_tried_again(hurried: Hurried) -> None:
    with resetting(2) as url:
        reply = asked(ModelSettings(MODEL, KEY, bearer=False, base_url=url), hurried)
    assert (reply.text, reply.attempts, hurried.waits) == ("whole", 3, [2.0, 4.0])


def test_an_api_that_always_breaks_off_is_a_failure_in_words(api: Api, hurried: Hurried) -> None:
    api.else_ = Behaviour(body=sound().body, cut=20)
    failed = failure(api.settings(), hurried)
    assert (failed.stage, failed.attempts, len(api.asked)) == ("transport", 3, 3)
    assert str(failed).startswith("no connection to the API (")


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


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "500 Oh"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_an_answer_without_an_end_is_not_read_to_the_deadline(hurried: Hurried, status: str, encoding: str) -> None:
    # A member of a gzip file may follow another.
    part = b" " * 65536 if encoding == "identity" else zlib.compress(b" " * (1 << 22), wbits=31)
    with endless(f"HTTP/1.1 {status}\r\ncontent-encoding: {encoding}\r\n\r\n".encode(), part) as url:
        failed = failure(ModelSettings(MODEL, KEY, bearer=False, base_url=url), hurried)
    assert (failed.stage, failed.attempts) == ("answer", 1)
    assert str(failed) == "the API's answer is longer than 1,048,576 bytes"


def test_nobody_who_listens_is_a_failure_in_words(hurried: Hurried) -> None:
    settings = ModelSettings(MODEL, KEY, bearer=False, base_url="http://127.0.0.1:9")
    failed = failure(settings, hurried)
    assert (failed.stage, failed.attempts, len(hurried.waits)) == ("transport", 3, 2)
    assert "no connection to the API" in str(failed)


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(body=b"<html>gateway</html>", headers={"content-type": "application/json"}),
        Behaviour(body=b"<html>gateway</html>", headers={"content-type": "text/html"}),
        Behaviour(body=b"\xff\xfe{", headers={"content-type": "application/json"}),
        Behaviour(body=b"", headers={"content-type": "application/json"}),
        Behaviour(body=b'{"content": [', headers={"content-type": "application/json"}),
        raw([]),
        raw("text"),
        raw(None),
        raw(7),
        raw({}),
        raw({"content": None}),
        raw({"content": "text"}),
        raw({"type": "error", "error": {"type": "api_error", "message": "in a 200"}}),
    ],
    ids=lambda behaviour: behaviour.body[:24].decode("latin-1"),
)
def test_an_answer_that_is_no_message_is_a_failure_and_not_asked_for_again(
    api: Api, hurried: Hurried, behaviour: Behaviour
) -> None:
    api.else_ = behaviour
    failed = failure(api.settings(), hurried)
    assert (failed.stage, failed.attempts, len(api.asked)) == ("answer", 1, 1)
    assert str(failed).startswith(("the API's answer is not a message", "the API's answer is not JSON"))


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>Bad gateway</html>", b"[]", b'{"error": 7}', b'{"error": {"message": ["x"], "type": 7}}', b"{"],
)
@pytest.mark.parametrize("status", [400, 500])
def test_an_error_in_any_form_is_a_failure_in_words(api: Api, hurried: Hurried, status: int, body: bytes) -> None:
    api.else_ = Behaviour(status, body, {"content-type": "application/json"})
    failed = failure(api.settings(), hurried)
    assert str(failed).startswith(f"HTTP {status}")
    assert failed.attempts == (3 if status == 500 else 1)


def test_text_blocks_are_joined_and_others_left_out(api: Api, hurried: Hurried) -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": '{"analysis": '},
        {"type": "something_new", "text": "no"},
        {"type": "text", "text": '"a"}'},
        {"type": "text"},
        {"type": "text", "text": 7},
        3,
        None,
    ]
    api.does = [sound(content=content)]
    assert asked(api.settings(), hurried).text == '{"analysis": "a"}'


@pytest.mark.parametrize("content", [[], [{"type": "thinking", "thinking": "hm", "signature": "s"}]])
def test_an_answer_without_text_is_an_empty_one(api: Api, hurried: Hurried, content: list[Any]) -> None:
    api.does = [sound(content=content)]
    assert asked(api.settings(), hurried).text == ""


@pytest.mark.parametrize("stop_reason", ["refusal", "max_tokens", "model_context_window_exceeded", "a_new_one"])
def test_why_an_answer_ends_is_told(api: Api, hurried: Hurried, stop_reason: str) -> None:
    api.does = [sound(answer(("pat-001", "helpful"))[:-30], stop_reason=stop_reason)]
    reply = asked(api.settings(), hurried)
    assert (reply.stop_reason, reply.attempts) == (stop_reason, 1)


def test_complete_tags_of_an_answer_that_was_cut_off_are_there(api: Api, hurried: Hurried) -> None:
    text = answer(("pat-001", "helpful"), ("pat-002", "harmful"), ("mis-001", "neutral"))
    api.does = [sound(text[:-20], stop_reason="max_tokens")]
    parsed = parse_answer(asked(api.settings(), hurried).text)
    usable = [(tag.name, tag.tag) for tag in parsed.tags if tag.malformed is None]
    assert usable[:2] == [("pat-001", "helpful"), ("pat-002", "harmful")]


def test_a_paused_turn_is_continued_and_what_both_took_is_added_up(api: Api, hurried: Hurried) -> None:
    api.does = [sound('{"analysis": ', stop_reason="pause_turn"), sound('"a"}')]
    reply = asked(api.settings(), hurried)
    assert (reply.text, reply.stop_reason, reply.attempts) == ('{"analysis": "a"}', "end_turn", 2)
    assert reply.usage == Usage(2400, 160)
    first, second = (request.body["messages"] for request in api.asked)
    assert second[:-1] == first
    assert (second[-1]["role"], second[-1]["content"][0]["text"]) == ("assistant", '{"analysis": ')


def test_a_turn_that_is_always_paused_ends_with_what_there_is(api: Api, hurried: Hurried) -> None:
    api.else_ = sound("x", stop_reason="pause_turn")
    reply = asked(api.settings(), hurried)
    assert (reply.text, reply.stop_reason, reply.attempts, len(api.asked)) == ("xxx", "pause_turn", 3, 3)


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    "said",
    [
        "output_config: Extra inputs are not permitted",
        "json_schema is not supported by this model",
        "Unknown parameter",
        "Unrecognized request argument supplied",
        "additional properties are not allowed",
    ],
)
def test_a_schema_that_is_not_taken_is_left_out(api: Api, hurried: Hurried, said: str, status: int) -> None:
    api.does = [error(status, "invalid_request_error", said)]
    reply = asked(api.settings(), hurried)
    assert (reply.attempts, reply.structured, hurried.waits) == (2, False, [])
    assert ["output_config" in request.body for request in api.asked] == [True, False]


def schemas_sent(api: Api) -> list[bool]:
    return ["output_config" in request.body for request in api.asked]


def test_an_api_that_takes_no_schema_is_remembered_by_every_process_for_a_month(
    api: Api, hurried: Hurried, tmp_path: Path
) -> None:
    api.does = [error(400, "invalid_request_error", "Unknown parameter")]
    asked(api.settings(), hurried)
    asked(api.settings(), hurried)
    assert schemas_sent(api) == [True, False, False]
    # Another model behind the same address may know schemas.
    asked(api.settings(model="claude-opus-5-5"), hurried)
    assert schemas_sent(api)[3:] == [True]
    (mark,) = (tmp_path / "home" / ".local" / "state" / "reflector" / "without-schema").iterdir()
    assert (mark.stat().st_mode & 0o777, mark.read_bytes()) == (0o600, b"")
    os.utime(mark, (0, 0))
    asked(api.settings(), hurried)
    assert schemas_sent(api)[4:] == [True]


def test_a_refusal_that_was_none_of_the_schema_is_not_remembered(api: Api, hurried: Hurried) -> None:
    api.else_ = error(400, "invalid_request_error", "Unknown parameter")
    failure(api.settings(), hurried)
    api.else_ = sound()
    asked(api.settings(), hurried)
    assert schemas_sent(api) == [True, False, True]


@pytest.mark.parametrize("in_the_way", [True, False], ids=["a file in the way", "no home"])
def test_an_api_without_schemas_answers_also_where_nothing_can_be_remembered(
    api: Api, hurried: Hurried, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_the_way: bool
) -> None:
    if in_the_way:
        (tmp_path / "home").touch()
    else:
        monkeypatch.delenv("HOME")
    api.does = [error(400, "invalid_request_error", "Unknown parameter")]
    assert asked(api.settings(), hurried).attempts == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_that_names_the_other_host_and_sends_it_nothing(
    api: Api, hurried: Hurried, status: int
) -> None:
    with serving() as other:
        address = f"{other.url.replace('://', '://someone:secret@')}/v1/messages?token=secret"
        api.else_ = Behaviour(status, b"", {"location": address})
        failed = failure(api.settings(), hurried)
        assert (failed.stage, failed.attempts, len(api.asked)) == ("access", 1, 1)
        assert f"HTTP {status}: the API redirects to {other.url}, and nothing was sent there" in str(failed)
        assert "secret" not in str(failed)
        assert other.asked == []


@pytest.mark.parametrize("location", ["/elsewhere", "", "//", "\x80"])
def test_a_redirect_to_anywhere_is_not_followed(api: Api, hurried: Hurried, location: str) -> None:
    api.else_ = Behaviour(307, b"", {"location": location} if location else {})
    failed = failure(api.settings(), hurried)
    assert (failed.stage, len(api.asked)) == ("access", 1)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "500"}, 500),
        ({"retry-after-ms": "500000"}, 500),
        ({"retry-after": "inf"}, 86_400),
        ({"retry-after": "-1"}, 0),
        ({}, 0),
    ],
)
def test_how_long_an_api_wants_to_be_left_alone_comes_with_the_failure(
    api: Api, hurried: Hurried, headers: dict[str, str], seconds: float
) -> None:
    api.else_ = error(529, "overloaded_error", **headers)
    assert failure(api.settings(), hurried).retry_after == seconds


def test_no_mixture_of_troubles_takes_more_than_three_requests(api: Api, hurried: Hurried) -> None:
    refused = error(400, "invalid_request_error", "output_config: Extra inputs are not permitted")
    for does in (
        [error(500), refused, error(500)],
        [refused, error(500), error(500)],
        [error(500), error(500), refused],
    ):
        api.reset()
        api.does = does
        assert failure(api.settings(), hurried).attempts == len(api.asked) == 3
    api.reset()
    api.does = [error(500), sound("a", stop_reason="pause_turn"), sound("b", stop_reason="pause_turn")]
    assert asked(api.settings(), hurried).text == "ab"
    assert len(api.asked) == 3


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        "many",
        {"input_tokens": None, "output_tokens": None, "cache_read_input_tokens": None},
        {"input_tokens": "7", "output_tokens": -1, "cache_read_input_tokens": -7},
        {"input_tokens": 1.5, "output_tokens": [1], "cache_creation_input_tokens": 10**30},
        {"input_tokens": 10**12, "output_tokens": 10**7 + 1},
    ],
)
def test_a_usage_in_any_form_costs_no_answer(api: Api, hurried: Hurried, usage: Any) -> None:
    api.does = [sound("text", usage=usage)]
    reply = asked(api.settings(), hurried)
    assert (reply.text, reply.usage) == ("text", Usage())


@pytest.mark.parametrize("odd", [None, 7, ["x"], {}, ""])
def test_a_model_and_a_stop_reason_in_any_form_cost_no_answer(api: Api, hurried: Hurried, odd: Any) -> None:
    api.does = [sound("text", model=odd, stop_reason=odd, id=odd, role=odd, type=odd)]
    reply = asked(api.settings(), hurried)
    assert (reply.text, reply.model, reply.stop_reason) == ("text", MODEL, "")


def test_a_key_that_a_gateway_repeats_is_taken_out(api: Api, hurried: Hurried) -> None:
    api.else_ = error(401, "authentication_error", f"incorrect key {KEY} given")
    assert "incorrect key [redacted:key] given" in str(failure(api.settings(), hurried))


@pytest.mark.parametrize(("key", "said"), [("any", "check [redacted:key] company"), ("k", "check any company")])
def test_a_short_key_is_taken_out_where_it_stands_alone(api: Api, hurried: Hurried, key: str, said: str) -> None:
    api.else_ = error(400, "invalid_request_error", "check any company")
    assert said in str(failure(api.settings(key=key), hurried))


def test_an_account_without_credit_is_no_fault_of_the_question(api: Api, hurried: Hurried) -> None:
    api.else_ = error(400, "invalid_request_error", "Your credit balance is too low to access the API.")
    assert failure(api.settings(), hurried).stage == "access"
