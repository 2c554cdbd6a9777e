"""Lessons, outcomes and what was told are recorded once, and the book of lessons is a fold over
their events.
"""

import random
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from reflector.changes.retractions import put_back_evidence, retract
from reflector.embed.lessons.book import Lesson, LessonFold, LessonPolicy, figures, lesson_book
from reflector.embed.lessons.recording import observe_outcome, record_lesson, record_told
from reflector.engine import ReflectionEngine
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.folds import fold_events
from reflector.events.lessons import POLARITY
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import exported
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake
from reflector.proof.verify import verify
from tests.ledger.events import (
    added,
    changed,
    learned,
    lesson,
    outcome,
    reflected,
    told,
    trajectory,
)


def only(ledger: Ledger, policy: LessonPolicy | None = None) -> Lesson:
    (one,) = lesson_book(ledger, policy)
    return one


def test_a_lesson_without_outcomes_is_active_and_unproven(ledger: Ledger) -> None:
    ledger.append([lesson()])
    one = only(ledger)
    assert (one.confidence, one.effectiveness, one.state, one.times_applied) == (
        0.62,
        0.5,
        "active",
        0,
    )
    assert (one.kind, one.text, one.task) == ("mistake", "Add auth middleware", "api_design")
    assert one.is_tellable
    assert not one.due


def test_d18_later_outcome_makes_a_lesson_due(ledger: Ledger) -> None:
    first = lesson(kind="reflection", improvement=0.4)
    ledger.append([first, outcome(first, "retry_did_not_improve")])
    assert (only(ledger).confidence, only(ledger).due) == (0.59, False)
    ledger.append([outcome(first, "review_approved"), outcome(first, "task_completed")])
    assert (only(ledger).confidence, only(ledger).due) == (0.79, True)
    assert not only(ledger, LessonPolicy(promotion=0.8)).due
    data = {"section": "pat", "text": "x", "reason": "y"}
    proposal = NewEvent(ev.BULLET_PROPOSED, "p1", data, "engine", target_id=first.event_id)
    ledger.append([proposal, replace(added(), target_id="p1")])
    one = only(ledger)
    assert (one.proposal, one.bullet, one.due) == ("p1", "pat-001", False)


def test_d15_reflection_has_one_signal_of_a_kind(ledger: Ledger) -> None:
    both = [lesson("a", "reflection", "Look first"), lesson("b", "mistake", "Look again")]
    ledger.append([*both, *(outcome(of, "task_failed", key) for of in both for key in range(3))])
    states = [(one.kind, one.failures, one.state, one.effectiveness) for one in lesson_book(ledger)]
    assert states == [("reflection", 1, "active", 0.256), ("mistake", 3, "archived", 0.256)]


def test_d17_helpful_mistake_survives_three_old_failures(
    ledger: Ledger,
) -> None:
    one = lesson("b", "mistake", "Look again")
    kinds = ["failure", "success"] * 10
    ledger.append([one, *(outcome(one, kind, key) for key, kind in enumerate(kinds))])
    assert (only(ledger).state, only(ledger).failures) == ("active", 10)
    ledger.append([outcome(one, "failure", key) for key in range(100, 103)])
    assert only(ledger).state == "archived"


def test_d17_contradicting_lessons_of_a_strategy_need_review(
    ledger: Ledger,
) -> None:
    good, bad = lesson("a", "reflection", "Look first!"), lesson("b", "reflection", "look FIRST")
    ledger.append([good, bad, outcome(good, "review_approved"), outcome(bad, "review_rejected")])
    assert [one.state for one in lesson_book(ledger)] == ["needs_review", "needs_review"]
    retract(ledger, [ledger.event(bad.event_id)], "a duplicate")
    assert [one.state for one in lesson_book(ledger)] == ["active", "retracted"]


def test_e09_being_told_counts_once_an_event(ledger: Ledger) -> None:
    first, second = lesson("a"), lesson("b")
    ledger.append(
        [first, second, told(first, second), told(first, via="recall"), told(first, first, key=3)]
    )
    assert [one.times_applied for one in lesson_book(ledger)] == [3, 1]


def test_e11_full_bank_drops_its_worst_lessons(ledger: Ledger) -> None:
    lessons = [lesson(f"l{number}", text=f"Lesson {number}") for number in range(5)]
    for event in (
        *lessons[:2],
        outcome(lessons[1], "failure"),
        outcome(lessons[0], "success"),
        *lessons[2:],
    ):
        ledger.append([event])
    banked = {
        size: [one.banked for one in lesson_book(ledger, LessonPolicy(bank_size=size))]
        for size in (1, 2, 3, 5)
    }
    assert banked == {
        1: [False, False, False, False, True],
        2: [True, False, False, False, True],
        3: [True, False, False, True, True],
        5: [True] * 5,
    }


