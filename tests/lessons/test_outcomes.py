"""What outcomes say of a lesson, and the vector of its text (C.4): what the vectors of parts D and E leave open."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.events.lessons import POLARITY
from reflector.lessons.outcomes import (
    OUTCOME_KINDS,
    OutcomeSignal,
    ema,
    embed,
    evict,
    merge_outcome_signals,
    score_improvement,
)
from tests.gating.vectors import FIRST_FOUR

_KINDS = st.sampled_from(sorted(POLARITY))
_SIGNALS = st.lists(st.builds(OutcomeSignal, _KINDS, st.sampled_from(["t1", "t2", "t3"])), max_size=12)


def test_every_kind_has_a_weight_and_no_other_is_an_outcome() -> None:
    assert OUTCOME_KINDS.keys() == POLARITY.keys()
    with pytest.raises(ValueError, match="'liked' is not a kind of outcome; the kinds are "):
        OutcomeSignal("liked", "2026-11-22T00:00:00Z")


@pytest.mark.parametrize(("initial", "retried"), [(float("nan"), 0.5), (0.5, float("nan"))])
def test_a_score_that_is_no_number_improved_nothing(initial: float, retried: float) -> None:
    assert score_improvement(initial, retried) == 0.0


@given(_SIGNALS, _SIGNALS)
def test_d15_merging_keeps_every_kind_once_in_order_and_merging_again_changes_nothing(
    stored: list[OutcomeSignal], incoming: list[OutcomeSignal]
) -> None:
    merged = merge_outcome_signals(stored, incoming)
    assert {signal.kind for signal in merged} == {signal.kind for signal in [*stored, *incoming]}
    assert len(merged) == len({signal.kind for signal in merged})
    assert [signal.observed_at for signal in merged] == sorted(signal.observed_at for signal in merged)
    assert merge_outcome_signals(merged, []) == merged == merge_outcome_signals([], merged)


@given(st.lists(st.booleans(), max_size=50), st.floats(0, 1))
def test_e10_effectiveness_stays_between_0_and_1(outcomes: list[bool], alpha: float) -> None:
    effectiveness = 0.5
    for outcome in outcomes:
        effectiveness = ema(effectiveness, outcome, alpha)
        assert 0 <= effectiveness <= 1


@dataclass(frozen=True)
class Banked:
    id: str
    created_at: str
    effectiveness: float


def test_e11_the_least_effective_goes_then_the_oldest_then_by_id() -> None:
    bank = [Banked("c", "t1", 0.4), Banked("b", "t1", 0.4), Banked("d", "t0", 0.4), Banked("a", "t9", 0.9)]
    assert [one.id for one in evict(bank, 4)] == []
    assert [one.id for one in evict(bank, 1)] == ["d", "b", "c"]


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
