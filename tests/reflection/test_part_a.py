"""The ACE reflector's requirements (A-01 to A-34): where each is tested, and what stands nowhere else.

`PLACES` names the test of each requirement, by file; that it exists is tested too. Not ours: the curator's own steps of
A-32 (deduplication, pruning).
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

import reflector
from reflector import apply_bullet_tags, extract_cited_ids, extract_json_object, format_playbook, load_transcript
from tests.reflection.test_classic import counts, entry, playbook
from tests.road.agent import Agent
from tests.road.sessions import Session

TESTS = Path(__file__).parent.parent

PLACES = {
    "transcripts/test_citations.py": {
        "A-01 A-02 A-05 A-06": "test_only_strings_of_the_assistant_are_searched_in_order_of_first_appearance",
        "A-03": "test_the_pattern_of_a_citation_is_exact",
    },
    "reflection/test_part_a.py": {
        "A-04 INV-REFL-001": "test_cited_ids_are_unique_and_the_same_in_every_process",
        "A-28": "test_injection_changes_nothing",
        "A-30 empty": "test_an_empty_transcript_is_no_error",
        "A-32": "test_the_classic_functions_make_one_pipeline",
        "A-34": "test_the_name_of_a_removed_bullet_is_not_given_out_again",
    },
    "reflection/test_prompts.py": {
        "A-07": "test_the_playbooks_prompt_asks_to_cite_ids_in_brackets",
        "A-09": "test_the_reflectors_prompt_demands_the_answers_form_in_both_modes",
        "A-10 braces": "test_braces_in_the_data_are_text",
    },
    "reflection/test_classic.py": {
        "A-08": "test_sections_stand_in_canonical_order_with_a_blank_line_between",
        "A-08 empty": "test_an_empty_playbook_is_no_text_at_all",
        "A-23": "test_tags_find_their_bullets_in_all_sections",
        "A-23 stderr": "test_an_unknown_name_is_told_on_stderr_without_any_logging_set_up",
        "A-24 INV-REFL-003": "test_counters_never_shrink_and_equal_the_number_of_usable_tags",
        "A-25 INV-REFL-004": "test_the_same_list_applied_twice_counts_twice",
        "A-26": "test_every_usable_tag_counts_and_the_others_are_logged",
        "A-27": "test_of_two_entries_with_one_name_the_last_is_counted",
    },
    "reflection/test_run_reflector.py": {
        "A-10": "test_the_transcript_is_a_json_list_of_turns",
        "A-11": "test_transcript_playbook_and_cited_ids_go_in_one_user_message",
        "A-12": "test_with_and_without_citations_the_same_form_is_asked_for",
        "A-13": "test_three_tags_come_back_with_their_rationales_as_the_model_gave_them",
        "A-14": "test_an_empty_playbook_has_an_analysis_and_no_tags",
        "A-15 model": "test_the_nearest_variable_names_the_model",
        "A-15 key": "test_the_nearest_variable_has_the_key_and_the_address",
        "A-15 none": "test_without_a_key_the_result_is_empty_and_nobody_is_asked",
        "A-15 SDK": "test_without_the_sdk_the_result_is_empty",
        "A-15 time": "test_a_request_has_thirty_seconds_and_all_of_them_fit_the_hooks_two_minutes",
        "A-18 INV-REFL-002": "test_no_behaviour_of_the_api_makes_it_raise",
        "A-18 diagnostic": "test_diagnostic_mode_keeps_what_went_wrong",
        "A-19 A-20": "test_missing_keys_are_filled_and_what_is_no_object_is_an_empty_result",
    },
    "reflection/test_anthropic.py": {
        "A-16 A-17": "test_what_the_server_does_decides_the_stage_the_attempts_and_the_words",
        "A-16 jitter": "test_waits_have_a_jitter_of_a_quarter",
        "A-20 blocks": "test_text_blocks_are_joined_and_others_left_out",
    },
    "reflection/test_answers.py": {
        "A-21 A-22": "test_the_first_sound_object_is_found",
    },
    "playbook/test_document.py": {
        "A-27 import": "test_a_name_in_two_sections_is_a_problem",
        "A-29": "test_the_written_form_is_a_contract",
        "A-33": "test_a_flat_list_of_key_points_is_read",
    },
    "reflection/test_gate.py": {
        "A-30": "test_each_setting_of_the_ace_tool_closes_the_gate_for_its_own_event",
    },
    "transcripts/test_load.py": {
        "A-31": "test_the_classic_list_holds_what_was_said_and_nothing_else",
    },
}


@pytest.mark.parametrize("file", PLACES)
def test_each_requirement_has_its_test(file: str) -> None:
    tree = ast.parse((TESTS / file).read_text())
    assert set(PLACES[file].values()) <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_public_functions_have_the_asked_signatures() -> None:
    def names(function: Any) -> list[str]:
        return list(inspect.signature(function).parameters)

    assert names(reflector.extract_cited_ids) == ["messages"]
    assert names(reflector.run_reflector) == ["messages", "playbook", "cited_ids"]
    assert asyncio.iscoroutinefunction(reflector.run_reflector)
    assert names(reflector.apply_bullet_tags) == ["playbook", "bullet_tags"]
    assert names(reflector.format_playbook)[0] == "playbook"
    assert names(reflector.load_template)[0] == "name"
    assert names(reflector.load_transcript) == ["path"]
    assert names(reflector.extract_json_object) == ["text"]


def test_cited_ids_are_unique_and_the_same_in_every_process() -> None:
    said = {"role": "assistant", "content": "[oth-2] [pat-1] [oth-2] [kpt_7] [pat-1] [pref-3]"}
    assert extract_cited_ids([said, said]) == ["oth-2", "pat-1", "kpt_7", "pref-3"]


def test_the_object_of_the_scenario_is_found_inside_prose() -> None:
    text = 'Here is my analysis:\n{"analysis": "test", "bullet_tags": []}\nHope this helps!'
    assert extract_json_object(text) == {"analysis": "test", "bullet_tags": []}


def test_the_classic_functions_make_one_pipeline(tmp_path: Path) -> None:
    """Load, cite, tag: pat-001 (2, 0) and oth-001 (0, 4) become (3, 0) and (0, 5)."""
    path = Session().cites("pat-001").cites("oth-001", "harmful").write(tmp_path / "t.jsonl")
    book = playbook(pat=[entry("pat-001", 2, 0, "Use types.")], oth=[entry("oth-001", 0, 4)])
    cited = extract_cited_ids(load_transcript(path))
    assert cited == ["pat-001", "oth-001"]
    answer = extract_json_object(
        '```json\n{"bullet_tags": [{"name": "pat-001", "tag": "helpful"}, {"name": "oth-001", "tag": "harmful"}]}\n```'
    )
    assert answer is not None
    assert counts(apply_bullet_tags(book, answer["bullet_tags"])) == {"pat-001": (3, 0), "oth-001": (0, 5)}
    assert "[pat-001] helpful=3 harmful=0 :: Use types." in format_playbook(book)


def test_injection_changes_nothing(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.call("drain")
    before = {path: path.read_bytes() for path in agent.claude.rglob("*") if path.is_file()}
    told = agent.hook("SessionStart", session_id="s-1", source="startup", transcript_path=str(tmp_path / "t.jsonl"))
    assert "[pat-001] helpful=0 harmful=0 :: Write the failing test first." in told
    kept = {path: path.read_bytes() for path in before}
    assert kept == before


def test_an_empty_transcript_is_no_error(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    (tmp_path / "t.jsonl").touch()
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(tmp_path / "t.jsonl"), reason="other")
    assert agent.call("drain").out == ""
    assert agent.deliveries() == []
    assert load_transcript(tmp_path / "t.jsonl") == []


def test_the_name_of_a_removed_bullet_is_not_given_out_again(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.call("add", "pat", "Third.")
    agent.call("remove", "pat-003")
    assert agent.call("add", "pat", "Fourth.").out.startswith("[pat-004] helpful=0 harmful=0")
