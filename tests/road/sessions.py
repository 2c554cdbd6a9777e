"""Sessions written by hand, in the shape in which Claude Code keeps them."""

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
    """A transcript in the making: each call adds one record."""

    def __init__(self, id: str = "s-1", *, agent_id: str | None = None) -> None:
        self.id = id
        self.agent_id = agent_id
        self.records: list[dict[str, Any]] = []
        #: No two sessions are at work in the same microsecond: a copy of a session has its times
        #: and words.
        self.moment = _moment(id, agent_id)

    def user(self, content: Any) -> Session:
        """Words of a person, or content blocks."""
        return self._add("user", {"role": "user", "content": content})

    def agent(self, text: str) -> Session:
        """Words of the model."""
        return self._model([{"type": "text", "text": text}])

    def runs(
        self, command: str, output: str, *, is_error: bool = False, tool: str = "Bash"
    ) -> Session:
        """A command that the model runs, and what came out of it; the call of another `tool`
        where that is named.
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
        """What a hook printed, as the client repeats it."""
        echo = {
            "type": "hook_success",
            "hookName": event,
            "hookEvent": event,
            "content": printed.strip(),
        }
        return self._add("attachment", echo)

    def cites(self, name: str, verdict: str | None = "helpful") -> Session:
        """One piece of advice is applied, and a person says how it went; None: nobody says
        anything.
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
        """The transcript as a file, in a folder that is made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_bytes(self.records))
        return path

    def fork(self, id: str) -> Session:
        """The same records under another session's id, as a resumed or forked session copies
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
    """Records as the client writes them, one a line."""
    return b"".join(line(record) for record in records)
