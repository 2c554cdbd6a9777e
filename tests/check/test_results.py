"""Results over a file: weights, evidence and e-BH, as laws."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given, strategies as st

from reflector.check.facts import Answers
from reflector.check.results import FALSE_SHARE, TASK, Began, e_bh, evidence, results, tasks, votes
from tests.check.facts import answers, rule

START = datetime(2026, 11, 1, tzinfo=UTC)
shares = st.lists(st.floats(0, 1), max_size=12)
evidences = st.dictionaries(st.integers(), st.floats(0, 1e6), max_size=40)


def began(*hours: float, branch: str = "main") -> dict[str, Began]:
    return {
        f"s{index}": Began(branch, START + timedelta(hours=hour))
        for index, hour in enumerate(hours)
    }


@pytest.mark.parametrize("number", range(9))
def test_evidence_without_an_influence_is_one_on_average(number: int) -> None:
    every = [evidence(answers) for answers in product((0.0, 1.0), repeat=number)]
    assert sum(every) / len(every) == pytest.approx(1)


@given(shares, st.randoms())
def test_order_of_votes_changes_no_evidence(given_shares: list[float], random: object) -> None:
    shuffled = [*given_shares]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert evidence(shuffled) == evidence(given_shares)


@given(shares)
def test_evidence_is_the_same_for_and_against(given_shares: list[float]) -> None:
    mirrored = [1 - share for share in given_shares]
    assert evidence(mirrored) == pytest.approx(evidence(given_shares))


@given(evidences)
def test_results_are_those_of_the_definition(by_key: dict[int, float]) -> None:
    ordered = sorted(by_key.values(), reverse=True)
    ranks = [
        rank for rank, value in enumerate(ordered, 1) if value * FALSE_SHARE * rank >= len(ordered)
    ]
    least = ordered[max(ranks) - 1] if ranks else float("inf")
    assert e_bh(by_key) == {key for key, value in by_key.items() if value >= least}


def test_many_rules_with_some_evidence_are_results_together() -> None:
    assert e_bh(dict.fromkeys(range(10), 30.0)) == set(range(10))
    assert e_bh({0: 30.0, **dict.fromkeys(range(1, 10), 1.0)}) == set()


@given(evidences)
def test_result_needs_a_mean_evidence_of_28(by_key: dict[int, float]) -> None:
    if e_bh(by_key):
        assert sum(by_key.values()) / len(by_key) >= 28 - 1e-6


@given(st.lists(st.floats(0, 400), max_size=20))
def test_sessions_of_a_task_are_within_a_day(hours: list[float]) -> None:
    sessions = began(*hours)
    task_of = tasks(sessions)
    spans = [sessions[session].at - first for session, (_, first) in task_of.items()]
    assert all(timedelta(0) <= span < TASK for span in spans)


@pytest.mark.parametrize(
    ("sessions", "number"),
    [
        (began(0, 1, 23), 1),
        (began(0, 1, 25), 2),
        (began(0, 20, 40), 2),
        (began(0) | {"other": Began("fix", START)}, 2),
        (began(0, 1, branch=""), 1),
    ],
)
def test_tasks_are_a_branch_within_a_day(sessions: dict[str, Began], number: int) -> None:
    assert len(set(tasks(sessions).values())) == number


def test_task_has_one_vote() -> None:
    task_of = tasks(began(0, 1, 2, 48))
    assert sorted(votes({"s0": True, "s1": True, "s2": False, "s3": False}, task_of)) == [
        0.0,
        pytest.approx(2 / 3),
    ]


@given(st.integers(0, 14), st.integers(0, 14))
def test_repeated_sessions_of_a_task_are_no_evidence(yes: int, no: int) -> None:
    every = answers(yes, no)
    one_task = began(*(hour / 10 for hour in range(yes + no)))
    assert results([rule(judged_since=every)], one_task) == {}


@pytest.mark.parametrize(
    ("given_answers", "words"),
    [
        (answers(14, 0), "followed in 14 of 14 sessions"),
        (answers(1, 19), "not followed in 19 of 20 sessions"),
        (answers(0, 14, "helped"), "harmful in 14 of 14 sessions"),
        (answers(7, 7), None),
        (Answers(), None),
    ],
)
def test_result_is_in_words(given_answers: Answers, words: str | None) -> None:
    assert results([rule(judged_since=given_answers)], {}).get("CLAUDE.md:1") == words


def test_sessions_before_a_line_give_no_result() -> None:
    assert results([rule(judged_before=answers(50, 0))], {}) == {}


def test_other_rules_make_a_result_harder() -> None:
    strong = rule(1, judged_since=answers(7, 0))
    others = [rule(index, judged_since=answers(1, 1)) for index in range(2, 60)]
    assert "CLAUDE.md:1" in results([strong], {})
    assert "CLAUDE.md:1" not in results([strong, *others], {})


@given(shares)
def test_one_more_vote_at_most_doubles_evidence(given_shares: list[float]) -> None:
    assert evidence(given_shares) <= 2.0 ** len(given_shares) + 1e-9
