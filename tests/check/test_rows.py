"""The parts of the page, and the evidence of each kind of row."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from reflector.check.facts import Counts, Reminder, RuleFacts
from reflector.check.rows import (
    SIGNALS,
    Part,
    Speech,
    category_words,
    is_followed_before,
    known_words,
    part_of,
    rows_of,
    signals_of,
)
from reflector.text.phrases import on_day, plain_words
from tests.check.facts import TODAY, answers, counts, page, rule

_RUNS: dict[str, Any] = {
    "has_words": True,
    "names_command": True,
    "occasion": "sessions that committed",
}
_FORBIDS: dict[str, Any] = {"has_words": True, "forbids": True}


#: Each kind of signal, with a rule that has it alone and the words of its row.
CASES: dict[str, tuple[RuleFacts, str]] = {
    "broken": (
        rule(
            judged_since=answers(2, 12),
            judged_before=answers(5, 1),
            result="not followed in 12 of 14 sessions",
        ),
        "broken in 12 of 14 sessions that a judge read; before the rule, in 1 of 6",
    ),
    "harmful": (
        rule(judged_since=answers(1, 13, "helped"), result="harmful in 13 of 14 sessions"),
        "harmed in 13 of 14 sessions in which the rule came up",
    ),
    "forbidden": (
        rule(since=counts(run=2), before=counts(21), **_FORBIDS),
        "Claude ran it in 2 of 11 sessions; before the rule, in 0 of 21",
    ),
    "said again": (
        rule(since=counts(said=4), last_said=Reminder("x", date(2026, 11, 3))),
        "you repeated this rule in 4 of 11 sessions, last on 3 Nov; needs a judge",
    ),
    "not run": (
        rule(since=counts(came_up=9, run=3, done=3), before=counts(20, came_up=8, run=1), **_RUNS),
        "run in 3 of 9 sessions that committed; before the rule, in 1 of 8",
    ),
    "missing path": (rule(missing="locales/"), "locales/ does not exist any more"),
    "mostly broken": (
        rule(judged_since=answers(0, 2)),
        "broken in 2 of 2 sessions that a judge read, too few to tell",
    ),
}


def test_each_signal_has_a_case() -> None:
    assert [signals_of(facts)[0] for facts, _ in CASES.values()] == [*SIGNALS]


@pytest.mark.parametrize("name", CASES)
def test_row_has_its_evidence_in_words(name: str) -> None:
    facts, words = CASES[name]
    (row,) = rows_of(page(facts), TODAY)
    assert "; ".join(row.evidence) == words
    assert part_of(facts) is Part.LOOK


def test_repeated_rule_shows_how_often_it_was_followed() -> None:
    facts = rule(since=counts(20, said=1, came_up=17, run=15, done=15), **_RUNS)
    (row,) = rows_of(page(facts), TODAY)
    assert row.evidence[1:] == ("followed in 15 of 17 sessions",)


def test_broken_rule_is_not_called_followed() -> None:
    choice = {"has_words": True, "is_choice": True}
    facts = rule(since=counts(20, said=1, came_up=9, against=2, done=9), **choice)
    (row,) = rows_of(page(facts), TODAY)
    assert row.evidence[1:] == ("you repeated this rule in 1 of 20 sessions",)


def test_rows_have_the_order_of_their_kinds() -> None:
    kinds = ("broken", "harmful", "not run", "missing path", "mostly broken")
    rules = [replace(CASES[kind][0], place=kind) for kind in kinds]
    assert [row.label for row in rows_of(page(*reversed(rules)), TODAY)] == [*kinds]


@pytest.mark.parametrize(
    ("facts", "part"),
    [
        (rule(since=counts(came_up=9, run=8, done=8), **_RUNS), Part.FOLLOWED),
        (rule(judged_since=answers(3, 0)), Part.FOLLOWED),
        (rule(since=counts(run=10, done=10), has_words=True), Part.JUDGE),
        (rule(since=counts(came_up=9, done=9), has_words=True, is_choice=True), Part.FOLLOWED),
        (rule(has_words=True, may_apply=True), Part.JUDGE),
        (rule(may_apply=True, **_FORBIDS), Part.UNSEEN),
        (rule(since=counts(came_up=2, done=2), may_apply=True, **_FORBIDS), Part.FOLLOWED),
        (rule(may_apply=True, **_RUNS), Part.UNSEEN),
        (rule(since=counts(run=3, done=3), has_words=True), Part.JUDGE),
        (rule(has_words=True), Part.UNSEEN),
        (rule(**_FORBIDS), Part.UNSEEN),
        (rule(judged_since=replace(answers(0, 0), asked=9)), Part.UNSEEN),
        (rule(), Part.JUDGE),
        (rule(since=counts(0), before=counts(20)), Part.NEW),
        (rule(since=counts(0)), Part.JUDGE),
        (rule(judged_since=answers(2, 2)), Part.JUDGE),
        (rule(since=counts(came_up=9), **{**_RUNS, "names_command": False}), Part.JUDGE),
        (rule(since=counts(came_up=1), **_RUNS), Part.LOOK),
    ],
)
def test_rule_belongs_to_one_part(facts: RuleFacts, part: Part) -> None:
    assert part_of(facts) is part


@pytest.mark.parametrize(
    ("day", "words"),
    [
        (date(2026, 11, 29), "today"),
        (date(2026, 11, 28), "yesterday"),
        (date(2026, 11, 23), "on Monday"),
        (date(2026, 11, 22), "on 22 Nov"),
        (date(2025, 11, 28), "on 28 Nov 2025"),
    ],
)
def test_day_is_in_words(day: date, words: str) -> None:
    assert on_day(day, TODAY) == words


@pytest.mark.parametrize(
    ("before", "since", "is_so"), [((5, 0), (5, 0), True), ((4, 0), (9, 0), False)]
)
def test_followed_before_needs_five_sessions(
    before: tuple[int, int], since: tuple[int, int], is_so: bool
) -> None:
    facts = rule(judged_since=answers(*since), judged_before=answers(*before))
    assert is_followed_before(facts) is is_so


@pytest.mark.parametrize(
    ("breached", "deed"),
    [
        ("`npm`", "used `npm`"),
        ("`src/made/`", "changed files in `src/made/`"),
        ("pushed to the main branch", "pushed to the main branch"),
        ("wrote a title without a type", "wrote a title without a type"),
        ("read `a` or read `b`", "read `a` or read `b`"),
    ],
)
def test_part_that_a_rule_speaks_against_is_named(breached: str, deed: str) -> None:
    facts = rule(since=counts(run=9, against=2), has_words=True, breached=breached)
    evidence = rows_of(page(facts), TODAY)[0].evidence
    assert evidence == (f"Claude {deed} in 2 of 11 sessions",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("**Never** push.", "Never push."),
        ("Read `src/**/*.ts` **first**.", "Read `src/**/*.ts` first."),
        ("One ` and **two**", "One ` and **two**"),
    ],
)
def test_bold_signs_are_not_shown(text: str, words: str) -> None:
    assert plain_words(text) == words


@pytest.mark.parametrize(
    ("since", "words"), [(counts(0), "in 2 of 9 sessions"), (counts(1), "in 2 of 10 sessions")]
)
def test_sessions_of_unknown_start_count(since: Counts, words: str) -> None:
    facts = rule(since=since, unknown=counts(9, said=2))
    assert rows_of(page(facts), TODAY)[0].evidence[0] == f"you repeated this rule {words}"


def test_session_of_unknown_start_may_know_the_rule() -> None:
    facts = rule(since=counts(0), before=counts(20), unknown=counts(9, run=9, done=9), **_RUNS)
    assert part_of(facts) is not Part.NEW
    assert part_of(replace(facts, unknown=counts(0))) is Part.NEW


def test_without_sessions_no_judge_is_missed() -> None:
    unseen = rule(since=counts(0))
    assert part_of(unseen) is Part.JUDGE
    assert category_words(unseen) == "no session was counted"


def test_rule_perhaps_followed_earlier_needs_a_judge() -> None:
    """Its occasion came up only in sessions whose begin is missing."""
    unknown = rule(**_RUNS, is_before=True, lacks_start=True)
    assert part_of(unknown) is Part.JUDGE
    assert part_of(replace(unknown, lacks_start=False)) is Part.UNSEEN
    assert category_words(unknown) == (
        "needs a judge: the transcript of a session that committed does not contain the "
        "session's start"
    )


@pytest.mark.parametrize(("sessions", "words"), [(1, "1 of 1 session"), (2, "1 of 2 sessions")])
def test_number_agrees_with_its_noun(sessions: int, words: str) -> None:
    counted = rule(names_command=True, ran="`a b`", since=counts(sessions, ran=1))
    shown = f"the agent ran `a b`, as the rule asks, in {words}"
    assert [*known_words(counted, Speech("Claude", TODAY))] == [shown]


@pytest.mark.parametrize(
    ("ran", "shown"),
    [
        ("`insta`", "a command contained `insta` in 2 of 9 sessions, which is not evidence"),
        (
            "committed after tests passed",
            "the agent committed after tests passed in 2 of 9 sessions",
        ),
    ],
)
def test_named_act_is_told_from_a_mention(ran: str, shown: str) -> None:
    counted = rule(has_words=True, ran=ran, since=counts(9, ran=2))
    assert [*known_words(counted, Speech("Claude", TODAY))] == [shown]
