"""A stand-in for the streaming Messages API, which Claude Code asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.client.scripted import Block, Reply, Scripted, Step


class MessagesApi(Scripted):
    """The stand-in."""

    def asked_about(self, cue: str) -> list[dict[str, Any]]:
        """As ever; a title is asked for without tools."""
        return [body for body in super().asked_about(cue) if body.get("tools")]

    def reply(self, path: str, body: dict[str, Any]) -> Reply | None:
        if "/count_tokens" in path:
            return Reply("application/json", b'{"input_tokens": 1000}')
        if path.startswith("/v1/messages"):
            step = self.answer(body)
            return Reply("text/event-stream", self.events(body, step), step.seconds)
        return None

    def newest_first(self, body: dict[str, Any]) -> Iterator[str | None]:
        for message in reversed(body.get("messages", [])):
            yield None if message["role"] == "assistant" else " ".join(texts(message))

    def text_of(self, body: dict[str, Any]) -> str:
        system = body.get("system") or []
        said = [system] if isinstance(system, str) else [block["text"] for block in system]
        return "\n".join([*said, *(text for message in body["messages"] for text in texts(message))])

    def events(self, body: dict[str, Any], step: Step) -> bytes:
        """A message as the API streams it."""
        number = next(self.serial)
        usage = {"input_tokens": step.tokens, "output_tokens": 1}
        message = {"id": f"msg_{number:024d}", "type": "message", "role": "assistant", "model": body["model"]}
        message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        stream: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
        for index, block in enumerate(step.blocks):
            stream += _block(index, block, f"toolu_{number:020d}{index:04d}")
        reason = "tool_use" if any(block["type"] == "tool_use" for block in step.blocks) else "end_turn"
        end = {"stop_reason": reason, "stop_sequence": None}
        stream.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}})
        stream.append({"type": "message_stop"})
        return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in stream)


def _block(index: int, block: Block, call_id: str) -> list[dict[str, Any]]:
    if block["type"] == "text":
        start: Block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        start = {"type": "tool_use", "id": call_id, "name": block["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


def texts(message: dict[str, Any]) -> list[str]:
    """The text blocks of a message; what tools gave back is none."""
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block.get("type") == "text"]
