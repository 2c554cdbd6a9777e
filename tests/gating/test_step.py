"""The step after a turn: gate, summary, budgets, and what becomes of an error (C-01 to C-04, C-20 to C-25)."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.gated import (
    FixtureMissingError,
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
    think,
)
from reflector.gating import step
from tests.gating import vectors

OPEN = GatedConfig(allow_reflection=True)
LLM = replace(OPEN, backend="llm")
CTX = {"agent_id": "AgentA", "turn_id": 1, "now_iso": "2026-01-02T03:04:05Z"}
NO_TIME = "0000-00-00T00:00:00Z"


def turn(utter: str = "Hello THERE!", snippets: Any = ("alpha", "beta", "gamma"), **ctx: Any) -> ReflectionBundle:
    return ReflectionBundle({**CTX, **ctx}, {}, {"reflection": True}, utter, snippets)


def failed(reason: str) -> dict[str, Any]:
    """What a reflection gives that failed."""
    return {"summary": "", "memory_entries": [], "metrics": {"backend": "llm", "reason": reason}}


def logged(log: ReflectionLog, bundle: ReflectionBundle, config: GatedConfig, adapter: Any = None) -> ReflectionResult:
    """The result of a turn on which somebody reflected, and which the log tells."""
    result = after_turn(bundle, config, adapter=adapter, log=log)
    assert result is not None
    told = json.loads(log.path.read_text().splitlines()[-1])
    assert (told["ops_written"], told["reason"]) == (0, result.reason)
    return result


@pytest.fixture
def log(tmp_path: Path) -> ReflectionLog:
    return ReflectionLog(tmp_path / "log")


def test_the_public_names_load_neither_a_database_nor_a_network() -> None:
    heavy = ("sqlalchemy", "anthropic", "pydantic", "click", "yaml", "numpy", "socket", "ssl", "random")
    code = f"import sys, reflector.gated; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_turn_is_reflected_on_if_it_is_allowed_and_asked_for_and_no_dry_run() -> None:
    asks: tuple[Any, ...] = ({"reflection": True}, SimpleNamespace(reflection=1))
    silent: tuple[Any, ...] = ({}, None, {"reflection": False}, SimpleNamespace(reflection=None))
    stashed: tuple[Any, ...] = ({"_planner_reflection_flag": True}, SimpleNamespace(_planner_reflection_flag="yes"))
    for plan, state in [*itertools.product(asks, (None, {})), *itertools.product(silent, stashed)]:
        assert should_run(OPEN, plan, state, False)
        assert not should_run(OPEN, plan, state, True)
        assert not should_run(GatedConfig(), plan, state, False)
    for plan in silent:
        assert not should_run(OPEN, plan, {}, False)


def test_a_flag_of_the_plan_is_a_boolean_or_a_word_for_one() -> None:
    for value in (True, 1, "true", " T ", "YES", "y", "1"):
        assert plan_flag(value) is should_run(OPEN, {"reflection": value}) is True
    for value in (False, 0, "false", "f", "No", "n", " 0 ", None):
        assert plan_flag(value) is should_run(OPEN, {"reflection": value}) is False


@pytest.mark.parametrize("value", ["maybe", "", "on", 2, -1, 1.0, [], {}, "x" * 10_000])
def test_any_other_flag_of_the_plan_is_an_error_and_asks_for_nothing(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match=r"^plan\.reflection must be boolean"):
        plan_flag(value)
    assert not should_run(OPEN, {"reflection": value})
    assert caplog.messages[0].startswith("plan.reflection must be boolean, not ")
    assert len(caplog.messages[0]) < 100


class Unreadable:
    """A host's object that cannot be looked at, nor turned into words."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __bool__(self) -> bool:
        raise RuntimeError("bool")


@pytest.mark.parametrize(
    ("config", "bundle"),
    [
        (GatedConfig(), turn()),
        (OPEN, replace(turn(), plan={"reflection": "false"})),
        (OPEN, turn(_dry_run_until_t4=True)),
        (OPEN, replace(turn(), plan=Unreadable())),
        (OPEN, replace(turn(), plan={}, state_view=Unreadable())),
        (OPEN, replace(turn(), ctx=Unreadable())),
    ],
)
def test_behind_a_closed_gate_nothing_is_used_and_nothing_comes_back(
    config: GatedConfig, bundle: ReflectionBundle, log: ReflectionLog
) -> None:
    unused: Any = Unreadable()
    assert after_turn(bundle, config, ledger=unused, log=unused, adapter=unused, clock=unused) is None
    assert after_turn(bundle, config, log=log) is None
    assert not log.path.exists()


