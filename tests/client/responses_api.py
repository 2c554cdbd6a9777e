"""A stand-in for the streaming Responses API, which Codex CLI asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.client.scripted import Block, Reply, Scripted, Step

_BY_MODEL = ("function_call", "custom_tool_call", "reasoning", "local_shell_call")


class ResponsesApi(Scripted):
    """The stand-in. A step's `Bash` becomes the shell that the client offers."""

    def reply(self, path: str, body: dict[str, Any]) -> Reply | None:
        if not path.endswith("/responses"):
            return None
        step = self.answer(body)
        return Reply("text/event-stream", self._stream(body, step), step.seconds)

    def newest_first(self, body: dict[str, Any]) -> Iterator[str | None]:
        in_turn = False
        for item in reversed(body["input"]):
            by_model = item.get("role") == "assistant" or item["type"] in _BY_MODEL
            if by_model and not in_turn:
                yield None
            elif item.get("role") == "user":
                yield texts(item)
            in_turn = by_model

    def text_of(self, body: dict[str, Any]) -> str:
        said = [texts(item) for item in body["input"] if item["type"] == "message"]
        return "\n".join([body.get("instructions") or "", *said])

    def _stream(self, body: dict[str, Any], step: Step) -> bytes:
        number = next(self.serial)
        response = {"id": f"resp_{number:032d}"}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
        for index, block in enumerate(step.blocks):
            item = _item(block, f"{number:028d}{index:04d}", _offered(body))
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        usage = {"input_tokens": step.tokens, "output_tokens": 20, "total_tokens": step.tokens + 20}
        details = {"input_tokens_details": None, "output_tokens_details": None}
        events.append({"type": "response.completed", "response": {**response, "usage": {**usage, **details}}})
        return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def _offered(body: dict[str, Any]) -> set[str]:
    return {str(tool.get("name")) for tool in body.get("tools", [])}


def _item(block: Block, own: str, offered: set[str]) -> dict[str, Any]:
    if block["type"] == "text":
        content = [{"type": "output_text", "text": block["text"], "annotations": []}]
        return {"type": "message", "id": f"msg_{own}", "role": "assistant", "status": "completed", "content": content}
    command = block["input"]["command"]
    name, given = "shell", {"command": ["bash", "-lc", command]}
    if "exec_command" in offered:
        name, given = "exec_command", {"cmd": command}
    call = {"type": "function_call", "id": f"fc_{own}", "call_id": f"call_{own}", "name": name, "status": "completed"}
    return {**call, "arguments": json.dumps(given)}


def texts(item: dict[str, Any]) -> str:
    """The texts of a message."""
    return " ".join(part.get("text", "") for part in item.get("content", []))
