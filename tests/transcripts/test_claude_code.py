from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from reflector.text import bounds
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.reading import UnknownTranscript, read_messages
from reflector.transcripts.records import record_key
from tests.transcripts.records import (
    SESSION,
    SNAPSHOT,
    assistant,
    attachment,
    call,
    envelope,
    line,
    progress,
    queue,
    result,
    user,
    uuid,
    write,
)

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
    "the new_string was NOT written to the file). "
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def read(path: Path, *records: Any) -> list[Message]:
    return list(read_messages(write(path, records)))


def only(path: Path, record: Any) -> Message:
    (message,) = read(path, record)
    return message


def test_a_session_reads_as_its_words_calls_and_results_in_file_order(path: Path) -> None:
    asked, answered, returned = read(
        path,
        SNAPSHOT,
        user(1, "Why does the build fail?"),
        assistant(2, {"type": "thinking", "thinking": "hm"}, "I look. [pat-001]", call(command="make", n=1)),
        user(3, [result("ok")]),
    )
    assert (asked.role, asked.origin, asked.text) == ("user", "human", "Why does the build fail?")
    assert (asked.uuid, asked.key, asked.offset) == (uuid(1), record_key(uuid(1)), len(line(SNAPSHOT)))
    assert (answered.role, answered.origin, answered.text) == ("assistant", "model", "I look. [pat-001]")
    assert answered.thinking == "hm"
    assert answered.timestamp == "2026-02-01T00:02:00.000Z"
    assert [(c.id, c.name, c.input) for c in answered.calls] == [("toolu_1", "Bash", {"command": "make", "n": 1})]
    assert (returned.origin, returned.text) == ("tool", "")
    assert [(r.call_id, r.text, r.is_error) for r in returned.results] == [("toolu_1", "ok", False)]


def test_only_the_top_level_type_makes_a_message(path: Path) -> None:
    inner = assistant(7, "[pat-001]")
    assert read(path, user(1, "go"), progress(2, {"type": "agent_progress", "message": inner}))[1:] == []


def test_lines_of_one_message_id_each_carry_their_own_block(path: Path) -> None:
    texts = [m.text for m in read(path, assistant(1, "first"), assistant(2, "second"))]
    assert texts == ["first", "second"]


def test_a_record_counts_once_per_file(path: Path) -> None:
    tally = Tally()
    write(path, [user(1, "go"), assistant(2, "done"), user(1, "go"), assistant(2, "done")])
    assert len(list(read_messages(path, tally=tally))) == 2
    assert (tally.messages, tally.duplicates, tally.records, tally.lines) == (2, 2, 4, 4)


def test_keys_of_earlier_windows_are_left_out(path: Path) -> None:
    write(path, [user(1, "go"), assistant(2, "done"), user(3, "thanks")])
    left = list(read_messages(path, skip={record_key(uuid(1)), record_key(uuid(2))}))
    assert [m.text for m in left] == ["thanks"]


def test_a_fork_keeps_the_keys_of_its_copied_records(path: Path, tmp_path: Path) -> None:
    original = [user(1, "go"), assistant(2, "done")]
    fork = [{**record, "sessionId": "other", "cwd": "/elsewhere"} for record in original]
    assert [m.key for m in read(path, *original)] == [m.key for m in read(tmp_path / "fork.jsonl", *fork)]


def test_glued_and_torn_records_are_found(path: Path) -> None:
    summary = {"type": "summary", "summary": "s", "leafUuid": uuid(9)}
    torn = line(assistant(4, "lost words"))[:120]
    tally = Tally()
    write(
        path,
        [
            user(1, "go"),
            line(user(2, "glued")).rstrip() + line(summary),
            line(progress(5, {"type": "hook_progress"})).rstrip() + line(user(6, "behind progress")),
            torn + line(assistant(3, "kept")),
        ],
    )
    assert [m.text for m in read_messages(path, tally=tally)] == ["go", "glued", "behind progress", "kept"]
    assert (tally.glued, tally.malformed) == (2, 1)


def test_an_unfinished_last_record_waits_for_its_end(path: Path) -> None:
    whole = line(user(1, "go")) + line(assistant(2, "done"))
    for cut in (1, 30, 200):
        tally = Tally()
        path.write_bytes(whole[: -cut - 1])
        assert [m.text for m in read_messages(path, tally=tally)] == ["go"]
        assert tally.unfinished_bytes == len(line(assistant(2, "done"))) - cut - 1
    path.write_bytes(whole[:-1])
    assert [m.text for m in read_messages(path)] == ["go", "done"]