@pytest.mark.parametrize(("utter", "snippets", "topk", "tokens", "summary", "length", "used"), vectors.SUMMARIES)
def test_a_summary_is_the_first_words_of_what_was_said(
    utter: str, snippets: list[Any], topk: int, tokens: int, summary: str, length: int, used: int
) -> None:
    assert summarize(utter, snippets, topk=topk, tokens=tokens) == summary
    result = reflect(turn(utter, snippets), replace(OPEN, topk_snippets=topk, summary_tokens=tokens))
    figures = {"backend": "rulebased", "summary_len": length, "used_topk": used, "embed": True, "ops_cap": 5}
    assert (result.summary, result.metrics) == (summary, figures)
    (entry,) = result.memory_entries
    vector = entry.pop("vec_full", None)
    of_turn = {"owner": "AgentA", "ts": "2026-01-02T03:04:05Z", "tags": ["reflection"], "kind": "summary"}
    assert entry == {**of_turn, "text": summary}
    assert vector == ([round(value, 6) for value in embed(summary)] if summary else None)


def test_an_entry_and_its_vector_are_made_where_they_are_wanted_and_can_be() -> None:
    result = reflect(turn("x", []), replace(OPEN, ops_reflection=0))
    assert (result.summary, result.memory_entries, result.metrics["summary_len"]) == ("x", [], 1)
    assert "vec_full" not in reflect(turn(), replace(OPEN, embed=False)).memory_entries[0]
    result = reflect(turn("x", []), replace(LLM, topk_snippets=0), adapter=lambda _: "cut \ud83d emoji")
    assert result.reason is None
    assert "vec_full" not in result.memory_entries[0]


@pytest.mark.parametrize(
    ("ctx", "owner", "ts"),
    [
        ({"agent_id": "a", "agent": "b", "now_iso": "i", "now": "n", "now_ms": 1}, "a", "i"),
        ({"agent": "b", "now": "n", "now_ms": 1}, "b", "n"),
        ({"now_ms": 12_345}, "unknown", "1970-01-01T00:00:12.345Z"),
        ({"now_ms": 0}, "unknown", "1970-01-01T00:00:00.000Z"),
        ({"now": datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))}, "unknown", "2026-01-02T01:00:00.000Z"),
        (None, "unknown", NO_TIME),
        (SimpleNamespace(agent_id="o", now="n"), "o", "n"),
        ({"agent": "sk-ant-api03-" + "a" * 90}, "[redacted:anthropic-key]", NO_TIME),
    ],
)
def test_an_entry_has_the_agent_and_the_time_of_the_host(ctx: Any, owner: str, ts: str) -> None:
    (entry,) = reflect(replace(turn(), ctx=ctx), OPEN).memory_entries
    assert (entry["owner"], entry["ts"]) == (owner, ts)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)


@given(TEXTS, st.lists(TEXTS | st.none(), max_size=5), st.integers(-2, 6), st.integers(-2, 12))
def test_a_summary_has_words_only_and_no_more_than_asked_for(
    utter: str, snippets: list[Any], topk: int, tokens: int
) -> None:
    config = replace(OPEN, topk_snippets=max(topk, 0), summary_tokens=max(tokens, 0))
    summary = summarize(utter, snippets, topk=topk, tokens=tokens)
    one, two = (json.dumps(reflect(turn(utter, snippets), config).as_dict()) for _ in range(2))
    assert one == two
    assert summary == " ".join(summary.split()) == json.loads(one)["summary"]
    assert len(summary.split()) <= max(tokens, 0)
    assert all(letter == " " or letter == "_" or letter.isalnum() for letter in summary)
    assert summary == summarize(utter, snippets[: max(topk, 0)], topk=99, tokens=tokens)


@pytest.mark.parametrize("text", vectors.FIRST_FOUR)
def test_the_vector_of_a_text_is_the_one_that_was_asked_for(text: str) -> None:
    assert embed(text)[:4] == pytest.approx(vectors.FIRST_FOUR[text], abs=1e-6)


