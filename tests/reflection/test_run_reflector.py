"""`run_reflector`, requirements A-11 to A-20: what it asks, what it returns, and that it never
raises.
"""

import asyncio
import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from reflector import format_playbook, run_reflector
from reflector.embed.ace import _result
from reflector.judges.api import api_settings
from reflector.judges.backends.anthropic import ANTHROPIC
from tests.building import ANSWERS, entry, playbook
from tests.conftest import examples
from tests.judges.api import KEY, Api, Behaviour, error, raw, sound

EMPTY = {"analysis": "", "bullet_tags": []}
MESSAGES = [
    {"role": "user", "content": "Help me refactor this code"},
    {"role": "assistant", "content": "Based on [pat-001] and [mis-002], I {recommend}..."},
]
BOOK = playbook(
    pat=[entry("pat-001", 3, 1, "Use {types}.")], mis=[entry("mis-001", text="No mocks.")]
)
THREE = {
    "analysis": "Types helped; the mock hid a bug.",
    "bullet_tags": [
        {"name": "pat-001", "tag": "helpful", "rationale": "It found the bug."},
        {"name": "mis-001", "tag": "harmful", "rationale": "It hid the bug."},
        {"name": "pref-001", "tag": "neutral", "rationale": "Nothing depends on it."},
    ],
}


@pytest.fixture
def asks(api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Api:
    """The API as the environment names it; waits are noted down in its `waits`."""
    for name, value in api.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("reflector.judges.http_api.HttpClient", api.hurried)
    monkeypatch.chdir(tmp_path)
    return api


def reflect(
    messages: Any = MESSAGES, book: Any = BOOK, cited: Any = ("pat-001",)
) -> dict[str, Any]:
    return asyncio.run(
        run_reflector(messages, book, list(cited) if isinstance(cited, tuple) else cited)
    )


def test_session_is_asked_in_one_message(
    asks: Api,
) -> None:
    asks.does = [sound(json.dumps(THREE))]
    messages = [{"role": "system", "content": "Be brief."}, *MESSAGES]
    before = copy.deepcopy((messages, BOOK))
    assert reflect(messages, cited=("pat-001", "mis-002")) == THREE
    assert before == (messages, BOOK)
    (asked,) = asks.asked
    assert asked.body["max_tokens"] == 4096
    assert format_playbook(BOOK, "{key_points}") in asked.text
    assert '["pat-001", "mis-002"]' in asked.text
    shown = json.loads(re.split(r"</?session-[0-9a-f]{32}>", asked.text)[1])
    assert [turn["content"] for turn in shown] == [message["content"] for message in messages]
    assert [turn["role"] for turn in shown[1:]] == ["user", "assistant"]
    # What neither a person nor the model said is not shown as a person's words.
    assert [turn.get("origin") for turn in shown] == ["injected", None, None]


def test_messages_of_blocks_are_shown(asks: Api) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "3 passed"}],
    }
    reflect(
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "HELLO"}, {"type": "text", "text": "AGAIN"}],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "As [pat-001] says."}, use]},
            {"role": "user", "content": [result]},
            {"role": "user", "content": [{"type": "unknown"}, None, 7]},
        ]
    )
    turns = json.loads(re.search(r"<session-\w+>\n(.*)\n</session-", asks.asked[0].text, re.S)[1])
    assert [one.get("content") for one in turns][:2] == ["HELLO\nAGAIN", "As [pat-001] says."]
    assert "pytest -q" in json.dumps(turns[1]["tool_calls"])
    assert "3 passed" in json.dumps(turns[2]["tool_results"])
    assert len(turns) == 3


def test_one_answer_form_with_and_without_citations(
    asks: Api,
) -> None:
    asks.else_ = sound('{"analysis": "Nothing to judge.", "bullet_tags": []}')
    for cited, book in ((("pat-001",), BOOK), ((), BOOK), ((), playbook()), ((), {})):
        assert reflect(book=book, cited=cited) == {
            "analysis": "Nothing to judge.",
            "bullet_tags": [],
        }
    guided, content, *_ = (asked.text for asked in asks.asked)
    assert guided.replace('["pat-001"]', "[]") == content


def test_nearest_variable_names_model_key_and_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    none = api_settings(ANTHROPIC)
    assert (none.model, none.key, none.base_url) == (ANTHROPIC.model, "", "")
    assert (none.request_seconds, 97.5 <= none.deadline <= 120) == (30.0, True)
    for name in ("ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_MODEL", "AGENTIC_CONTEXT_MODEL"):
        monkeypatch.setenv(name, f"of {name}")
        assert api_settings(ANTHROPIC).model == f"of {name}"
    monkeypatch.setenv("AGENTIC_CONTEXT_MODEL", " ")
    assert api_settings(ANTHROPIC).model == "of ANTHROPIC_MODEL"
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AGENTIC_CONTEXT_API_KEY"):
        monkeypatch.setenv(name, f"of {name}")
        found = api_settings(ANTHROPIC)
        assert (found.key, found.variable) == (f"of {name}", name)
    for name, url in (
        ("ANTHROPIC_BASE_URL", "  "),
        ("ANTHROPIC_BASE_URL", "b"),
        ("AGENTIC_CONTEXT_BASE_URL", "a"),
    ):
        monkeypatch.setenv(name, url)
        assert api_settings(ANTHROPIC).base_url == url.strip()


