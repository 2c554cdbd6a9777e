"""How `rules` judge a trajectory: by its report, and only where a test is tied to a step."""

from __future__ import annotations

import pytest

from reflector.ground_truth import ReflectionResult, ReflectorAgent, ReflectorPromptBuilder, llm_client
from reflector.reflection.protocol import BackendError
from tests.reflection.truth.cases import Store, attempt, bullet

RED = "FAILED tests/test_cart.py::test_empty_cart - ValueError: max() iterable argument is empty"
GREEN = "tests/test_cart.py::test_empty_cart PASSED"
STEP = "[pat-001] take the max of the cart without looking whether it is empty"


def judged(report: str, *steps: str, used: tuple[str, ...] = ("pat-001",)) -> ReflectionResult:
    agent = ReflectorAgent(llm_client("rules"), ReflectorPromptBuilder(), Store(bullet("pat-001"), bullet("pat-002")))
    return agent.run(attempt(used, reasoning_steps=list(steps)), "the truth", report, "sums", 3)


@pytest.mark.parametrize(
    ("report", "steps", "tag"),
    [
        (RED, [STEP], "harmful"),
        (f"{RED}\n{GREEN}", [STEP], "helpful"),
        (GREEN, [STEP], "neutral"),
        ("3 failed", [STEP], "neutral"),
        (RED, ["[pat-001] read the file"], "neutral"),
        (RED, ["take the max of the empty cart"], "neutral"),
        (RED, [STEP, "the max of an empty cart is an error"], "neutral"),
        (RED, ["[pat-001] and [pat-002] take the max of the empty cart"], "neutral"),
        (f"{RED}\n{GREEN}\n{RED.replace('empty_cart', 'cart_max')}", [STEP], "neutral"),
    ],
)
def test_a_verdict_needs_a_named_test_that_is_tied_to_the_step(report: str, steps: list[str], tag: str) -> None:
    (evaluation,) = judged(report, *steps).bullet_evaluations
    assert evaluation.tag == tag
    if tag != "neutral":
        assert "tests/test_cart.py::test_empty_cart" in evaluation.reason


def test_insights_name_the_failing_test_and_its_step() -> None:
    result = judged(RED, STEP)
    (insight,) = result.insights
    assert "tests/test_cart.py::test_empty_cart fails" in insight.key_insight
    assert insight.root_cause_analysis.startswith("Step 1: ")
    assert result.iteration_count == 3
    assert judged(RED, STEP) == result


def test_a_report_without_a_failure_teaches_nothing() -> None:
    assert judged(GREEN, STEP).insights == []


def test_rules_read_no_bare_prompt() -> None:
    with pytest.raises(BackendError, match="reads no prompts"):
        llm_client("rules").invoke_with_template("What is wrong?")


def test_a_long_trajectory_is_judged_in_linear_time() -> None:
    """Comparing each step with each other one takes minutes here, which the timeout of every test ends."""
    report = "".join(f"FAILED tests/test_s.py::test_x{number} - assert {number}\n" for number in range(20))
    steps = [f"[pat-001] look at thing b{number}" for number in range(1_500)]
    result = judged(report, *steps, *(step.removeprefix("[pat-001] ") for step in steps))
    assert [one.tag for one in result.bullet_evaluations] == ["neutral"]
