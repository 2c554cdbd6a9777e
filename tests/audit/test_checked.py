"""What checks show of lines: when a result is called one, on generated projects, and what of a
ledger it rests on.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from math import inf

import pytest

from reflector.audit.checked import (
    FOLLOWED_BEFORE,
    TOO_FEW,
    Answered,
    CheckedLine,
    checked_lines,
)
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.ledger.store import Ledger
from reflector.playbook.admissible import same_words
from reflector.playbook.evidence import HARMS, FindingRates, against
from reflector.playbook_files.births import Births, LineState
from reflector.playbook_files.watching import Line
from reflector.trials.outcome import Outcome, outcome_event
from tests.ledger.events import (
    about,
    added,
    checked as found,
    redacted,
    reflected,
    retracted,
    window,
)


@cache
def _is_result(yes: int, no: int) -> bool:
    return bool(Answered.of([True] * yes + [False] * no).words("yes", "no"))


@pytest.mark.slow
@pytest.mark.parametrize("projects", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_lines_without_influence_rarely_look_like_a_result(
    projects: int,
) -> None:
    drawn = random.Random(27)
    left = 0
    for _ in range(projects * 40):
        yes = no = 0
        relevant = drawn.random()
        for _ in range(drawn.randint(1, 60)):
            if drawn.random() < relevant:
                yes, no = (yes + 1, no) if drawn.random() < 0.5 else (yes, no + 1)
                if _is_result(yes, no):
                    left += 1
                    break
    assert left <= 0.02 * projects * 40


@pytest.mark.parametrize("projects", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_line_broken_nine_times_of_ten_is_found(
    projects: int,
) -> None:
    drawn = random.Random(27)
    found = sum(
        _is_result(yes := sum(drawn.random() < 0.1 for _ in range(30)), 30 - yes)
        for _ in range(projects)
    )
    assert found >= 0.9 * projects


@pytest.mark.slow
def test_most_followed_lines_get_a_result() -> None:
    """Of 30 lines that are followed nine times of ten, in 30 sessions; a tenth is undecided."""
    drawn = random.Random(46)
    results = 0
    for _ in range(30 * 100):
        answers = [drawn.random() < 0.9 for _ in range(30) if drawn.random() < 0.9]
        results += bool(Answered.of(answers, 30 - len(answers)).words("followed", "not followed"))
    assert results >= 0.6 * 30 * 100


def test_undecided_sessions_excuse_a_harmful_line() -> None:
    answers = [False] * 14 + [True]
    assert Answered.of(answers, 15).words("helped", "harmful") == ""
    rates = FindingRates(helpful=36, harmful=73)
    assert Answered.of([False] * 20, 15, rates).words("helped", "harmful") == "harmful 20 of 20"


def test_corrected_help_is_the_side_of_the_result() -> None:
    rates = FindingRates(helpful=10, harmful=90)
    answers = [True] * 20 + [False] * 30
    assert Answered.of(answers).words("helped", "harmful") == ""
    assert Answered.of(answers, 0, rates).words("helped", "harmful") == "helped 20 of 50"


def test_result_names_the_side_of_most_sessions() -> None:
    assert (
        Answered.of([False] * 14 + [True]).words("followed", "not followed")
        == "not followed 14 of 15"
    )
    assert Answered.of([True] * 13 + [False]).words("helped", "harmful") == "helped 13 of 14"
    assert Answered.of([True] * 8).words("helped", "harmful") == ""
    assert Answered.of([]).evidence == 0
    assert (against(0, 9) >= HARMS, Answered.of([False] * 9).evidence) == (
        True,
        round(against(0, 9), 1),
    )


def reading(target: NewEvent, *given: tuple[str, str, str, str | None]) -> list[NewEvent]:
    """An answer about a window, read: (name, disposition, tag, followed) each."""
    of = f"check-{target.event_id}"
    asked = ["pat-001", "pat-002"]
    answered = about(
        ev.REFLECTION_ANSWERED,
        target,
        mode="checked",
        answer='{"bullet_tags": []}',
        asked=asked,
        unasked=["pat-003"],
    )
    (done,) = reflected(of, target)
    checks = [
        found(
            target,
            name,
            tag,
            index=index,
            disposition=disposition,
            **({"followed": followed} if followed else {}),
        )
        for index, (name, disposition, tag, followed) in enumerate(given)
    ]
    read = [replace(done, data={**done.data, "mode": "checked"}), *checks]
    return [replace(one, reflection_id=of) for one in (answered, *read)]


def test_session_counts_once_and_retractions_leave_the_count(ledger: Ledger) -> None:
    first, again, second = window(1, "s1"), window(2, "s1"), window(3, "s2")
    watched = replace(
        added("pat-003"), data={**added("pat-003").data, "watched": True, "origin": "A.md"}
    )
    events = [
        *(added("pat-001"), added("pat-002"), watched),
        *(first, again, second),
        *reading(
            first,
            ("pat-001", "checked", "helpful", "yes"),
            ("pat-002", "misquoted", "neutral", None),
        ),
        *reading(again, ("pat-001", "neutral", "neutral", "no")),
        *reading(
            second,
            ("pat-001", "checked", "harmful", "no"),
            ("pat-002", "neutral", "neutral", "yes"),
        ),
    ]
    ledger.append(events)

    def shown() -> dict[str, tuple[int, ...]]:
        lines = checked_lines(ledger).lines
        return {
            one.name: (
                one.sessions,
                one.relevant,
                one.followed.yes,
                one.followed.no,
                one.helped.yes,
                one.helped.no,
            )
            for one in lines
        }

    assert shown() == {
        "pat-001": (2, 2, 0, 2, 1, 1),
        "pat-002": (2, 1, 1, 0, 0, 0),
        "pat-003": (0, 0, 0, 0, 0, 0),
    }
    lines = {one.name: one for one in checked_lines(ledger).lines}
    assert (lines["pat-002"].dropped, lines["pat-003"].file) == (1, "A.md")
    assert [one.name for one in ledger.bullets()] == ["pat-001", "pat-002"]
    ledger.append([retracted(second)])
    assert shown()["pat-001"] == (1, 1, 0, 1, 1, 0)
    ledger.append([retracted(events[7])])  # the reading of the first window
    assert shown()["pat-001"] == (1, 1, 0, 1, 0, 0)
    ledger.append([retracted(events[11])])  # and that of the second one
    assert shown()["pat-001"] == (0, 0, 0, 0, 0, 0)
    before = shown()
    ledger.append([redacted(first.event_id)])
    ledger.rebuild()
    assert shown() == before


@pytest.mark.parametrize(("undecided", "result"), [(0, "harmful 10 of 10"), (5, TOO_FEW)])
def test_undecided_sessions_of_a_line_excuse_it(
    ledger: Ledger, undecided: int, result: str
) -> None:
    ledger.append([added("pat-001")])
    for number in range(10 + undecided):
        seen = window(number, f"s{number}")
        answer = ("checked", "harmful") if number < 10 else ("neutral", "neutral")
        ledger.append([seen, *reading(seen, ("pat-001", *answer, None))])
    (line,) = checked_lines(ledger).lines
    assert line.result == result


LINE = Line("CLAUDE.md", 3, "oth", "Run the tests before you commit.")
OTHER = Line("CLAUDE.md", 4, "oth", "Keep the changelog in step.")
CUT = datetime(2026, 11, 15, tzinfo=UTC)
BIRTHS = Births(
    {
        same_words(LINE.text): ((-inf, LineState.BEFORE), (CUT.timestamp(), LineState.SINCE)),
        same_words(OTHER.text): ((-inf, LineState.SINCE),),
    }
)


def quoting(target: NewEvent, tag: str, followed: str | None, quote: str) -> list[NewEvent]:
    """A reading of pat-001 in a session, with its quote."""
    answered, done, *checks = reading(target, ("pat-001", "checked", tag, followed))
    rationales = [{"index": 0, "rationale": "seen", "quote": quote}]
    return [answered, replace(done, data={**done.data, "rationales": rationales}), *checks]


def newest(ledger: Ledger) -> tuple[str, str] | None:
    verdict = checked_lines(ledger).lines[0].newest_verdict
    return (verdict.verdict, verdict.quote) if verdict else None


@pytest.mark.parametrize(
    ("tag", "followed", "verdict"),
    [
        ("helpful", "yes", "helped"),
        ("harmful", None, "harmed"),
        ("harmful", "no", "harmed"),
        ("neutral", "no", "not followed"),
        ("helpful", "no", "not followed"),
        ("neutral", "yes", None),
    ],
)
def test_newest_verdict_is_the_worst(
    ledger: Ledger, tag: str, followed: str | None, verdict: str | None
) -> None:
    target = window(1, "s1")
    ledger.append([added("pat-001"), target, *quoting(target, tag, followed, "the mocks hid it")])
    assert newest(ledger) == (verdict and (verdict, "the mocks hid it"))


def test_retraction_brings_the_earlier_quote_back(ledger: Ledger) -> None:
    first, second = window(1, "s1"), window(2, "s2")
    ledger.append([added("pat-001"), first, *quoting(first, "helpful", "yes", "it is fast now")])
    ledger.append([second, *quoting(second, "harmful", None, "the mocks hid it")])
    assert newest(ledger) == ("harmed", "the mocks hid it")
    ledger.append([retracted(second)])
    assert newest(ledger) == ("helped", "it is fast now")


def test_verdict_without_a_quote_is_not_shown(ledger: Ledger) -> None:
    target = window(1, "s1")
    ledger.append([added("pat-001"), target, *quoting(target, "harmful", None, "")])
    assert newest(ledger) is None


def judged_sessions(
    ledger: Ledger, answers: Mapping[str, Sequence[bool]], began: datetime | None
) -> None:
    """Record sessions that started at a time, with the answers about each name in each."""
    for votes in zip(*answers.values(), strict=True):
        number = len(list(ledger.events(types=[ev.SESSION_RECORDED])))
        recorded = window(number, f"s{number}")
        outcome = Outcome(began=began.isoformat() if began else None)
        findings = [
            (name, "neutral", "neutral", "yes" if vote else "no")
            for name, vote in zip(answers, votes, strict=True)
        ]
        ledger.append(
            [recorded, outcome_event(recorded, None, outcome), *reading(recorded, *findings)]
        )


def line_of(ledger: Ledger, births: Births = BIRTHS) -> CheckedLine:
    lines = {"pat-001": LINE, "pat-002": OTHER}
    return checked_lines(ledger, lines=lines, births=births).lines[0]


def counts(answered: Answered) -> tuple[int, int]:
    return answered.yes, answered.no


@pytest.fixture
def two_lines(ledger: Ledger) -> Ledger:
    ledger.append([added("pat-001", LINE.text), added("pat-002", OTHER.text)])
    return ledger


def test_session_counts_in_column_of_its_start(two_lines: Ledger) -> None:
    day = timedelta(days=1)
    judged_sessions(two_lines, {"pat-001": [True] * 9}, CUT - day)
    judged_sessions(two_lines, {"pat-001": [False] * 2}, CUT)
    judged_sessions(two_lines, {"pat-001": [True] * 3}, None)
    line = line_of(two_lines)
    assert (counts(line.before), counts(line.followed), line.unknown) == ((9, 0), (0, 2), 3)
    assert (line.sessions, line.relevant, line.result) == (2, 2, TOO_FEW)


@pytest.mark.parametrize(
    ("before", "since", "result"),
    [
        (5, 5, FOLLOWED_BEFORE),
        (4, 5, TOO_FEW),
        (5, 4, TOO_FEW),
        (0, 9, "followed 9 of 9"),
        (9, 0, TOO_FEW),
        (9, 14, FOLLOWED_BEFORE),
    ],
)
def test_result_is_about_sessions_since(
    two_lines: Ledger, before: int, since: int, result: str
) -> None:
    judged_sessions(two_lines, {"pat-001": [True] * before}, CUT - timedelta(days=1))
    judged_sessions(two_lines, {"pat-001": [True] * since}, CUT)
    assert line_of(two_lines).result == result


def test_line_of_unknown_birth_gets_no_result(two_lines: Ledger) -> None:
    judged_sessions(two_lines, {"pat-001": [True] * 20}, CUT)
    line = line_of(two_lines, Births())
    assert (line.sessions, line.unknown, line.result) == (0, 20, TOO_FEW)
