"""An API that no SDK asks: `post`, the fields of an answer, and whose settings it gets."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from reflector.config import Config, users_config
from reflector.judges.api import Api, ApiSettings, api_settings
from reflector.judges.api_judge import api_judge
from reflector.judges.fields import text_at, usage_in
from reflector.judges.http_api import post
from reflector.judges.model import ModelBackend, Reply
from reflector.judges.protocol import BackendError
from reflector.prices import Price, Usage
from tests.judges.api import KEY, Api as StandIn, Behaviour, error, raw

CHAT = Api(
    name="chat",
    title="a server with chat completions",
    maker="Example",
    url="https://chat.example/v1",
    model="small",
    keys=("CHAT_API_KEY",),
    urls=("CHAT_BASE_URL",),
)
SAID = {
    "model": "small-2",
    "choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 1_000_000,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 400_000},
    },
}
_COUNTS = ("prompt_tokens", "completion_tokens", "prompt_tokens_details.cached_tokens")


async def _ask(settings: ApiSettings, texts: Sequence[str], http: httpx2.AsyncClient) -> Reply:
    answer = await post(
        http,
        f"{settings.url}/chat/completions",
        {"Authorization": f"Bearer {settings.key}"},
        {"model": settings.model, "messages": [{"role": "user", "content": "".join(texts)}]},
    )
    return Reply(
        text_at(answer, "choices", 0, "message", "content"),
        text_at(answer, "model") or settings.model,
        text_at(answer, "choices", 0, "finish_reason"),
        usage_in(answer.get("usage"), *_COUNTS, cached_in_input=True),
    )


JUDGE = api_judge(CHAT, _ask, (Price("small-2", "1", "2", read="0.5"),))


@pytest.fixture
def asked(api: StandIn, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The stand-in as the server of the judge."""
    monkeypatch.setenv("CHAT_API_KEY", KEY)
    monkeypatch.setenv("CHAT_BASE_URL", api.url)
    monkeypatch.setattr("reflector.judges.http_api.HttpClient", api.hurried)
    return api


def backend() -> ModelBackend:
    judge = JUDGE.build(Config(backend="chat"), None)
    assert isinstance(judge, ModelBackend)
    return judge


def test_answer_of_another_api_has_tokens_and_price(asked: StandIn) -> None:
    asked.does = [error(529), raw(SAID)]
    given = backend().complete("Judge this.")
    assert (given.text, given.model) == ("{}", "small-2")
    tokens = Usage(600_000, 5, 400_000).meta()
    assert given.meta.items() >= (tokens | {"requests": 2, "cost_usd": "0.800010"}).items()
    request = asked.asked[-1]
    assert (request.path, request.headers["authorization"]) == (
        "/chat/completions",
        f"Bearer {KEY}",
    )


@pytest.mark.parametrize(
    ("behaviour", "stage", "said"),
    [
        (error(401, message=f"bad {KEY}"), "access", "HTTP 401 api_error: bad [redacted:key]; che"),
        (Behaviour(404, b"nothing here"), "access", "HTTP 404: nothing here; check the model's"),
        (raw([]), "answer", "the API's answer is not a message: []"),
        (Behaviour(200, b"<html>"), "answer", "the API's answer is not JSON"),
    ],
)
def test_failure_of_another_api_has_its_words(
    asked: StandIn, behaviour: Behaviour, stage: str, said: str
) -> None:
    asked.else_ = behaviour
    with pytest.raises(BackendError) as caught:
        backend().complete("Judge this.")
    assert (caught.value.stage, caught.value.attempts) == (stage, 1)
    assert str(caught.value).startswith(said)


def test_missing_key_is_named_by_its_variable(
    asked: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHAT_API_KEY")
    with pytest.raises(BackendError, match="the API key is missing: set CHAT_API_KEY"):
        backend().complete("Judge this.")
    assert asked.asked == []


@pytest.mark.parametrize(("judge", "own"), [("rules", False), ("anthropic", False), ("chat", True)])
def test_settings_reach_only_the_api_they_are_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: str, own: bool
) -> None:
    monkeypatch.setattr("reflector.config.BACKENDS", ("anthropic", "chat", "rules"))
    monkeypatch.setattr("reflector.judges.api.APIS", ("anthropic", "chat"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings = {"backend": judge, "api_key": "k", "base_url": "http://x", "model": "big"}
    file = tmp_path / "reflector" / "config.toml"
    file.parent.mkdir()
    file.write_text("".join(f'{name} = "{value}"\n' for name, value in settings.items()))
    found = api_settings(CHAT, users_config())
    given = (found.key, found.base_url, found.model)
    assert given == (("k", "http://x", "big") if own else ("", "", "small"))


def test_judge_of_the_page_asks_its_server(asked: StandIn) -> None:
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text("utf-8")
    (block,) = (part for part in page.split("```python\n")[1:] if "HttpClient" in part)
    names: dict[str, Any] = {}
    exec(block.partition("```")[0].replace("http://127.0.0.1:11434/v1", asked.url), names)
    asked.does = [raw(SAID)]
    reply = asyncio.run(names["chat"]("", 60.0).send(("before", "after")))
    assert (reply.text, reply.usage) == ("{}", Usage(1_000_000, 5))
    assert asked.asked[-1].body["messages"][0]["content"] == "beforeafter"
