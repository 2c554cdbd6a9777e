"""The agent (B-14 to B-19): the order of its questions, what it does with answers, and that it
never raises (P4).

Each script of answers is run by a store of playbooks that records nothing; `test_running` runs some
with a ledger.
"""

import json
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import example, given, strategies as st

from reflector.ground_truth import (
    Insight,
    Playbook,
    ReflectionResult,
    ReflectorAgent,
    ReflectorPromptBuilder,
    Trajectory,
)
from reflector.judges.truth.questions import read_insights
from tests.judges.truth.cases import (
    INSIGHTS,
    Model,
    Store,
    attempt,
    bullet,
    insight,
    insights,
    script,
    verdict,
)

AWAY = RuntimeError("away")


def run(
    model: object, store: object, trajectory: Trajectory, iterations: int = 1
) -> ReflectionResult:
    agent = ReflectorAgent(model, ReflectorPromptBuilder(), store)  # type: ignore[arg-type]
    return agent.run(trajectory, "a + b", "", "sums", iterations)


@given(st.lists(INSIGHTS, max_size=3), st.booleans())
@example([insight("</think>")], False)
def test_insights_that_were_written_are_read_again(given: list[Insight], damaged: bool) -> None:
    entries: list[object] = [one.model_dump() for one in given]
    found, _, problems = read_insights(
        json.dumps({"insights": entries + [{"reasoning": 1}] * damaged})
    )
    assert found == (given if given or not damaged else None)
    assert [problem.partition(":")[0] for problem in problems] == [
        f"insight {len(given)}"
    ] * damaged


def test_playbook_insights_and_evaluations_come_in_order() -> None:
    model = Model(insights("k"), verdict("harmful"), verdict())
    result = run(
        model, Store(bullet("a", "Advice A."), bullet("b", "Advice B.")), attempt(["b", "x", "a"])
    )
    assert result.insights == [insight("k")]
    assert [(one.bullet_id, one.tag) for one in result.bullet_evaluations] == [
        ("b", "harmful"),
        ("a", "helpful"),
    ]
    assert ["Advice B." in prompt for prompt in model.prompts] == [True, True, False]
    assert result.iteration_count == 1


