"""The step after a turn: gate, summary, budgets, and what becomes of an error (C-01 to C-04,
C-20 to C-25).
"""

import itertools
import json
import math
import subprocess
import sys
from dataclasses import astuple, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.gated import (
    Fixtures,
    FixturesAdapter,
    GatedConfig,
    ReflectionBundle,
    ReflectionLog,
    ReflectionResult,
    after_turn,
    canonical_prompt,
    embed,
    fixture_key,
    plan_flag,
    prompt_sha256,
    reflect,
    should_run,
    summarize,
)
from tests.embed.gated import vectors

OPEN = GatedConfig(allow_reflection=True)
LLM = replace(OPEN, backend="llm")
CTX = {"agent_id": "AgentA", "turn_id": 1, "now_iso": "2026-01-02T03:04:05Z"}


def turn(
    utter: str = "Hello THERE!", snippets: Any = ("alpha", "beta", "gamma"), **ctx: Any
) -> ReflectionBundle:
    return ReflectionBundle({**CTX, **ctx}, {}, {"reflection": True}, utter, snippets)


def test_public_names_load_no_database_or_network() -> None:
    heavy = (
        "sqlalchemy",
        "anthropic",
        "pydantic",
        "click",
        "yaml",
        "numpy",
        "socket",
        "ssl",
        "random",
    )
    code = (
        f"import sys, reflector.gated; print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_turn_needs_permission_and_a_request() -> None:
    asks: tuple[Any, ...] = ({"reflection": True}, SimpleNamespace(reflection=1))
    silent: tuple[Any, ...] = ({}, None, {"reflection": False}, SimpleNamespace(reflection=None))
    stashed: tuple[Any, ...] = (
        {"_planner_reflection_flag": True},
        SimpleNamespace(_planner_reflection_flag="yes"),
    )
    for plan, state in [*itertools.product(asks, (None, {})), *itertools.product(silent, stashed)]:
        assert should_run(OPEN, plan, state, False)
        assert not should_run(OPEN, plan, state, True)
        assert not should_run(GatedConfig(), plan, state, False)
    for plan in silent:
        assert not should_run(OPEN, plan, {}, False)


@pytest.mark.parametrize("mark", ["_dry_run", "_dry_run_until_t4"])
def test_a_dry_run_leaves_no_trace(mark: str, tmp_path: Path) -> None:
    for ctx in ({**CTX, mark: True}, SimpleNamespace(**CTX, **{mark: True})):
        assert (
            after_turn(replace(turn(), ctx=ctx), OPEN, log=ReflectionLog(tmp_path / "log")) is None
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("utter", "snippets", "topk", "tokens", "summary", "length", "used"), vectors.SUMMARIES
)
def test_summary_is_the_first_words_of_a_turn(
    utter: str, snippets: list[Any], topk: int, tokens: int, summary: str, length: int, used: int
) -> None:
    assert summarize(utter, snippets, topk=topk, tokens=tokens) == summary
    result = reflect(
        turn(utter, snippets), replace(OPEN, topk_snippets=topk, summary_tokens=tokens)
    )
    figures = {
        "backend": "rulebased",
        "summary_len": length,
        "used_topk": used,
        "embed": True,
        "ops_cap": 5,
    }
    assert (result.summary, result.metrics) == (summary, figures)
    (entry,) = result.memory_entries
    vector = entry.pop("vec_full", None)
    of_turn = {
        "owner": "AgentA",
        "ts": "2026-01-02T03:04:05Z",
        "tags": ["reflection"],
        "kind": "summary",
    }
    assert entry == {**of_turn, "text": summary}
    assert vector == ([round(value, 6) for value in embed(summary)] if summary else None)


@pytest.mark.parametrize(
    ("ctx", "owner", "ts"),
    [
        ({"agent_id": "a", "agent": "b", "now_iso": "i", "now": "n", "now_ms": 1}, "a", "i"),
        ({"agent": "b", "now": "n", "now_ms": 1}, "b", "n"),
        ({"now_ms": 12_345}, "unknown", "1970-01-01T00:00:12.345Z"),
        ({"now_ms": 0}, "unknown", "1970-01-01T00:00:00.000Z"),
        (
            {"now": datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))},
            "unknown",
            "2026-01-02T01:00:00.000Z",
        ),
        (None, "unknown", "0000-00-00T00:00:00Z"),
        (SimpleNamespace(agent_id="o", now="n"), "o", "n"),
    ],
)
def test_entry_has_the_hosts_agent_and_time(ctx: Any, owner: str, ts: str) -> None:
    (entry,) = reflect(replace(turn(), ctx=ctx), OPEN).memory_entries
    assert (entry["owner"], entry["ts"]) == (owner, ts)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)


