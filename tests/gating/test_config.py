"""The settings of gated reflection: what is understood, what is refused, and in which words."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.config import ConfigError
from reflector.gated import GatedConfig, load_config
from reflector.gating.measure import read_config


def reflection(**settings: Any) -> dict[str, Any]:
    return {"t3": {"reflection": settings}}


def budgets(**settings: Any) -> dict[str, Any]:
    return {"scheduler": {"budgets": settings}}


def fault(mapping: dict[str, Any]) -> str:
    with pytest.raises(ValueError) as caught:
        load_config(mapping)
    return str(caught.value)


def test_an_empty_mapping_gives_the_defaults() -> None:
    assert load_config({}) == GatedConfig()
    assert asdict(GatedConfig()) == {
        "allow_reflection": False,
        "backend": "rulebased",
        "summary_tokens": 128,
        "embed": True,
        "log": True,
        "topk_snippets": 3,
        "time_ms_reflection": 6000,
        "ops_reflection": 5,
        "fixtures": {"enabled": False, "path": None},
    }


@pytest.mark.parametrize(
    "section", [{"t3": None}, {"t3": {"reflection": None, "llm": None}}, {"scheduler": {"budgets": None}}]
)
def test_a_section_whose_keys_are_all_commented_out_gives_the_defaults(section: dict[str, Any]) -> None:
    assert load_config(section) == GatedConfig()


def test_what_other_parts_of_the_host_keep_in_shared_sections_is_theirs() -> None:
    host = {
        "t1": {"decay": 0.9},
        "t3": {"max_rag_loops": 1, "lm": 1, "llm": {"provider": "x", "fixtures": {"hash": "x"}}, "apply": {}},
        "scheduler": {"policy": "fair", "budgets": {"t1_iters": 50, "wall_ms": 200}},
    }
    assert load_config(host) == GatedConfig()


def test_the_settings_are_found_where_the_host_has_them() -> None:
    found = load_config(
        {
            "t3": {
                "allow_reflection": True,
                "reflection": {"backend": "LLM", "summary_tokens": 6, "embed": "off", "log": "No", "topk_snippets": 0},
                "llm": {"fixtures": {"enabled": "yes", "path": " p.jsonl "}},
            },
            "scheduler": {"budgets": {"time_ms_reflection": "10", "ops_reflection": 3.14}},
        }
    )
    assert (found.allow_reflection, found.backend, found.summary_tokens, found.topk_snippets) == (True, "llm", 6, 0)
    assert (found.embed, found.log, found.time_ms_reflection, found.ops_reflection) == (False, False, 10, 3)
    assert (found.fixtures.enabled, found.fixtures.path) == (True, "p.jsonl")


FAULTS: list[tuple[str, Any, str]] = [
    # key, value, what is said of it
    ("t3.reflection.summary_tokens", -1, "is -1; it must be >= 0"),
    ("t3.reflection.surprise", 1, ": unknown key"),
    ("t3.reflection.smary_token", 1, ": unknown key"),
    ("t3.reflection.summary_token", 1, ": unknown key (did you mean 'summary_tokens')"),
    ("t3.reflection.sumary_token", 1, ": unknown key (did you mean 'summary_tokens')"),
    ("t3.reflection.logs", 1, ": unknown key (did you mean 'log')"),
    ("t3.reflection.backend", "nope", "is 'nope'; it must be one of rulebased, llm"),
    ("t3.reflection.backend", None, "is None; it must be one of rulebased, llm"),
    ("scheduler.budgets.ops_reflection", -1, "is -1; it must be >= 0"),
    ("scheduler.budgets.ops_reflection", -0.5, "is -0.5; it must be >= 0"),
    ("scheduler.budgets.time_ms_reflection", 0, "is 0; it must be >= 1"),
    ("t3.llm.fixtures.path", "", "is ''; it must be a non-empty string"),
    ("t3.llm.fixtures.path", "  ", "is '  '; it must be a non-empty string"),
    ("t3.llm.fixtures.path", 7, "is 7; it must be a non-empty string"),
    ("t3.reflection.log", "maybe", "is 'maybe'; it takes true or false"),
    *(("t3.reflection.embed", value, f"is {value}; it takes true or false") for value in (2, 1.0, None)),
    *(
        ("t3.reflection.summary_tokens", value, f"is {value!r}; it takes a whole number")
        for value in ("abc", True, float("nan"), float("inf"), [1])
    ),
    ("t3", 7, "is 7; it takes a mapping"),
    ("t3.reflection", [1], "is [1]; it takes a mapping"),
    ("t3.allow_reflections", True, ": unknown key (did you mean 'allow_reflection')"),
    ("t3.reflecton", {}, ": unknown key (did you mean 'reflection')"),
    ("scheduler.budget", {}, ": unknown key (did you mean 'budgets')"),
    ("scheduler.budgets.ops_reflections", 1, ": unknown key (did you mean 'ops_reflection')"),
]


@pytest.mark.parametrize(("key", "value", "words"), FAULTS)
def test_a_wrong_setting_is_named_with_its_value_and_the_way_out(key: str, value: Any, words: str) -> None:
    mapping = value
    for part in reversed(key.split(".")):
        mapping = {part: mapping}
    assert fault(mapping) == f"{key}{words if words.startswith(':') else f' {words}'}"


def test_recorded_answers_need_a_file_and_only_where_the_gate_is_open() -> None:
    assert "t3.llm.fixtures.path must be a non-empty string" in fault({"t3": {"llm": {"fixtures": {"enabled": True}}}})
    gate = {"t3": {"allow_reflection": True, "reflection": {"backend": "LLM"}}}
    assert "needs t3.llm.fixtures.enabled: true" in fault(gate)
    assert load_config(reflection(backend="llm")).backend == "llm"
    assert "it takes a whole number" in fault(reflection(topk_snippets="9" * 5000))


@pytest.mark.parametrize(
    ("name", "value"),
    [("backend", "nope"), ("summary_tokens", -5), ("topk_snippets", "3"), ("ops_reflection", -1),
     ("time_ms_reflection", 0)],
)  # fmt: skip
def test_settings_that_are_made_in_python_are_checked_too(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} is {value!r}; it must be "):
        GatedConfig(**{name: value})


def test_every_fault_is_in_one_error() -> None:
    mapping = reflection(summary_tokens=-1, surprise=1, log="maybe") | budgets(time_ms_reflection=0)
    assert [line.split(" ")[0].rstrip(":") for line in fault(mapping).splitlines()] == [
        "t3.reflection.summary_tokens",
        "t3.reflection.surprise",
        "t3.reflection.log",
        "scheduler.budgets.time_ms_reflection",
    ]


def test_words_for_true_and_for_false() -> None:
    for words, wanted in (
        (("1", "TRUE", " yes ", "on", True, 1), True),
        (("0", "False", "NO", "off", False, 0), False),
    ):
        assert {load_config(reflection(embed=word)).embed for word in words} == {wanted}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20) | st.integers(), inner),
    max_leaves=4,
)
KEYS = st.sampled_from([*asdict(GatedConfig()), "t3", "reflection", "llm", "scheduler", "budgets", "path", "enabled"])


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, st.dictionaries(KEYS, ANYTHING) | ANYTHING) | ANYTHING))
def test_any_mapping_is_settings_or_one_value_error(mapping: dict[str, Any]) -> None:
    try:
        config = load_config(mapping)
    except ValueError:
        return
    assert min(config.summary_tokens, config.topk_snippets, config.ops_reflection, config.time_ms_reflection - 1) >= 0
    assert config.backend in ("rulebased", "llm")


@pytest.mark.parametrize("suffix", ["yaml", "toml"])
@pytest.mark.parametrize("key", ["summary_tokens", "backend"])
def test_a_number_that_cannot_be_shown_is_refused_with_its_key(tmp_path: Path, suffix: str, key: str) -> None:
    path, number = tmp_path / f"gated.{suffix}", "0x" + "f" * 5_000
    path.write_text(
        f"t3: {{reflection: {{{key}: {number}}}}}" if suffix == "yaml" else f"t3.reflection.{key} = {number}"
    )
    with pytest.raises(ConfigError, match=r"thousands of digits|at most 300 digits") as caught:
        read_config(path)
    assert str(path) in str(caught.value)
