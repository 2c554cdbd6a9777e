"""Test reports: what each runner says of each test, and that nothing in one can do harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.reflection.truth.reports import read_report
from tests.conftest import assert_linear
from tests.reflection.truth.cases import TEXTS

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="0" failures="1">
<testcase classname="tests.test_cart" name="test_total">
<failure message="assert 3 == 4">E  assert 3 == 4</failure></testcase>
<testcase classname="tests.test_cart" name="test_empty" />
<testcase classname="tests.test_cart" name="test_old"><skipped message="old" /></testcase>
<testcase classname="tests.test_cart" name="test_shaky"><flakyFailure message="once">x</flakyFailure></testcase>
</testsuite></testsuites>"""


def test_junit_xml_names_what_failed_in_the_last_try() -> None:
    (failing,) = read_report(JUNIT).failing
    assert failing.test == "tests.test_cart::test_total"
    assert "assert 3 == 4" in failing.message
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
    assert [one.test for one in read_report(text).failing] == failing


def test_what_a_report_says_of_a_test_is_kept_once_and_a_later_pass_repairs_it() -> None:
    report = read_report("____ a ____\nE   assert 1 == 2\n\n=== short ===\n" + "FAILED a.py::a\n" * 3)
    assert [outcome.message for outcome in report.outcomes] == ["E   assert 1 == 2", "", ""]
    assert [outcome.message for outcome in report.failing] == ["E   assert 1 == 2"]
    report = read_report("FAILED t.py::test_x - assert 1 == 2\n1 failed in 0.1s\nt.py::test_x PASSED [100%]")
    assert report.failing == []


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
