"""What the readers of other agents make of each shape that their clients write. Claude Code has
a module of its own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reflector.transcripts.building import Conversation
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message
from reflector.transcripts.readers import time_named_in
from reflector.transcripts.reading import Scan, read_messages, scan
from tests.transcripts.agents import Codex, Copilot, Gemini, GeminiDocument, OpenCode, Pi, Session
from tests.transcripts.records import shown, write

PARENT = "0199a213-0000-7000-8000-000000000001"
CHILD = "0199a213-0000-7000-8000-000000000002"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def read(session: Session, folder: Path) -> list[Message]:
    return list(read_messages(session.write(folder / session.file_name)))


def scanned(session: Session, folder: Path) -> Scan:
    return scan(session.write(folder / f"{session.id}-{session.file_name}"))


def cited(messages: list[Message]) -> list[str]:
    return [name for message in messages for name in citations_of(message)]


def gemini_user(text: str, shown: str | None = None) -> Gemini:
    session = Gemini()
    more = {"displayContent": [{"text": shown}]} if shown else {}
    return session.put(session.message("user", [{"text": text}], **more))


def gemini_result(name: str, status: str, response: Any, **args: Any) -> Gemini:
    session = Gemini().model("I try.")
    return session.called(session.messages[-1], name, args, status, response)


def fenced(printed: str, footer: str = "") -> Gemini:
    text = (
        f"<untrusted_context>\nOutput: {printed}{footer}\nProcess Group PGID: "
        "77\n</untrusted_context>"
    )
    return gemini_result(RUN, "success", {"output": text}, command="make")


def codex_output(output: Any) -> Codex:
    return Codex().item("function_call_output", call_id="call_0123456789abcdef", output=output)


def opencode_result(**state: Any) -> OpenCode:
    return OpenCode().called("bash", {"command": "make"}, **state)


def copilot_result(**complete: Any) -> Copilot:
    return Copilot().called("bash", {"command": "make"}, **complete)


PATCH = "*** Begin Patch\n*** Update File: src/cart.py\n@@\n-a\n+b\n*** End Patch"
KINDS = {
    "internal_chat_message_metadata_passthrough": {
        "content_item_kinds": ["environment", "user.text"]
    }
}
REJECTED = "The user rejected permission to use this tool"
DENIED = {"kind": "denied-interactively-by-user", "feedback": "No mocks, please."}
GIVEN = {"file_path": "/a.py", "old_string": "1", "new_string": "2"}
EDITS = {"edits": [{"oldText": "1", "newText": "2"}], "path": "/a.py"}
EDIT = "model Edit(file_path=/a.py, old_string=1, new_string=2)"
MADE = "model Bash(command=make)"
REPEATED = {"type": "message", "role": "assistant", "content": "[pat-001]"}
RUN = "run_shell_command"

#: A session, and its last message.
LAST = [
    (Codex().said("user", "# AGENTS.md instructions for /x\n[pat-001]"), "injected # AGENTS.md…"),
    (Codex().said("user", "<user_instructions>\nBe brief."), "injected <user_instructions>…"),
    (Codex().said("user", '<hook_prompt hook_run_id="1">Go on.'), "injected <hook_prompt…"),
    (Codex().said("user", "The client's.", "<b> is mine", **KINDS), "human <b> is mine"),
    (
        Codex().said("user", ("# Context:\n- a.py\n\n## My request for Codex:\nFix it.\n")),
        "human Fix it.",
    ),
    (gemini_user("<session_context>[pat-001]</session_context>"), "injected <session_context>…"),
    (gemini_user("<hook_context>[pat-001]</hook_context>\nFix it."), "human Fix it."),
    (gemini_user("/clear"), "injected /clear"),
    (gemini_user("Fix @a.py\n--- Content ---\nx = 1", "Fix @a.py"), "human Fix @a.py"),
    (
        Pi().person('<skill name="tdd" location="/x">\nWrite tests.\n</skill>\n\nFix it.'),
        "human Fix it.",
    ),
    (Pi().person('<skill name="tdd">Test.</skill>'), "injected <skill…"),
    (
        OpenCode().message("assistant", {"type": "text", "text": "[pat-002]"}, summary=True),
        "summary [pat-002]",
    ),
    (OpenCode().message("assistant", {"type": "reasoning", "text": "Why."}), "model (Why.)"),
    (
        Codex().item(
            "function_call", name="shell", arguments=('{"command":["bash","-lc","make"]}')
        ),
        MADE,
    ),
    (
        Codex().item("local_shell_call", action={"command": ["ls", "-a"]}),
        "model Bash(command=ls -a)",
    ),
    (
        Codex().item("custom_tool_call", name="apply_patch", input=PATCH),
        "model Edit(file_path=src/cart.py, input=…",
    ),
    (Codex().item("custom_tool_call", name="exec", input='await tools.run({cmd: "make"});'), MADE),
    (
        Codex().item("function_call", name="mystery", arguments="{broken"),
        "model mystery(arguments={broken)",
    ),
    (
        Codex().item("web_search_call", action={"query": "coupons"}),
        "model WebSearch(query=coupons)",
    ),
    (gemini_result("replace", "executing", None, **GIVEN), EDIT),
    (
        OpenCode().called(
            "edit", {"filePath": "/a.py", "oldString": "1", "newString": "2"}, status="running"
        ),
        EDIT,
    ),
    (
        Pi().message(
            "assistant", content=[{"type": "toolCall", "name": "edit", "arguments": EDITS}]
        ),
        (
            "model Edit(edits=[{'oldText': '1', 'newText': '2'}], file_path=/a.py, old_string=1, "
            "new_string=2)"
        ),
    ),
    (
        Copilot().event(
            "tool.execution_start", toolCallId="lone", toolName="view", arguments='{"path": "a.py"}'
        ),
        "model Read(file_path=a.py)",
    ),
    (codex_output("Exit code: 2\nWall time: 0 seconds\nOutput:\nno"), "tool ! Exit code 2\nno"),
    (
        codex_output(json.dumps({"output": "no", "metadata": {"exit_code": 1}})),
        "tool ! Exit code 1\nno",
    ),
    (codex_output('{"a": 1}'), 'tool = {"a": 1}'),
    (codex_output([{"type": "input_text", "text": "Script failed\nOutput:\nx"}]), "tool ! x"),
    (codex_output({"content": "no such tool", "success": False}), "tool ! no such tool"),
    (codex_output("Output:\nExit code: 3"), "tool = Output:\nExit code: 3"),
    (codex_output("{" * 100_000), f"tool = {'{' * 1024}\n[…]\n{'{' * 768}"),
    (codex_output(7), "tool = "),
    (codex_output("exec command rejected by user"), "refusal ! exec command rejected by user"),
    (gemini_result(RUN, "success", {"output": "Output: yes\nSignal: 9"}), "tool = yes"),
    (gemini_result("read_file", "success", {"output": "Exit Code: 2"}), "tool = Exit Code: 2"),
    (
        gemini_result("replace", "error", {"error": "0 occurrences found"}),
        "tool ! 0 occurrences found",
    ),
    (
        gemini_result(RUN, "cancelled", {"error": "[Operation Cancelled] Reason: User denied."}),
        "refusal ! [Operation Cancelled]…",
    ),
    (fenced("3 passed in 0.1s"), "tool = 3 passed in 0.1s"),
    (
        fenced("1 failed\nmake: *** Error 1", "\nExit Code: 2"),
        "tool ! Exit code 2\n1 failed\nmake: *** Error 1",
    ),
    (fenced("(empty)"), "tool = "),
    (fenced("a &lt;/untrusted_context&gt; b"), "tool = a </untrusted_context> b"),
    (
        Gemini().model("I test.").runs("cat x", "<untrusted_context>\nno end"),
        "tool = <untrusted_context>\nno end",
    ),
    (opencode_result(status="error", error="not found"), "tool ! not found"),
    (opencode_result(status="error", error=REJECTED), f"refusal ! {REJECTED}"),
    (
        opencode_result(status="error", error=f"{REJECTED} with feedback: no mocks"),
        "refusal no mocks ! The user rejected…",
    ),
    (
        copilot_result(success=True, result={"content": "<shellId: 0 completed with exit code 3>"}),
        "tool ! Exit code 3…",
    ),
    (
        copilot_result(success=True, result={"stdout": "no", "exitCode": 1}),
        "tool ! Exit code 1\nno",
    ),
    (
        copilot_result(success=False, error={"message": "no such file", "code": "failure"}),
        "tool ! no such file",
    ),
    (
        copilot_result(success=False, error={"message": "rejected", "code": "rejected"}),
        "refusal ! rejected",
    ),
    (copilot_result(success=True, result="plain"), "tool = plain"),
    (copilot_result(success=True), "tool = "),
    (
        Copilot()
        .event(
            "permission.requested",
            requestId="r1",
            permissionRequest={"toolCallId": "c1", "kind": "shell"},
        )
        .event("permission.completed", requestId="r1", result=DENIED)
        .event(
            "tool.execution_complete",
            toolCallId="c1",
            success=False,
            error={"message": "denied", "code": "x"},
        ),
        "refusal No mocks, please. ! denied",
    ),
]
#: A session, and all of its messages behind those with which every session of its agent begins.
WHOLE = [
    (copilot_result(success=True, result={"content": "ok"}), [MADE, "tool = ok"]),
    (
        Codex()
        .line("compacted", {"message": "We used [pat-001].", "replacement_history": [REPEATED]})
        .line("response_item", REPEATED, metadata={"compaction_output": True}),
        ["summary We used [pat-001]."],
    ),
    (
        Codex()
        .line("event_msg", {"type": "turn_aborted", "reason": "interrupted"})
        .said("user", "<turn_aborted>\nStopped.\n</turn_aborted>")
        .line("event_msg", {"type": "turn_aborted", "reason": "replaced"}),
        ["refusal"],
    ),
    (
        Codex()
        .item(
            "reasoning",
            summary=[{"type": "summary_text", "text": "[pat-001] applies"}],
            content=None,
        )
        .item("reasoning", summary=[], content=None, encrypted_content="gAAAA"),
        ["model ([pat-001] applies)"],
    ),
    (
        Codex().said("user", "continue").said("user", "continue").said("user", "continue"),
        ["human continue"] * 3,
    ),
    (
        OpenCode().message(
            "user",
            {"type": "text", "text": "Read a.py"},
            {"type": "text", "text": "x = 1", "synthetic": True},
            {"type": "text", "text": "only shown", "ignored": True},
            {"type": "subtask", "prompt": "Review it.", "description": "d", "agent": "a"},
            {"type": "file", "mime": "image/png", "url": "data:"},
        ),
        ["human Read a.py", "injected x = 1", "injected Review it."],
    ),
    (
        Copilot()
        .event("user.message", content="a skill", source="skill-pdf")
        .event("user.message", content="go on", isAutopilotContinuation=True)
        .event("user.message", {"agentId": "a1"}, content="a task")
        .event("user.message", content="Fix it.", source="user"),
        ["injected a skill", "injected go on", "injected a task", "human Fix it."],
    ),
    (
        OpenCode().message(
            "assistant", {"type": "text", "text": "I was"}, error={"name": "MessageAbortedError"}
        ),
        ["model I was", "refusal"],
    ),
    (
        Copilot()
        .event("session.compaction_complete", success=True, summaryContent="We used [pat-001].")
        .event("abort", reason="user initiated")
        .event("abort", reason="remote_command"),
        ["summary We used [pat-001].", "refusal"],
    ),
    (
        Pi()
        .message("assistant", content=[{"type": "thinking", "thinking": "[pat-001] applies."}])
        .entry("compaction", summary="We used [pat-002].", firstKeptEntryId="e1", tokensBefore=9)
        .entry("branch_summary", summary="We tried it.", fromId="e1")
        .entry("custom_message", customType="x", content="[pat-002]", display=True)
        .message("bashExecution", command="ls", output="a.py", exitCode=0)
        .message("compactionSummary", summary="More."),
        [
            "model ([pat-001] applies.)",
            "summary We used [pat-002].",
            "summary We tried it.",
            "injected [pat-002]",
            "injected ls\na.py",
            "summary More.",
        ],
    ),
    (
        Pi().message(
            "assistant", content=[{"type": "text", "text": "I was"}], stopReason="aborted"
        ),
        ["model I was", "refusal"],
    ),
]


def agent(value: object) -> str:
    return value.agent if isinstance(value, Session) else ""


@pytest.mark.parametrize(("session", "wanted"), LAST, ids=agent)
def test_each_shape_gives_speaker_call_and_end(folder: Path, session: Session, wanted: str) -> None:
    found = shown(read(session, folder)[-1])
    assert found.startswith(wanted[:-1]) if wanted.endswith("…") else found == wanted


@pytest.mark.parametrize(("session", "wanted"), WHOLE, ids=agent)
def test_repeated_or_foreign_text_is_no_message(
    folder: Path, session: Session, wanted: list[str]
) -> None:
    begun = read(type(session)(), folder)
    assert [shown(message) for message in read(session, folder)[len(begun) :]] == wanted


@pytest.mark.parametrize(
    ("session", "unknown"),
    [
        (Codex().line("brand_new", {}).item("newer_item"), {"brand_new": 1, "newer_item": 1}),
        (
            Copilot().event("hologram.shown").event("assistant.usage", model="m"),
            {"hologram.shown": 1},
        ),
        (OpenCode().message("assistant", {"type": "hologram"}), {"hologram": 1}),
        (
            Pi().entry("hologram").message("oracle", content="x").entry("usage"),
            {"hologram": 1, "oracle": 1},
        ),
    ],
)
def test_types_that_are_unknown_are_counted(
    folder: Path, session: Session, unknown: dict[str, int]
) -> None:
    assert scanned(session, folder).tally.unknown_types == unknown


@pytest.mark.parametrize("ids", [True, False])
def test_codex_fork_adds_only_its_own_words(folder: Path, ids: bool) -> None:
    parent = Codex(PARENT)
    parent.cites("pat-001").runs("pytest", "4 passed")
    if ids:
        for number, record in enumerate(parent.records):
            record["payload"]["id"] = record["payload"].get("id", f"msg_{number:020d}")
    fork = Codex(CHILD)
    fork.records = fork.records[:1]
    fork.records[0]["payload"]["forked_from_id"] = PARENT
    fork.records += [
        {**record, "timestamp": "2026-10-01T00:00:00.000Z"} for record in parent.records
    ]
    old = set(scanned(parent, folder).keys)
    assert set(scanned(fork, folder).keys) == old
    fork.model("On we go with [pat-002].")
    found = scanned(fork, folder)
    assert len(set(found.keys) - old) == 1
    assert (found.session_id, found.version) == (CHILD, "0.142.0")


def test_pi_fork_and_migrated_file_add_nothing(folder: Path) -> None:
    session = Pi("first")
    session.cites("pat-001").runs("pytest", "4 passed")
    old = scanned(session, folder).keys
    header = {**session.records[0], "id": "second", "parentSession": "1.jsonl"}
    fork = scan(write(folder / "2.jsonl", [header, *session.records[1:]]))
    bare = [
        {key: of for key, of in one.items() if key not in ("id", "parentId")}
        for one in session.records[1:]
    ]
    legacy = scan(write(folder / "3.jsonl", [{**session.records[0], "version": 1}, *bare]))
    assert fork.keys == legacy.keys == old
    assert fork.session_id == "second"


def codex_child() -> Session:
    session = Codex(CHILD)
    session.records[0]["payload"] |= {
        "session_id": PARENT,
        "thread_source": "subagent",
        "parent_thread_id": PARENT,
    }
    return session


def gemini_child() -> Session:
    session = Gemini(CHILD)
    session.header["kind"] = "subagent"
    return session


def opencode_child() -> Session:
    session = OpenCode(CHILD)
    session.info["parentID"] = PARENT
    return session


@pytest.mark.parametrize(
    ("session", "parent", "own"),
    [
        (codex_child(), PARENT, CHILD),
        (gemini_child(), CHILD, CHILD),
        (opencode_child(), PARENT, f"ses_{CHILD}"),
    ],
)
def test_task_of_a_subagent_is_its_parents(
    folder: Path, session: Session, parent: str, own: str
) -> None:
    found = read(session.cites("pat-001", None), folder)
    assert "human" not in {message.origin for message in found}
    assert {message.chain for message in found} == {own}
    told = scanned(session, folder)
    assert (told.session_id, told.agent_id) == (parent, own)


def test_subagents_of_copilot_have_chains_of_their_own(folder: Path) -> None:
    session = Copilot()
    session.event(
        "assistant.message", {"agentId": "a1"}, content="As [pat-001] says.", toolRequests=[]
    )
    session.event("assistant.message", content="Old style.", parentToolCallId="c9")
    session.event("assistant.message", content="Main.")
    assert [message.chain for message in read(session, folder)] == ["a1", "c9", ""]


def test_inherited_codex_records_belong_to_the_parent(folder: Path) -> None:
    session = Codex(CHILD)
    session.records[0]["payload"] |= {
        "thread_source": "subagent",
        "subagent_history_start_ordinal": 6,
    }
    session.model("As [pat-001] says.").model("As [pat-002] says.")
    for number, record in enumerate(session.records):
        record["ordinal"] = number
    assert cited(read(session, folder)) == ["pat-002"]


def test_grown_message_adds_only_its_new_part(folder: Path) -> None:
    session = Gemini().model("As [pat-001] says.")
    message = session.messages[-1]
    message["toolCalls"] = [
        {"id": "c1", "name": RUN, "args": {"command": "ls"}, "status": "executing"}
    ]
    before = [message.key for message in read(session.put(message), folder)]
    message["toolCalls"][0] |= {"status": "success", "result": "a.py"}
    found = read(session.put(message), folder)
    assert [message.key for message in found[:-1]] == before
    assert shown(found[-1]) == "tool = a.py"


def test_chat_keeps_keys_from_document_to_lines(folder: Path) -> None:
    keys = [
        sorted(scanned(session.cites("pat-001").runs("pytest", "4 passed"), folder).keys)
        for session in (GeminiDocument(), Gemini())
    ]
    assert keys[0] == keys[1]


def test_checkpoint_adds_only_its_new_part(folder: Path) -> None:
    session = Gemini()
    session.cites("pat-001")
    before = len(read(session, folder))
    snapshot = session.message(
        "user", [{"text": ("<state_snapshot>We used [pat-001].</state_snapshot>")}]
    )
    session.records.append({"$set": {"messages": [snapshot, *session.messages]}})
    session.records.append({"$rewindTo": session.messages[0]["id"]})
    found = read(session, folder)
    assert (len(found), found[-1].origin, cited(found)) == (before + 1, "summary", ["pat-001"])


def test_thoughts_are_thinking_and_cancellation_an_interruption(folder: Path) -> None:
    session = Gemini()
    thought = {"subject": "Advice", "description": "[pat-001] applies.", "timestamp": "t"}
    session.put(session.message("gemini", "On it.", thoughts=[thought, "odd"]))
    for type, text in (
        ("info", "Request cancelled."),
        ("info", "Update available."),
        ("error", "API error"),
    ):
        session.put(session.message(type, text))
    assert [shown(one) for one in read(session, folder)] == [
        "model (Advice\n[pat-001] applies.) On it.",
        "refusal",
    ]


def test_legacy_chat_continued_in_lines_is_read(folder: Path) -> None:
    session = Gemini().person("Fix it.")
    session.records = [{**session.header, "messages": session.messages}]
    assert [message.origin for message in read(session.model("As [pat-001] says."), folder)] == [
        "human",
        "model",
    ]


def test_opencode_words_count_once_they_are_complete(folder: Path) -> None:
    session = OpenCode().model("As [pat-001] says.")
    message = session.records[-1]
    del message["info"]["time"]["completed"], message["parts"][-1]["time"]["end"]
    assert read(session, folder) == []
    message["parts"][-1]["time"]["end"] = 2
    assert cited(read(session, folder)) == ["pat-001"]


def test_opencode_call_and_result_count_separately(
    folder: Path,
) -> None:
    session = OpenCode().called("bash", {}, status="pending", raw="")
    state = session.records[-1]["parts"][0]["state"]
    assert read(session, folder) == []
    state |= {"status": "running", "input": {"command": "make"}}
    (call,) = read(session, folder)
    state |= {"status": "completed", "output": "done"}
    again, result = read(session, folder)
    assert (again.key, again.calls, shown(result)) == (call.key, call.calls, "tool = done")


def test_reader_names_the_time_of_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dated(Conversation):
        agent = "dated"
        name = "Dated"

        @staticmethod
        def recognises(record: dict[str, Any]) -> bool:
            return "at" in record

        @staticmethod
        def time_of(record: dict[str, Any]) -> str:
            return str(record.get("at", ""))

        def messages(self, *_: Any) -> Iterator[Message]:
            yield from ()

    monkeypatch.setattr("reflector.transcripts.readers.extension_readers", lambda: (Dated,))
    assert time_named_in({"at": "2026-11-01T00:00:00Z"}) == "2026-11-01T00:00:00Z"
