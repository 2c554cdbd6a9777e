"""The reflection engine (E-01 to E-13): the contract's vectors. E-02 and E-04 are in
quality/test_signals.
"""

import inspect
import time

import pytest
from hypothesis import given, strategies as st

from reflector.embed.engine import _UNREADABLE
from reflector.engine import (
    ReflectionEngine,
    ReflectionLesson,
    ReflectionResult,
    ReflectionTrigger,
)
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify


def test_the_constructor_has_the_asked_defaults() -> None:
    signature = inspect.signature(ReflectionEngine)
    asked = (
        "quality_threshold",
        "max_reflections_per_step",
        "reflection_bank_size",
        "periodic_interval",
    )
    assert [signature.parameters[name].default for name in asked] == [0.5, 2, 100, 5]
    with pytest.raises(ValueError, match="bank_size is 0"):
        ReflectionEngine(reflection_bank_size=0)
    with pytest.raises(ValueError, match="success is 'false'; it must be True or False"):
        ReflectionEngine().record_lesson_outcome("any", "false")  # type: ignore[arg-type]
    assert list(inspect.signature(ReflectionEngine.should_reflect).parameters)[1:] == [
        *("confidence", "risk_level", "goal_drift", "tool_failures", "step_number", "is_final_step")
    ]


def begin(engine: ReflectionEngine, step: int = 1) -> tuple[bool, ReflectionTrigger | None]:
    asked = engine.should_reflect(0.3, step_number=step)
    engine.build_reflection_prompt("goal", "step", "response", [])
    return asked


def test_reflection_counts_for_its_task_at_its_beginning() -> None:
    engine = ReflectionEngine()
    for _ in range(5):
        assert engine.should_reflect(0.3, step_number=1)[0]
    assert [begin(engine), begin(engine)] == [(True, ReflectionTrigger.LOW_CONFIDENCE)] * 2
    assert engine.should_reflect(0.3, step_number=1) == (False, None)
    assert engine.should_reflect(0.3, step_number=2)[0]
    engine.reset_step_counts()
    assert engine.should_reflect(0.3, step_number=1)[0]


def test_the_prompts_hold_what_they_are_given() -> None:
    engine = ReflectionEngine()
    lesson = engine.store_lesson("api", "forgot {auth}", "add it")
    results = [{"name": "pytest", "status": "error", "error": "2 failed"}, "a text"]
    prompt = engine.build_reflection_prompt("G {x}", "S", "R }", results, [lesson])
    given = (
        "Goal: G {x}",
        "Step: S",
        "R }",
        "- pytest: error (2 failed)",
        "- a text",
        "- forgot {auth}: add it",
    )
    asked = ('"quality_score"', '"issues"', '"suggested_fix"')
    assert [wanted for wanted in given + asked if wanted not in prompt] == []
    better = engine.build_improvement_prompt("R", ["one", "two"], "G")
    assert all(wanted in better for wanted in ("Goal: G", "R", "- one\n- two"))


def read(answer: str, threshold: float = 0.5) -> ReflectionResult:
    return ReflectionEngine(threshold).parse_reflection(answer, ReflectionTrigger.HIGH_RISK)