def test_a_limit_closes_the_window_however_the_file_grew(path: Path) -> None:
    first = line(user(1, "go")) + line(assistant(2, "done"))
    path.write_bytes(first + line(user(3, "later")))
    assert [m.text for m in read_messages(path, limit=len(first))] == ["go", "done"]
    assert [m.text for m in read_messages(path, limit=len(first) + 10)] == ["go", "done"]


def test_a_file_that_shrinks_while_it_is_read_ends(path: Path) -> None:
    write(path, [user(1, "x" * 3_000_000), *(assistant(n, "y" * 1000) for n in range(2, 50))])
    messages = read_messages(path)
    assert next(messages).text.startswith("x")
    os.truncate(path, 100)
    assert len(list(messages)) < 49


def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_end(path: Path, tmp_path: Path) -> None:
    write(path, [user(1, "old"), assistant(2, "old")])
    messages = read_messages(path)
    next(messages)
    write(tmp_path / "new", [user(3, "new")]).replace(path)
    assert [m.text for m in messages] == ["old"]


# Sidechains


def test_a_subagents_records_belong_to_its_chain_and_its_prompts_to_no_person(path: Path) -> None:
    messages = read(
        path,
        user(1, "Look around", isSidechain=True, agentId="a1b2"),
        assistant(2, "Looking", isSidechain=True, agentId="a1b2"),
    )
    assert [(m.chain, m.origin) for m in messages] == [("a1b2", "injected"), ("a1b2", "model")]


def test_a_sidechain_without_agent_id_is_named_by_its_root(path: Path) -> None:
    messages = read(
        path,
        user(1, "main"),
        user(2, "first task", isSidechain=True, parentUuid=None),
        user(3, "second task", isSidechain=True, parentUuid=None),
        assistant(4, "one", isSidechain=True, parentUuid=uuid(2)),
        assistant(5, "two", isSidechain=True, parentUuid=uuid(3)),
        assistant(6, "one more", isSidechain=True, parentUuid=uuid(4)),
        assistant(7, "main", parentUuid=uuid(1)),
    )
    chains = [m.chain for m in messages]
    assert chains == ["", uuid(2), uuid(3), uuid(2), uuid(3), uuid(2), ""]


# Whose words


@pytest.mark.parametrize(
    "text",
    [
        "<command-name>/clear</command-name>",
        "<command-message>init</command-message>\n<command-name>/init</command-name>",
        "<local-command-stdout>ok</local-command-stdout>",
        "<local-command-caveat>Caveat: …</local-command-caveat>",
        "<bash-input>ls</bash-input>",
        "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>",
        "<bash-notification>done</bash-notification>",
        "<task-notification>\n<task-id>1</task-id></task-notification>",
        '{"task_id":"a1b2","tool_use_id":"t1","description":"Draw the page","task_type":"local_agent"}',
        "Tool loaded.",
        "<system-reminder>remember</system-reminder>",
        "Stop hook feedback:\nrun the tests",
        "Caveat: The messages below were generated by the user while running local commands. …",
        "Unknown skill: foo",
        "/mcp",
    ],
)
def test_what_the_client_writes_is_not_typed_by_a_person(path: Path, text: str) -> None:
    for content in (text, [{"type": "text", "text": text}]):
        message = only(path, user(1, content))
        assert (message.origin, message.text) == ("injected", text)


@pytest.mark.parametrize(
    "fields",
    [
        {"isMeta": True},
        {"top": {"isVisibleInTranscriptOnly": True}},
        {"top": {"origin": {"kind": "task-notification"}}},
        {"top": {"origin": {"kind": "peer"}}},
    ],
)
def test_flags_of_a_record_tell_that_no_person_typed_it(path: Path, fields: dict[str, Any]) -> None:
    assert only(path, user(1, "looks typed", **fields)).origin == "injected"
    assert only(path, user(1, "typed", top={"origin": {"kind": "human"}})).origin == "human"


