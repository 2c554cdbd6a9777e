"""Experiential reflection (D-01 to D-19): the vectors of the contract. D-02 to D-06 are in
quality, D-20 in turns.
"""

from dataclasses import astuple, replace

import pytest
from hypothesis import given, strategies as st

from reflector.embed.lessons.book import (
    DELTAS,
    label_of,
    lesson_book,
    lesson_state,
    strategy_key,
    tally,
)
from reflector.events.lessons import POLARITY
from reflector.experience import (
    AgentReflection,
    OutcomeSignal,
    QualitySignals,
    ReflectionConfig,
    build_reflection_prompt,
    merge_outcome_signals,
    parse_reflection_response,
    past_reflections,
    reflection_promotion_confidence,
    reflections_of,
    score_reflection_improvement,
)
from reflector.ledger.store import Ledger
from reflector.quality.signals import Signs
from tests.ledger.events import lesson, outcome


def test_the_configuration_has_the_asked_defaults() -> None:
    assert astuple(ReflectionConfig()) == (True, 0.6, 3, 1, 0.75)
    with pytest.raises(ValueError, match="quality_threshold is 2"):
        ReflectionConfig(quality_threshold=2)
    empty = Signs.of(QualitySignals(is_empty_response=True))
    assert [ReflectionConfig(enabled).gate.decide(empty).reflects for enabled in (True, False)] == [
        True,
        False,
    ]


def test_prompt_holds_request_response_errors_and_fields() -> None:
    signals = QualitySignals(0.5, 3, 10)
    results = [
        {"name": "read", "status": "error", "error": "no such file"},
        {"name": "ls", "status": "success"},
    ]
    prompt = build_reflection_prompt("Read {a}", "I could not {b}", signals, results)
    assert prompt.startswith("System: You are a self-reflective AI assistant.")
    assert all(
        wanted in prompt.split("Important:\n")[1]
        for wanted in ("plain text only", "code fences", "preamble")
    )
    for wanted in (
        "User request: Read {a}",
        "Agent response (quality score: 0.80):\nI could not {b}",
        "Tool errors encountered:\n- read: no such file\n",
        *("ATTEMPT:", "ISSUE:", "STRATEGY:", "TAGS:"),
    ):
        assert wanted in prompt
    assert "ls:" not in prompt
    assert prompt.split("Important:\n")[1].count("- ") == 3
    assert "- bash: exit 1" in build_reflection_prompt("r", "a", signals, ["bash: exit 1"])
    assert "Tool errors" not in build_reflection_prompt("r", "a", signals, [])


