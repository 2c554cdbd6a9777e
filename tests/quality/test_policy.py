"""The gate's policies: requirements D-07 and E-02 to E-04."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.quality.signals import PRESETS, GatePolicy, QualitySignals, ReflectionTrigger, Signs

TURN, STEP = PRESETS["turn"], PRESETS["step"]


@pytest.mark.parametrize(
    ("signals", "reason"),
    [
        (QualitySignals(is_empty_response=True), "Quality score 0.00 below threshold 0.60"),
        (
            QualitySignals(0.3, 8, 10, True, True, False),
            "Quality score 0.43 below threshold 0.60 (tool errors: 30%) (truncated) (failure patterns detected)",
        ),
        # Exactly at the gate, in 32-bit and in 64-bit arithmetic.
        (QualitySignals(1.0), None),
        (QualitySignals(was_truncated=True, has_failure_patterns=True), None),
        (QualitySignals(0.375, has_failure_patterns=True), None),
    ],
)
def test_a_turn_is_reflected_on_below_the_threshold_and_not_at_it(signals: QualitySignals, reason: str | None) -> None:
    decision = TURN.decide(Signs.of(signals))
    assert (decision.reason if decision.reflects else None) == reason


@pytest.mark.parametrize(
    ("signs", "trigger"),
    [
        ({"confidence": 0.3}, "low_confidence"),
        ({"confidence": 0.5}, None),
        ({"confidence": 0.9, "risk_level": 0.7}, None),
        ({"confidence": 0.9, "risk_level": 0.71}, "high_risk"),
        ({"confidence": 0.9, "goal_drift": 0.4}, None),
        ({"confidence": 0.9, "goal_drift": 0.41}, "goal_drift"),
        ({"confidence": 0.9, "tool_failures": 1}, "tool_failure"),
        ({"confidence": 0.9, "is_final_step": True}, "user_critical"),
        ({"confidence": 0.9, "step_number": 5}, "periodic"),
        ({"confidence": 0.9, "step_number": 4}, None),
        ({"confidence": 0.9, "step_number": 0}, None),
        ({"confidence": 0.3, "tool_failures": 1}, "low_confidence"),
    ],
)
def test_a_step_has_six_triggers_in_order(signs: dict[str, Any], trigger: str | None) -> None:
    assert STEP.decide(Signs(**signs)).trigger == trigger


def test_the_triggers_have_lower_case_values_in_the_documented_order() -> None:
    documented = "low_confidence high_risk goal_drift tool_failure user_critical periodic"
    assert " ".join(trigger.value for trigger in STEP.triggers) == documented
    assert STEP.triggers == tuple(ReflectionTrigger)


def test_a_step_is_reflected_on_twice_at_most() -> None:
    decisions = [STEP.decide(Signs(0.3, step_number=1), started) for started in (0, 1, 2)]
    assert [decision.reflects for decision in decisions] == [True, True, False]


def test_a_period_of_0_is_never_and_a_gate_without_triggers_is_closed() -> None:
    assert not GatePolicy(tuple(ReflectionTrigger), period=0).decide(Signs(0.9, step_number=5)).reflects
    assert GatePolicy(triggers=()).decide(Signs(0.0)).reason == "reflection is off"


@pytest.mark.parametrize(
    ("values", "of"),
    [({"confidence": float("nan")}, Signs), ({"confidence": 1, "step_number": -5}, Signs), ({"risk": 2}, GatePolicy)],
)
def test_a_sign_or_a_policy_that_cannot_be_is_refused(values: dict[str, Any], of: Any) -> None:
    with pytest.raises(ValueError, match=f"{[*values][-1]} is .*; it must be a (whole )?number from 0"):
        of(**values)


def test_a_policys_id_comes_from_its_values() -> None:
    assert GatePolicy().id == TURN.id != STEP.id
    assert GatePolicy(threshold=0.6 + 1e-9).id == TURN.id != GatePolicy(threshold=0.61).id


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_reflects_on_no_less(score: float, threshold: float) -> None:
    low, high = GatePolicy(threshold=threshold / 2), GatePolicy(threshold=threshold)
    assert low.decide(Signs(score)).reflects <= high.decide(Signs(score)).reflects
