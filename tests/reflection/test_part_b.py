"""The requirements of reflection with ground truth (B-01 to B-20): where each is tested.

`PLACES` names the test of each requirement, by file; that it exists is tested too. The ledger's part runs on both
engines (`truth/test_running.py`).
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent / "truth"

PLACES = {
    "test_models.py": {
        "B-01": "test_the_values_have_the_fields_that_were_asked_for_and_their_defaults",
        "B-02": "test_the_values_have_the_fields_that_were_asked_for_and_their_defaults",
        "B-03": "test_the_values_have_the_fields_that_were_asked_for_and_their_defaults",
        "B-04 P1": "test_json_keeps_every_value",
        "B-05 P2": "test_a_value_of_another_type_is_refused",
        "B-05 tag": "test_a_value_of_another_type_is_refused",
        "B-05 strict": "test_a_count_of_iterations_is_not_converted",
        "B-06": "test_the_values_have_the_fields_that_were_asked_for_and_their_defaults",
        "B-07": "test_the_confidence_of_a_bullet_is_its_share_of_helpful",
        "B-07 empty": "test_the_values_have_the_fields_that_were_asked_for_and_their_defaults",
        "B-08": "test_a_curation_sums_up_its_changes",
    },
    "test_builder.py": {
        "B-09": "test_the_datasets_template_goes_before_the_default_and_both_before_ours",
        "B-09 both names": "test_both_names_of_the_previous_insights_are_known",
        "B-10 P3": "test_everything_given_stands_in_the_prompt_as_it_was_given",
        "B-11": "test_steps_are_numbered_and_bullets_stand_apart",
        "B-12": "test_an_evaluation_has_a_template_of_its_own",
        "B-13": "test_a_name_that_no_dataset_can_have_is_refused",
        "B-13 template": "test_a_broken_template_is_passed_over_and_said",
        "source defect": "test_a_filled_template_is_never_formatted_again",
    },
    "test_agent.py": {
        "B-14": "test_the_playbook_is_loaded_then_insights_are_asked_for_then_each_used_bullet_is_judged",
        "B-15": "test_what_is_missing_costs_what_needs_it_and_no_error",
        "B-15 empty": "test_what_is_missing_costs_what_needs_it_and_no_error",
        "B-16": "test_what_is_missing_costs_what_needs_it_and_no_error",
        "B-17": "test_an_answer_of_another_shape_gives_no_insight",
        "B-17 P4": "test_insights_that_were_written_are_read_again",
        "B-18": "test_each_iteration_is_given_the_insights_of_the_one_before",
        "B-18 last good": "test_the_insights_are_those_of_the_last_good_iteration_and_three_failures_end_the_asking",
        "B-18 zero": "test_the_insights_are_those_of_the_last_good_iteration_and_three_failures_end_the_asking",
        "B-19": "test_a_bullet_that_cannot_be_judged_is_not_called_neutral",
        "B-19 id": "test_the_judged_bullet_is_the_one_that_was_asked_about",
        "source defect": "test_braces_in_the_code_under_analysis_do_not_matter",
    },
    "test_running.py": {
        "B-07 store": "test_every_dataset_has_a_playbook_of_its_own",
        "B-13 ledger": "test_every_dataset_has_a_playbook_of_its_own",
        "B-14 events": "test_a_run_is_a_trajectory_its_answers_its_lessons_and_its_tags",
        "B-14 again": "test_running_the_same_trajectory_again_adds_nothing_and_asks_nobody",
        "B-16 events": "test_a_model_that_fails_leaves_the_trajectory_open_for_the_next_run",
        "B-18 events": "test_an_answer_that_is_missing_or_cannot_be_read_is_a_recorded_failure_and_no_tag",
        "B-19 events": "test_an_answer_that_is_missing_or_cannot_be_read_is_a_recorded_failure_and_no_tag",
        "B-20": "test_tags_count_under_every_policy_and_can_be_retracted",
    },
}


@pytest.mark.parametrize("file", PLACES)
def test_each_requirement_has_its_test(file: str) -> None:
    tree = ast.parse((TESTS / file).read_text())
    assert set(PLACES[file].values()) <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_no_requirement_is_left_out() -> None:
    named = {word for places in PLACES.values() for key in places for word in key.split()}
    assert {f"B-{number:02}" for number in range(1, 21)} <= named


def test_the_public_names_have_the_asked_signatures() -> None:
    from reflector.ground_truth import ReflectorAgent, ReflectorPromptBuilder

    def names(function: object) -> list[str]:
        return list(inspect.signature(function).parameters)  # type: ignore[arg-type]

    assert names(ReflectorPromptBuilder)[0] == "prompts_dir"
    assert names(ReflectorPromptBuilder.build)[1:] == [
        *("trajectory", "ground_truth", "test_report", "used_bullets", "dataset", "previous_insights")
    ]
    assert names(ReflectorPromptBuilder.build_evaluation_prompt)[1:] == ["trajectory", "ground_truth", "bullet"]
    assert names(ReflectorAgent) == ["llm_client", "prompt_builder", "playbook_store"]
    wanted = ["trajectory", "ground_truth", "test_report", "dataset", "max_iterations"]
    assert names(ReflectorAgent.run)[1:] == names(ReflectorAgent.arun)[1:] == wanted
    assert inspect.signature(ReflectorAgent.run).parameters["max_iterations"].default == 1
    assert inspect.iscoroutinefunction(ReflectorAgent.arun)


def test_a_command_that_judges_sessions_imports_no_pydantic() -> None:
    code = (
        "import sys, reflector.reflection.runner, reflector.reflection.backends.rules; print('pydantic' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
