"""Test reports: what each runner says of each test, that nothing in one can do harm, and what `rules` make of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.ground_truth import ReflectionResult, ReflectorAgent, ReflectorPromptBuilder, llm_client
from reflector.reflection.protocol import BackendError
from reflector.reflection.truth.reports import read_report
from tests.conftest import assert_linear
from tests.reflection.truth.cases import TEXTS, Store, attempt, bullet

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="0" failures="1">
<testcase classname="tests.test_cart" name="test_total">
<failure message="assert 3 == 4">E  assert 3 == 4</failure></testcase>
<testcase classname="tests.test_cart" name="test_empty" />
<testcase classname="tests.test_cart" name="test_old"><skipped message="old" /></testcase>
<testcase classname="tests.test_cart" name="test_shaky"><flakyFailure message="once">x</flakyFailure></testcase>
</testsuite></testsuites>"""


def names(text: str) -> tuple[list[str], list[str]]:
    report = read_report(text)
    return [one.test for one in report.failing], [one.test for one in report.repaired]


def test_junit_xml_names_what_failed_and_what_passed_after_having_failed() -> None:
    assert names(JUNIT) == (["tests.test_cart::test_total"], ["tests.test_cart::test_shaky"])
    assert "assert 3 == 4" in read_report(JUNIT).failing[0].message
    assert not any(one.test.endswith("test_old") for one in read_report(JUNIT).outcomes)


@pytest.mark.parametrize(
    ("text", "failing"),
    [
        ("FAILED tests/test_a.py::test_x - assert 1 == 2", ["tests/test_a.py::test_x"]),
        (
            "tests/test_a.py::test_x[1-2] FAILED   [ 50%]\ntests/test_a.py::test_y PASSED",
            ["tests/test_a.py::test_x[1-2]"],
        ),
        ("ERROR tests/test_a.py - ImportError: no module", ["tests/test_a.py"]),
        ("FAIL: test_x (test_a.Sums)", ["test_a.Sums::test_x"]),
        ("test_x (test_a.Sums) ... FAIL\ntest_y (test_a.Sums) ... ok", ["test_a.Sums::test_x"]),
        ("--- FAIL: TestX (0.00s)\n--- PASS: TestY (0.00s)", ["TestX"]),
        ("not ok 1 - adds\nok 2 - divides", ["adds"]),
        ("  ✕ adds (3 ms)\n  ✓ divides (1 ms)", ["adds"]),
        ("Everything is broken.", []),
    ],
)
def test_the_lines_of_runners_name_what_failed(text: str, failing: list[str]) -> None:
    assert names(text) == (failing, [])


def test_what_a_report_says_of_a_test_is_kept_once_and_a_later_pass_repairs_it() -> None:
    report = read_report("____ a ____\nE   assert 1 == 2\n\n=== short ===\n" + "FAILED a.py::a\n" * 3)
    assert [outcome.message for outcome in report.outcomes] == ["E   assert 1 == 2", "", ""]
    assert [outcome.message for outcome in report.failing] == ["E   assert 1 == 2"]
    report = read_report("FAILED t.py::test_x - assert 1 == 2\n1 failed in 0.1s\nt.py::test_x PASSED [100%]")
    assert report.failing == []
    assert [(one.test, one.message) for one in report.repaired] == [("t.py::test_x", "assert 1 == 2")]


BOMB = '<!DOCTYPE x [<!ENTITY a "aaa"><!ENTITY b "&a;&a;&a;">]><testsuites><testcase name="&b;"/></testsuites>'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *(
            (text, "document type")
            for text in (BOMB, '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><a>&a;</a>')
        ),
        *((text, "JUnit XML") for text in ("<testsuites>", "<a>&x;</a>", "<a>\0</a>")),
    ],
)
def test_xml_that_cannot_be_read_or_declares_a_type_is_a_problem_and_no_error(text: str, problem: str) -> None:
    report = read_report(text)
    assert report.outcomes == ()
    assert problem in report.problem


@given(TEXTS | st.lists(st.sampled_from(JUNIT.splitlines())).map("\n".join))
def test_no_text_makes_it_raise(text: str) -> None:
    read_report(text)


@pytest.mark.parametrize(
    "line", ["", "E x", "____ a ____", "FAILED a.py::a", "FAIL: a (a", "ok 1 - a", "--- FAIL: a", "✗ a"]
)
def test_a_long_report_is_read_in_linear_time(line: str) -> None:
    assert_linear(lambda size: read_report("____ a ____\n" + "\n" * (size // 4) + f"{line}\n" * size), 2_500)


# How `rules` judge a trajectory by its report.

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
    assert judged(GREEN, STEP).insights == []
    with pytest.raises(BackendError, match="reads no prompts"):
        llm_client("rules").invoke_with_template("What is wrong?")


def test_a_long_trajectory_is_judged_in_linear_time() -> None:
    """Comparing each step with each other one takes minutes here, which the timeout of every test ends."""
    report = "".join(f"FAILED tests/test_s.py::test_x{number} - assert {number}\n" for number in range(20))
    steps = [f"[pat-001] look at thing b{number}" for number in range(1_500)]
    result = judged(report, *steps, *(step.removeprefix("[pat-001] ") for step in steps))
    assert [one.tag for one in result.bullet_evaluations] == ["neutral"]
