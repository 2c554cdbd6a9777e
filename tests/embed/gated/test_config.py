"""The settings of gated reflection: what is understood, what is refused, and in which words."""

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.gated import Fixtures, GatedConfig, load_config


def reflection(**settings: Any) -> dict[str, Any]:
    return {"t3": {"reflection": settings}}


def fault(mapping: dict[str, Any]) -> str:
    with pytest.raises(ValueError) as caught:
        load_config(mapping)
    return str(caught.value)


def test_the_defaults_are_the_documented_ones() -> None:
    values = (False, "rulebased", 128, True, True, 3, 6000, 5, {"enabled": False, "path": None})
    assert tuple(asdict(GatedConfig()).values()) == values


@pytest.mark.parametrize(
    "mapping",
    [
        {},
        # Sections whose keys are all commented out.
        {"t3": None},
        {"t3": {"reflection": None, "llm": None}},
        {"scheduler": {"budgets": None}},
        # What other parts of the host keep in shared sections.
        {
            "t1": {"decay": 0.9},
            "scheduler": {"policy": "fair", "budgets": {"t1_iters": 50, "wall_ms": 200}},
        },
        {
            "t3": {
                "max_rag_loops": 1,
                "lm": 1,
                "llm": {"provider": "x", "fixtures": {"hash": "x"}},
                "apply": {},
            }
        },
    ],
)
def test_missing_or_foreign_settings_leave_the_defaults(mapping: dict[str, Any]) -> None:
    assert load_config(mapping) == GatedConfig()


def test_settings_are_read_from_the_host() -> None:
    host = {
        "t3": {
            "allow_reflection": True,
            "reflection": {
                "backend": "LLM",
                "summary_tokens": 6,
                "embed": "off",
                "log": "No",
                "topk_snippets": 0,
            },
            "llm": {"fixtures": {"enabled": "yes", "path": " p.jsonl "}},
        },
        "scheduler": {"budgets": {"time_ms_reflection": "10", "ops_reflection": 3.14}},
    }
    assert load_config(host) == GatedConfig(
        True, "llm", 6, False, False, 0, 10, 3, Fixtures(True, "p.jsonl")
    )


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("t3.reflection.summary_tokens", -1, " is -1; it must be at least 0"),
        ("t3.reflection.surprise", 1, ": unknown key"),
        ("t3.reflection.sumary_token", 1, ": unknown key (did you mean 'summary_tokens')"),
        ("t3.reflection.backend", "nope", " is 'nope'; it must be one of rulebased, llm"),
        ("scheduler.budgets.ops_reflection", -0.5, " is -0.5; it must be at least 0"),
        ("scheduler.budgets.time_ms_reflection", 0, " is 0; it must be at least 1"),
        ("t3.llm.fixtures.path", "  ", " is '  '; it must be a non-empty string"),
        ("t3.reflection.log", "maybe", " is 'maybe'; it must be true or false"),
        ("t3.reflection.summary_tokens", "abc", " is 'abc'; it must be a whole number"),
        ("t3.reflection.summary_tokens", True, " is True; it must be a whole number"),
        ("t3.reflection", [1], " is [1]; it must be a mapping of keys to values"),
    ],
)
def test_wrong_setting_is_named_with_value_and_remedy(key: str, value: Any, words: str) -> None:
    mapping = value
    for part in reversed(key.split(".")):
        mapping = {part: mapping}
    assert fault(mapping) == key + words


def test_recorded_answers_need_a_file_behind_the_gate() -> None:
    assert ("t3.llm.fixtures.path must be a non-empty string") in fault(
        {"t3": {"llm": {"fixtures": {"enabled": True}}}}
    )
    gate = {"t3": {"allow_reflection": True, "reflection": {"backend": "LLM"}}}
    assert "needs t3.llm.fixtures.enabled: true" in fault(gate)
    assert load_config(reflection(backend="llm")).backend == "llm"
    assert len(fault(reflection(log="maybe", embed=2)).splitlines()) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("backend", "nope"), ("summary_tokens", -5), ("topk_snippets", "3")]
)
def test_settings_made_in_python_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} is {value!r}; it must be "):
        GatedConfig(**{name: value})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20) | st.integers(), inner)
    ),
    max_leaves=4,
)
KEYS = st.sampled_from(
    [*asdict(GatedConfig()), "t3", "reflection", "llm", "scheduler", "budgets", "path", "enabled"]
)


@given(
    st.dictionaries(
        KEYS, st.dictionaries(KEYS, st.dictionaries(KEYS, ANYTHING) | ANYTHING) | ANYTHING
    )
)
def test_any_mapping_is_settings_or_one_value_error(mapping: dict[str, Any]) -> None:
    try:
        config = load_config(mapping)
    except ValueError:
        return
    assert (
        min(
            config.summary_tokens,
            config.topk_snippets,
            config.ops_reflection,
            config.time_ms_reflection - 1,
        )
        >= 0
    )
    assert config.backend in ("rulebased", "llm")