@given(TEXTS)
def test_every_text_has_thirty_two_numbers_of_norm_one(text: str) -> None:
    vector = embed(text)
    assert (len(vector), math.hypot(*vector)) == (32, pytest.approx(1, abs=1e-6))
    assert vector == embed(text)


def test_a_reflection_changes_nothing_of_its_turn() -> None:
    ctx, state, plan, snippets = dict(CTX), {"memory": [1]}, {"reflection": True, "ops": [1]}, ["a", None, "b"]
    before = json.dumps([ctx, state, plan, snippets])
    after_turn(ReflectionBundle(ctx, state, plan, "x", snippets), OPEN)
    assert json.dumps([ctx, state, plan, snippets]) == before


def test_secrets_are_gone_before_a_text_is_summarised_or_sent() -> None:
    key = "ghp_" + "a1B2" * 9
    bundle = turn(f"use {key}", [f"token {key}"])
    assert key not in canonical_prompt(bundle, LLM)
    assert "redacted" in summarize(bundle.utter, bundle.snippets)
    assert key[4:].lower() not in summarize(bundle.utter, bundle.snippets)


def test_a_prompt_is_canonical_json_in_ascii() -> None:
    prompt = canonical_prompt(turn("  Hé\t\n llo  world! ", ["A\tB\n", "C++ & C#", None, "x"]), LLM)
    assert prompt == (
        '{"agent":"AgentA","plan_reflection":true,"snippets":["A B","C++ & C#",""],"summary_tokens":128,'
        '"task":"reflect_summary","turn":1,"utter":"H\\u00e9 llo world!","version":1}'
    )
    asked = json.loads(canonical_prompt(ReflectionBundle(None, None, None, "", [7, "", None]), GatedConfig()))
    assert (asked["agent"], asked["turn"], asked["plan_reflection"]) == ("unknown", 0, False)
    assert asked["snippets"] == ["7", "", ""]
    assert prompt_sha256(canonical_prompt(vectors.DOCUMENTED, GatedConfig())) == vectors.DOCUMENTED_SHA256
    assert fixture_key(vectors.DOCUMENTED, GatedConfig()) == "3482df95edf6"


def recorded(path: Path, prompt: str, completion: str, more: str = "") -> Fixtures:
    line = json.dumps({"prompt_hash": prompt_sha256(prompt), "completion": completion})
    path.write_bytes(f"{more}{line}\r\n\r\n".encode())
    return Fixtures(True, str(path))


def test_a_recorded_answer_is_the_summary(tmp_path: Path) -> None:
    bundle = turn("Hello  world!", ["One", "Two", "Three"])
    config = replace(LLM, topk_snippets=2, summary_tokens=6)
    prompt = canonical_prompt(bundle, config)
    fixtures = recorded(tmp_path / "f", prompt, "fixture summary deterministic")
    result = reflect(bundle, replace(config, fixtures=fixtures))
    assert result.summary == "fixture summary deterministic"
    figures = {"summary_len": 3, "used_topk": 2, "embed": True, "ops_cap": 5}
    assert result.metrics == {"backend": "llm-fixture", "fixture_key": prompt_sha256(prompt)[:12], **figures}
    assert len(result.memory_entries[0]["vec_full"]) == 32