def test_a_persons_words_are_freed_from_what_the_client_adds(path: Path) -> None:
    opened = "<ide_opened_file>The user opened a.py</ide_opened_file>"
    reminder = "<system-reminder>\nplaybook [pat-001]\n</system-reminder>"
    message = only(path, user(1, [{"type": "text", "text": opened}, {"type": "text", "text": "why?"}]))
    assert (message.origin, message.text) == ("human", "why?")
    assert only(path, user(1, f"{reminder}\nstill broken")).text == "still broken"
    assert only(path, user(1, "what is <system-reminder>?")).text == "what is <system-reminder>?"


def test_a_compaction_summary_is_nobodys_words(path: Path) -> None:
    message = only(path, user(1, "[pat-001] was applied", top={"isCompactSummary": True}))
    assert message.origin == "summary"
    continued = "This session is being continued from a previous conversation that ran out of context. …"
    assert only(path, user(1, continued)).origin == "summary"


def test_what_the_client_says_in_the_models_place_is_synthetic(path: Path) -> None:
    assert only(path, assistant(1, "No response requested.", model="<synthetic>")).origin == "synthetic"
    assert only(path, assistant(1, "API Error: 529", top={"isApiErrorMessage": True})).origin == "synthetic"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (REJECTED + "STOP what you are doing and wait for the user to tell you how to proceed.", ""),
        (
            REJECTED + "To tell you how to proceed, the user said:\nThe user wants to clarify these questions.\n"
            "    This means they may have additional information, context or questions for you.",
            "",
        ),
        (REJECTED + "To tell you how to proceed, the user said:\nuse the other table", "use the other table"),
        (REJECTED + "The user provided the following reason for the rejection:  no inline code", "no inline code"),
        (
            REJECTED + "To tell you how to proceed, the user said:\nwrong\nfile\n\nNote: The user's next message may "
            "contain a correction or preference. Pay close attention.",
            "wrong\nfile",
        ),
        ("The user doesn't want to take this action right now. STOP what you are doing and wait.", ""),
        ("[Request interrupted by user for tool use]", ""),
    ],
)
def test_a_refused_call_is_a_refusal_with_the_persons_reason(path: Path, answer: str, reason: str) -> None:
    for content in (answer, [{"type": "text", "text": answer}]):
        message = only(path, user(1, [result(content, is_error=True)], top={"toolUseResult": "User rejected tool use"}))
        assert (message.origin, message.text) == ("refusal", reason)
        assert message.results[0].is_error
        assert message.results[0].call_id == "toolu_1"


def test_a_tool_that_quotes_a_refusal_refuses_nothing(path: Path) -> None:
    assert only(path, user(1, [result(REJECTED)])).origin == "tool"
    assert only(path, user(1, [result("grep: " + REJECTED, is_error=True)])).origin == "tool"


def test_an_interruption_is_a_refusal_and_words_behind_it_its_reason(path: Path) -> None:
    interrupted = "[Request interrupted by user]"
    assert only(path, user(1, [{"type": "text", "text": interrupted}])).origin == "refusal"
    message = only(path, user(1, [{"type": "text", "text": interrupted + " not that file"}]))
    assert (message.origin, message.text) == ("refusal", "not that file")
    beside = only(path, user(1, [result("ok"), {"type": "text", "text": "[Request interrupted by user for tool use]"}]))
    assert (beside.origin, len(beside.results)) == ("refusal", 1)


def test_words_beside_a_result_are_a_persons_and_reminders_are_not(path: Path) -> None:
    message = only(path, user(1, [result("ok"), {"type": "text", "text": "now the docs"}]))
    assert (message.origin, message.text, len(message.results)) == ("human", "now the docs", 1)
    reminder = {"type": "text", "text": "<system-reminder>x</system-reminder>"}
    message = only(path, user(1, [result("ok"), reminder]))
    assert (message.origin, message.text) == ("tool", "")


# Prompts typed while the model worked


def test_a_queued_prompt_that_becomes_a_record_is_read_once(path: Path) -> None:
    messages = read(path, queue("enqueue", "and the docs"), queue("dequeue"), user(1, "and the docs"))
    assert [(m.uuid, m.text) for m in messages] == [(uuid(1), "and the docs")]