@given(TEXTS, st.lists(TEXTS | st.none(), max_size=5), st.integers(-2, 6), st.integers(-2, 12))
def test_summary_has_words_within_its_limit(
    utter: str, snippets: list[Any], topk: int, tokens: int
) -> None:
    config = replace(OPEN, topk_snippets=max(topk, 0), summary_tokens=max(tokens, 0))
    summary = summarize(utter, snippets, topk=topk, tokens=tokens)
    one, two = (json.dumps(astuple(reflect(turn(utter, snippets), config))[:3]) for _ in range(2))
    assert one == two
    assert summary == " ".join(summary.split()) == json.loads(one)[0]
    assert len(summary.split()) <= max(tokens, 0)
    assert all(letter == " " or letter == "_" or letter.isalnum() for letter in summary)
    assert summary == summarize(utter, snippets[: max(topk, 0)], topk=99, tokens=tokens)


@pytest.mark.parametrize("text", vectors.FIRST_FOUR)
def test_vector_of_a_text_is_as_specified(text: str) -> None:
    assert embed(text)[:4] == pytest.approx(vectors.FIRST_FOUR[text], abs=1e-6)


@given(TEXTS)
def test_every_text_has_32_numbers_of_norm_one(text: str) -> None:
    vector = embed(text)
    assert (len(vector), math.hypot(*vector)) == (32, pytest.approx(1, abs=1e-6))
    assert vector == embed(text)


def test_a_reflection_changes_nothing_of_its_turn() -> None:
    ctx, state, plan, snippets = (
        dict(CTX),
        {"memory": [1]},
        {"reflection": True, "ops": [1]},
        ["a", None, "b"],
    )
    before = json.dumps([ctx, state, plan, snippets])
    after_turn(ReflectionBundle(ctx, state, plan, "x", snippets), OPEN)
    assert json.dumps([ctx, state, plan, snippets]) == before


def test_secrets_are_removed_before_summary_and_prompt() -> None:
    key = "ghp_" + "a1B2" * 9
    bundle = turn(f"use {key}", [f"token {key}"])
    assert key not in canonical_prompt(bundle, LLM)
    assert "redacted" in summarize(bundle.utter, bundle.snippets)
    assert key[4:].lower() not in summarize(bundle.utter, bundle.snippets)


def test_a_prompt_is_canonical_json_in_ascii() -> None:
    prompt = canonical_prompt(turn("  Hé\t\n llo  world! ", ["A\tB\n", "C++ & C#", None, "x"]), LLM)
    assert prompt == (
        '{"agent":"AgentA","plan_reflection":true,"snippets":["A B","C++ & '
        'C#",""],"summary_tokens":128,'
        '"task":"reflect_summary","turn":1,"utter":"H\\u00e9 llo world!","version":1}'
    )
    asked = json.loads(
        canonical_prompt(ReflectionBundle(None, None, None, "", [7, "", None]), GatedConfig())
    )
    assert (asked["agent"], asked["turn"], asked["plan_reflection"]) == ("unknown", 0, False)
    assert asked["snippets"] == ["7", "", ""]
    assert (
        prompt_sha256(canonical_prompt(vectors.DOCUMENTED, GatedConfig()))
        == vectors.DOCUMENTED_SHA256
    )
    assert fixture_key(vectors.DOCUMENTED, GatedConfig()) == "3482df95edf6"


@pytest.mark.parametrize(
    ("seconds", "reason", "kept"), [(6.0, None, 1), (6.001, "reflection_timeout", 0)]
)
def test_slow_turn_keeps_its_summary_without_entries(
    seconds: float, reason: str | None, kept: int
) -> None:
    times = iter((100.0, 100.0 + seconds))
    result = reflect(turn(), OPEN, clock=lambda: next(times))
    assert (result.summary, result.reason) == ("hello there alpha beta gamma", reason)
    assert len(result.memory_entries) == kept
    assert result.ms == pytest.approx(seconds * 1000)


