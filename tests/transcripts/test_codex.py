from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reflector.transcripts import reading
from reflector.transcripts.citations import citations_of
from reflector.transcripts.discovery import find_transcript
from reflector.transcripts.message import Message
from reflector.transcripts.reading import Scan, read_messages
from tests.transcripts.agents import SESSION, Codex
from tests.transcripts.records import write

PARENT = "0199a213-0000-7000-8000-000000000001"
CHILD = "0199a213-0000-7000-8000-000000000002"


def read(session: Codex, folder: Path) -> list[Message]:
    path = session.write(folder / f"{session.id}.jsonl")
    return list(read_messages(path))


def scan(session: Codex, folder: Path) -> Scan:
    path = session.write(folder / f"{session.id}.jsonl")
    return reading.scan(path)


def results(session: Codex, folder: Path) -> list[tuple[str, bool]]:
    return [(result.text, result.is_error) for message in read(session, folder) for result in message.results]


def test_words_that_an_event_repeats_count_once(tmp_path: Path) -> None:
    session = Codex()
    session.model("As [pat-001] says.")
    assert [name for message in read(session, tmp_path) for name in citations_of(message)] == ["pat-001"]


@pytest.mark.parametrize(
    "text",
    [
        "# AGENTS.md instructions for /home/ada/shop\n\n<INSTRUCTIONS>\n[pat-001]\n</INSTRUCTIONS>",
        "<user_instructions>\nBe brief.\n</user_instructions>",
        "<environment_context>\n<cwd>/home</cwd>\n</environment_context>",
        "<user_shell_command>\n<command>ls</command>\n</user_shell_command>",
        "<subagent_notification>{}</subagent_notification>",
        '<hook_prompt hook_run_id="1">Go on.</hook_prompt>',
    ],
)
def test_what_the_client_writes_in_a_persons_name_is_no_persons(tmp_path: Path, text: str) -> None:
    session = Codex()
    session.said("user", text)
    assert [message.origin for message in read(session, tmp_path)] == ["injected", "injected"]


def test_the_kinds_of_its_parts_say_what_a_person_typed(tmp_path: Path) -> None:
    session = Codex()
    kinds = {"content_item_kinds": ["environments.environment_context", "user.text"]}
    session.said(
        "user", "plain words of the client", "<b> is not bold", internal_chat_message_metadata_passthrough=kinds
    )
    last = read(session, tmp_path)[-1]
    assert (last.origin, last.text) == ("human", "<b> is not bold")


def test_words_behind_what_an_editor_adds_are_a_persons(tmp_path: Path) -> None:
    session = Codex()
    session.said("user", "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nFix it.\n")
    assert read(session, tmp_path)[-1].text == "Fix it."


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Exit code: 2\nWall time: 0 seconds\nOutput:\nmake: *** failed", ("Exit code 2\nmake: *** failed", True)),
        ("Chunk ID: 1\nWall time: 1 seconds\nProcess exited with code 0\nOutput:\nok", ("ok", False)),
        (
            json.dumps({"output": "no", "metadata": {"exit_code": 1, "duration_seconds": 0.1}}),
            ("Exit code 1\nno", True),
        ),
        (json.dumps({"output": "ok", "metadata": {"exit_code": 0}}), ("ok", False)),
        (
            [{"type": "input_text", "text": "Script failed\nOutput:\n"}, {"type": "input_text", "text": "x"}],
            ("\nx", True),
        ),
        ({"content": "err: no such tool", "success": False}, ("err: no such tool", True)),
        ("Output:\nExit code: 3", ("Output:\nExit code: 3", False)),
        ("plain", ("plain", False)),
        ('{"a": 1}', ('{"a": 1}', False)),
        ("{" * 100_000, ("{" * 1024 + "\n[…]\n" + "{" * 768, False)),
        (None, ("", False)),
        (7, ("", False)),
    ],
)
def test_an_output_of_any_shape_shows_how_the_command_ended(
    tmp_path: Path, output: Any, expected: tuple[str, bool]
) -> None:
    session = Codex()
    session.item("function_call_output", call_id="call_0123456789abcdef", output=output)
    assert results(session, tmp_path) == [expected]


def test_a_call_of_any_shape_is_read(tmp_path: Path) -> None:
    session = Codex()
    session.item("function_call", name="shell", arguments='{"command":["bash","-lc","make test"]}', call_id="1")
    session.item("local_shell_call", call_id="2", status="completed", action={"type": "exec", "command": ["ls", "-a"]})
    patch = "*** Begin Patch\n*** Update File: src/cart.py\n@@\n-a\n+b\n*** End Patch"
    session.item("custom_tool_call", name="apply_patch", input=patch, call_id="3")
    session.item("custom_tool_call", name="exec", input='await tools.exec_command({cmd: "npm test"});', call_id="4")
    session.item("function_call", name="mystery", arguments="{broken", call_id="5")
    session.item("web_search_call", status="completed", action={"type": "search", "query": "coupons"})
    calls = [call for message in read(session, tmp_path) for call in message.calls]
    assert [call.name for call in calls] == ["Bash", "Bash", "Edit", "Bash", "mystery", "WebSearch"]
    assert [call.input.get("command") for call in calls[:2]] == ["make test", "ls -a"]
    assert calls[2].input["file_path"] == "src/cart.py"
    assert calls[3].input["command"] == "npm test"
    assert calls[5].input["query"] == "coupons"