def test_missing_key_gives_an_empty_result(asks: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert reflect() == EMPTY
    assert asks.asked == []


TAGS = [{"name": "pat-001", "tag": "great", "weight": 1}]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        *(
            (text, EMPTY)
            for text in (("This is not JSON at all, just text."), "", "[1, 2]", "null", "{}")
        ),
        ('{"analysis": "only analysis"}', {"analysis": "only analysis", "bullet_tags": []}),
        (f'{{"bullet_tags": {json.dumps(TAGS)}}}', {"analysis": "", "bullet_tags": TAGS}),
        (json.dumps({"result": THREE}), THREE),
        (
            (
                '{"analysis": "a", "bullet_tags": [{"name": "pat-001", "tag": "helpful", '
                '"rationale": '
                '"r"}, {"name": "pa'
            ),
            {
                "analysis": "a",
                "bullet_tags": [{"name": "pat-001", "tag": "helpful", "rationale": "r"}],
            },
        ),
        ('{"analysis": ["x"], "bullet_tags": "none"}', EMPTY),
        (
            ('{"analysis": "a", "bullet_tags": ["pat-001", 7, null]}'),
            {"analysis": "a", "bullet_tags": []},
        ),
    ],
)
def test_missing_keys_are_filled_in_results(text: str, result: dict[str, Any]) -> None:
    assert _result(text) == result


def test_diagnostic_mode_keeps_requests_and_failures_without_secrets(
    asks: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret, kept = "ghp_" + "Ab3" * 12, tmp_path / "p" / ".claude" / "diagnostic"
    kept.parent.mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "p"))
    asks.does = [sound(json.dumps(THREE | {"analysis": f"the token {secret}"}))] * 2
    asks.else_ = error(401, "authentication_error", f"wrong key {KEY}")
    reflect()
    assert not kept.exists()
    (kept.parent / "diagnostic_mode").touch()
    reflect(messages=[{"role": "user", "content": f"my token is {secret}"}])
    assert reflect() == EMPTY
    answered, failed = sorted(kept.iterdir())
    assert answered.name.endswith("_reflector.txt")
    assert failed.name.endswith("_reflector_error.txt")
    told = answered.read_text() + failed.read_text() + caplog.text
    for wanted in ("Use {types}.", "It hid the bug.", "HTTP 401 authentication_error: wrong key"):
        assert wanted in told
    assert secret not in told
    assert KEY not in told
    # What cannot be written costs nothing.
    shutil.rmtree(kept)
    kept.touch()
    assert reflect() == EMPTY


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
objects = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(["analysis", "bullet_tags"], json_values)
)
answers = ANSWERS | objects.map(json.dumps)


def assert_is_result(result: Any) -> None:
    assert set(result) == {"analysis", "bullet_tags"}
    assert isinstance(result["analysis"], str)
    assert all(isinstance(tag, dict) for tag in result["bullet_tags"])
    json.dumps(result)


@settings(max_examples=examples(300))
@given(answers)
@example('{"bullet_tags": [{"name": 1e999}]}')
@example('{"bullet_tags": ' + "[" * 5000)
def test_no_answer_makes_it_raise(text: str) -> None:
    assert_is_result(_result(text))


fields = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(["content", "stop_reason", "usage", "model"], json_values)
)
#: Whatever an API could do with a request, but for waiting.
behaviours = st.builds(
    lambda status, kind, rest, body, cut: Behaviour(
        status, body, {"content-type": kind, **rest}
    ).cut(cut),
    st.sampled_from(
        [200] * 8 + [201, 204, 300, 304, 307, 400, 401, 404, 408, 413, 429, 500, 529, 599]
    ),
    st.sampled_from(["application/json", "text/html", ""]),
    st.sampled_from([{}, *({"retry-after": rest} for rest in ("0", "1e9", "-1", "x", "inf"))]),
    fields.map(lambda given: sound(**given).body)
    | json_values.map(lambda value: raw(value).body)
    | answers.map(lambda text: sound(text).body)
    | st.binary(max_size=40),
    st.sampled_from([1 << 20, 1 << 20, 0, 10]),
)
through_http = settings(
    max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@through_http
@given(st.lists(behaviours, min_size=1, max_size=3))
def test_no_behaviour_of_the_api_makes_it_raise(asks: Api, does: list[Behaviour]) -> None:
    asks.reset()
    asks.does, asks.else_ = does[:-1], does[-1]
    assert_is_result(reflect())
    assert 1 <= len(asks.asked) <= 3


@through_http
@given(
    st.lists(st.fixed_dictionaries({}, optional={"role": json_values, "content": json_values}))
    | json_values,
    st.fixed_dictionaries({}, optional={"sections": json_values}) | json_values,
    st.lists(json_values) | json_values,
)
def test_no_argument_makes_it_raise(asks: Api, messages: Any, book: Any, cited: Any) -> None:
    asks.reset()
    assert_is_result(reflect(messages, book, cited))