def test_retraction_changes_a_lesson_until_put_back(
    ledger: Ledger,
) -> None:
    run = trajectory()
    of_run = replace(lesson(target_id=run.event_id), reflection_id="r1")
    failed = outcome(of_run, "failure")
    ledger.append([added(), run, *reflected("r1", run), of_run, failed])
    assert (only(ledger).effectiveness, only(ledger).state) == (0.4, "active")
    completed = identity(ev.REFLECTION_COMPLETED, "r1")
    for event_id, then in (
        (failed.event_id, (0.5, "active")),
        (of_run.event_id, (0.4, "retracted")),
        (completed, (0.4, "retracted")),
        (run.event_id, (0.4, "retracted")),
    ):
        event = ledger.event(event_id)
        retract(ledger, [event], "mistaken")
        assert (only(ledger).effectiveness, only(ledger).state) == then
        put_back_evidence(ledger, [event], "it was right")
        assert (only(ledger).effectiveness, only(ledger).state) == (0.4, "active")


def test_erased_lesson_keeps_its_worth_but_is_hidden(ledger: Ledger) -> None:
    first = lesson()
    ledger.append([first, outcome(first, "success")])
    assert only(ledger).is_tellable
    ledger.redact([first.event_id], reason="a name", actor="human")
    assert (only(ledger).text, only(ledger).effectiveness, only(ledger).is_tellable) == (
        "[redacted]",
        0.6,
        False,
    )


_STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(sorted(POLARITY)), st.integers(0, 59)), max_size=20
)


@given(_STEPS, st.randoms(use_true_random=False))
def test_book_is_equal_in_any_order_of_events(
    steps: list[tuple[int, str, int]], chance: random.Random
) -> None:
    made = [
        lesson(f"l{number}", "reflection" if number % 2 else "mistake", f"Lesson {number}")
        for number in range(4)
    ]
    for key, (which, kind, second) in enumerate(steps):
        made.append(
            outcome(made[which], kind, key, occurred_at=f"2026-01-02T00:00:{second:02}.000000Z")
        )
    events = [
        Event(
            *(at, one.event_id, one.type, 1, one.occurred_at or "2026-01-01T00:00:00.000000Z"),
            *(
                f"2026-01-03T00:{at:02}:00.000000Z",
                one.actor,
                None,
                None,
                one.target_id,
                one.data,
                "",
                {},
                "",
            ),
        )
        for at, one in enumerate(made, start=1)
    ]
    shuffled = list(events)
    chance.shuffle(shuffled)
    assert fold_events(LessonFold(), shuffled) == fold_events(LessonFold(), events)


