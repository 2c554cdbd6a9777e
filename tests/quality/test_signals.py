"""Quality signals, their score, the words that an answer is searched for, and the gate's policies:
requirements D-02 to D-07 and E-02 to E-04.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.experience import (
    QualitySignals,
    detect_assertive_uncertainty,
    detect_failure_patterns,
    detect_missing_debug_structure,
    quality_signals_for_response,
)
from reflector.quality.signals import PRESETS, GatePolicy, ReflectionTrigger, Signs, word_lists

TURN, STEP = PRESETS["turn"], PRESETS["step"]


def signals(errors: float = 0.0, used: int = 0, most: int = 10, *flags: str) -> QualitySignals:
    return QualitySignals(errors, used, most, "trunc" in flags, "fail" in flags, "empty" in flags)


@pytest.mark.parametrize(
    ("given", "score"),
    [
        (signals(0, 1), 1.0),
        (signals(0.5, 3), 0.8),
        (signals(0, 9), 0.9),
        (signals(0, 0, 10, "empty"), 0.0),
        (signals(0.3, 8, 10, "trunc", "fail"), 0.43),
        (signals(1, 10, 10, "trunc", "fail"), 0.05),
        (signals(0, 7), 1.0),
        (signals(0, 8), 0.95),
        (signals(0, 5, 0, "trunc"), 0.85),
        (signals(0, 20), 0.35),
        (signals(0, 40), 0.0),
        (signals(1.0), 0.6),
        (signals(0, 0, 10, "trunc", "fail"), 0.6),
        (signals(0.375, 0, 10, "fail"), 0.6),
    ],
)
def test_score_is_one_minus_the_signals_costs(given: QualitySignals, score: float) -> None:
    assert given.score() == score


_COUNTS, _FLAGS = st.integers(0, 10**9), st.booleans()


@given(st.builds(QualitySignals, st.floats(0, 1), _COUNTS, _COUNTS, _FLAGS, _FLAGS, _FLAGS))
def test_score_is_0_to_1_with_six_decimals(given: QualitySignals) -> None:
    assert 0.0 <= given.score() <= 1.0
    assert given.score() == round(given.score(), 6)


@pytest.mark.parametrize(
    ("detect", "text", "found"),
    [
        (detect_failure_patterns, "I'm sorry, I can't do that", True),
        (detect_failure_patterns, "Unfortunately, I cannot access that file", True),
        (detect_failure_patterns, "Here is the file content you requested", False),
        (detect_failure_patterns, "I’m unable to", False),
        (detect_failure_patterns, "An Error occurred here", True),
        (detect_failure_patterns, "As an AI, I think", True),
        (detect_assertive_uncertainty, "The fact is that Python was invented in 1989.", True),
        (
            detect_assertive_uncertainty,
            "There is no question that this is the correct approach.",
            True,
        ),
        (
            detect_assertive_uncertainty,
            "Python is generally credited as a language designed for readability.",
            False,
        ),
        (detect_assertive_uncertainty, "The file was found at the expected path.", False),
        (detect_missing_debug_structure, "There is a bug in the config parser.", True),
        (
            detect_missing_debug_structure,
            "The crash is caused by a null pointer in the config parser.",
            True,
        ),
        (
            detect_missing_debug_structure,
            "The crash is caused by a null pointer. To verify, run `cargo test`.",
            False,
        ),
        (
            detect_missing_debug_structure,
            "The deployment was successful and all services are running.",
            False,
        ),
        # Known false alarms of the word lists.
        (detect_missing_debug_structure, "No errors were found.", True),
        (detect_missing_debug_structure, "I added a prefix.", True),
        (detect_missing_debug_structure, "Use the debugger", True),
    ],
)
def test_a_detector_finds_its_words(detect: Callable[[str], bool], text: str, found: bool) -> None:
    assert detect(text) is found


def test_the_lists_have_the_asked_words() -> None:
    words = word_lists()
    named = (
        "failure_patterns",
        "assertive_uncertainty",
        "debug_context",
        "root_cause",
        "verification",
    )
    assert [len(words[name]) for name in named] == [12, 6, 15, 9, 11]
    assert {"run ", "check ", "test "} <= set(words["verification"])


@pytest.mark.parametrize("text", ["I cannot", "Without any doubt.", "There is a bug."])
def test_words_of_failure_are_a_signal(text: str) -> None:
    assert quality_signals_for_response(text, [], 1, 10).has_failure_patterns


def test_skipped_calls_are_not_errors() -> None:
    results = [
        {"name": "read", "status": status} for status in ("success", "error", "skipped", "skipped")
    ]
    assert quality_signals_for_response("Done.", results, 3, 10) == QualitySignals(0.25, 3, 10)
    assert quality_signals_for_response(" \n", [], 1, 10, was_truncated=True) == signals(
        0, 1, 10, "trunc", "empty"
    )
    with pytest.raises(
        ValueError, match="'read' is 'ok'; it must be one of success, error, skipped"
    ):
        quality_signals_for_response("x", [{"name": "read", "status": "ok"}], 1, 1)


@pytest.mark.parametrize(
    ("signals", "reason"),
    [
        (QualitySignals(is_empty_response=True), "Quality score 0.00 below threshold 0.60"),
        (
            QualitySignals(0.3, 8, 10, True, True, False),
            (
                "Quality score 0.43 below threshold 0.60 (tool errors: 30%) (truncated) (failure "
                "patterns detected)"
            ),
        ),
        # Exactly at the gate, in 32-bit and in 64-bit arithmetic.
        (QualitySignals(1.0), None),
        (QualitySignals(was_truncated=True, has_failure_patterns=True), None),
        (QualitySignals(0.375, has_failure_patterns=True), None),
    ],
)
def test_turn_is_reflected_on_below_the_threshold(
    signals: QualitySignals, reason: str | None
) -> None:
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


def test_trigger_values_have_the_documented_order() -> None:
    documented = "low_confidence high_risk goal_drift tool_failure user_critical periodic"
    assert " ".join(trigger.value for trigger in STEP.triggers) == documented
    assert STEP.triggers == tuple(ReflectionTrigger)


def test_a_step_is_reflected_on_twice_at_most() -> None:
    decisions = [STEP.decide(Signs(0.3, step_number=1), started) for started in (0, 1, 2)]
    assert [decision.reflects for decision in decisions] == [True, True, False]


def test_period_0_and_no_triggers_close_the_gate() -> None:
    assert (
        not GatePolicy(tuple(ReflectionTrigger), period=0)
        .decide(Signs(0.9, step_number=5))
        .reflects
    )
    assert GatePolicy(triggers=()).decide(Signs(0.0)).reason == "reflection is off"


@pytest.mark.parametrize(
    ("values", "of"),
    [
        ({"confidence": float("nan")}, Signs),
        ({"confidence": 1, "step_number": -5}, Signs),
        ({"risk": 2}, GatePolicy),
    ],
)
def test_impossible_sign_or_policy_is_refused(values: dict[str, Any], of: Any) -> None:
    with pytest.raises(
        ValueError,
        match=(f"{[*values][-1]} is .*; it must be a (whole )?number (from|of at least) 0"),
    ):
        of(**values)


def test_a_policys_id_comes_from_its_values() -> None:
    assert GatePolicy().id == TURN.id != STEP.id
    assert GatePolicy(threshold=0.6 + 1e-9).id == TURN.id != GatePolicy(threshold=0.61).id


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_reflects_on_no_less(score: float, threshold: float) -> None:
    low, high = GatePolicy(threshold=threshold / 2), GatePolicy(threshold=threshold)
    assert low.decide(Signs(score)).reflects <= high.decide(Signs(score)).reflects