@pytest.mark.parametrize("attached_first", [True, False])
def test_a_queued_prompt_that_is_attached_is_read_once(path: Path, attached_first: bool) -> None:
    said = attachment(2, {"type": "queued_command", "prompt": "stop that", "commandMode": "prompt"})
    removed = queue("remove", "stop that")
    pair = [said, removed] if attached_first else [removed, said]
    messages = read(path, user(1, "go"), queue("enqueue", "stop that"), *pair)
    assert [(m.origin, m.text) for m in messages] == [("human", "go"), ("human", "stop that")]


def test_a_queued_prompt_that_leaves_no_other_trace_is_a_persons(path: Path) -> None:
    messages = read(
        path, user(1, "go"), queue("enqueue", "stop"), assistant(2, "…"), queue("remove"), assistant(3, "ok")
    )
    assert [(m.origin, m.text) for m in messages] == [
        ("human", "go"),
        ("model", "…"),
        ("human", "stop"),
        ("model", "ok"),
    ]
    assert messages[2].uuid.startswith("sha256:")


def test_a_prompt_still_queued_at_the_end_is_read_last(path: Path) -> None:
    assert [m.text for m in read(path, queue("enqueue", "and?"), assistant(1, "done"))] == ["done", "and?"]


def test_a_prompt_taken_back_to_the_editor_was_never_said(path: Path) -> None:
    taken = [queue("enqueue", "a"), queue("enqueue", "b"), queue("popAll", "a"), queue("popAll", "b")]
    assert read(path, assistant(1, "done"), *taken)[1:] == []
    assert read(path, assistant(1, "done"), *taken[:2], queue("popAll"))[1:] == []


def test_notifications_in_the_queue_are_nobodys_words(path: Path) -> None:
    note = "<task-notification>done</task-notification>"
    json_note = '{"task_id":"a1b2","description":"Draw the page","task_type":"local_bash"}'
    assert read(path, user(1, "go"), queue("enqueue", json_note), queue("remove"))[1:] == []
    messages = read(
        path,
        user(1, "go"),
        queue("enqueue", note),
        queue("enqueue", "mine"),
        queue("dequeue"),
        queue("remove"),
        attachment(2, {"type": "queued_command", "prompt": note, "origin": {"kind": "task-notification"}}),
        attachment(3, {"type": "queued_command", "prompt": [{"type": "text", "text": "with image"}]}),
    )
    assert [(m.origin, m.text) for m in messages[1:]] == [
        ("human", "mine"),
        ("injected", note),
        ("human", "with image"),
    ]


# Bounds


def test_a_long_result_keeps_head_errors_and_tail(path: Path) -> None:
    text = "head\n" + "x" * 90_000 + "\nE   ValueError: no such table\n" + "y" * 90_000 + "\n3 failed, 7 passed"
    message = only(path, user(1, [result(text)]))
    kept = message.results[0].text
    assert kept.startswith("head")
    assert "E   ValueError: no such table" in kept
    assert kept.endswith("3 failed, 7 passed")
    assert len(kept) <= bounds.RESULT_TEXT + 100


def test_a_files_text_is_cut_without_looking_for_errors(path: Path) -> None:
    text = "head\n" + "x" * 90_000 + "\nraise ValueError: error\n" + "y" * 90_000
    message = only(path, user(1, [result(text)], top={"toolUseResult": {"type": "text", "file": {}}}))
    assert "ValueError" not in message.results[0].text


def test_a_result_says_what_only_its_details_know(path: Path) -> None:
    details = {"stdout": "", "stderr": "make: *** [all] Error 2", "exitCode": 2, "interrupted": True}
    message = only(path, user(1, [result("")], top={"toolUseResult": details}))
    assert message.results[0].text == "\n[stderr] make: *** [all] Error 2\n[exit code 2]\n[interrupted]"


def test_every_text_of_a_message_is_bounded(path: Path) -> None:
    big = "word " * 300_000
    deep: Any = big
    for _ in range(20):
        deep = {"k": [deep, big[:100_000]]}
    messages = read(
        path,
        user(1, big),
        user(2, big, isMeta=True),
        user(3, [result([{"type": "text", "text": big}])]),
        assistant(
            4,
            big,
            {"type": "thinking", "thinking": big},
            call(content=big, deep=deep, many={str(n): "w" * 9000 for n in range(99)}),
        ),
        assistant(5, {"type": "tool_use", "id": big, "name": big, "input": {big: big}}),
    )
    sizes = [len(repr(m)) for m in messages]
    assert sizes[0] < bounds.HUMAN_TEXT + 1000
    assert sizes[1] < bounds.INJECTED_TEXT + 1000
    assert sizes[2] < bounds.RESULT_TEXT + 1000
    assert sizes[3] < 2 * bounds.MODEL_TEXT + bounds.ARGUMENTS_TEXT + 8000
    assert sizes[4] < bounds.ARGUMENTS_TEXT


