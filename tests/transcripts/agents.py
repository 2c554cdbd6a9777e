"""Sessions of other agents, written by hand in the shapes in which their clients keep them. EVERY
has a builder for each format. LAST, WHOLE and UNKNOWN have the odd shapes of each format, and FORKS
and SUBAGENTS the sessions that belong to another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from tests.transcripts.records import (
    SNAPSHOT,
    assistant,
    attachment,
    call,
    line,
    queue,
    result,
    stamp,
    user,
)

SESSION = "0199a213-81c0-7800-8aa1-bbab2a035a53"
PARENT = "0199a213-0000-7000-8000-000000000001"
CHILD = "0199a213-0000-7000-8000-000000000002"


class Session:
    """A session in the making: each call adds what its client would write."""

    agent: ClassVar[str]
    file_name: ClassVar[str] = "session.jsonl"
    is_document: ClassVar[bool] = False

    def __init__(self, id: str = SESSION) -> None:
        self.id = id
        self.records: list[Any] = []
        self.count = 0
        self.begin()

    def begin(self) -> None:
        """Add the records before the first message. A client that writes none does not need it."""

    def person(self, text: str) -> Session:
        raise NotImplementedError

    def model(self, text: str) -> Session:
        raise NotImplementedError

    def runs(self, command: str, output: str, code: int = 0) -> Session:
        """A shell command of the model."""
        raise NotImplementedError

    def cites(self, name: str, praise: str | None = "Perfect, that works. Thanks!") -> Session:
        """One piece of advice is applied, and a person says how it went."""
        self.person("The total is wrong when a coupon is applied. Please fix it.")
        self.model(f"As [{name}] says, I change how the cart adds up its total.")
        if praise:
            self.person(praise).model("Glad to hear it.")
        return self

    def next(self) -> str:
        """The next number, for ids and times."""
        self.count += 1
        return f"{self.count:04d}"

    def content(self) -> bytes:
        return b"".join(line(record) for record in self.records)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.content())
        return path


class Claude(Session):
    agent = "claude-code"

    def begin(self) -> None:
        hook = {
            "type": "hook_success",
            "hookEvent": "SessionStart",
            "content": "[pat-002] in the prompt",
        }
        self.records += [
            SNAPSHOT,
            attachment(1, hook),
            queue("enqueue", "Not sent."),
            queue("dequeue"),
        ]

    def put(self, make: Callable[..., dict[str, Any]], *content: Any) -> Claude:
        self.records.append(make(int(self.next()), *content, sessionId=self.id))
        return self

    def person(self, text: str) -> Claude:
        return self.put(user, text)

    def model(self, text: str) -> Claude:
        return self.put(assistant, text)

    def runs(self, command: str, output: str, code: int = 0) -> Claude:
        self.put(assistant, call(command=command))
        return self.put(user, [result(output, is_error=code != 0)])


class Codex(Session):
    agent = "codex"

    def begin(self) -> None:
        meta = {
            "id": self.id,
            "cwd": "/home/ada/shop",
            "cli_version": "0.142.0",
            "originator": "codex_cli_rs",
        }
        self.line("session_meta", {**meta, "source": "cli"})
        self.item(
            "message",
            role="developer",
            content=[{"type": "input_text", "text": "[pat-002] in the prompt"}],
        )
        self.said(
            "user", ("<environment_context>\n  <cwd>/home/ada/shop</cwd>\n</environment_context>")
        )

    def line(self, type: str, payload: dict[str, Any], **more: Any) -> Codex:
        self.records.append(
            {"timestamp": stamp(int(self.next())), "type": type, "payload": payload, **more}
        )
        return self

    def item(self, type: str, **fields: Any) -> Codex:
        return self.line("response_item", {"type": type, **fields})

    def said(self, role: str, *texts: str, **fields: Any) -> Codex:
        kind = "output_text" if role == "assistant" else "input_text"
        return self.item(
            "message", role=role, content=[{"type": kind, "text": text} for text in texts], **fields
        )

    def person(self, text: str) -> Codex:
        self.said("user", text)
        return self.line("event_msg", {"type": "user_message", "message": text, "images": []})

    def model(self, text: str) -> Codex:
        self.line("event_msg", {"type": "agent_message", "message": text})
        self.said("assistant", text)
        return self.line("event_msg", {"type": "token_count", "info": None})

    def runs(self, command: str, output: str, code: int = 0) -> Codex:
        call = f"call_{self.id[:8]}{self.next()}aaaa"
        self.item(
            "function_call",
            name="exec_command",
            arguments=json.dumps({"cmd": command}),
            call_id=call,
        )
        head = (
            f"Chunk ID: 0a1b2c\nWall time: 0.1 seconds\nProcess exited with code {code}\nOutput:\n"
        )
        return self.item("function_call_output", call_id=call, output=head + output)


class Gemini(Session):
    agent = "gemini-cli"

    def begin(self) -> None:
        times = {"startTime": stamp(0), "lastUpdated": stamp(0)}
        self.header = {"sessionId": self.id, "projectHash": "ab" * 32, **times}
        self.messages: list[dict[str, Any]] = []
        self.start()

    def start(self) -> None:
        self.records.append(self.header)

    def put(self, message: dict[str, Any]) -> Gemini:
        """The client appends the whole message whenever it grew."""
        if message not in self.messages:
            self.messages.append(message)
        self.records.append(json.loads(json.dumps(message)))
        self.records.append({"$set": {"lastUpdated": stamp(self.count)}})
        return self

    def message(self, type: str, content: Any, **more: Any) -> dict[str, Any]:
        number = self.next()
        return {
            "id": f"{self.id[:8]}-{number}",
            "timestamp": stamp(int(number)),
            "type": type,
            "content": content,
            **more,
        }

    def person(self, text: str) -> Gemini:
        return self.put(self.message("user", [{"text": text}]))

    def model(self, text: str) -> Gemini:
        message = self.message("gemini", text, thoughts=[], tokens=None, model="gemini-3-pro")
        self.put(message)
        message["tokens"] = {"input": 10, "output": 5, "total": 15}
        return self.put(message)

    def runs(self, command: str, output: str, code: int = 0) -> Gemini:
        message = self.messages[-1]
        if message["type"] != "gemini":
            message = self.message("gemini", "", thoughts=[], model="gemini-3-pro")
        said = (
            f"Output: {output}"
            + (f"\nExit Code: {code}" if code else "")
            + "\nProcess Group PGID: 77"
        )
        return self.called(
            message, "run_shell_command", {"command": command}, "success", {"output": said}
        )

    def called(
        self, message: dict[str, Any], name: str, args: Any, status: str, response: Any
    ) -> Gemini:
        call_id = f"{name}_{self.next()}"
        answer = {"functionResponse": {"id": call_id, "name": name, "response": response}}
        call = {"id": call_id, "name": name, "args": args, "status": status, "result": [answer]}
        message.setdefault("toolCalls", []).append({**call, "timestamp": stamp(self.count)})
        return self.put(message)


class GeminiDocument(Gemini):
    file_name = "session-2026-09-01T00-00-0199a213.json"
    is_document = True

    def content(self) -> bytes:
        return json.dumps({**self.header, "messages": self.messages}, indent=2).encode()


class OpenCode(Session):
    agent = "opencode"
    file_name = "export.json"
    is_document = True

    def begin(self) -> None:
        self.info: dict[str, Any] = {
            "id": f"ses_{self.id}",
            "version": "1.4.0",
            "directory": "/home/ada/shop",
        }

    def message(self, role: str, *parts: dict[str, Any], **info: Any) -> OpenCode:
        number = int(self.next())
        own = f"msg_{self.id[:8]}{number:04d}"
        ids = {"messageID": own, "sessionID": self.info["id"]}
        time = {
            "created": 1788220800000 + number * 60_000,
            **({"completed": 1788220800001} if role != "user" else {}),
        }
        told = [{"id": f"prt_{own}_{index}", **ids, **part} for index, part in enumerate(parts)]
        self.records.append(
            {"info": {"id": own, "role": role, "time": time, **info}, "parts": told}
        )
        return self

    def person(self, text: str) -> OpenCode:
        return self.message("user", {"type": "text", "text": text})

    def model(self, text: str) -> OpenCode:
        text_part = {"type": "text", "text": text, "time": {"start": 1, "end": 2}}
        return self.message("assistant", {"type": "step-start"}, text_part, modelID="big-pickle")

    def runs(self, command: str, output: str, code: int = 0) -> OpenCode:
        return self.called(
            "bash", {"command": command}, status="completed", output=output, metadata={"exit": code}
        )

    def called(self, tool: str, input: Any, **state: Any) -> OpenCode:
        call = f"call_{self.next()}"
        return self.message(
            "assistant",
            {"type": "tool", "callID": call, "tool": tool, "state": {"input": input, **state}},
        )

    def content(self) -> bytes:
        return json.dumps({"info": self.info, "messages": self.records}, indent=2).encode()


class Copilot(Session):
    agent = "copilot-cli"
    file_name = "events.jsonl"

    def begin(self) -> None:
        context = {"cwd": "/home/ada/shop", "branch": "main"}
        self.event(
            "session.start", sessionId=self.id, version=1, copilotVersion="1.0.86", context=context
        )
        self.event("system.message", role="system", content="[pat-002] in the prompt")

    def event(self, type: str, /, top: dict[str, Any] | None = None, **data: Any) -> Copilot:
        number = self.next()
        ids = {
            "id": f"{self.id[:24]}{number.zfill(12)}",
            "timestamp": stamp(int(number)),
            "parentId": None,
        }
        self.records.append({"type": type, "data": data, **ids, **(top or {})})
        return self

    def person(self, text: str) -> Copilot:
        return self.event(
            "user.message",
            content=text,
            transformedContent=f"<now/>\n{text}\n[pat-002]",
            attachments=[],
        )

    def model(self, text: str) -> Copilot:
        self.event("assistant.turn_start", turnId="1")
        self.event("assistant.message", messageId=f"m{self.count}", content=text, toolRequests=[])
        return self.event("assistant.turn_end", turnId="1")

    def runs(self, command: str, output: str, code: int = 0) -> Copilot:
        said = f"{output}\n<exited with exit code {code}>"
        return self.called("bash", {"command": command}, success=True, result={"content": said})

    def called(self, name: str, arguments: Any, **complete: Any) -> Copilot:
        call = f"call_{self.next()}"
        request = {"toolCallId": call, "name": name, "arguments": arguments, "type": "function"}
        self.event(
            "assistant.message", messageId=f"m{self.count}", content="", toolRequests=[request]
        )
        self.event("tool.execution_start", toolCallId=call, toolName=name, arguments=arguments)
        return self.event("tool.execution_complete", toolCallId=call, **complete)


class Pi(Session):
    agent = "pi"

    def begin(self) -> None:
        self.records.append(
            {
                "type": "session",
                "version": 3,
                "id": self.id,
                "timestamp": stamp(0),
                "cwd": "/home/ada/shop",
            }
        )

    def entry(self, type: str, **fields: Any) -> Pi:
        number = self.next()
        parent = f"e{self.count - 1:07d}" if self.count > 1 else None
        self.records.append(
            {
                "type": type,
                "id": f"e{number.zfill(7)}",
                "parentId": parent,
                "timestamp": stamp(int(number)),
                **fields,
            }
        )
        return self

    def message(self, role: str, **fields: Any) -> Pi:
        return self.entry(
            "message", message={"role": role, "timestamp": 1788220800000 + self.count, **fields}
        )

    def person(self, text: str) -> Pi:
        return self.message("user", content=[{"type": "text", "text": text}])

    def model(self, text: str) -> Pi:
        return self.message(
            "assistant", content=[{"type": "text", "text": text}], stopReason="stop"
        )

    def runs(self, command: str, output: str, code: int = 0) -> Pi:
        call = f"toolu_{self.next()}"
        asked = {"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": command}}
        self.message("assistant", content=[asked], stopReason="toolUse")
        said = output + (f"\n\nCommand exited with code {code}" if code else "")
        content = [{"type": "text", "text": said}]
        return self.message(
            "toolResult", toolCallId=call, toolName="bash", content=content, isError=code != 0
        )


#: Every check of a format runs on these.
EVERY: dict[str, Callable[..., Session]] = {
    "codex": Codex,
    "gemini lines": Gemini,
    "gemini document": GeminiDocument,
    "opencode": OpenCode,
    "copilot": Copilot,
    "pi": Pi,
}


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
#: A session, and its records of unknown types.
UNKNOWN = [
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
]


def codex_fork(*, with_ids: bool) -> tuple[Session, Session]:
    parent = Codex(PARENT)
    parent.cites("pat-001").runs("pytest", "4 passed")
    if with_ids:
        for number, record in enumerate(parent.records):
            record["payload"]["id"] = record["payload"].get("id", f"msg_{number:020d}")
    fork = Codex(CHILD)
    fork.records = fork.records[:1]
    fork.records[0]["payload"]["forked_from_id"] = PARENT
    fork.records += [
        {**record, "timestamp": "2026-10-01T00:00:00.000Z"} for record in parent.records
    ]
    return parent, fork


def pi_fork() -> tuple[Session, Session]:
    parent = Pi(PARENT)
    parent.cites("pat-001").runs("pytest", "4 passed")
    fork = Pi(CHILD)
    header = {**parent.records[0], "id": CHILD, "parentSession": "1.jsonl"}
    fork.records = [header, *parent.records[1:]]
    fork.count = parent.count
    return parent, fork


#: A session, and a session that begins with a copy of it.
FORKS = [codex_fork(with_ids=True), codex_fork(with_ids=False), pi_fork()]


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


#: A session of a subagent, the id of its parent, and its own id.
SUBAGENTS = [
    (codex_child(), PARENT, CHILD),
    (gemini_child(), CHILD, CHILD),
    (opencode_child(), PARENT, f"ses_{CHILD}"),
]
