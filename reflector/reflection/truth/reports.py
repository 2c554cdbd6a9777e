"""What a test report says of each test: JUnit XML, the text of a runner, or any text.

Invariant: reading a report resolves no entity, opens no file, takes linear time and never raises. A report that names
no test says nothing of any; a line that is not understood is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.etree import ElementTree

from reflector.text.bounds import clean, head_and_tail

_MOST_LINE = 2_000
_MOST_MESSAGE = 4_000
_FAILED = {"failure", "error", "rerunFailure", "rerunError"}
_GOOD = {"PASSED", "XPASS", "ok", "PASS", "✓", "✔"}

#: How runners name a test and its result on a line; `test`, `of` (its class or module) and `result`.
_LINES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<test>\S+::[^\n]{1,400}?) (?P<result>PASSED|FAILED|ERROR|XPASS)\b",  # pytest -v
        # pytest's summary
        r"(?P<result>FAILED|ERROR) (?P<test>\S+\.py(?:::\S+(?: ?\[[^\]\n]{0,300}\])?)?)(?: - (?P<message>.*))?$",
        r"(?P<result>FAIL|ERROR): (?P<test>\w+) \((?P<of>[\w.]+)\)",  # unittest
        r"(?P<test>\w+) \((?P<of>[\w.]+)\)(?: ?\.\.\.) (?P<result>ok|FAIL|ERROR)$",  # unittest -v
        r"\s{0,40}--- (?P<result>PASS|FAIL): (?P<test>\S+)",  # go
        r"(?P<result>(?:not )?ok) \d+ (?:- )?(?P<test>[^#\n]{1,400})",  # TAP
        r"\s{0,40}(?P<result>[✓✔✕✗×]) (?P<test>[^\n(]{1,400})",  # jest, mocha, vitest
    )
)
_HEADING = re.compile(r"_{3,} (?P<test>[^\n]{1,400}?) _{3,}$")


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """How one test ended, and what was said of it."""

    __test__ = False

    test: str
    passed: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """A report, read. `problem` says why no test could be named; "" where some are or none had to be.

    outcomes  every result, in the order of the report: a test that ran twice stands there twice
    """

    outcomes: tuple[TestOutcome, ...] = ()
    problem: str = ""

    @property
    def failing(self) -> list[TestOutcome]:
        """The tests that failed when they ran last, each once, in the order of the report."""
        last: dict[str, TestOutcome] = {}
        for outcome in self.outcomes:
            if not outcome.message and outcome.test in last:
                outcome = replace(outcome, message=last[outcome.test].message)
            last[outcome.test] = outcome
        return [outcome for outcome in last.values() if not outcome.passed]

    def names(self) -> str:
        """Return a line for each failing test: its name and what was said of it; "" where none failed."""
        lines = [f"- {one.test}" + (f": {clean(one.message, 300)}" if one.message else "") for one in self.failing]
        return "\n".join(lines)


def read_report(text: str) -> Report:
    """Return what a report says of each test. Never raises."""
    if not text[:2_000].lstrip("\ufeff \t\r\n").startswith("<"):
        return Report(tuple(_from_text(text)))
    try:
        root = ElementTree.fromstring(text.lstrip("\ufeff \t\r\n"), ElementTree.XMLParser(target=_NoEntities()))
    except (ElementTree.ParseError, ValueError) as error:
        return Report(problem=f"the test report is not JUnit XML that can be read: {error}")
    return Report(tuple(outcome for case in root.iter("testcase") for outcome in _of_case(case)))


class _NoEntities(ElementTree.TreeBuilder):
    """Refuses a document type, and with it every entity."""

    def doctype(self, name: str, *_: object) -> None:
        raise ValueError(f"it declares a document type ({clean(name, 40)}), which may hold entities; remove it")


def _of_case(case: ElementTree.Element) -> Iterator[TestOutcome]:
    of, name = case.get("classname", ""), case.get("name", "")
    test = clean(f"{of}::{name}" if of else name, 400)
    failures = [element for element in case.iter() if element.tag in _FAILED]
    for failure in failures if test else ():
        said = [part for part in (failure.get("message", ""), "".join(failure.itertext())) if part.strip()]
        yield TestOutcome(test, False, head_and_tail("\n".join(said), _MOST_MESSAGE))
    if test and case.find("skipped") is None and not failures:
        yield TestOutcome(test, True)


def _from_text(text: str) -> Iterator[TestOutcome]:
    """Yield the results that lines name; a failure of pytest with what stands under its heading."""
    details: dict[str, list[str]] = {}
    under: list[str] | None = None
    room = 0
    for line in text.split("\n"):
        line = line.rstrip("\r")[:_MOST_LINE]
        if heading := _HEADING.match(line):
            under = details.setdefault(heading["test"].replace(".", "::"), [])
            room = _MOST_MESSAGE
            continue
        found = next((match for pattern in _LINES if (match := pattern.match(line))), None)
        if found is None:
            if under is not None and not line.startswith("==="):
                if room > 0:
                    under.append(line)
                    room -= len(line) + 1
            else:
                under = None
            continue
        named = found.groupdict()
        test, of = named["test"].strip(), named.get("of")
        passed = named["result"] in _GOOD
        detail = details.pop(test.partition("::")[2], ()) if not passed else ()
        message = "\n".join([named.get("message") or "", *detail]).strip()
        yield TestOutcome(clean(f"{of}::{test}" if of else test, 400), passed, message[:_MOST_MESSAGE])