def test_a_refused_command_is_a_refusal(tmp_path: Path) -> None:
    session = Codex()
    session.item("function_call_output", call_id="call_0123456789abcdef", output="exec command rejected by user")
    last = read(session, tmp_path)[-1]
    assert (last.origin, last.results[0].is_error) == ("refusal", True)


def test_an_interruption_counts_once_though_it_is_told_twice(tmp_path: Path) -> None:
    session = Codex()
    session.model("Working.")
    session.line("event_msg", {"type": "turn_aborted", "reason": "interrupted"})
    session.said("user", "<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>")
    session.line("event_msg", {"type": "turn_aborted", "reason": "replaced"})
    assert [message.origin for message in read(session, tmp_path)].count("refusal") == 1


def test_a_compaction_is_a_summary_and_its_history_is_no_second_one(tmp_path: Path) -> None:
    session = Codex()
    session.model("As [pat-001] says.")
    history = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "[pat-001]"}]}]
    session.line("compacted", {"message": "We used [pat-001].", "replacement_history": history})
    session.item("message", role="assistant", content=[{"type": "output_text", "text": "[pat-002]"}])
    session.records[-1]["metadata"] = {"compaction_output": True}
    found = read(session, tmp_path)
    assert [name for message in found for name in citations_of(message)] == ["pat-001"]
    assert [message.text for message in found if message.origin == "summary"] == ["We used [pat-001]."]


def test_reasoning_is_thinking(tmp_path: Path) -> None:
    session = Codex()
    summary = [{"type": "summary_text", "text": "[pat-001] applies"}]
    session.item("reasoning", summary=summary, content=None, encrypted_content="gAAAA")
    session.item("reasoning", summary=[], content=None, encrypted_content="gAAAA")
    (message,) = [message for message in read(session, tmp_path) if message.thinking]
    assert citations_of(message) == ["pat-001"]


def test_equal_words_said_twice_are_two_messages(tmp_path: Path) -> None:
    session = Codex()
    for _ in range(3):
        session.person("continue")
    assert [message.text for message in read(session, tmp_path)].count("continue") == 3


@pytest.mark.parametrize("ids", [True, False])
def test_a_fork_adds_only_its_own_words_though_its_times_are_new(tmp_path: Path, ids: bool) -> None:
    parent = Codex(PARENT)
    parent.cites("pat-001").runs("pytest", "4 passed")
    if ids:
        for number, record in enumerate(parent.records):
            record["payload"]["id"] = record["payload"].get("id", f"msg_{number:020d}")
    fork = Codex(CHILD)
    fork.records = fork.records[:1]
    fork.records[0]["payload"]["forked_from_id"] = PARENT
    fork.records += [{**record, "timestamp": "2026-10-01T00:00:00.000Z"} for record in parent.records]
    old = set(scan(parent, tmp_path).keys)
    assert set(scan(fork, tmp_path).keys) == old
    fork.model("On we go with [pat-002].")
    found = scan(fork, tmp_path)
    assert len(set(found.keys) - old) == 1
    assert (found.session_id, found.version, found.cwd) == (CHILD, "0.142.0", "/home/ada/shop")


def test_a_subagents_task_is_no_persons_and_its_session_is_its_parents(tmp_path: Path) -> None:
    session = Codex(CHILD)
    meta = session.records[0]["payload"]
    meta |= {"session_id": PARENT, "thread_source": "subagent", "parent_thread_id": PARENT}
    session.cites("pat-001", None)
    found = read(session, tmp_path)
    assert "human" not in {message.origin for message in found}
    assert {message.chain for message in found} == {CHILD}
    told = scan(session, tmp_path)
    assert (told.session_id, told.agent_id) == (PARENT, CHILD)


def test_what_a_subagent_inherits_is_left_to_its_parent(tmp_path: Path) -> None:
    session = Codex(CHILD)
    session.records[0]["payload"] |= {"thread_source": "subagent", "subagent_history_start_ordinal": 6}
    session.model("As [pat-001] says.").model("As [pat-002] says.")
    for number, record in enumerate(session.records):
        record["ordinal"] = number
    assert [name for message in read(session, tmp_path) for name in citations_of(message)] == ["pat-002"]


def test_rollouts_from_before_payloads_are_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "old.jsonl",
        [
            {"id": SESSION, "timestamp": "2025-08-01T00:00:00.000Z", "instructions": None, "git": {}},
            {"record_type": "state"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
            {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "call_1"},
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": '{"output":"a","metadata":{"exit_code":0}}',
            },
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done: [pat-001]."}]},
        ],
    )
    assert [message.origin for message in read_messages(path)] == ["human", "model", "tool", "model"]
    assert reading.scan(path).session_id == SESSION


def test_types_that_are_unknown_are_counted(tmp_path: Path) -> None:
    session = Codex()
    session.line("brand_new", {}).item("newer_item")
    assert scan(session, tmp_path).tally.unknown_types == {"brand_new": 1, "newer_item": 1}


def test_a_rollout_is_found_by_its_threads_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    path = tmp_path / "sessions/2026/09/02" / f"rollout-2026-09-02T13-53-17-{SESSION}.jsonl"
    Codex().write(path)
    assert find_transcript(SESSION) == path
    for other in (None, "", PARENT, "*", f"*{SESSION[1:]}", "../../etc/passwd"):
        assert find_transcript(other) is None


def test_a_session_of_copilot_is_found_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPILOT_HOME", str(tmp_path))
    path = tmp_path / "session-state" / SESSION / "events.jsonl"
    path.parent.mkdir(parents=True)
    path.touch()
    assert find_transcript(SESSION) == path
    assert find_transcript(PARENT) is None
