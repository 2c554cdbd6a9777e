"""What outcomes say of a lesson: the vectors of D.12 to D.17 and E.10 to E.11, each named after its requirement."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.events.lessons import POLARITY
from reflector.lessons.outcomes import (
    OUTCOME_KINDS,
    OutcomeSignal,
    ema,
    evict,
    merge_outcome_signals,
    promotion_confidence,
    score_improvement,
    state_of,
    strategy_key,
    tally,
)

_KINDS = st.sampled_from(sorted(POLARITY))
_SIGNALS = st.lists(st.builds(OutcomeSignal, _KINDS, st.sampled_from(["t1", "t2", "t3"])), max_size=12)


def signals(*kinds: str) -> list[OutcomeSignal]:
    return [OutcomeSignal(kind, f"t{number:02}") for number, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("initial", "retried", "gained"),
    [
        (0.40, 0.76, 0.6),
        (0.65, 0.65, 0),
        (0.65, 0.52, 0),
        (0, 1, 1),
        (1, 1, 0),
        (0.4, 0.43, 0.05),
        (0.4, 0.42, 0.033333),
    ],
)
def test_d12_the_improvement_is_the_share_of_the_gap_that_a_retry_closed(
    initial: float, retried: float, gained: float
) -> None:
    assert score_improvement(initial, retried) == gained


@pytest.mark.parametrize(("initial", "retried"), [(float("nan"), 0.5), (0.5, float("nan"))])
def test_a_score_that_is_no_number_improved_nothing(initial: float, retried: float) -> None:
    assert score_improvement(initial, retried) == 0.0


@pytest.mark.parametrize(
    ("improvement", "confidence"),
    [(None, 0.62), (0, 0.55), (0.24, 0.634), (0.4, 0.69), (0.6, 0.76), (0.88, 0.858), (1, 0.90), (2, 0.90), (-1, 0.55)],
)
def test_d13_confidence_starts_from_the_improvement(improvement: float | None, confidence: float) -> None:
    assert promotion_confidence(improvement, []) == confidence


@pytest.mark.parametrize(
    ("improvement", "kinds", "confidence"),
    [
        (None, ["retry_improved", "review_approved"], 0.73),
        (None, ["retry_did_not_improve", "review_needs_revision"], 0.40),
        (0.4, ["retry_did_not_improve"], 0.59),
        (0.4, ["retry_did_not_improve", "review_approved", "task_completed"], 0.79),
        (0.24, ["retry_did_not_improve"], 0.534),
        (0.24, ["retry_did_not_improve", "review_approved"], 0.614),
        (1, ["task_completed", "review_approved", "pre_execution_approved"], 0.97),
        (0, ["task_failed", "review_rejected", "test_validation_rejected"], 0.30),
    ],
)
def test_d13_confidence_adds_what_each_outcome_weighs(
    improvement: float | None, kinds: list[str], confidence: float
) -> None:
    assert promotion_confidence(improvement, signals(*kinds)) == confidence


def test_d14_every_kind_has_its_label_and_its_weight() -> None:
    assert OUTCOME_KINDS.keys() == POLARITY.keys()
    labels = {kind: one.label for kind, one in OUTCOME_KINDS.items()}
    assert labels["retry_did_not_improve"] == "Retry did not improve"
    assert labels["execution_awaiting_test_validation"] == "Execution awaiting test validation"
    assert labels["pre_execution_needs_revision"] == "Pre-execution needs revision"
    by_delta: dict[float, set[str]] = {}
    for kind, one in OUTCOME_KINDS.items():
        by_delta.setdefault(one.delta, set()).add(kind)
    assert {delta: len(kinds) for delta, kinds in by_delta.items()} == {
        0.03: 1,
        -0.10: 1,
        0.02: 2,
        0.12: 2,
        -0.12: 6,
        -0.08: 1,
        0.08: 3,
        -0.16: 3,
    }


def test_d15_one_signal_of_a_kind_stays_the_one_that_came_last_even_if_older() -> None:
    stored = [OutcomeSignal("review_approved", "t5", "first"), OutcomeSignal("task_failed", "t3")]
    merged = merge_outcome_signals(stored, [OutcomeSignal("review_approved", "t1", "later")])
    assert merged == (OutcomeSignal("review_approved", "t1", "later"), OutcomeSignal("task_failed", "t3"))


@given(_SIGNALS, _SIGNALS)
def test_d15_merging_keeps_every_kind_once_in_order_and_merging_again_changes_nothing(
    stored: list[OutcomeSignal], incoming: list[OutcomeSignal]
) -> None:
    merged = merge_outcome_signals(stored, incoming)
    assert {signal.kind for signal in merged} == {signal.kind for signal in [*stored, *incoming]}
    assert len(merged) == len({signal.kind for signal in merged})
    assert [signal.observed_at for signal in merged] == sorted(signal.observed_at for signal in merged)
    assert merge_outcome_signals(merged, []) == merged == merge_outcome_signals([], merged)


def test_d16_awaiting_counts_for_neither() -> None:
    positive = {kind for kind, one in OUTCOME_KINDS.items() if one.polarity > 0}
    assert positive == {
        *("retry_improved", "pre_execution_approved", "review_approved", "test_validation_approved"),
        *("task_completed", "success"),
    }
    assert tally(signals("execution_awaiting_review", "task_completed", "task_blocked", "review_rejected")) == (1, 2)


@pytest.mark.parametrize(
    ("confidence", "successes", "failures", "state"),
    [
        (0.9, 5, 3, "archived"),
        (0.39, 0, 2, "archived"),
        (0.40, 0, 2, "decayed"),
        (0.39, 1, 2, "active"),
        (0.30, 0, 1, "active"),
        (0.62, 0, 0, "active"),
    ],
)
def test_d17_failures_decay_and_archive_a_lesson(confidence: float, successes: int, failures: int, state: str) -> None:
    assert state_of(confidence, successes, failures) == state


def test_d17_a_strategy_is_known_by_its_first_ten_words() -> None:
    assert strategy_key("Inspect the relevant files first") == "inspect-the-relevant-files-first"
    assert strategy_key("") == strategy_key("日本語 …") == "reflection-strategy"
    assert strategy_key(" ".join(map(str, range(20)))) == "0-1-2-3-4-5-6-7-8-9"


@pytest.mark.parametrize(
    ("alpha", "outcomes", "after"),
    [
        (0.2, "S", [0.6]),
        (0.2, "F", [0.4]),
        (0.2, "SSS", [0.6, 0.68, 0.744]),
        (0.2, "FFF", [0.4, 0.32, 0.256]),
        (0.2, "SF", [0.6, 0.48]),
        (0.2, "FS", [0.4, 0.52]),
        (0.1, "S", [0.55]),
        (0.1, "F", [0.45]),
        (0.3, "S", [0.65]),
        (0.3, "F", [0.35]),
    ],
)
def test_e10_effectiveness_is_a_moving_average(alpha: float, outcomes: str, after: list[float]) -> None:
    effectiveness, found = 0.5, []
    for outcome in outcomes:
        effectiveness = ema(effectiveness, float(outcome == "S"), alpha)
        found.append(effectiveness)
    assert found == after


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
