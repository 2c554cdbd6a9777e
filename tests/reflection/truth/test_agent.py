"""The agent without a ledger: the order of its questions, what it does with answers, and that it never raises (P4)."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reflector.ground_truth import (
    Bullet,
    Insight,
    Playbook,
    ReflectionResult,
    ReflectorAgent,
    ReflectorPromptBuilder,
    Trajectory,
)
from reflector.reflection.truth.asking import read_evaluation, read_insights
from tests.reflection.truth.cases import Model, Store, attempt, bullet, insight, insights, verdict
from tests.reflection.truth.test_models import INSIGHTS


def run(model: object, store: object, trajectory: Trajectory, iterations: int = 1) -> ReflectionResult:
    agent = ReflectorAgent(model, ReflectorPromptBuilder(language="en"), store)  # type: ignore[arg-type]
    return agent.run(trajectory, "a + b", "", "sums", iterations)


@settings(max_examples=100)
@given(st.lists(INSIGHTS, max_size=3), st.booleans())
@example([insight("</think>")], False)
def test_insights_that_were_written_are_read_again(given: list[Insight], fenced: bool) -> None:
    text = json.dumps({"insights": [one.model_dump() for one in given]}, ensure_ascii=False)
    if fenced and "```" not in text and "</think>" not in text:
        text = f"Here it is:\n```json\n{text}\n```\nDone."
    assert read_insights(text)[0] == given


@pytest.mark.parametrize(
    "text",
    [
        *("", "no JSON", "[]", "42", "null", '{"insights": 1}', '{"insights": null}', '{"insights": [1]}', "{}"),
        *('{"insights": [{"reasoning": "r"}]}', '{"insights": [', '{"insights": NaN}', "{" * 5000),
        json.dumps({"insights": [{**insight().model_dump(), "reasoning": 1}]}),
    ],
)
def test_an_answer_of_another_shape_gives_no_insight(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert run(Model(text), Store(), attempt()).insights == []
    assert "iteration 1" in caplog.text


def test_sound_insights_beside_damaged_ones_are_kept() -> None:
    found = read_insights(json.dumps({"insights": [insight("a").model_dump(), {"reasoning": 1}]}))
    assert found[0] == [insight("a")]
    assert found[2][0].startswith("insight 1: reasoning")


def test_the_playbook_is_loaded_then_insights_are_asked_for_then_each_used_bullet_is_judged() -> None:
    model = Model(insights("k"), verdict("harmful"), verdict())
    result = run(model, Store(bullet("a", "Advice A."), bullet("b", "Advice B.")), attempt(["b", "x", "a"]))
    assert result.insights == [insight("k")]
    assert [(one.bullet_id, one.tag) for one in result.bullet_evaluations] == [("b", "harmful"), ("a", "helpful")]
    assert ["Advice B." in prompt for prompt in model.prompts] == [True, True, False]
    assert result.iteration_count == 1


def test_unknown_bullets_are_skipped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    model = Model(insights("k"))
    result = run(model, Store(), attempt(["x", "y"]))
    assert (result.bullet_evaluations, len(model.prompts)) == ([], 1)
    assert "no bullet is called x" in caplog.text


def test_without_used_bullets_none_is_judged() -> None:
    model = Model(insights("k"))
    assert run(model, Store(bullet("a")), attempt()).bullet_evaluations == []
    assert len(model.prompts) == 1


def test_a_model_that_raises_gives_an_empty_result(caplog: pytest.LogCaptureFixture) -> None:
    result = run(Model(), Store(bullet("a")), attempt(["a"]))
    assert result == ReflectionResult(
        insights=[],
        bullet_evaluations=[],
        trajectory_query="Add two numbers.",
        trajectory_dataset="sums",
        iteration_count=0,
    )
    assert "no answer is left" in caplog.text


def test_a_store_that_raises_gives_an_empty_result(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def load(self, dataset: str) -> Playbook:
            raise OSError("the disk is gone")

    assert run(Model(insights("k")), Broken(), attempt()).insights == []
    assert "the disk is gone" in caplog.text


def test_each_iteration_is_given_the_insights_of_the_one_before() -> None:
    model = Model(insights("first"), insights("second"), insights("third"))
    result = run(model, Store(), attempt(), 3)
    assert [one.key_insight for one in result.insights] == ["third"]
    assert result.iteration_count == 3
    assert ["first" in prompt for prompt in model.prompts] == [False, True, False]
    assert ["second" in prompt for prompt in model.prompts] == [False, False, True]


@pytest.mark.parametrize("answer", [RuntimeError("away"), "no JSON"])
def test_an_iteration_that_fails_keeps_the_insights_of_the_last_good_one(
    answer: str | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(insights("first"), answer, insights("third"), answer)
    result = run(model, Store(), attempt(), 4)
    assert [one.key_insight for one in result.insights] == ["third"]
    assert "first" in model.prompts[2]
    assert "the insights of iteration 1 stand" in caplog.text
    assert "the insights of iteration 3 stand" in caplog.text


@pytest.mark.parametrize("answer", [RuntimeError("away"), "no JSON"])
def test_after_three_failed_iterations_in_a_row_no_other_is_asked_for(
    answer: str | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(answer, answer, insights("third"), *[answer] * 10)
    result = run(model, Store(), attempt(), 1_000_000)
    assert [one.key_insight for one in result.insights] == ["third"]
    assert len(model.prompts) == 6
    assert "iteration 6" in caplog.text
    assert "3 iterations failed in a row; iteration 7 was not asked for" in caplog.text


class Foreign:
    """A builder with the two public methods and nothing else."""

    def __init__(self) -> None:
        self.previous: list[object] = []

    def build(self, _t: object, truth: str, report: str, _b: object, dataset: str, previous: object = None) -> str:
        self.previous.append(previous)
        return f"insights {dataset} {truth} {report}"

    def build_evaluation_prompt(self, _: Trajectory, truth: str, bullet: Bullet) -> str:
        return f"evaluation {truth} {bullet.id}"


def test_any_object_with_both_methods_is_a_prompt_builder() -> None:
    model, builder = Model(insights("k"), insights("l"), verdict()), Foreign()
    agent = ReflectorAgent(model, builder, Store(bullet("a")))
    assert [one.bullet_id for one in agent.run(attempt(["a"]), "t", "r", "sums", 2).bullet_evaluations] == ["a"]
    assert model.prompts == ["insights sums t r", "insights sums t r", "evaluation t a"]
    assert builder.previous == [None, [insight("k")]]


def test_a_builder_that_overrides_the_public_methods_is_used_as_it_is() -> None:
    class Own(ReflectorPromptBuilder):
        def build(self, *given: Any, **named: Any) -> str:
            return "Mine. " + super().build(*given, **named)

        def build_evaluation_prompt(self, *given: Any, **named: Any) -> str:  # type: ignore[override]
            return "Mine, too."

    model = Model(insights("k"), verdict())
    ReflectorAgent(model, Own(), Store(bullet("a"))).run(attempt(["a"]), "the truth", "r", "sums")
    assert model.prompts[0].startswith("Mine. ")
    assert "the truth" in model.prompts[0]
    assert model.prompts[1] == "Mine, too."


def test_a_builder_that_returns_no_text_is_refused() -> None:
    builder = MagicMock()
    with pytest.raises(TypeError, match="prompt builder returned MagicMock"):
        ReflectorAgent(Model(insights("k")), builder, Store()).run(attempt(), "t", "r", "sums")


def test_no_iteration_is_a_failure_without_a_question() -> None:
    model = Model(insights("k"))
    result = run(model, Store(bullet("a")), attempt(["a"]), 0)
    assert (result.insights, result.iteration_count, model.prompts) == ([], 0, [])


@pytest.mark.parametrize(
    "answer", [RuntimeError("away"), "no JSON", '{"tag": "good", "reason": "r"}', '{"reason": "r"}']
)
def test_a_bullet_that_cannot_be_judged_is_not_called_neutral(
    answer: str | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    result = run(Model(insights("k"), answer, verdict()), Store(bullet("a"), bullet("b")), attempt(["a", "b"]))
    assert [one.bullet_id for one in result.bullet_evaluations] == ["b"]
    assert "the evaluation of a" in caplog.text


def test_the_judged_bullet_is_the_one_that_was_asked_about() -> None:
    found = read_evaluation('{"bullet_id": "another", "tag": "helpful", "reason": "r"}', "pat-001")
    assert found[0] is not None
    assert found[0].bullet_id == "pat-001"


def test_a_callable_is_a_model() -> None:
    assert run(lambda _: insights("k"), Store(), attempt()).insights == [insight("k")]


def test_a_model_is_known_by_its_method_and_not_by_what_else_it_has() -> None:
    model = MagicMock()  # has every attribute, also those of our backends
    model.invoke_with_template.side_effect = [insights("k"), verdict("harmful")]
    result = run(model, Store(bullet("pat-001")), attempt(["pat-001"]))
    assert [one.key_insight for one in result.insights] == ["k"]
    assert [one.tag for one in result.bullet_evaluations] == ["harmful"]


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match="invoke_with_template"):
        run(object(), Store(), attempt())


def test_the_async_twin_waits_for_a_coroutine_on_the_callers_loop() -> None:
    threads: list[int] = []

    async def model(_: str) -> str:
        await asyncio.sleep(0)
        threads.append(threading.get_ident())
        return insights("k")

    agent = ReflectorAgent(model, ReflectorPromptBuilder(), Store())
    result = asyncio.run(agent.arun(attempt(), "t", "r", "sums", 2))
    assert result.insights == [insight("k")]
    assert set(threads) == {threading.get_ident()}
    assert agent.run(attempt(), "t", "r", "sums").insights == [insight("k")]


def test_braces_in_the_code_under_analysis_do_not_matter() -> None:
    code = 'print(f"{x}", {"a": {1}}, "{{}}", "{0}")'
    model = Model(insights(code), insights(code))
    result = run(model, Store(), attempt(generated_answer=code), 2)
    assert result.insights == [insight(code)]
    assert all(code in prompt for prompt in model.prompts)