@pytest.mark.parametrize("bad", [AWAY, "no JSON"], ids=["away", "unread"])
@pytest.mark.parametrize(
    ("answers", "iterations", "key", "asked", "said"),
    [
        ("1 2 3", 3, "3", 3, ""),
        ("1 - 3 -", 4, "3", 4, "the insights of iteration 3 are kept"),
        ("1", 0, None, 0, "so the model was not asked"),
        ("1 - - -", 4, "1", 4, "the insights of iteration 1 are kept"),
    ],
)
def test_insights_are_those_of_the_last_good_iteration(
    answers: str,
    iterations: int,
    key: str | None,
    asked: int,
    said: str,
    bad: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Model(*script(answers, bad))
    result = run(model, Store(), attempt(), iterations)
    assert [one.key_insight for one in result.insights] == ([key] if key else [])
    assert (result.iteration_count, len(model.prompts)) == (iterations, asked)
    assert said in caplog.text


def test_each_iteration_gets_the_insights_before_it() -> None:
    model = Model(insights("first"), "no JSON", insights("third"), insights("fourth"))
    run(model, Store(), attempt(), 4)
    assert ["first" in prompt for prompt in model.prompts] == [False, True, True, False]
    assert ["third" in prompt for prompt in model.prompts] == [False, False, False, True]


@pytest.mark.parametrize("dataset", ["mbpp-v1.0", "HumanEval+", "openai/humaneval", "a b"])
def test_any_name_of_a_dataset_gives_a_result(dataset: str) -> None:
    agent = ReflectorAgent(Model(insights("k")), ReflectorPromptBuilder(), Store())
    assert agent.run(attempt(dataset=dataset), "t", "r", dataset).insights == [insight("k")]


@pytest.mark.parametrize("dataset", ["../sums", "a/../../b", "/etc", "", "a\0b", "C:x", "..\\x"])
def test_a_store_is_asked_for_no_path(dataset: str, caplog: pytest.LogCaptureFixture) -> None:
    class Files(Store):
        def load(self, dataset: str) -> Playbook:
            raise AssertionError(dataset)

    agent = ReflectorAgent(model := Model(), ReflectorPromptBuilder(), Files())
    assert agent.run(attempt(), "t", "r", dataset).insights == []
    assert model.prompts == []
    assert "points outside the folder" in caplog.text


class Broken:
    def load(self, dataset: str) -> Playbook:
        raise OSError("the disk is gone")


@pytest.mark.parametrize(
    ("model", "store", "used", "asked", "said"),
    [
        (Model(insights("k")), Store(), ["x", "y"], 1, "x is not a rule"),
        (Model(insights("k")), Store(bullet("a")), [], 1, ""),
        (Model(), Store(bullet("a")), ["a"], 2, "no answer is left"),
        (Model(insights("k")), Broken(), [], 0, "the disk is gone"),
    ],
)
def test_missing_part_costs_only_its_dependents(
    model: Model,
    store: object,
    used: list[str],
    asked: int,
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    answered = bool(model.answers) and isinstance(store, Store)
    assert run(model, store, attempt(used)) == ReflectionResult(
        insights=[insight("k")] if answered else [],
        bullet_evaluations=[],
        trajectory_query="Add two numbers.",
        trajectory_dataset="sums",
        iteration_count=int(answered),
    )
    assert len(model.prompts) == asked
    assert said in caplog.text


def test_unjudged_bullet_is_not_called_neutral(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = [AWAY, "no JSON", '{"tag": "good", "reason": "r"}', '{"reason": "r"}']
    names = ["a", "b", "c", "d", "e"]
    model = Model(insights("k"), *bad, '{"bullet_id": "another", "tag": "helpful", "reason": "r"}')
    result = run(model, Store(*map(bullet, names)), attempt(names))
    # The bullet that is judged is the one that was asked about.
    assert [(one.bullet_id, one.tag) for one in result.bullet_evaluations] == [("e", "helpful")]
    assert all(f"the evaluation of {name}" in caplog.text for name in names[:4])


def test_any_object_with_both_methods_builds_prompts() -> None:
    model, builder = Model(insights("k"), insights("l"), verdict()), MagicMock()
    builder.build.side_effect = lambda *given: f"insights of {given[4]}"
    builder.build_evaluation_prompt.side_effect = lambda *given: f"evaluation of {given[2].id}"
    agent = ReflectorAgent(model, builder, Store(bullet("a")))
    assert [
        one.bullet_id for one in agent.run(attempt(["a"]), "t", "r", "sums", 2).bullet_evaluations
    ] == ["a"]
    assert model.prompts == ["insights of sums", "insights of sums", "evaluation of a"]
    assert [call.args[5] for call in builder.build.call_args_list] == [None, [insight("k")]]
    with pytest.raises(TypeError, match="prompt builder returned MagicMock"):
        ReflectorAgent(Model(insights("k")), MagicMock(), Store()).run(attempt(), "t", "r", "sums")


def test_model_is_a_method_or_a_callable() -> None:
    model = MagicMock()  # has every attribute, also those of our backends
    model.invoke_with_template.side_effect = [insights("k"), verdict("harmful")]
    result = run(model, Store(bullet("pat-001")), attempt(["pat-001"]))
    assert [one.key_insight for one in result.insights] == ["k"]
    assert [one.tag for one in result.bullet_evaluations] == ["harmful"]
    assert run(lambda _: insights("k"), Store(), attempt()).insights == [insight("k")]
    with pytest.raises(TypeError, match="invoke_with_template"):
        run(object(), Store(), attempt())
