"""Conditions on counters: comparisons joined by `and`, and nothing that is run."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.playbook.condition import BadCondition, condition

_VALUES = st.one_of(st.sampled_from(["helpful", "harmful"]), st.integers(0, 12).map(str))
_COMPARED = st.tuples(_VALUES, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), _VALUES)
_TEXTS = st.lists(_COMPARED.map(" ".join) | _COMPARED.map("".join), min_size=1, max_size=4).map(" and ".join)


@given(_TEXTS, st.integers(0, 12), st.integers(0, 12))
def test_a_condition_means_what_it_means_in_python(text: str, helpful: int, harmful: int) -> None:
    wanted = eval(text, {"__builtins__": {}}, {"helpful": helpful, "harmful": harmful})
    assert condition(text).holds(helpful, harmful) is wanted


@pytest.mark.parametrize(
    "text",
    [
        *"""|helpful|helpful >|> 3|helpful = 3|helpful > 3 or|(helpful > 3|helpful > 3)|helpfull > 3|helpful > 3 harmful
        |helpful > -1|helpful > 1.5|helpful > \u0663|__import__('os').system('true')|helpful > 3; harmful|foo > 1
        |3 <= harmful < 5|helpful > 3 or harmful > 3|not helpful > 3|(helpful > 3) and harmful > 3
        |helpful > 3 and""".split("|"),
        "(" * 5_000,
        "helpful > " + "9" * 30,
    ],
)
def test_any_other_form_is_refused_with_the_form_to_use(text: str) -> None:
    with pytest.raises(BadCondition, match="joins comparisons by `and`, such as: harmful >= 3") as refused:
        condition(text)
    assert len(str(refused.value)) < 300


@given(st.text(max_size=40))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with suppress(BadCondition):
        condition(text).holds(1, 2)
