"""Quality signals, their score, and the words that an answer is searched for: requirements D-02 to D-06."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.experience import (
    QualitySignals,
    detect_assertive_uncertainty,
    detect_failure_patterns,
    detect_missing_debug_structure,
    quality_signals_for_response,
)
from reflector.quality.signals import word_lists


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
def test_a_score_is_one_less_what_the_signals_cost(given: QualitySignals, score: float) -> None:
    assert given.score() == score


_COUNTS, _FLAGS = st.integers(0, 10**9), st.booleans()


@given(st.builds(QualitySignals, st.floats(0, 1), _COUNTS, _COUNTS, _FLAGS, _FLAGS, _FLAGS))
def test_a_score_is_from_0_to_1_with_six_decimals(given: QualitySignals) -> None:
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
        (detect_assertive_uncertainty, "There is no question that this is the correct approach.", True),
        (detect_assertive_uncertainty, "Python is generally credited as a language designed for readability.", False),
        (detect_assertive_uncertainty, "The file was found at the expected path.", False),
        (detect_missing_debug_structure, "There is a bug in the config parser.", True),
        (detect_missing_debug_structure, "The crash is caused by a null pointer in the config parser.", True),
        (detect_missing_debug_structure, "The crash is caused by a null pointer. To verify, run `cargo test`.", False),
        (detect_missing_debug_structure, "The deployment was successful and all services are running.", False),
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
    named = ("failure_patterns", "assertive_uncertainty", "debug_context", "root_cause", "verification")
    assert [len(words[name]) for name in named] == [12, 6, 15, 9, 11]
    assert {"run ", "check ", "test "} <= set(words["verification"])


def test_errors_are_counted_among_all_calls_and_skipped_ones_are_not_errors() -> None:
    results = [{"name": "read", "status": status} for status in ("success", "error", "skipped", "skipped")]
    assert quality_signals_for_response("Done.", results, 3, 10) == QualitySignals(0.25, 3, 10)
    assert quality_signals_for_response(" \n", [], 1, 10, was_truncated=True) == signals(0, 1, 10, "trunc", "empty")
    for text in ("I cannot", "Without any doubt.", "There is a bug."):
        assert quality_signals_for_response(text, [], 1, 10).has_failure_patterns
    with pytest.raises(ValueError, match="'read': status is 'ok', not success, error, skipped"):
        quality_signals_for_response("x", [{"name": "read", "status": "ok"}], 1, 1)
