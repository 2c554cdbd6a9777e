"""Handwritten sessions in the form of Claude Code's transcripts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5
from zlib import crc32

from tests.transcripts.records import envelope, line, stamp


def _moment(id: str, agent_id: str | None) -> int:
    """Return the microsecond in which a session is at work."""
    numbered = re.fullmatch(r"s-(\d{1,5})", id)
    if numbered is None or agent_id is not None:
        return crc32(f"{id}/{agent_id}".encode()) % 99_999 * 10 + 5
    return 0 if id == "s-1" else int(numbered[1]) * 10 + 7


class Session:
    """A transcript under construction. Each call adds one record."""

    def __init__(self, id: str = "s-1", *, agent_id: str | None = None) -> None:
        self.id = id
        self.agent_id = agent_id
        self.records: list[dict[str, Any]] = []
        #: Two sessions are never at work in the same microsecond, because a copy of a session is
        #: recognised by its times and words.
        self.moment = _moment(id, agent_id)

    def user(self, content: Any) -> Session:
        """Add words of the user, or content blocks."""
        return self._add("user", {"role": "user", "content": content})

    def agent(self, text: str) -> Session:
        """Add words of the model."""
        return self._model([{"type": "text", "text": text}])

    def runs(
        self, command: str, output: str, *, is_error: bool = False, tool: str = "Bash"
    ) -> Session:
        """Add a command that the model runs, and its output. With `tool`, it is a call of that
        tool.
        """
        call = f"toolu_{len(self.records)}"
        self._model([{"type": "tool_use", "id": call, "name": tool, "input": {"command": command}}])
        result = {
            "tool_use_id": call,
            "type": "tool_result",
            "content": output,
            "is_error": is_error,
        }
        return self.user([result])

    def starts(self, printed: str, event: str = "SessionStart") -> Session:
        """Add the output of a hook, as the client repeats it."""
        echo = {
            "type": "hook_success",
            "hookName": event,
            "hookEvent": event,
            "content": printed.strip(),
        }
        return self._add("attachment", echo)

    def cites(self, name: str, verdict: str | None = "helpful") -> Session:
        """Add a citation, and the user's words about its result. With None, the user writes
        nothing.
        """
        self.user("The total is wrong when a coupon is applied. Please fix it.")
        self.agent(f"As [{name}] says, I change how the cart adds up its total.")
        if verdict == "helpful":
            self.user("Perfect, that works. Thanks!").agent("Glad to hear it.")
        elif verdict == "harmful":
            self.user("No, that is wrong. Please don't change the total there, revert it.")
            self.agent("You are right, I take it back.")
        return self

    def write(self, path: Path) -> Path:
        """Write the transcript to a file, and create its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_bytes(self.records))
        return path

    def fork(self, id: str) -> Session:
        """Return the same records under another session's id, as a resumed or forked session copies
        them.
        """
        copy = Session(id)
        copy.records = [{**record, "sessionId": id} for record in self.records]
        return copy

    def _model(self, content: list[dict[str, Any]]) -> Session:
        message = {
            "model": "claude-sonnet-4-6",
            "id": f"msg_{len(self.records)}",
            "type": "message",
        }
        return self._add("assistant", {**message, "role": "assistant", "content": content})

    def _add(self, kind: str, body: dict[str, Any]) -> Session:
        number = len(self.records)
        record = envelope(
            number, isSidechain=self.agent_id is not None, sessionId=self.id, version="2.1.200"
        ) | {
            "parentUuid": self.records[-1]["uuid"] if self.records else None,
            **({} if self.agent_id is None else {"agentId": self.agent_id}),
            "type": kind,
            "attachment" if kind == "attachment" else "message": body,
            "uuid": str(uuid5(NAMESPACE_URL, f"{self.id}/{self.agent_id}/{number}")),
            "timestamp": stamp(number, month=11).replace(".000Z", f".{self.moment:06d}Z"),
        }
        self.records.append(record)
        return self


def as_bytes(records: Iterable[Any]) -> bytes:
    """Return records as the client writes them, one on each line."""
    return b"".join(line(record) for record in records)