@pytest.mark.parametrize(
    ("answer", "score", "issues", "fix", "guidance"),
    [
        ('{"quality_score": 0.5, "issues": [], "suggested_fix": null}', 0.5, [], None, ""),
        ('{"quality_score": 0.49, "issues": ["a", "b"]}', 0.49, ["a", "b"], None, "a; b"),
        (
            '{"quality_score": 0.2, "issues": ["a"], "suggested_fix": "do b"}',
            0.2,
            ["a"],
            "do b",
            "do b",
        ),
        ('```json\n{"quality_score": "0.8", "issues": "one"}\n```', 0.8, ["one"], None, ""),
        ('Here: {"quality_score": 7, "issues": [1, "", " x "]} ok', 1.0, ["x"], None, ""),
        ('{"quality_score": -3, "suggested_fix": 5}', 0.0, [], None, ""),
        ('{"other": 1} {"quality_score": 0.9}', 0.9, [], None, ""),
    ],
)
def test_json_is_read_as_it_is(
    answer: str, score: float, issues: list[str], fix: str | None, guidance: str
) -> None:
    found = read(answer)
    assert (found.quality_score, found.issues_found, found.suggested_fix) == (score, issues, fix)
    assert found.passes_quality_gate is (score >= 0.5)
    assert found.should_retry is (score < 0.5)
    assert found.retry_guidance == guidance
    assert found.triggered_by is ReflectionTrigger.HIGH_RISK
    assert found.reflection_time_ms >= 0.0


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("The response is incorrect.", 0.3),
        ("Correct and complete.", 0.8),
        ("No issues found, it is accurate", 0.8),
        ("No issues or errors; it is complete.", 0.8),
        ("Good: no errors, issues, or any problems.", 0.8),
        ("Correct, but one test is missing.", 0.4),
        ('{"quality_score": true, "issues": []} correct', 0.8),
        ('{"quality_score": "nan", "verdict": "wrong"}', 0.3),
    ],
)
def test_answer_without_json_is_read_by_its_words(answer: str, score: float) -> None:
    assert read(answer).quality_score == score


@pytest.mark.parametrize(
    "answer",
    [
        *("", "Hm.", "No issues.", "No errors/problems", "a prefix of errorless goodness"),
        '{"quality_score": "inf"}',
        "{}",
    ],
)
def test_answer_without_verdict_is_a_failure(answer: str) -> None:
    engine = ReflectionEngine()
    begin(engine)
    found = engine.parse_reflection(answer, "low_confidence")
    assert (found.quality_score, found.passes_quality_gate, found.should_retry) == (
        None,
        None,
        False,
    )
    assert found.failure == _UNREADABLE
    assert [event.type for event in engine.journal.events()][-2:] == [
        "reflection.answered",
        "reflection.failed",
    ]
    assert engine.get_stats()["retries_triggered"] == 0


_PIECES = st.sampled_from(['{"quality_score":', "1e999", "}", "no issues", '"', "wrong"])


@given(st.text() | st.lists(_PIECES).map(" ".join))
def test_no_answer_breaks_the_parser(answer: str) -> None:
    found = read(answer)
    assert found.quality_score is None or 0.0 <= found.quality_score <= 1.0


def test_a_verdict_in_words_is_not_inverted() -> None:
    found = read("The response is not correct.")
    assert (found.passes_quality_gate, found.should_retry) == (False, True)
    assert read("Quality score: 0.9").quality_score == 0.9


def test_a_lesson_can_be_made_by_hand() -> None:
    before = time.time()
    lesson = ReflectionLesson("l-1", "api", "forgot auth", "add it", "e3b0c44298fc1c14")
    lesson.times_applied += 1
    assert (lesson.times_applied, lesson.effectiveness) == (1, 0.5)
    stored = ReflectionEngine().store_lesson("api", "m", "c")
    assert before <= lesson.created_at <= stored.created_at <= time.time()


@pytest.mark.parametrize(
    ("context", "known"), [("", "e3b0c44298fc1c14"), ("Build API", "42537e67c22ab983")]
)
def test_a_context_is_known_by_its_hash(context: str, known: str) -> None:
    lesson = ReflectionEngine().store_lesson("api", "m", "c", context)
    assert (lesson.context_hash, lesson.times_applied, lesson.effectiveness) == (known, 0, 0.5)


