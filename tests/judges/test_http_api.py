"""An API that no SDK asks: `post`, the fields of an answer, and whose settings it gets."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reflector.config import Config, users_config
from reflector.judges.api import api_settings
from reflector.judges.model import ModelBackend
from reflector.judges.protocol import MAX_TOKENS, BackendError
from reflector.prices import Usage
from tests.judges import chat
from tests.judges.api import KEY, Api, Behaviour, error, raw

SAID = {
    "choices": [{"message": {"content": "{}"}, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 5},
}


@pytest.fixture
def judge(api: Api, monkeypatch: pytest.MonkeyPatch) -> ModelBackend:
    return api.judge(chat.JUDGE, chat.API, monkeypatch)


def test_question_after_a_failure_is_counted(api: Api, judge: ModelBackend) -> None:
    busy = error(429, "RESOURCE_EXHAUSTED", message="Check your plan and billing details.")
    api.does = [error(529), busy, raw(SAID)]
    assert judge.complete("Judge this.").meta["requests"] == 3


@pytest.mark.parametrize(
    ("behaviour", "stage", "said"),
    [
        (error(401, message=f"bad {KEY}"), "access", "HTTP 401 api_error: bad [redacted:key]; che"),
        (Behaviour(404, b"nothing here"), "access", "HTTP 404: nothing here; check the model's"),
        (
            error(429, "insufficient_quota", message="You exceeded your current quota."),
            "access",
            "HTTP 429 insufficient_quota: You exceeded your current quota.; check your account",
        ),
        (raw([]), "answer", "the API's answer does not contain a message: []"),
        (Behaviour(200, b"<html>"), "answer", "the API's answer is not JSON"),
    ],
)
def test_failure_of_another_api_has_its_words(
    api: Api, judge: ModelBackend, behaviour: Behaviour, stage: str, said: str
) -> None:
    api.else_ = behaviour
    with pytest.raises(BackendError) as caught:
        judge.complete("Judge this.")
    assert (caught.value.stage, caught.value.attempts) == (stage, 1)
    assert str(caught.value).startswith(said)


def test_missing_key_is_named_by_its_variable() -> None:
    judge = chat.JUDGE.build(Config(backend="chat"), None)
    assert isinstance(judge, ModelBackend)
    with pytest.raises(BackendError, match="the API key is missing: set CHAT_API_KEY"):
        judge.complete("Judge this.")


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
    found = api_settings(chat.API, users_config())
    given = (found.key, found.base_url, found.model)
    assert given == (("k", "http://x", "big") if own else ("", "", "small"))


def test_judge_of_the_page_asks_its_server(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_API_KEY", KEY)
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text("utf-8")
    (block,) = (part for part in page.split("```python\n")[1:] if "HttpClient" in part)
    names: dict[str, Any] = {}
    exec(block.partition("```")[0].replace("http://127.0.0.1:11434/v1", api.url), names)
    api.does = [raw(SAID)]
    reply = asyncio.run(names["chat"]("", 60.0).send(("before", "after")))
    assert (reply.text, reply.usage) == ("{}", Usage(1_000_000, 5))
    assert reply.stop_reason == "max_tokens"
    body = api.asked[-1].body
    assert (body["messages"][0]["content"], body["max_tokens"]) == ("beforeafter", MAX_TOKENS)