def test_plan_flag_is_a_boolean_or_its_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    value: Any
    for value in (True, 1, "true", " T ", "YES", "y", "1"):
        assert plan_flag(value) is should_run(OPEN, {"reflection": value}) is True
    for value in (False, 0, "false", "f", "No", "n", " 0 ", None):
        assert plan_flag(value) is should_run(OPEN, {"reflection": value}) is False
    assert caplog.messages == []
    for value in ("maybe", "", "on", 2, -1, 1.0, []):
        with pytest.raises(ValueError, match=r"^plan\.reflection must be boolean"):
            plan_flag(value)
        assert not should_run(OPEN, {"reflection": value})
        assert caplog.messages.pop().startswith("plan.reflection must be boolean, not ")
        caplog.clear()


def test_entry_and_vector_are_made_on_demand() -> None:
    result = reflect(turn("x", []), replace(OPEN, ops_reflection=0))
    assert (result.summary, result.memory_entries, result.metrics["summary_len"]) == ("x", [], 1)
    assert "vec_full" not in reflect(turn(), replace(OPEN, embed=False)).memory_entries[0]


def recorded(path: Path, *answers: tuple[str, str]) -> Fixtures:
    lines = (
        json.dumps({"prompt_hash": prompt_sha256(prompt), "completion": said})
        for prompt, said in answers
    )
    path.write_bytes("\r\n\r\n".join(lines).encode())
    return Fixtures(True, str(path))


def test_recorded_answer_is_the_clipped_summary(
    tmp_path: Path,
) -> None:
    bundle, config = (
        turn("Hello  world!", ["One", "Two", "Three"]),
        replace(LLM, topk_snippets=2, summary_tokens=6),
    )
    prompt = canonical_prompt(bundle, config)
    fixtures = recorded(
        tmp_path / "f",
        ("a\nb", "older"),
        (prompt, ("fixture summary deterministic")),
        ("a\r\nb", "c  d\ne"),
    )
    result = reflect(bundle, replace(config, fixtures=fixtures))
    assert result.summary == "fixture summary deterministic"
    figures = {"summary_len": 3, "used_topk": 2, "embed": True, "ops_cap": 5}
    assert result.metrics == {
        "backend": "llm-fixture",
        "fixture_key": prompt_sha256(prompt)[:12],
        **figures,
    }
    assert len(result.memory_entries[0]["vec_full"]) == 32
    clipped = [
        FixturesAdapter(fixtures.path or "").generate("a\nb", max_tokens=most) for most in (2, 3, 0)
    ]
    assert clipped == [("c d", 2, True), ("c d e", 3, False), ("", 0, True)]


def refuse(_: str) -> str:
    raise RuntimeError("away \x1b[31m")


@pytest.mark.parametrize(
    ("adapter", "turn_id", "fixtures", "kind", "words"),
    [
        (refuse, 1, "", "RuntimeError", "away"),
        (lambda _: None, 1, "", "TypeError", "answered with NoneType"),
        (lambda _: " \n ", 1, "", "FixtureMissingError", "is empty"),
        (
            lambda _: "said",
            "seven",
            "",
            "ValueError",
            "ctx.turn_id is 'seven'; it must be a whole number",
        ),
        (None, 1, None, "ValueError", "needs an adapter, or t3.llm.fixtures.enabled: true"),
        (None, 1, "", "FixtureMissingError", "does not contain a completion for the prompt"),
        (None, 1, "{}", "FixtureMissingError", "line 1: not a recorded answer"),
    ],
)
def test_any_error_is_reported_in_result_and_log(
    adapter: Any,
    turn_id: Any,
    fixtures: str | None,
    kind: str,
    words: str,
    tmp_path: Path,
    caplog: Any,
) -> None:
    (tmp_path / "f").write_text(fixtures or "")
    config = replace(LLM, fixtures=Fixtures(fixtures is not None, str(tmp_path / "f")))
    log = ReflectionLog(tmp_path / "log")
    result = after_turn(turn(turn_id=turn_id), config, adapter=adapter, log=log)
    assert result == ReflectionResult("", [], {"backend": "llm", "reason": f"reflect_error:{kind}"})
    told = json.loads(log.path.read_text())
    assert (told["ops_written"], told["reason"]) == (0, result.reason)
    assert words in caplog.text
    assert "\x1b" not in caplog.text


def test_adapter_or_function_replaces_the_file() -> None:
    class Model:
        def generate(self, prompt: str, *, max_tokens: int, temperature: float) -> Any:
            assert (max_tokens, temperature) == (128, 0.0)
            return SimpleNamespace(text="  a   summary ")

    for adapter in (Model(), lambda _: "a summary"):
        result = reflect(turn(), LLM, adapter=adapter)
        assert (result.summary, result.metrics["backend"]) == ("a summary", "llm")
        assert "fixture_key" not in result.metrics
