"""Conditions on counters: a grammar of its own, and nothing that is run."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.playbook.condition import BadCondition, condition

_VALUES = st.one_of(st.sampled_from(["helpful", "harmful"]), st.integers(0, 12).map(str))
_COMPARED = st.tuples(_VALUES, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), _VALUES).map(" ".join)
_TEXTS = st.recursive(
    _COMPARED,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map(lambda text: f"not ({text})"),
        inner.map(lambda text: f"( {text})"),
    ),
    max_leaves=8,
)


@given(_TEXTS, st.integers(0, 12), st.integers(0, 12))
def test_a_condition_means_what_it_means_in_python(text: str, helpful: int, harmful: int) -> None:
    wanted = eval(text, {"__builtins__": {}}, {"helpful": helpful, "harmful": harmful})
    assert condition(text).holds(helpful, harmful) is wanted


def test_comparisons_may_be_chained_and_spaces_left_out() -> None:
    assert condition("3<=harmful<5").holds(0, 4)
    assert not condition("3<=harmful<5").holds(0, 5)
    assert condition("helpful>harmful and not helpful==0").holds(2, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "helpful",
        "helpful >",
        "> 3",
        "helpful = 3",
        "helpful > 3 or",
        "(helpful > 3",
        "helpful > 3)",
        "helpfull > 3",
        "helpful > 3 harmful",
        "helpful > -1",
        "helpful > 1.5",
        "helpful > ٣",
        "__import__('os').system('true')",
        "helpful > 3; harmful",
        "(" * 5_000,
        "not " * 200 + "helpful > 1",
        "helpful > " + "9" * 30,
    ],
)
def test_what_is_no_condition_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadCondition, match="such as: harmful >= 3"):
        condition(text)


def test_a_text_of_which_nothing_is_understood_is_said_once() -> None:
    with pytest.raises(BadCondition, match=r"^'foo > 1' is not understood; "):
        condition("foo > 1")
    with pytest.raises(BadCondition, match=r"^'helpful > x': 'x' is not understood; "):
        condition("helpful > x")


@given(st.text(max_size=40))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with suppress(BadCondition):
        condition(text).holds(1, 2)
