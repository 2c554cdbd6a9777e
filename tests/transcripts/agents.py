"""Sessions of other agents, written by hand in the shapes in which their clients keep them."""

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
        """What stands before the first message."""

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


EVERY: dict[str, Callable[..., Session]] = {
    "codex": Codex,
    "gemini lines": Gemini,
    "gemini document": GeminiDocument,
    "opencode": OpenCode,
    "copilot": Copilot,
    "pi": Pi,
}