FILE = (
    "Tried to read the file at /tmp/missing.txt",
    "The file path was incorrect; the file does not exist",
    "Verify file existence before attempting to read; suggest alternatives",
)
CONFIG = (
    "Tried to inspect the missing config file. I answered before verifying the real path.",
    "The response relied on an assumed file location instead of repository evidence.",
    "Search for the config file first, then answer only from the verified path and contents.",
)
WRAPPED = (
    "<think>ISSUE: no</think>\n- **Attempt:** {}\n- **Issue:** {}\n- **Strategy:** {}\n- "
    "**Tags:** file, check"
)
VECTORS: dict[str, tuple[str, tuple[str, str, str, list[str]] | None]] = {
    "plain": (
        "ATTEMPT: {}\nISSUE: {}\nSTRATEGY: {}\nTAGS: file, read, path-error".format(*FILE),
        (*FILE, ["file", "read", "path-error"]),
    ),
    "two fields": ("ATTEMPT: a\nISSUE: b", None),
    "thinking and wrapped lines": (
        WRAPPED.format(*(text.replace(" the ", "\n  the ") for text in CONFIG)),
        (*CONFIG, ["file", "check"]),
    ),
    "aliases": (
        "Summary: a\nWhat went wrong: b\nCorrection: c\ntags:\n- shell\n- validation",
        ("a", "b", "c", ["shell", "validation"]),
    ),
    "pretty JSON": (
        '```json\n{\n  "attempt_summary": "Opened the wrong file",\n  "failure_analysis": "The '
        'name was guessed",\n'
        '  "corrective_strategy": "List the folder first",\n  "tags": ["file", "path"]\n}\n```',
        (
            "Opened the wrong file",
            "The name was guessed",
            "List the folder first",
            ["file", "path"],
        ),
    ),
    "pretty JSON that ends with the strategy": (
        '{\n  "attempt": "a",\n  "issue": "b",\n  "strategy": "c"\n}',
        ("a", "b", "c", []),
    ),
    "escapes": (
        '{"attempt": "a\\nb", "issue": "say \\"x\\"", "strategy": "c", "tags": ["p", \'q\']}',
        ("a\nb", 'say "x"', "c", ["p", "q"]),
    ),
    "tags as one text": (
        '{"attempt":"a","issue":"b","strategy":"c","tags":"x, y"}',
        ("a", "b", "c", ["x", "y"]),
    ),
    "list prefixes": (
        "1. ATTEMPT: one\n2) ISSUE: two\n> STRATEGY: three\n• TAGS: [a, b, a]",
        ("one", "two", "three", ["a", "b"]),
    ),
    "a colon that is no label": (
        (
            "ATTEMPT: one\nISSUE: two\nSTRATEGY: three https://x.y/z\nNote: keep http://a\nFix: "
            "more\nTAGS: A, a, A"
        ),
        ("one", "two", "three https://x.y/z Note: keep http://a more", ["A", "a"]),
    ),
    "headings": (
        (
            "## What went wrong: bad\n### What was attempted: did\nNext time: do\nLabels: z\nmore, "
            "tags"
        ),
        ("did", "bad", "do", ["z", "more", "tags"]),
    ),
    "numbered steps": (
        (
            "ATTEMPT: a\n- first\n- second\nISSUE: b\nSTRATEGY: do this:\n1. open the file\n2) "
            "read "
            "it\n- 5 is returned\n>"
        ),
        ("a - first - second", "b", "do this: 1. open the file 2) read it - 5 is returned", []),
    ),
    "unclosed thinking": ("<think>\nATTEMPT: a\nISSUE: b\nSTRATEGY: c", None),
    "quotes and brackets": (
        'ATTEMPT: [did x]\nISSUE: `b`\nSTRATEGY: "c"\nTAGS: [x, y]',
        ("[did x]", "b", "c", ["x", "y"]),
    ),
    "three empty fields": ('{"attempt":"","issue":"","strategy":""}', None),
    "nothing": ("", None),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_response_is_read_as_its_vector_says(name: str) -> None:
    response, wanted = VECTORS[name]
    found = parse_reflection_response(response, "s-1")
    read = found and (
        found.attempt_summary,
        found.failure_analysis,
        found.corrective_strategy,
        found.tags,
    )
    assert read == wanted


_PIECES = [
    *("ATTEMPT:", "issue", "Strategy: ", "tags: [", '{"attempt":"'),
    *("<think>", "</think>", "\n", "- x", "```", '\\"'),
]


@given(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=5))).map("".join))
def test_no_text_breaks_the_parser(text: str) -> None:
    found = parse_reflection_response(text, "s")
    assert found is None or (
        found.attempt_summary and found.failure_analysis and found.corrective_strategy
    )


def test_reflection_id_follows_session_and_text() -> None:
    session, response = "s-1/äb_2-abcdefghijklm", VECTORS["plain"][0]
    first, again, other = (parse_reflection_response(response, of) for of in (session, session, ""))
    assert None not in (first, again, other)
    assert first.reflection_id == again.reflection_id
    assert first.reflection_id.startswith("reflection-s1b2abcdefgh-")
    assert other.reflection_id.count("-") == 1
    assert (first.session_id, first.task_id, first.improvement_score) == (session, None, None)


def reflection(improvement: float | None = None, *signals: OutcomeSignal) -> AgentReflection:
    of = {
        "improvement_score": improvement,
        "outcome_signals": list(signals),
        "timestamp": "2026-11-22T08:30:59.1Z",
    }
    return AgentReflection("reflection-1", "tried", "failed", "Look first", **of)  # type: ignore[arg-type]


def signal(
    kind: str, at: str = "2026-11-22T00:00:00Z", summary: str | None = None
) -> OutcomeSignal:
    return OutcomeSignal(kind, at, summary)


def test_new_makes_the_id_of_the_parser() -> None:
    parsed = parse_reflection_response("ATTEMPT: a\nISSUE: b\nSTRATEGY: c", "s-1")
    made = AgentReflection.new("s-1", "a", "b", "c")
    assert replace(made, timestamp="") == replace(parsed, timestamp="")