def test_an_answer_is_clipped_and_line_ends_do_not_matter_and_the_last_of_two_counts(tmp_path: Path) -> None:
    adapter = FixturesAdapter(str(tmp_path / "f"))
    recorded(tmp_path / "f", "p", "one  two\nthree four")
    assert adapter.generate("p", max_tokens=2) == ("one two", 2, True)
    assert adapter.generate("p", max_tokens=4) == ("one two three four", 4, False)
    assert adapter.generate("p", max_tokens=0) == ("", 0, True)
    older = json.dumps({"prompt_hash": prompt_sha256("a\nb"), "completion": "older"}) + "\n"
    recorded(tmp_path / "f", "a\r\nb", "newer", older)
    assert adapter.generate("a\nb", max_tokens=9).text == "newer"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"\xff\xfe\n", "cannot be read"),
        (b'\n{"prompt_hash": "x"}\n', "line 2: is not a fixture"),
        (b"[" * 100_000, "line 1: is not a fixture"),
        (b"", "has no completion for the prompt"),
    ],
)
def test_fixtures_that_cannot_answer_are_missing_with_a_clear_word(
    content: bytes | None, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if content is not None:
        (tmp_path / "f.jsonl").write_bytes(content)
    config = replace(LLM, fixtures=Fixtures(True, str(tmp_path / "f.jsonl")))
    with pytest.raises(FixtureMissingError, match=words):
        think(turn(), config)
    assert reflect(turn(), config).as_dict() == failed("reflect_error:FixtureMissingError")
    assert words.split(":")[0] in caplog.text


class Model:
    """An adapter as the host has it."""

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.answer = answer

    def generate(self, prompt: str, *, max_tokens: int, temperature: float) -> Any:
        assert (max_tokens, temperature) == (128, 0.0)
        return SimpleNamespace(text=self.answer(prompt))


def test_an_adapter_or_a_function_answers_in_place_of_the_file() -> None:
    for adapter in (Model(lambda _: "  a   summary "), lambda _: "a summary"):
        result = reflect(turn(), LLM, adapter=adapter)
        assert (result.summary, result.metrics["backend"]) == ("a summary", "llm")
        assert "fixture_key" not in result.metrics


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError


def raising(error: BaseException) -> Callable[[str], str]:
    def answer(_: str) -> str:
        raise error

    return answer


@pytest.mark.parametrize(
    ("adapter", "kind"),
    [
        (raising(RuntimeError("away \x1b[31m")), "RuntimeError"),
        (raising(SystemExit(3)), "SystemExit"),
        (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
        (raising(Mute()), "Mute"),
        (Model(lambda _: None), "TypeError"),
        (lambda _: " \n ", "FixtureMissingError"),
        (None, "ValueError"),  # neither an adapter nor fixtures
    ],
)
def test_whatever_an_adapter_does_is_a_reason(
    adapter: Any, kind: str, log: ReflectionLog, caplog: pytest.LogCaptureFixture
) -> None:
    assert logged(log, turn(), LLM, adapter).as_dict() == failed(f"reflect_error:{kind}")
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize(
    "bad",
    [
        {"ctx": {"turn_id": "seven"}},
        {"ctx": {"turn_id": math.inf}},
        {"ctx": {"agent_id": Unreadable()}},
        {"ctx": {"now_ms": 10**30}},
        {"utter": object()},
        {"snippets": None},
    ],
)
def test_a_turn_that_nobody_can_read_is_a_reason(bad: dict[str, Any], log: ReflectionLog) -> None:
    for config in (OPEN, LLM):
        result = logged(log, replace(turn(), **bad), config, lambda _: "said")
        assert "ctx" not in bad or str(result.reason).startswith("reflect_error:")  # and no entry of turn 0


def test_a_backend_that_hangs_is_cut_at_the_budget(log: ReflectionLog) -> None:
    """It hangs until the result is there: nobody waited for it to end."""
    end = threading.Event()
    result = logged(log, turn(), replace(LLM, time_ms_reflection=20), lambda _: str(end.wait()))
    end.set()
    assert result.as_dict() == failed("reflection_timeout")


def test_backends_that_hang_for_ever_do_not_take_ever_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "_free", threading.BoundedSemaphore(2))
    end, config = threading.Event(), replace(LLM, time_ms_reflection=10)
    before = threading.active_count()
    reasons = {reflect(turn(), config, adapter=lambda _: str(end.wait())).reason for _ in range(6)}
    assert (reasons, threading.active_count() <= before + 2) == ({"reflection_timeout"}, True)
    end.set()
    assert reflect(turn(), replace(config, time_ms_reflection=60_000), adapter=lambda _: "on").summary == "on"


@pytest.mark.parametrize(("seconds", "reason", "kept"), [(6.0, None, 1), (6.001, "reflection_timeout", 0)])
def test_what_the_clock_finds_too_long_keeps_its_summary_and_loses_its_entries(
    seconds: float, reason: str | None, kept: int
) -> None:
    times = iter((100.0, 100.0 + seconds))
    result = reflect(turn(), OPEN, clock=lambda: next(times))
    assert (result.summary, result.reason) == ("hello there alpha beta gamma", reason)
    assert len(result.memory_entries) == kept
    assert result.ms == pytest.approx(seconds * 1000)


def test_a_budget_of_centuries_and_no_thread_to_be_had_are_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reflect(turn(), replace(OPEN, time_ms_reflection=10**400)).reason is None

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(step._MOST_HANGING + 1):
        assert reflect(turn(), OPEN).reason == "reflect_error:RuntimeError"
