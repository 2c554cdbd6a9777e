from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message
from reflector.transcripts.reading import read_messages, scan
from tests.transcripts.agents import Gemini, GeminiDocument
from tests.transcripts.records import write


def read(path: Path) -> list[Message]:
    return list(read_messages(path))


def test_a_message_that_is_repeated_as_it_grows_counts_once(tmp_path: Path) -> None:
    session = Gemini()
    session.person("Fix it.").model("As [pat-001] says.").runs("pytest", "4 passed")
    found = read(session.write(tmp_path / "s.jsonl"))
    assert [(message.origin, bool(message.calls), bool(message.results)) for message in found] == [
        ("human", False, False),
        ("model", False, False),
        ("model", True, False),
        ("tool", False, True),
    ]
    assert found[1].calls == ()


def test_what_a_message_grows_by_is_new_and_what_it_said_is_not(tmp_path: Path) -> None:
    session = Gemini()
    session.model("As [pat-001] says.")
    message = session.messages[-1]
    message["toolCalls"] = [{"id": "c1", "name": "run_shell_command", "args": {"command": "ls"}, "status": "executing"}]
    path = session.put(message).write(tmp_path / "s.jsonl")
    before = [message.key for message in read(path)]
    message["toolCalls"][0] |= {"status": "success", "result": "a.py"}
    found = read(session.put(message).write(path))
    assert [message.key for message in found[:-1]] == before
    assert found[-1].results[0].text == "a.py"


def test_a_chat_keeps_its_keys_when_a_document_becomes_lines(tmp_path: Path) -> None:
    document, lines = GeminiDocument(), Gemini()
    for session in (document, lines):
        session.cites("pat-001").runs("pytest", "4 passed")
    first = read(document.write(tmp_path / "s.json"))
    assert sorted(m.key for m in first) == sorted(m.key for m in read(lines.write(tmp_path / "s.jsonl")))


def test_a_checkpoint_adds_only_what_is_new_in_it(tmp_path: Path) -> None:
    session = Gemini()
    session.cites("pat-001")
    before = len(read(session.write(tmp_path / "s.jsonl")))
    snapshot = session.message("user", [{"text": "<state_snapshot>We used [pat-001].</state_snapshot>"}])
    session.records.append({"$set": {"messages": [snapshot, *session.messages]}})
    session.records.append({"$rewindTo": session.messages[0]["id"]})
    found = read(session.write(tmp_path / "s.jsonl"))
    assert len(found) == before + 1
    assert found[-1].origin == "summary"
    assert [name for message in found for name in citations_of(message)] == ["pat-001"]


@pytest.mark.parametrize(
    ("content", "shown", "expected"),
    [
        (
            "<session_context>[pat-001]</session_context>",
            None,
            ("injected", "<session_context>[pat-001]</session_context>"),
        ),
        ("<hook_context>[pat-001]</hook_context>\nFix it.", None, ("human", "Fix it.")),
        ("/clear", None, ("injected", "/clear")),
        ("?help", None, ("injected", "?help")),
        ("Fix @a.py\n--- Content ---\nx = 1", "Fix @a.py", ("human", "Fix @a.py")),
        ("Fix it.", None, ("human", "Fix it.")),
    ],
)
def test_only_what_a_person_typed_is_a_persons(
    tmp_path: Path, content: str, shown: str | None, expected: tuple[str, str]
) -> None:
    session = Gemini()
    more = {"displayContent": [{"text": shown}]} if shown else {}
    session.put(session.message("user", [{"text": content}], **more))
    (message,) = read(session.write(tmp_path / "s.jsonl"))
    assert (message.origin, message.text) == expected


