"""The requirements of gated reflection (C-01 to C-29, and the exact rules of C.3 and C.4): where each is tested.

There is no C-08 to C-19: the rules of C.3, which are numbered 1 to 6, and C.4 stand in their place.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from reflector import gated

TESTS = Path(__file__).parent

PLACES = {
    "test_identity.py": {
        "C-01 C-04": "test_an_open_gate_gives_the_same_log_and_memory_everywhere_and_changes_no_turn_that_it_follows",
        "C-02 identity": "test_a_closed_gate_leaves_every_byte_as_it_was_without_the_feature",
    },
    "test_step.py": {
        "C-01": "test_a_reflection_changes_nothing_of_its_turn",
        "C-02": "test_a_turn_is_reflected_on_if_it_is_allowed_and_asked_for_and_no_dry_run",
        "C-02 closed": "test_behind_a_closed_gate_nothing_is_used_and_nothing_comes_back",
        "C-03": "test_a_flag_of_the_plan_is_a_boolean_or_a_word_for_one",
        "C-03 error": "test_any_other_flag_of_the_plan_is_an_error_and_asks_for_nothing",
        "C-04": "test_the_same_turn_gives_the_same_bytes",
        "C-04 places": "test_another_process_locale_and_hash_seed_give_the_same_values",
        "C.3.1 C.3.2 C.3.3 C.3.4 C.3.5": "test_a_summary_is_the_first_words_of_what_was_said",
        "C.3.4 bounds": "test_a_summary_has_words_only_and_no_more_than_asked_for",
        "C.3.5": "test_an_entry_says_whose_it_is_when_it_was_made_and_what_it_is",
        "C.3.5 none": "test_no_entry_is_made_where_none_may_be_written",
        "C.3.6 owner": "test_the_owner_of_an_entry_is_the_agent",
        "C.3.6 ts, C-26 now_ms": "test_the_time_of_an_entry_is_the_hosts",
        "C.4 none": "test_an_entry_has_no_vector_where_none_is_wanted_or_none_can_be_made",
        "C-20": "test_a_prompt_is_canonical_json_in_ascii",
        "C-20 vector": "test_the_documented_prompt_has_the_documented_hash",
        "C-20 C-22 vector": "test_a_recorded_answer_is_the_summary",
        "C-21 clip": "test_an_answer_is_clipped_to_the_words_that_were_asked_for",
        "C-21 CRLF": "test_line_ends_of_a_prompt_and_of_a_file_do_not_matter_and_the_last_of_two_answers_counts",
        "C-21 C-22": "test_fixtures_that_cannot_answer_are_missing_with_a_clear_word",
        "C-22": "test_a_backend_that_cannot_be_had_is_an_error_and_a_reason",
        "C-23": "test_an_agent_and_a_turn_that_are_missing_are_unknown_and_zero",
        "C-24 pre-emptive": "test_a_backend_that_hangs_is_cut_at_the_budget",
        "C-24 errors": "test_whatever_an_adapter_does_is_a_reason",
        "C-24 turn": "test_a_turn_that_nobody_can_read_is_a_reason",
        "C-25": "test_what_the_clock_finds_too_long_keeps_its_summary_and_loses_its_entries",
    },
    "test_config.py": {
        "C-05": "test_an_empty_mapping_gives_the_defaults",
        "C-06 C-07": "test_a_wrong_setting_is_named_with_its_value_and_the_way_out",
        "C-06 keys": "test_the_settings_are_found_where_the_host_has_them",
        "C-06 closed": "test_recorded_answers_are_not_needed_while_the_gate_is_closed",
        "C-07 true": "test_words_for_true",
        "C-07 false": "test_words_for_false",
        "C-07 not coerced": "test_what_the_source_took_silently_for_a_default_or_a_zero_is_refused",
        "C-07 all": "test_every_fault_is_in_one_error",
    },
    "../lessons/test_embedding.py": {
        "C.4": "test_the_vector_of_a_text_is_the_one_that_was_asked_for",
        "C.4 norm": "test_every_text_has_thirty_two_numbers_of_norm_one",
    },
    "test_entries.py": {
        "C-01 later": "test_a_summary_is_found_by_later_retrieval_and_not_before_it_is_written",
        "C-24 cap": "test_the_cap_is_held_and_what_was_written_is_what_is_counted",
        "C-24 timeout": "test_a_timeout_writes_nothing",
        "C-26 id": "test_the_id_of_an_entry_is_made_from_agent_turn_slot_and_text",
        "C-26 record": "test_an_entry_is_kept_with_its_keys_in_order_and_the_defaults",
        "C-26 owner": "test_an_entry_becomes_a_lesson_of_its_agent",
        "C-26 ops_cap=0": "test_a_cap_of_nothing_writes_nothing_and_says_so",
        "C-26 index_missing": "test_without_a_ledger_the_index_is_missing",
        "C-26 partial_failure": "test_an_entry_that_is_refused_does_not_stop_the_others",
        "C-26 twice": "test_the_same_entries_twice_add_nothing",
    },
    "test_log.py": {
        "C-27": "test_the_line_of_a_record_is_exact",
        "C-27 ms": "test_the_milliseconds_are_zero_under_ci_alone",
        "C-27 ordinal": "test_agents_that_reflect_in_parallel_are_logged_by_agent_and_turn",
        "C-27 swallowed": "test_a_log_that_cannot_be_written_never_harms_the_turn",
        "C-28": "test_the_log_says_what_the_ledger_has_and_not_what_was_produced",
        "C-28 backend": "test_recorded_answers_are_llm_in_the_log_with_their_key",
    },
    "test_measure.py": {
        "C-29": "test_the_defaults_print_one_exact_line",
        "C-29 examples": "test_two_examples_ship_and_print_their_exact_lines",
        "C-29 topk": "test_more_snippets_make_a_longer_summary",
        "C-29 C-20 keys": "test_a_smaller_prompt_has_its_own_key_and_answer",
        "C-29 --raw-time": "test_time_is_shown_where_it_is_asked_for_and_not_under_ci",
    },
}


@pytest.mark.parametrize("file", PLACES)
def test_each_requirement_has_its_test(file: str) -> None:
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    assert set(PLACES[file].values()) <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_no_requirement_is_left_out() -> None:
    named = {word.rstrip(",") for places in PLACES.values() for key in places for word in key.split()}
    asked = [f"C-{number:02}" for number in (*range(1, 8), *range(20, 30))]
    assert [name for name in (*asked, *(f"C.3.{rule}" for rule in range(1, 6)), "C.4") if name not in named] == []


def test_the_public_functions_have_the_asked_signatures() -> None:
    def names(function: object) -> list[str]:
        assert callable(function)
        return list(inspect.signature(function).parameters)

    assert names(gated.load_config) == ["mapping"]
    assert names(gated.ReflectionBundle) == ["ctx", "state_view", "plan", "utter", "snippets"]
    assert names(gated.reflect) == ["bundle", "config", "adapter", "clock"]
    assert names(gated.should_run) == ["config", "plan", "state", "dry_run"]
    assert names(gated.summarize) == ["utterance", "snippets", "topk", "tokens"]
    assert names(gated.embed) == ["text"]
    assert names(gated.canonical_prompt) == names(gated.fixture_key) == ["bundle", "config"]
    assert names(gated.write_entries)[:3] == ["ledger", "entries", "ops_cap"]


def test_the_public_names_load_neither_a_database_nor_a_network() -> None:
    heavy = ("sqlalchemy", "anthropic", "pydantic", "click", "yaml", "numpy", "socket", "ssl", "random")
    code = f"import sys, reflector.gated; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
