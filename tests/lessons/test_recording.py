"""Lessons, outcomes and what was told are recorded once, whoever says it and however often."""

from __future__ import annotations

import pytest

from reflector.ledger.store import Ledger
from reflector.lessons.book import figures, lesson_book
from reflector.lessons.recording import observe_outcome, record_lesson, record_told, relevant
from reflector.mistakes import Mistake
from reflector.proof.verify import verify
from reflector.revision.engine import ReflectionEngine


def test_a_lesson_that_is_recorded_twice_is_one(ledger: Ledger) -> None:
    ids = [record_lesson(ledger, "mistake", "Add auth", actor="engine", task="api", mistake="forgot") for _ in range(2)]
    other = record_lesson(ledger, "mistake", "Add auth", actor="engine", task="cli", mistake="forgot")
    assert ids[0] == ids[1] != other
    keyed = [record_lesson(ledger, "insight", text, actor="truth", key=["r1", 0]) for text in ("One", "Another")]
    assert keyed[0] == keyed[1]
    assert [one.text for one in lesson_book(ledger)] == ["Add auth", "Add auth", "One"]


def test_every_call_without_a_key_is_an_outcome_and_a_key_makes_it_one(ledger: Ledger) -> None:
    id = record_lesson(ledger, "mistake", "Add auth", actor="engine")
    for _ in range(2):
        assert observe_outcome(ledger, id, "success", source="api").added
    keyed = [observe_outcome(ledger, id, "failure", why, source="tests", key=["w1"]) for why in ("a", "b")]
    assert [one.added for one in keyed] == [True, False]
    (one,) = lesson_book(ledger)
    assert [(o.kind, o.source) for o in one.outcomes] == [("success", "api"), ("success", "api"), ("failure", "tests")]
    assert one.worth == (0.6, 0.68, 0.544)
    assert list(verify(ledger)) == []


def test_an_outcome_of_nothing_of_no_kind_or_of_no_time_is_refused(ledger: Ledger) -> None:
    id = record_lesson(ledger, "mistake", "Add auth", actor="engine")
    with pytest.raises(Mistake, match="'nowhere' is not the id of a lesson"):
        observe_outcome(ledger, "nowhere", "success", source="api")
    with pytest.raises(Mistake, match="'great' is not a kind of outcome; the kinds are retry_improved"):
        observe_outcome(ledger, id, "great", source="api")
    with pytest.raises(Mistake, match="'noon' is not a time"):
        observe_outcome(ledger, id, "success", source="api", observed_at="noon")
    with pytest.raises(Mistake, match="is not a time"):  # in UTC it would be in the year 0
        observe_outcome(ledger, id, "success", source="api", observed_at="0001-01-01T00:00:00+23:00")
    assert ledger.head().position == 1


def test_outcomes_are_folded_in_the_order_in_which_they_happened(ledger: Ledger) -> None:
    id = record_lesson(ledger, "mistake", "Add auth", actor="engine", occurred_at="2026-01-01T00:00:00.000000Z")
    observe_outcome(ledger, id, "failure", source="api", observed_at="2026-01-03T00:00:00+02:00")
    observe_outcome(ledger, id, "success", source="api", observed_at="2026-01-02T00:00:00")
    assert next(iter(lesson_book(ledger))).worth == (0.6, 0.48)


def test_e09_mistakes_of_the_task_come_first_by_context_then_by_worth(ledger: Ledger) -> None:
    def mistake(text: str, task: str = "api", context: str = "c1") -> str:
        return record_lesson(ledger, "mistake", text, actor="engine", task=task, context_hash=context)

    ids = [mistake("a"), mistake("b", context="c2"), mistake("c"), mistake("d", task="cli")]
    observe_outcome(ledger, ids[2], "success", source="api")
    observe_outcome(ledger, ids[1], "success", source="api")
    record_lesson(ledger, "insight", "x", actor="engine", task="api")
    found = relevant(lesson_book(ledger), "api", "c1", 5)
    assert [one.text for one in found] == ["c", "a", "b"]
    assert relevant(lesson_book(ledger), "api", "c1", 0) == []
    told = record_told(ledger, [one.id for one in found], via="retrieval", actor="engine", task="api")
    assert told is not None
    assert [one.times_applied for one in lesson_book(ledger)] == [1, 1, 1, 0, 0]
    assert record_told(ledger, via="retrieval", actor="engine") is None


def test_what_a_session_was_told_for_one_reason_is_recorded_once(ledger: Ledger) -> None:
    id = record_lesson(ledger, "mistake", "Add auth", actor="engine")
    for _ in range(2):
        record_told(ledger, [id], ["pat-001"], via="injection", actor="hook", session_id="s1", key=[])
    assert next(iter(lesson_book(ledger))).times_applied == 1


def test_a_secret_is_replaced_before_it_is_stored(ledger: Ledger) -> None:
    key = "ghp_" + "a1B2" * 9
    id = record_lesson(ledger, "mistake", f"Use {key}", actor="engine", mistake=key, tags=[key])
    observe_outcome(ledger, id, "success", f"with {key}", source="api")
    record_told(ledger, [id], via="recall", actor="cli", query=key)
    assert key not in str(list(ledger.events()))


def test_an_erased_mistake_is_no_lesson_of_the_bank_whoever_counts_it(ledger: Ledger) -> None:
    engine = ReflectionEngine(ledger=ledger)
    kept, erased = (engine.store_lesson("api", mistake, "Add auth").lesson_id for mistake in ("forgot", "Jane forgot"))
    engine.record_lesson_outcome(kept, success=True)
    ledger.redact(erased, reason="a name", actor="human")
    found = figures(ledger)
    assert (found["lessons_stored"], found["average_lesson_effectiveness"]) == (1, 0.6)
    assert found.items() <= engine.get_stats().items()