def test_texts_can_always_be_written_as_utf_8(path: Path) -> None:
    record = b'{"type":"assistant","message":{"content":"cut \\ud83d here"},"uuid":"\\ud83d","sessionId":"s"}\n'
    message = only(path, record)
    message.text.encode()
    assert message.text == "cut ? here"


def test_hostile_texts_cost_linear_time(path: Path) -> None:
    """Each of these takes minutes where a pattern looks for its end from every start."""
    refused = REJECTED + "The user provided the following reason for the rejection: "
    read(
        path,
        user(1, "<system-reminder>" * 300_000),
        user(2, [result(refused + " " * 3_000_000 + "x", is_error=True)]),
        user(3, "[Request interrupted by user" * 100_000),
        assistant(4, "[pat-1]:" + "/" * 900_000 + " x"),
        assistant(5, "[pat-1]" + "- " * 400_000),
        assistant(6, "[pat-1][" * 100_000),
    )
    assert [citations_of(message) for message in read_messages(path)][3:] == [["pat-1"]] * 3


def test_a_long_output_kept_elsewhere_ends_as_its_details_say(path: Path) -> None:
    cut = "<persisted-output>\nOutput too large (90KB). Full output saved to: x\n\nPreview:\ncollecting"
    details = {"stdout": "collecting" + "." * 90_000 + "\n1 failed", "stderr": "", "interrupted": False}
    message = only(path, user(1, [result(cut)], top={"toolUseResult": details}))
    assert message.results[0].text.endswith("1 failed")


def test_odd_records_never_raise(path: Path) -> None:
    odd: list[Any] = [
        None,
        7,
        "text",
        [],
        {},
        [None, 7, [], {"type": None}, {"type": []}, {"type": "text"}, {"type": "tool_result"}],
    ]
    records = [
        {
            **envelope(1),
            "type": kind,
            "message": message,
            "uuid": value,
            "timestamp": value,
            "attachment": value,
            "toolUseResult": value,
            "isSidechain": True,
            "agentId": value,
            "origin": value,
        }
        for kind in ("user", "assistant", "attachment", "queue-operation", "summary", 7, None, [], {})
        for value in odd
        for message in [value, *({"content": content, "model": content} for content in odd)]
    ]
    tally = Tally()
    messages = list(read_messages(write(path, records), tally=tally))
    assert messages
    assert tally.unknown_types["(none)"] > 0


# What is no transcript


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"\x7fELF\x02\x01\x01\x00" * 100, "800 bytes of an unfinished line"),
        (b"\x7fELF\x02\x01\n\x00" * 100, "not a transcript"),
        ('{"type":"user","message":{}}\n'.encode("utf-16"), "not a transcript"),
    ],
)
def test_an_unknown_format_is_refused_by_name(path: Path, data: bytes, what: str) -> None:
    path.write_bytes(data)
    with pytest.raises(UnknownTranscript, match=what) as refused:
        list(read_messages(path))
    assert str(path) in str(refused.value)


def test_a_missing_file_a_folder_and_a_pipe_are_errors_that_name_the_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gone"):
        list(read_messages(tmp_path / "gone.jsonl"))
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        list(read_messages(tmp_path))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UnknownTranscript, match="not a regular file"):
        list(read_messages(pipe))


def test_metadata_alone_is_a_transcript_without_messages(path: Path) -> None:
    assert read(path, SNAPSHOT, {"type": "summary", "summary": "s", "leafUuid": uuid(1)}) == []


def test_new_types_pass_and_are_counted(path: Path) -> None:
    tally = Tally()
    write(path, [user(1, "go"), {"type": "hologram", "sessionId": SESSION}, {"type": "hologram"}])
    assert len(list(read_messages(path, tally=tally))) == 1
    assert tally.unknown_types == {"hologram": 2}
