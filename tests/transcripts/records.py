"""Hand-written records in the shapes of Claude Code's transcripts, as its client writes them:
compact JSON.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

from reflector.transcripts.message import Message

SESSION = "3b1e6c1e-5d0f-4d2c-9f6e-6f0c5a4d1e2f"


def uuid(number: int) -> str:
    return str(UUID(int=number + (1 << 100)))


def line(record: Any) -> bytes:
    """One record as JavaScript writes it."""
    return (
        json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        + b"\n"
    )


def write(path: Path, records: Iterable[Any]) -> Path:
    path.write_bytes(b"".join(item if isinstance(item, bytes) else line(item) for item in records))
    return path


def envelope(number: int, **fields: Any) -> dict[str, Any]:
    """The keys before the message, in the client's order."""
    return {
        "parentUuid": uuid(number - 1) if number > 1 else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/ada/shop",
        "sessionId": SESSION,
        "version": "2.1.38",
        "gitBranch": "main",
        **fields,
    }


def stamp(number: int, month: int = 2) -> str:
    clock = f"{number // 60 % 24:02d}:{number % 60:02d}:00.000Z"
    return f"2026-{month:02d}-{number // 1440 + 1:02d}T{clock}"


def assistant(number: int, *blocks: Any, **fields: Any) -> dict[str, Any]:
    """A record of the model. A string stands for a text block; `model=` and `top=` override."""
    model = fields.pop("model", "claude-sonnet-4-6")
    after = fields.pop("top", {})
    content = [
        {"type": "text", "text": block} if isinstance(block, str) else block for block in blocks
    ]
    return {
        **envelope(number, **fields),
        "message": {
            "model": model,
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": content,
        },
        "requestId": "req_1",
        "type": "assistant",
        "uuid": uuid(number),
        "timestamp": stamp(number),
        **after,
    }


def user(number: int, content: Any, **fields: Any) -> dict[str, Any]:
    """A record of a user. `top=` holds the keys behind the message."""
    after = fields.pop("top", {})
    return {
        **envelope(number, **fields),
        "type": "user",
        "message": {"role": "user", "content": content},
        "uuid": uuid(number),
        "timestamp": stamp(number),
        **after,
    }


def call(name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}


def result(content: Any, *, is_error: bool | None = None) -> dict[str, Any]:
    block: dict[str, Any] = {"tool_use_id": "toolu_1", "type": "tool_result", "content": content}
    return block if is_error is None else {**block, "is_error": is_error}


def progress(number: int, data: dict[str, Any]) -> dict[str, Any]:
    return {
        **envelope(number),
        "type": "progress",
        "data": data,
        "uuid": uuid(number),
        "timestamp": stamp(number),
    }


def attachment(number: int, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "parentUuid": uuid(number - 1),
        "isSidechain": False,
        "attachment": content,
        "type": "attachment",
        "uuid": uuid(number),
        "timestamp": stamp(number),
        "sessionId": SESSION,
    }


def queue(operation: str, content: str | None = None, number: int = 1) -> dict[str, Any]:
    record = {
        "type": "queue-operation",
        "operation": operation,
        "timestamp": stamp(number),
        "sessionId": SESSION,
    }
    return record if content is None else {**record, "content": content}


SNAPSHOT = {
    "type": "file-history-snapshot",
    "messageId": uuid(900),
    "snapshot": {},
    "isSnapshotUpdate": False,
}


def shown(message: Message) -> str:
    """A message on one line: origin, thinking in brackets, text, calls, and results behind `=`,
    errors behind `!`.
    """
    calls = [
        f"{call.name}({', '.join(f'{k}={v}' for k, v in call.input.items())})"
        for call in message.calls
    ]
    results = [f"{'!' if result.is_error else '='} {result.text}" for result in message.results]
    parts = [
        message.origin,
        f"({message.thinking})" if message.thinking else "",
        message.text,
        *calls,
        *results,
    ]
    return " ".join(filter(None, parts))
