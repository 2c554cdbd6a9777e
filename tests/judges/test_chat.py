"""The judge `chat`: the question that it sends, and the parts of an answer that it reads."""

from typing import Any

import pytest

from reflector.judges.model import ModelBackend
from reflector.judges.protocol import MAX_TOKENS
from reflector.prices import Usage
from tests.judges.api import KEY, Api, raw
from tests.judges.chat import API, JUDGE


@pytest.fixture
def judge(api: Api, monkeypatch: pytest.MonkeyPatch) -> ModelBackend:
    """The judge, with the stand-in as its server."""
    return api.judge(JUDGE, API, monkeypatch)


def said(end: str = "stop") -> dict[str, Any]:
    return {
        "model": "small-2",
        "choices": [{"message": {"content": "{}"}, "finish_reason": end}],
        "usage": {
            "prompt_tokens": 1_000_000,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 400_000, "cache_write_tokens": 200_000},
        },
    }


def test_question_has_model_key_and_limit(api: Api, judge: ModelBackend) -> None:
    api.does = [raw(said())]
    judge.complete("Judge this.")
    (request,) = api.asked
    assert request.path == "/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "small",
        "messages": [{"role": "user", "content": "Judge this."}],
        "max_tokens": MAX_TOKENS,
    }


def test_answer_has_tokens_and_price(api: Api, judge: ModelBackend) -> None:
    api.does = [raw(said())]
    given = judge.complete("Judge this.")
    assert (given.text, given.model) == ("{}", "small-2")
    tokens = Usage(400_000, 5, 400_000, 200_000).meta()
    assert given.meta.items() >= (tokens | {"cost_usd": "0.850010"}).items()


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("error", "error"),
    ],
)
def test_end_has_the_words_of_a_reply(api: Api, judge: ModelBackend, end: str, reason: str) -> None:
    api.does = [raw(said(end))]
    assert judge.complete("Judge this.").meta["stop_reason"] == reason