@pytest.mark.parametrize(
    ("name", "status", "response", "expected"),
    [
        ("run_shell_command", "success", {"output": "Output: no\nExit Code: 2"}, ("tool", True, "Exit code 2\n")),
        ("run_shell_command", "success", {"output": "Output: yes\nSignal: 9"}, ("tool", False, "yes")),
        ("read_file", "success", {"output": "Exit Code: 2"}, ("tool", False, "Exit Code: 2")),
        ("replace", "error", {"error": "0 occurrences found"}, ("tool", True, "0 occurrences found")),
        (
            "run_shell_command",
            "cancelled",
            {"error": "[Operation Cancelled] Reason: User denied execution."},
            ("refusal", True, "[Operation Cancelled]"),
        ),
    ],
)
def test_a_result_says_how_its_call_ended(
    tmp_path: Path, name: str, status: str, response: Any, expected: tuple[str, bool, str]
) -> None:
    session = Gemini()
    session.model("I try.")
    session.called(session.messages[-1], name, {}, status, response)
    last = read(session.write(tmp_path / "s.jsonl"))[-1]
    assert (last.origin, last.results[0].is_error) == expected[:2]
    assert last.results[0].text.startswith(expected[2])


@pytest.mark.parametrize(
    ("printed", "code", "shown"),
    [
        ("3 passed in 0.1s", 0, "3 passed in 0.1s"),
        ("1 failed\nmake: *** Error 1", 2, "Exit code 2\n1 failed\nmake: *** Error 1"),
        ("(empty)", 0, ""),
        ("a &lt;/untrusted_context&gt; b", 0, "a </untrusted_context> b"),
    ],
)
def test_the_fence_around_what_a_tool_printed_is_taken_off(tmp_path: Path, printed: str, code: int, shown: str) -> None:
    session = Gemini().model("I test.")
    footer = (f"\nExit Code: {code}" if code else "") + "\nProcess Group PGID: 77"
    fenced = f"<untrusted_context>\nOutput: {printed}{footer}\n</untrusted_context>"
    session.called(session.messages[-1], "run_shell_command", {"command": "make"}, "success", {"output": fenced})
    (result,) = read(session.write(tmp_path / "s.jsonl"))[-1].results
    assert (result.text, result.is_error) == (shown, code != 0)


def test_words_like_the_fence_that_are_printed_stay(tmp_path: Path) -> None:
    session = Gemini().model("I test.").runs("cat x", "<untrusted_context>\nno end")
    (result,) = read(session.write(tmp_path / "s.jsonl"))[-1].results
    assert result.text == "<untrusted_context>\nno end"


def test_an_edit_has_the_names_that_claude_code_gives_it(tmp_path: Path) -> None:
    session = Gemini()
    session.model("I edit.")
    given = {"file_path": "/a.py", "old_string": "1", "new_string": "2"}
    session.called(session.messages[-1], "replace", given, "success", {"output": "ok"})
    (call,) = [call for message in read(session.write(tmp_path / "s.jsonl")) for call in message.calls]
    assert (call.name, call.input) == ("Edit", given)


def test_thoughts_are_thinking_and_a_cancelled_request_is_an_interruption(tmp_path: Path) -> None:
    session = Gemini()
    thought = {"subject": "Advice", "description": "[pat-001] applies.", "timestamp": "t"}
    session.put(session.message("gemini", "On it.", thoughts=[thought, "odd"]))
    session.put(session.message("info", "Request cancelled."))
    session.put(session.message("info", "Update available."))
    session.put(session.message("error", "API error"))
    model, stopped = read(session.write(tmp_path / "s.jsonl"))
    assert citations_of(model) == ["pat-001"]
    assert (stopped.origin, stopped.text) == ("refusal", "")


def test_a_subagents_task_is_no_persons(tmp_path: Path) -> None:
    session = Gemini()
    session.header["kind"] = "subagent"
    session.cites("pat-001", None)
    path = session.write(tmp_path / "s.jsonl")
    assert "human" not in {message.origin for message in read(path)}
    assert scan(path).agent_id == session.id


def test_a_legacy_chat_on_one_line_that_goes_on_in_lines_is_read(tmp_path: Path) -> None:
    session = Gemini()
    session.person("Fix it.")
    session.records = [{**session.header, "messages": session.messages}]
    session.model("As [pat-001] says.")
    assert [message.origin for message in read(write(tmp_path / "s.jsonl", session.records))] == ["human", "model"]
