"""A stand-in for the streaming generateContent, which Gemini CLI asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.client.scripted import Block, Reply, Scripted, Step


class GenerateApi(Scripted):
    """The stand-in. A step's `Bash` becomes `run_shell_command`."""

    def reply(self, path: str, body: dict[str, Any]) -> Reply | None:
        if ":streamGenerateContent" in path:
            step = self.answer(body)
            raw = json.dumps(self._response(step))
            return Reply("text/event-stream", f"data: {raw}\r\n\r\n".encode(), step.seconds)
        if ":countTokens" in path:
            return Reply("application/json", b'{"totalTokens": 1000}')
        return None

    def newest_first(self, body: dict[str, Any]) -> Iterator[str | None]:
        for content in reversed(body["contents"]):
            yield None if content["role"] == "model" else texts(content)

    def text_of(self, body: dict[str, Any]) -> str:
        system = body.get("systemInstruction") or {"parts": []}
        return "\n".join([texts(system), *map(texts, body["contents"])])

    def _response(self, step: Step) -> dict[str, Any]:
        content = {"role": "model", "parts": [_part(block) for block in step.blocks]}
        usage = {"promptTokenCount": step.tokens, "candidatesTokenCount": 20, "totalTokenCount": step.tokens + 20}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": usage, "responseId": f"r{next(self.serial)}"}


def _part(block: Block) -> dict[str, Any]:
    if block["type"] == "text":
        return {"text": block["text"]}
    return {"functionCall": {"name": "run_shell_command", "args": block["input"]}}


def texts(content: dict[str, Any]) -> str:
    """The texts of a turn."""
    return " ".join(part.get("text", "") for part in content["parts"])
