"""Parts D and E on a ledger: shared by processes, folded under other policies, verified like all else."""

from __future__ import annotations

from reflector.engine import ReflectionEngine
from reflector.ledger.store import Ledger
from reflector.lessons.book import lesson_book
from reflector.proof.verify import verify
from reflector.revision.reflections import reflections_of
from tests.ledger.events import lesson, outcome


def test_only_trusted_reflections_are_told_before_a_turn(ledger: Ledger) -> None:
    for text, *kinds in (
        ("trusted", "review_approved"),
        ("not trusted", "review_rejected"),
        ("archived", "review_rejected", "task_failed", "task_blocked"),
    ):
        one = lesson(text, "reflection", text, attempt="a", issue="i", tags=["x"])
        ledger.append([one, *(outcome(one, kind) for kind in kinds)])
    found = reflections_of(lesson_book(ledger))
    assert [one.corrective_strategy for one in found] == ["trusted"]
    assert found[0].promotion_confidence() == 0.70
    assert "- Outcomes: Review approved" in found[0].to_prompt_section()


def test_two_engines_on_one_ledger_share_what_happened(ledger: Ledger) -> None:
    one, two = (ReflectionEngine(ledger=ledger, task="t-1") for _ in range(2))
    for engine in (one, two):
        assert engine.should_reflect(0.3, step_number=1)[0]
        engine.build_reflection_prompt("g", "s", "r")
        engine.parse_reflection('{"quality_score": 0.4}', "low_confidence")
    assert not one.should_reflect(0.3, step_number=1)[0]
    stored = one.store_lesson("a", "m", "c", "Build API")
    assert two.record_lesson_outcome(stored.lesson_id, True, "the tests pass") == 0.6
    assert one.get_relevant_lessons("a")[0].effectiveness == 0.6
    assert one.get_stats() == two.get_stats()
    assert one.get_stats()["total_reflections"] == 2
    assert [*verify(ledger)] == []


def test_memory_and_ledger_tell_the_same(ledger: Ledger) -> None:
    def told(engine: ReflectionEngine) -> list[object]:
        answers: list[object] = []
        for step in range(7):
            answers.append(engine.should_reflect(0.3 + step / 10, step_number=step))
            engine.build_reflection_prompt("g", "s", "r")
            answers.append(engine.parse_reflection(f'{{"quality_score": {step / 10}}}', "periodic").should_retry)
            answers.append(engine.store_lesson("a", "m", str(step % 3)).lesson_id)
            answers.append([one.lesson_id for one in engine.get_relevant_lessons("a")])
        answers.append(engine.record_lesson_outcome(engine.get_relevant_lessons("a")[0].lesson_id, True))
        return [*answers, engine.get_stats()]

    assert told(ReflectionEngine()) == told(ReflectionEngine(ledger=ledger))


def test_an_erased_lesson_is_told_no_more(ledger: Ledger) -> None:
    engine = ReflectionEngine(ledger=ledger)
    stored = engine.store_lesson("a", "Jane Doe forgot it", "c")
    ledger.redact(stored.lesson_id, reason="a name", actor="human")
    assert engine.get_relevant_lessons("a") == []
    assert "Jane" not in "".join(str(event.data) for event in ledger.events())


def test_a_secret_in_an_answer_or_a_lesson_is_not_kept(ledger: Ledger) -> None:
    key, engine = "ghp_" + "a1B2" * 9, ReflectionEngine(ledger=ledger)
    engine.should_reflect(0.3)
    engine.build_reflection_prompt("g", "s", "r")
    engine.parse_reflection(f'{{"quality_score": 0.4, "issues": ["the token {key} is shown"]}}', "low_confidence")
    stored = engine.store_lesson("a", f"used {key}", f"never {key}")
    engine.record_lesson_outcome(stored.lesson_id, False, f"again {key}")
    assert key not in "".join(str(event.data) for event in ledger.events())