def test_a_reflection_is_copied_with_more() -> None:
    one = reflection(0.4)
    assert one.with_tags(["b", "a", "b"]).tags == ["b", "a"]
    assert one.with_task("t-1").task_id == "t-1"
    two = [signal("task_failed"), signal("task_failed", summary="again")]
    assert one.with_outcome_signals(two).outcome_signals == two[1:]
    assert (one.tags, one.task_id, one.outcome_signals) == ([], None, [])


def test_a_pushed_outcome_replaces_its_kind() -> None:
    one = reflection(0.4, signal("task_failed"))
    for summary in ("first", "second"):
        one.push_outcome_signal(signal("retry_did_not_improve", "2026-11-21T00:00:00Z", summary))
    assert [(said.kind, said.summary) for said in one.outcome_signals] == [
        ("retry_did_not_improve", "second"),
        ("task_failed", None),
    ]


def test_a_reflection_knows_its_confidence() -> None:
    base = AgentReflection.new("s", "a", "b", "c")
    assert base.promotion_confidence() == 0.62
    assert (
        base.with_outcome_signals(
            map(signal, ["retry_improved", "review_approved"])
        ).promotion_confidence()
        == 0.73
    )
    base.outcome_signals += [signal("task_completed"), signal("task_completed")]  # by hand
    assert base.promotion_confidence() == 0.74


def test_an_outcome_is_of_now_by_default() -> None:
    before, after = (OutcomeSignal("task_completed") for _ in range(2))
    assert before.observed_at <= after.observed_at
    assert before.observed_at.endswith("Z")


def test_a_prompt_section_tells_what_is_known() -> None:
    one = reflection()
    lines = [
        "**Reflection** (2026-11-22 08:30 UTC)",
        "- Attempted: tried",
        "- Issue: failed",
        "- Strategy: Look first",
    ]
    assert one.to_prompt_section() == "\n".join(lines)
    one = reflection(0.6, signal("retry_improved"), signal("pre_execution_approved"))
    more = [
        "- Observed improvement after retry: 60%",
        "- Outcomes: Retry improved, Pre-execution approved",
    ]
    assert one.to_prompt_section() == "\n".join(lines + more)
    with pytest.raises(ValueError, match="'nonsense' is not a kind of outcome"):
        signal("nonsense")


@pytest.mark.parametrize(
    ("initial", "retried", "improvement"),
    [
        (0.40, 0.76, 0.6),
        (0.65, 0.65, 0.0),
        (0.65, 0.52, 0.0),
        (0.0, 1.0, 1.0),
        (1.0, 1.0, 0.0),
        (0.4, 0.43, 0.05),
        (0.4, 0.42, 0.033333),
        (float("nan"), 0.5, 0.0),
        (0.5, float("nan"), 0.0),
    ],
)
def test_improvement_is_the_share_of_the_closed_gap(
    initial: float, retried: float, improvement: float
) -> None:
    assert score_reflection_improvement(initial, retried) == improvement


@pytest.mark.parametrize(
    ("improvement", "kinds", "confidence"),
    [
        (None, [], 0.62),
        (0.0, [], 0.55),
        (0.24, [], 0.634),
        (0.4, [], 0.69),
        (0.6, [], 0.76),
        (0.88, [], 0.858),
        (1.0, [], 0.90),
        (2.0, [], 0.90),
        (-1.0, [], 0.55),
        (None, ["retry_improved", "review_approved"], 0.73),
        (None, ["retry_did_not_improve", "review_needs_revision"], 0.40),
        (0.4, ["retry_did_not_improve"], 0.59),
        (0.4, ["retry_did_not_improve", "review_approved", "task_completed"], 0.79),
        (0.24, ["retry_did_not_improve"], 0.534),
        (0.24, ["retry_did_not_improve", "review_approved"], 0.614),
    ],
)
def test_a_confidence_is_that_of_its_vector(
    improvement: float | None, kinds: list[str], confidence: float
) -> None:
    assert (
        reflection_promotion_confidence(improvement, [signal(kind) for kind in kinds]) == confidence
    )


@pytest.mark.parametrize(("polarity", "bound"), [(1, 0.97), (-1, 0.30)])
def test_many_outcomes_reach_the_bounds_of_the_confidence(polarity: int, bound: float) -> None:
    signals = [signal(kind) for kind, said in POLARITY.items() if said == polarity]
    assert reflection_promotion_confidence(None, signals) == bound


