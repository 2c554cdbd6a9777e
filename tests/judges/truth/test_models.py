"""The values (B-01 to B-08): what they hold, what they refuse, and that JSON keeps them (P1 and
P2).
"""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from reflector.ground_truth import (
    Bullet,
    BulletEvaluation,
    CurationResult,
    DeltaContextItem,
    Insight,
    Playbook,
    ReflectionResult,
    Trajectory,
)
from tests.judges.truth.cases import INSIGHTS, TEXTS, attempt, bullet, insight

TAGS = ("helpful", "harmful", "neutral")
RESULTS = st.builds(
    ReflectionResult, insights=st.lists(INSIGHTS, max_size=3), trajectory_query=TEXTS
)
TRAJECTORIES = st.builds(
    Trajectory, query=TEXTS, generated_answer=TEXTS, error_message=st.none() | TEXTS
)
WRONG = (
    st.none()
    | st.integers()
    | st.booleans()
    | st.floats()
    | st.binary()
    | st.lists(st.text())
    | st.just({})
)


def result(**fields: Any) -> ReflectionResult:
    values = {
        "insights": [],
        "bullet_evaluations": [],
        "trajectory_query": "q",
        "trajectory_dataset": "d",
    }
    return ReflectionResult(**(values | fields))


@given(RESULTS | TRAJECTORIES)
def test_json_keeps_every_value(value: ReflectionResult | Trajectory) -> None:
    assert type(value).model_validate_json(value.model_dump_json()) == value


@given(
    st.sampled_from(sorted(Insight.model_fields)),
    WRONG,
    st.text().filter(lambda tag: tag not in TAGS) | WRONG,
)
def test_a_value_of_another_type_is_refused(field: str, value: Any, tag: Any) -> None:
    with pytest.raises(ValidationError):
        Insight(**{**insight().model_dump(), field: value})
    with pytest.raises(ValidationError):
        BulletEvaluation(bullet_id="a", tag=tag, reason="r")
    with pytest.raises(ValidationError):
        result(iteration_count=True if isinstance(value, int) else value)


def test_values_have_the_specified_fields_and_defaults() -> None:
    asked = {
        Insight: "reasoning error_identification root_cause_analysis correct_approach key_insight",
        BulletEvaluation: "bullet_id tag reason",
        ReflectionResult: (
            "insights bullet_evaluations trajectory_query trajectory_dataset iteration_count"
        ),
    }
    assert {model: " ".join(model.model_fields) for model in asked} == asked
    for field in Insight.model_fields:
        with pytest.raises(ValidationError, match=field):
            Insight(**{key: value for key, value in insight().model_dump().items() if key != field})
    assert result().iteration_count == 1
    assert (attempt().error_message, attempt().created_at.tzinfo is None) == (None, False)
    with pytest.raises(ValidationError):
        attempt(status="done")
    assert Playbook.model_validate_json(Playbook().model_dump_json()).bullets == []


@pytest.mark.parametrize(
    ("helpful", "harmful", "score"), [(5, 0, 1.0), (3, 1, 0.75), (0, 0, 0.5), (0, 2, 0.0)]
)
def test_confidence_is_the_share_of_helpful(helpful: int, harmful: int, score: float) -> None:
    made = bullet("a").model_copy(update={"helpful": helpful, "harmful": harmful})
    assert made.confidence_score == made.model_dump()["confidence_score"] == score
    assert Bullet.model_validate_json(made.model_dump_json()) == made


def test_a_curation_sums_up_its_changes() -> None:
    about: Any = {"section": "s", "bullet_id": None, "content": "c", "reasoning": "r"}
    deltas = [DeltaContextItem(type=type_, **about) for type_ in ("ADD", "UPDATE", "ADD")]
    made = CurationResult(deltas=deltas, bullets_before=1, bullets_after=3)
    assert made.summary == "ADD: 2, UPDATE: 1, DELETE: 0"
    assert CurationResult.model_validate_json(made.model_dump_json()) == made
