"""`run_reflector`, requirements A-11 to A-20: what it asks, what it returns, and that it never raises."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reflector import format_playbook, run_reflector
from reflector.reflection.ace import _result
from reflector.reflection.answers import parse_answer
from reflector.reflection.backends.clients.anthropic import AnthropicClient
from reflector.reflection.backends.clients.settings import DEFAULT_MODEL, model_settings
from tests.conftest import examples
from tests.reflection.api import KEY, Api, Asked, Behaviour, Hurried, error, raw, sound
from tests.reflection.test_classic import entry, playbook

EMPTY = {"analysis": "", "bullet_tags": []}
MESSAGES = [
    {"role": "user", "content": "Help me refactor this code"},
    {"role": "assistant", "content": "Based on [pat-001] and [mis-002], I {recommend}..."},
]
BOOK = playbook(pat=[entry("pat-001", 3, 1, "Use {types}.")], mis=[entry("mis-001", text="No mocks.")])
THREE = {
    "analysis": "Types helped; the mock hid a bug.",
    "bullet_tags": [
        {"name": "pat-001", "tag": "helpful", "rationale": "It found the bug."},
        {"name": "mis-001", "tag": "harmful", "rationale": "It hid the bug."},
        {"name": "pref-001", "tag": "neutral", "rationale": "Nothing depends on it."},
    ],
}


@pytest.fixture
def asks(api: Api, hurried: Hurried, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Api:
    """The API as the environment names it; waits are noted down in `hurried`."""
    for name, value in api.environ().items():
        monkeypatch.setenv(name, value)
    client = partial(AnthropicClient, pacing=hurried.pacing)
    monkeypatch.setattr("reflector.reflection.backends.clients.anthropic.AnthropicClient", client)
    monkeypatch.chdir(tmp_path)
    return api


def reflect(messages: Any = MESSAGES, book: Any = BOOK, cited: Any = ("pat-001",)) -> dict[str, Any]:
    return asyncio.run(run_reflector(messages, book, list(cited) if isinstance(cited, tuple) else cited))


def test_three_tags_come_back_with_their_rationales_as_the_model_gave_them(asks: Api) -> None:
    asks.does = [sound(json.dumps(THREE))]
    assert reflect() == THREE


def test_transcript_playbook_and_cited_ids_go_in_one_user_message(asks: Api) -> None:
    before = copy.deepcopy((MESSAGES, BOOK))
    reflect(cited=("pat-001", "mis-002"))
    (asked,) = asks.asked
    text = asked.text
    assert len(asked.body["messages"]) == 1
    assert asked.body["max_tokens"] == 4096
    sections = format_playbook(BOOK, "{key_points}")
    assert sections in text
    assert '["pat-001", "mis-002"]' in text
    for message in MESSAGES:
        assert json.dumps(message["content"]) in text
    assert before == (MESSAGES, BOOK)


def test_the_transcript_is_a_json_list_of_turns(asks: Api) -> None:
    reflect()
    text = asks.asked[0].text
    start = text.index("<session>\n") + len("<session>\n")
    turns = json.loads(text[start : text.index("\n</session>", start)])
    assert [(turn["role"], turn["content"]) for turn in turns] == [(m["role"], m["content"]) for m in MESSAGES]


def test_with_and_without_citations_the_same_form_is_asked_for(asks: Api) -> None:
    reflect(cited=("pat-001",))
    reflect(cited=())
    guided, content = (asked.text for asked in asks.asked)
    assert guided.replace('["pat-001"]', "[]") == content


def test_an_empty_playbook_has_an_analysis_and_no_tags(asks: Api) -> None:
    asks.else_ = sound('{"analysis": "Nothing to judge.", "bullet_tags": []}')
    for book in (playbook(), {}):
        assert reflect(book=book, cited=()) == {"analysis": "Nothing to judge.", "bullet_tags": []}
    assert len(asks.asked) == 2


@pytest.mark.parametrize(
    ("given", "model"),
    [
        ({}, DEFAULT_MODEL),
        ({"ANTHROPIC_DEFAULT_SONNET_MODEL": "c"}, "c"),
        ({"ANTHROPIC_DEFAULT_SONNET_MODEL": "c", "ANTHROPIC_MODEL": "b"}, "b"),
        ({"ANTHROPIC_DEFAULT_SONNET_MODEL": "c", "ANTHROPIC_MODEL": "b", "AGENTIC_CONTEXT_MODEL": "a"}, "a"),
        ({"ANTHROPIC_DEFAULT_SONNET_MODEL": "c", "ANTHROPIC_MODEL": " ", "AGENTIC_CONTEXT_MODEL": ""}, "c"),
    ],
)
def test_the_nearest_variable_names_the_model(
    asks: Api, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], model: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    reflect()
    assert asks.asked[0].body["model"] == model


def test_the_nearest_variable_has_the_key_and_the_address() -> None:
    found = []
    environ = {}
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AGENTIC_CONTEXT_API_KEY"):
        environ[name] = f"of {name}"
        one = model_settings(environ=environ)
        found.append((one.key, one.bearer))
    assert found == [
        ("of ANTHROPIC_API_KEY", False),
        ("of ANTHROPIC_AUTH_TOKEN", True),
        ("of AGENTIC_CONTEXT_API_KEY", False),
    ]
    assert model_settings(environ={"ANTHROPIC_BASE_URL": "b"}).base_url == "b"
    assert model_settings(environ={"ANTHROPIC_BASE_URL": "b", "AGENTIC_CONTEXT_BASE_URL": "a"}).base_url == "a"
    assert model_settings(environ={}).base_url is None


def test_a_request_has_thirty_seconds_and_all_of_them_fit_the_hooks_two_minutes() -> None:
    one = model_settings(environ={})
    assert one.request_seconds == 30.0
    assert 97.5 <= one.deadline <= 120


def test_without_a_key_the_result_is_empty_and_nobody_is_asked(asks: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert reflect() == EMPTY
    assert asks.asked == []


def test_without_the_sdk_the_result_is_empty(asks: Api) -> None:
    code = (
        "import sys, asyncio; sys.modules['anthropic'] = None; from reflector import run_reflector;"
        "print(asyncio.run(run_reflector([], {}, [])))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert ran.stdout == f"{EMPTY}\n"
    assert asks.asked == []


def test_a_model_that_hangs_is_an_empty_result(asks: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asks.else_ = Behaviour(silent=True)
    monkeypatch.setattr(
        "reflector.reflection.backends.clients.settings.model_settings",
        lambda: asks.client(Hurried(), request_seconds=0.1, deadline=1.0).settings,
    )
    assert reflect() == EMPTY


def test_who_waits_for_it_may_stop_waiting(asks: Api) -> None:
    asks.else_ = Behaviour(silent=True)

    async def impatient() -> None:
        await asyncio.wait_for(run_reflector(MESSAGES, BOOK, []), 0.3)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("This is not JSON at all, just text.", EMPTY),
        ("", EMPTY),
        ("[1, 2]", EMPTY),
        ('"hi"', EMPTY),
        ("42", EMPTY),
        ("null", EMPTY),
        ('{"analysis": NaN}', EMPTY),
        ("{}", EMPTY),
        ('{"analysis": "only analysis"}', {"analysis": "only analysis", "bullet_tags": []}),
        ('{"bullet_tags": []}', EMPTY),
        (
            '{"bullet_tags": [{"name": "pat-999", "tag": "great"}]}',
            {"analysis": "", "bullet_tags": [{"name": "pat-999", "tag": "great"}]},
        ),
        (f"Here it is:\n```json\n{json.dumps(THREE)}\n```\nDone.", THREE),
        (f"Sure. {json.dumps(THREE)} That is all.", THREE),
        (
            '{"analysis": "a", "bullet_tags": [{"name": "pat-001", "tag": "helpful", "rationale": "r"}, {"name": "pa',
            {"analysis": "a", "bullet_tags": [{"name": "pat-001", "tag": "helpful", "rationale": "r"}]},
        ),
        ('{"analysis": null, "bullet_tags": null}', EMPTY),
        ('{"analysis": ["x"], "bullet_tags": "none"}', EMPTY),
        ('{"analysis": "a", "bullet_tags": ["pat-001", 7, null]}', {"analysis": "a", "bullet_tags": []}),
    ],
)
def test_missing_keys_are_filled_and_what_is_no_object_is_an_empty_result(
    asks: Api, text: str, result: dict[str, Any]
) -> None:
    asks.does = [sound(text)]
    assert reflect() == result


DRAFT = json.dumps({"analysis": "a draft", "bullet_tags": [{"name": "pat-001", "tag": "harmful"}]})
TAGS = [{"name": "pat-001", "tag": "great", "weight": 1}]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (f"<think>{DRAFT}</think>{json.dumps(THREE)}", THREE),
        (f'{{"analysis": "a", "bullet_tags": {json.dumps(TAGS)}}}', {"analysis": "a", "bullet_tags": TAGS}),
        (json.dumps({"result": THREE}), THREE),
    ],
    ids=["thought before", "more keys", "wrapped"],
)
def test_an_answer_is_found_where_the_ledgers_runner_finds_it(asks: Api, text: str, result: dict[str, Any]) -> None:
    asks.does = [sound(text)]
    assert reflect() == result
    said = [(tag["name"], tag["tag"]) for tag in result["bullet_tags"]]
    read = [(tag.name, tag.tag) for tag in parse_answer(text).tags]
    assert read == [(name, tag if tag in ("helpful", "harmful", "neutral") else "unknown") for name, tag in said]


def test_what_neither_a_person_nor_the_model_said_is_not_shown_as_a_persons_words(asks: Api) -> None:
    reflect(messages=[{"role": "system", "content": "Be brief."}, *MESSAGES])
    text = asks.asked[0].text
    start = text.index("<session>\n") + len("<session>\n")
    system, user, _ = json.loads(text[start : text.index("\n</session>", start)])
    assert (system["content"], system["origin"]) == ("Be brief.", "injected")
    assert "origin" not in user


# Diagnostics


def diagnostics(folder: Path) -> list[Path]:
    return sorted((folder / ".claude" / "diagnostic").glob("*"))


def test_diagnostic_mode_keeps_what_was_asked_and_answered_without_secrets(asks: Api, tmp_path: Path) -> None:
    secret = "ghp_" + "Ab3" * 12
    (tmp_path / ".claude").mkdir()
    reflect()
    assert diagnostics(tmp_path) == []
    (tmp_path / ".claude" / "diagnostic_mode").touch()
    asks.does = [sound(json.dumps(THREE | {"analysis": f"the token {secret}"}))]
    reflect(messages=[{"role": "user", "content": f"my token is {secret}"}])
    (path,) = diagnostics(tmp_path)
    text = path.read_text()
    assert path.name.endswith("_reflector.txt")
    assert "Use {types}." in text
    assert "It hid the bug." in text
    assert secret not in text


def test_diagnostic_mode_keeps_what_went_wrong(
    asks: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    project = tmp_path / "p"
    (project / ".claude").mkdir(parents=True)
    (project / ".claude" / "diagnostic_mode").touch()
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project))
    asks.else_ = error(401, "authentication_error", f"wrong key {KEY}")
    assert reflect() == EMPTY
    (path,) = diagnostics(project)
    assert path.name.endswith("_reflector_error.txt")
    assert "HTTP 401 authentication_error: wrong key" in path.read_text()
    assert "HTTP 401" in caplog.text
    assert KEY not in path.read_text() + caplog.text


@pytest.mark.parametrize("in_the_way", ["a file", "a folder that is gone"])
def test_diagnostics_that_cannot_be_written_cost_nothing(
    asks: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_the_way: str
) -> None:
    folder = tmp_path / "gone"
    (folder / ".claude").mkdir(parents=True)
    (folder / ".claude" / "diagnostic_mode").touch()
    (folder / ".claude" / "diagnostic").touch()
    monkeypatch.chdir(folder)
    asks.else_ = error(500)
    if in_the_way != "a file":
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()
    assert reflect() == EMPTY


# It never raises.

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
entries = st.dictionaries(
    st.sampled_from(["name", "tag", "rationale", "more"]),
    st.sampled_from(["pat-001", "pat-999", "[pat-001]", "helpful", "neutral", "Helpful"]) | json_values,
)
objects = st.fixed_dictionaries(
    {}, optional={"analysis": json_values, "bullet_tags": st.lists(entries | json_values, max_size=5) | json_values}
)
answers = (
    st.builds(
        lambda before, value, cut, after: before + json.dumps(value)[: len(json.dumps(value)) - cut] + after,
        st.sampled_from(["", "Here it is: ", "```json\n", "{x} ", "<think>{</think>", "["]),
        objects | json_values,
        st.sampled_from([0, 0, 0, 1, 3, 9]),
        st.sampled_from(["", "\n```", " and so on", "}", ",", '"', "\\", "\ud800"]),
    )
    | st.text()
)


def assert_is_result(result: Any) -> None:
    assert set(result) == {"analysis", "bullet_tags"}
    assert isinstance(result["analysis"], str)
    assert isinstance(result["bullet_tags"], list)
    assert all(isinstance(tag, dict) for tag in result["bullet_tags"])
    json.dumps(result)


@settings(max_examples=examples(300))
@given(answers)
@example('{"bullet_tags": [{"name": 1e999}]}')
@example('{"bullet_tags": ' + "[" * 5000)
def test_no_answer_makes_it_raise(text: str) -> None:
    assert_is_result(_result(text))


fields = st.fixed_dictionaries(
    {},
    optional={
        "content": json_values
        | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": answers}), max_size=3),
        "stop_reason": st.sampled_from(["refusal", "max_tokens", "model_context_window_exceeded"]) | json_values,
        **dict.fromkeys(["usage", "model", "id", "type"], json_values),
    },
)
#: Whatever an API could do with a request, but for waiting.
behaviours = st.builds(
    lambda status, kind, rest, body, cut: Behaviour(status, body, {"content-type": kind, **rest}, cut=cut),
    st.sampled_from([200] * 8 + [201, 204, 299, 300, 304, 307, 400, 401, 404, 408, 413, 429, 500, 503, 529, 599]),
    st.sampled_from(["application/json", "text/html", ""]),
    st.sampled_from([{}, *({"retry-after": rest} for rest in ("0", "1e9", "-1", "x", "inf"))]),
    fields.map(lambda given: sound(**given).body)
    | json_values.map(lambda value: raw(value).body)
    | st.fixed_dictionaries({"error": json_values}).map(lambda given: raw(given).body)
    | st.binary(max_size=40),
    st.sampled_from([None, None, 0, 10]),
)
through_http = settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])


@through_http
@given(st.lists(behaviours, min_size=1, max_size=3))
def test_no_behaviour_of_the_api_makes_it_raise(asks: Api, does: list[Behaviour]) -> None:
    asks.reset()
    asks.does, asks.else_ = does[:-1], does[-1]
    assert_is_result(reflect())
    assert 1 <= len(asks.asked) <= 3


@settings(through_http, max_examples=15)
@given(
    st.lists(st.fixed_dictionaries({}, optional={"role": json_values, "content": json_values})) | json_values,
    st.fixed_dictionaries({}, optional={"sections": json_values}) | json_values,
    st.lists(json_values) | json_values,
)
def test_no_argument_makes_it_raise(asks: Api, messages: Any, book: Any, cited: Any) -> None:
    asks.reset()
    assert_is_result(reflect(messages, book, cited))


def test_odd_messages_and_bullets_cost_the_sound_ones_nothing(asks: Api) -> None:
    messages = [None, "x", {"role": "assistant"}, {"content": ["x"]}, *MESSAGES]
    book = playbook(pat=[*BOOK["sections"]["PATTERNS & APPROACHES"], None, {"name": 7}])  # type: ignore[list-item]
    assert reflect(messages, book, ["pat-001", None, 7])["bullet_tags"] != []
    asked: Asked = asks.asked[0]
    assert "I {recommend}..." in asked.text
    assert "Use {types}." in asked.text
    assert '["pat-001"]' in asked.text