def test_each_outcome_has_its_label_and_weight() -> None:
    by_weight = {
        0.12: "Task completed",
        0.08: "Pre-execution approved, Review approved, Test validation approved",
        0.03: "Retry improved",
        0.02: "Execution awaiting review, Execution awaiting test validation",
        -0.08: "Task cancelled",
        -0.10: "Retry did not improve",
        -0.12: "Task failed, Task blocked, Pre-execution needs revision, Review needs revision, "
        "Test validation needs revision",
        -0.16: "Pre-execution rejected, Review rejected, Test validation rejected",
    }
    table = {
        label.lower().replace(" ", "_").replace("-", "_"): (label, weight)
        for weight, labels in by_weight.items()
        for label in labels.split(", ")
    }
    assert {kind: (label_of(kind), DELTAS[kind]) for kind in table} == table
    assert DELTAS.keys() - table.keys() == {"success", "failure"}  # part E's
    signs = {
        kind: 0 if "awaiting" in kind else 1 if delta > 0 else -1 for kind, delta in DELTAS.items()
    }
    assert signs == POLARITY


def test_merged_signals_are_unique_and_in_time_order() -> None:
    stored = [
        signal("task_completed", "2026-11-20T00:00:00Z"),
        signal("review_approved", "2026-11-21T00:00:00Z"),
    ]
    older = signal("review_approved", "2026-11-19T00:00:00Z", "the second look")
    assert list(merge_outcome_signals(stored, [older])) == [older, stored[0]]
    at_once = [signal("retry_improved"), signal("review_approved"), signal("task_failed")]
    assert list(merge_outcome_signals([], at_once)) == at_once
    newer = signal("retry_improved", summary="again")
    assert list(merge_outcome_signals(at_once, [newer])) == [newer, *at_once[1:]]
    forms = [
        signal("task_failed", "2026-11-22T00:00:00.5Z"),
        signal("task_completed", "2026-11-22T01:00:00+01:00"),
    ]
    assert list(merge_outcome_signals(forms, [])) == forms[::-1]
    assert tally(merge_outcome_signals(at_once, at_once)) == (2, 1)


@pytest.mark.parametrize(
    ("confidence", "successes", "failures", "state"),
    [
        (0.62, 0, 0, "active"),
        (0.62, 0, 1, "active"),
        (0.40, 0, 2, "decayed"),
        (0.399999, 0, 2, "archived"),
        (0.30, 1, 2, "active"),
        (0.97, 9, 3, "archived"),
    ],
)
def test_a_lesson_that_fails_ends_archived(
    confidence: float, successes: int, failures: int, state: str
) -> None:
    assert lesson_state(confidence, successes, failures) == state


def test_a_strategys_key_is_its_first_ten_words() -> None:
    assert strategy_key("Inspect the relevant files first") == "inspect-the-relevant-files-first"
    assert strategy_key("ä – ü") == "reflection-strategy"
    assert strategy_key("a b c d e f g h i j k") == "a-b-c-d-e-f-g-h-i-j"


def test_told_reflections_are_cut_to_300_characters() -> None:
    long = replace(reflection(), attempt_summary="x" * 400)
    told = past_reflections([reflection(), long, reflection()], 2).split("### Past Reflection\n")
    assert (len(told), len(told[2])) == (3, 300)
    assert past_reflections([reflection()], 0) == past_reflections([reflection()], -1) == ""


@pytest.mark.parametrize("most", [0, 1, 3])
def test_the_configuration_limits_past_reflections(most: int) -> None:
    config = ReflectionConfig(max_injected_reflections=most)
    assert past_reflections([reflection()] * 5, config).count("### Past Reflection") == most


def test_only_trusted_reflections_are_told_before_a_turn(ledger: Ledger) -> None:
    for text, *kinds in (
        ("trusted", "review_approved"),
        ("not trusted", "review_rejected"),
        ("archived", "review_rejected", "task_failed", "task_blocked"),
    ):
        one = lesson(text, "reflection", text, attempt="a", issue="i", tags=["x"])
        ledger.append([one, *(outcome(one, kind) for kind in kinds)])
    (found,) = reflections_of(lesson_book(ledger))
    assert found.corrective_strategy == "trusted"
    assert "- Outcomes: Review approved" in found.to_prompt_section()
