"""The vector of a text (requirements C.4)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.lessons.outcomes import embed

FIRST_FOUR = {
    "x": [-0.218560, 0.050570, -0.214722, 0.247740],
    "hello there alpha beta gamma": [0.011143, -0.042809, 0.260036, -0.147501],
    "hello world this is a test alpha beta": [0.195402, -0.104970, 0.167898, 0.242115],
    "日本語": [-0.028702, 0.048048, 0.083354, 0.214307],
}


@pytest.mark.parametrize("text", FIRST_FOUR)
def test_the_vector_of_a_text_is_the_one_that_was_asked_for(text: str) -> None:
    assert embed(text)[:4] == pytest.approx(FIRST_FOUR[text], abs=1e-6)


@given(st.text())
def test_every_text_has_thirty_two_numbers_of_norm_one(text: str) -> None:
    vector = embed(text)
    assert len(vector) == 32
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)
    assert vector == embed(text)


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        embed("\ud800")