def test_two_machines_that_merged_agree_on_every_number(ledger: Ledger, tmp_path: Path) -> None:
    with Ledger.open_file(tmp_path / "there.db") as there:
        shared = [lesson("a", "reflection", "Look first"), lesson("b")]
        for number, one in enumerate((ledger, there)):
            one.append(shared)
            for key in range(4):
                of, kind = (
                    shared[key % 2],
                    ("task_failed", "task_completed")[(key + number) // 2 % 2],
                )
                one.append([outcome(of, kind, f"{number}-{key}")])
        lines = list(exported(there))
        back = list(exported(ledger))
        merge_ledger(ledger, lambda: lines)
        merge_ledger(there, lambda: back)
        mine, others = lesson_book(ledger), lesson_book(there)
    for one, other in zip(mine, others, strict=True):
        assert (one.worth, one.confidence, one.state) == (
            other.worth,
            other.confidence,
            other.state,
        )
        assert [s.event_id for s in one.signals] == [s.event_id for s in other.signals]


def test_lesson_is_named_by_a_unique_prefix(ledger: Ledger) -> None:
    ledger.append([added(), changed(ev.BULLET_MOVED, "pat-001", 1, section="oth"), *learned()])
    book = lesson_book(ledger)
    (one,) = book
    assert book.named(one.id[:6]) is one
    for wrong in ("", "zz", "%"):
        with pytest.raises(Mistake, match="no lesson has an id that begins with"):
            book.named(wrong)
    assert (one.improvement, one.confidence, one.times_applied) == (0.6, 0.88, 1)
    assert book.best() == [one]


@pytest.mark.parametrize(
    "wrong", [{"alpha": 1.1}, {"bank_size": 0}, {"promotion": -1}, {"threshold": 2}]
)
def test_policy_out_of_bounds_is_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(Mistake, match=f"{next(iter(wrong))} is"):
        LessonPolicy(**wrong)  # type: ignore[arg-type]


# Recording: once, whoever says it and however often


def test_a_lesson_that_is_recorded_twice_is_one(ledger: Ledger) -> None:
    ids = [
        record_lesson(ledger, "mistake", "Add auth", actor="engine", task="api", mistake="forgot")
        for _ in range(2)
    ]
    other = record_lesson(
        ledger, "mistake", "Add auth", actor="engine", task="cli", mistake="forgot"
    )
    assert ids[0] == ids[1] != other
    keyed = [
        record_lesson(ledger, "insight", text, actor="truth", key=["r1", 0])
        for text in ("One", "Another")
    ]
    assert keyed[0] == keyed[1]
    assert [one.text for one in lesson_book(ledger)] == ["Add auth", "Add auth", "One"]


def test_outcome_with_a_key_is_recorded_once(ledger: Ledger) -> None:
    id = record_lesson(ledger, "mistake", "Add auth", actor="engine")
    for _ in range(2):
        assert observe_outcome(ledger, id, "success", source="api").added
    keyed = [
        observe_outcome(ledger, id, "failure", why, source="tests", key=["w1"])
        for why in ("a", "b")
    ]
    assert [one.added for one in keyed] == [True, False]
    (one,) = lesson_book(ledger)
    assert [(o.kind, o.source) for o in one.outcomes] == [
        ("success", "api"),
        ("success", "api"),
        ("failure", "tests"),
    ]
    assert one.worth == (0.6, 0.68, 0.544)
    assert list(verify(ledger)) == []


@pytest.mark.parametrize(
    ("kind", "at", "words"),
    [
        ("great", None, "'great' is not a kind of outcome; the kinds are retry_improved"),
        ("success", "noon", "'noon' is not a time"),
        # in UTC it would be in the year 0
        ("success", "0001-01-01T00:00:00+23:00", "is not a time"),
    ],
)
def test_outcome_of_unknown_kind_or_time_is_refused(
    ledger: Ledger, kind: str, at: str | None, words: str
) -> None:
    id = record_lesson(ledger, "mistake", "Add auth", actor="engine")
    with pytest.raises(Mistake, match=words):
        observe_outcome(ledger, id, kind, source="api", observed_at=at)
    assert ledger.head().position == 1


def test_outcomes_are_folded_in_order_of_time(ledger: Ledger) -> None:
    id = record_lesson(
        ledger, "mistake", "Add auth", actor="engine", occurred_at="2026-01-01T00:00:00.000000Z"
    )
    observe_outcome(ledger, id, "failure", source="api", observed_at="2026-01-03T00:00:00+02:00")
    observe_outcome(ledger, id, "success", source="api", observed_at="2026-01-02T00:00:00")
    assert next(iter(lesson_book(ledger))).worth == (0.6, 0.48)


def test_told_lesson_is_recorded_once_a_reason(ledger: Ledger) -> None:
    id = record_lesson(ledger, "mistake", "Add auth", actor="engine")
    for _ in range(2):
        record_told(ledger, [id], via="injection", actor="hook", session_id="s1", key=[])
    assert next(iter(lesson_book(ledger))).times_applied == 1
    assert record_told(ledger, [], via="retrieval", actor="engine") is None


def test_a_secret_is_replaced_before_it_is_stored(ledger: Ledger) -> None:
    key = "ghp_" + "a1B2" * 9
    id = record_lesson(ledger, "mistake", f"Use {key}", actor="engine", mistake=key, tags=[key])
    observe_outcome(ledger, id, "success", f"with {key}", source="api")
    record_told(ledger, [id], via="recall", actor="cli", task=key)
    assert key not in str(list(ledger.events()))


def test_erased_mistake_is_not_in_the_bank(ledger: Ledger) -> None:
    engine = ReflectionEngine(ledger=ledger)
    kept, erased = (
        engine.store_lesson("api", mistake, "Add auth").lesson_id
        for mistake in ("forgot", "Jane forgot")
    )
    engine.record_lesson_outcome(kept, success=True)
    ledger.redact([erased], reason="a name", actor="human")
    found = figures(ledger)
    assert (found.lessons_stored, found.average_lesson_effectiveness) == (1, 0.6)
    assert asdict(found).items() <= engine.get_stats().items()