def test_lessons_are_ranked_and_count_as_applied() -> None:
    engine = ReflectionEngine()
    old, good, here, other = (
        engine.store_lesson("api", "m", correction, context)
        for correction, context in (("old", ""), ("good", ""), ("here", "Build API"), ("worse", ""))
    )
    engine.store_lesson("database", "m", "c")
    engine.record_lesson_outcome(good.lesson_id, True)
    engine.record_lesson_outcome(other.lesson_id, False)
    found = engine.get_relevant_lessons("api", "Build API")
    assert [one.correction for one in found] == ["here", "good", "old", "worse"]
    assert [one.times_applied for one in found] == [1, 1, 1, 1]
    assert [one.times_applied for one in engine.get_relevant_lessons("api", "Build API", 2)] == [
        2,
        2,
    ]
    assert engine.get_relevant_lessons("nothing") == []
    assert (here.times_applied, old.times_applied) == (0, 0)


@pytest.mark.parametrize(
    ("alpha", "outcomes", "wanted"),
    [
        (0.2, "SSS", [0.6, 0.68, 0.744]),
        (0.2, "FFF", [0.4, 0.32, 0.256]),
        (0.2, "SF", [0.6, 0.48]),
        (0.2, "FS", [0.4, 0.52]),
        (0.1, "S", [0.55]),
        (0.1, "F", [0.45]),
        (0.3, "S", [0.65]),
        (0.3, "F", [0.35]),
    ],
)
def test_effectiveness_is_a_moving_average(
    alpha: float, outcomes: str, wanted: list[float]
) -> None:
    engine = ReflectionEngine(alpha=alpha)
    lesson = engine.store_lesson("a", "m", "c")
    assert [
        engine.record_lesson_outcome(lesson.lesson_id, outcome == "S") for outcome in outcomes
    ] == wanted


def test_full_bank_drops_its_least_effective_lesson() -> None:
    engine = ReflectionEngine(reflection_bank_size=3)
    lessons = [engine.store_lesson("a", "m", str(number)) for number in range(3)]
    engine.record_lesson_outcome(lessons[1].lesson_id, False)
    for later in ("3", "4"):
        engine.store_lesson("a", "m", later)
    assert {one.correction for one in engine.get_relevant_lessons("a")} == {"2", "3", "4"}
    assert engine.get_stats()["lessons_stored"] == 3
    assert engine.store_lesson("a", "m", "0").lesson_id != lessons[0].lesson_id
    assert {one.correction for one in engine.get_relevant_lessons("a")} == {"3", "4", "0"}


def test_the_seven_figures_follow_from_what_happened() -> None:
    engine = ReflectionEngine()
    figures = {
        "total_reflections": 0,
        "retries_triggered": 0,
        "improvements_made": 0,
        "lessons_stored": 0,
        "bank_capacity": 100,
        "average_lesson_effectiveness": 0.0,
        "quality_threshold": 0.5,
    }
    assert engine.get_stats() == figures
    for step, scores in enumerate([(0.3, 0.8), (0.3, 0.33), (0.6, 0.9)]):
        for score in scores:
            begin(engine, step)
            engine.parse_reflection(f'{{"quality_score": {score}}}', "low_confidence")
    for number, success in enumerate((True, False, True)):
        lesson = engine.store_lesson("a", "m", str(number))
        engine.record_lesson_outcome(lesson.lesson_id, success)
    after = {
        "total_reflections": 6,
        "retries_triggered": 3,
        "improvements_made": 1,
        "lessons_stored": 3,
    }
    assert engine.get_stats() == figures | after | {"average_lesson_effectiveness": 0.533333}


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
    assert list(verify(ledger)) == []


def test_secret_in_an_answer_or_lesson_is_removed(ledger: Ledger) -> None:
    key, engine = "ghp_" + "a1B2" * 9, ReflectionEngine(ledger=ledger)
    engine.should_reflect(0.3)
    engine.build_reflection_prompt("g", "s", "r")
    engine.parse_reflection(
        f'{{"quality_score": 0.4, "issues": ["the token {key} is shown"]}}', "low_confidence"
    )
    stored = engine.store_lesson("a", f"used {key}", f"never {key}")
    engine.record_lesson_outcome(stored.lesson_id, False, f"again {key}")
    assert key not in "".join(str(event.data) for event in ledger.events())
