"""A generated session of any size, with the shapes and proportions of real sessions.

Invariant: the result only depends on the arguments. The order of records, their keys and their
sizes were counted in real sessions, but every word is generated. A few hundred steps are made from
a seed and then repeated under new ids, so that half a gigabyte takes seconds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: The number of steps before they repeat: 3 MB, which is more than any cache of the readers.
_STEPS = 300
#: Eight hexadecimal digits that are in every id, and are a different number in every repetition.
_ROUND = "0dd0c0de"
_NAMES = (
    "parser value module test client buffer record folder index handle result reader query "
    "config state"
).split()
_PROSE = (
    "the of a and is so before it again because around what they which this only then would "
    "still no"
).split()
_LINES = (
    "    def {a}_{b}(self, {c}: Mapping) -> str:",
    '        return "{a}".join(f"{{{b}!r}}\\n" for {b} in self.{c}.values() if {b} is not None)',
    "        # {a}: the {b} is kept until its {c} was read",
    "        if self._{a}.get({b}, 0) > 0 and not {c}:",
    '            raise ValueError("no {a} in {b}: " + repr({c}))',
    "",
    "\t\t{a}.{b}[0] \u2192 {c}",
    "    assert {a} == {b}({c})  # as {b} does",
    "        self.{c}.append({a}.{b})",
)
_TOOLS = (
    ["Read"] * 22
    + ["Edit"] * 15
    + ["Write"] * 3
    + ["Grep"] * 11
    + ["Bash"] * 30
    + ["TodoWrite"] * 9
    + ["Other"] * 10
)


def write_transcript(
    path: Path, size: int, *, session: int = 0, cwd: str = "/home/user/project"
) -> None:
    """Write a session of at least `size` bytes that cites pat-001 to pat-009 about once in 300 kB.

    Records of another `session` have other ids, and every record has its own uuid. `cwd` is the
    agent's working folder.
    """
    steps = [line.encode() for line in _steps(random.Random(20260101))]
    session_id = f"{session:08x}-5e55-4104-8d00-000000000000".encode()
    block = (
        b"".join(steps)
        .replace(b"@session@", session_id)
        .replace(b'"@cwd@"', json.dumps(cwd).encode())
    )
    with path.open("wb") as file:
        written = number = 0
        while written < size:
            fresh = block.replace(_ROUND.encode(), b"%04x%04x" % (session % 0xFFFF, number))
            if written + len(fresh) > size:
                fresh = fresh[: fresh.find(b"\n", size - written - 1) + 1] or fresh
            written += file.write(fresh)
            number += 1


def _steps(chance: random.Random) -> Iterator[str]:
    made = _Session(chance)
    for number in range(_STEPS):
        for record in made.step(number):
            yield json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n"


class _Session:
    """One conversation. Each record names the previous one."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.count = 0
        self.last: str | None = None

    def step(self, number: int) -> Iterator[dict[str, Any]]:
        """Add the model's thoughts, words and call, the tool's answer, and sometimes the user and
        the client.
        """
        chance = self.chance
        if number % 25 == 0:
            snapshot = {
                "messageId": self._uuid(),
                "trackedFileBackups": {},
                "timestamp": self._stamp(),
            }
            yield {
                "type": "file-history-snapshot",
                "messageId": snapshot["messageId"],
                "snapshot": snapshot,
                "isSnapshotUpdate": False,
            }
            extra = {
                "thinkingMetadata": {"level": "high", "disabled": False, "triggers": []},
                "todos": [],
            }
            yield self._user(self._prose(30), extra)
        if number == 140:
            image = {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR" * 60_000},
            }
            yield self._user(
                [{"type": "text", "text": self._prose(20)}, image], {"imagePasteIds": [1]}
            )
        message_id = f"msg_{_ROUND}{number:016d}"
        if chance.random() < 0.7:
            thinking = {
                "type": "thinking",
                "thinking": self._prose(chance.randrange(40, 300)),
                "signature": self._seal(),
            }
            yield self._assistant(message_id, thinking)
        if chance.random() < 0.35:
            cited = f"As [pat-00{number % 9 + 1}] says, " if number % 9 == 4 else ""
            yield self._assistant(
                message_id, {"type": "text", "text": cited + self._prose(chance.randrange(15, 150))}
            )
        call_id = f"toolu_{_ROUND}{number:016d}"
        name, given, answer, details = self._tool(chance.choice(_TOOLS))
        yield self._assistant(
            message_id, {"type": "tool_use", "id": call_id, "name": name, "input": given}
        )
        if chance.random() < 0.35:
            data = {
                "type": "hook_progress",
                "hookEvent": "PostToolUse",
                "hookName": f"PostToolUse:{name}",
                "command": "callback",
            }
            yield self._record(
                type="progress",
                data=data,
                parentToolUseID=call_id,
                toolUseID=call_id,
                **self._identity(),
            )
        block = {"tool_use_id": call_id, "type": "tool_result", "content": answer}
        failed = {"is_error": True} if name == "Bash" and number % 11 == 0 else {}
        yield self._user(
            [block | failed], {"toolUseResult": details, "sourceToolAssistantUUID": self.last}
        )
        if chance.random() < 0.1:
            attached = {
                "type": "hook_success",
                "hookName": f"PostToolUse:{name}",
                "content": self._prose(60),
                "exitCode": 0,
            }
            yield self._record(attachment=attached, type="attachment", **self._identity())
        if number % 40 == 39:
            yield self._record(
                type="system",
                subtype="turn_duration",
                durationMs=81_000,
                isMeta=False,
                **self._identity(),
            )
            queued = {"operation": "enqueue", "timestamp": self._stamp(), "sessionId": "@session@"}
            yield {"type": "queue-operation", **queued, "content": self._prose(12)}
            yield {"type": "queue-operation", **queued, "operation": "dequeue"}
            yield self._user(self._prose(12), {})

    def _tool(self, name: str) -> tuple[str, dict[str, Any], str, Any]:
        """Return a tool's name, arguments and answer, and the client's details of the answer."""
        details: dict[str, Any]
        chance, file = self.chance, f"/home/user/project/src/{self.chance.choice(_NAMES)}.py"
        if name == "Read":
            text = self._code(chance.randrange(20, 220))
            numbered = "\n".join(f"{n:6}\u2192{line}" for n, line in enumerate(text.split("\n"), 1))
            shown = {
                "filePath": file,
                "content": text,
                "numLines": text.count("\n"),
                "startLine": 1,
                "totalLines": 900,
            }
            return name, {"file_path": file}, numbered, {"type": "text", "file": shown}
        if name == "Edit":
            old, new, whole = self._code(6), self._code(8), self._code(chance.randrange(60, 500))
            patch = [
                {
                    "oldStart": 9,
                    "oldLines": 6,
                    "newStart": 9,
                    "newLines": 8,
                    "lines": new.split("\n"),
                }
            ]
            details = {"filePath": file, "oldString": old, "newString": new, "originalFile": whole}
            answer = (
                f"The file {file} has been updated. Here's the result of running `cat "
                f"-n`:\n{self._code(25)}"
            )
            given = {"file_path": file, "old_string": old, "new_string": new}
            return (
                name,
                given,
                answer,
                details | {"structuredPatch": patch, "userModified": False, "replaceAll": False},
            )
        if name == "Write":
            text = self._code(chance.randrange(80, 300))
            details = {
                "type": "create",
                "filePath": file,
                "content": text,
                "structuredPatch": [],
                "originalFile": None,
            }
            return (
                name,
                {"file_path": file, "content": text},
                f"File created successfully at: {file}",
                details,
            )
        if name == "Grep":
            found = self._code(chance.randrange(10, 250))
            details = {
                "mode": "content",
                "numFiles": 0,
                "filenames": [],
                "content": found,
                "numLines": 90,
            }
            return (
                name,
                {"pattern": self._words(1), "path": file, "output_mode": "content"},
                found,
                details,
            )
        if name == "TodoWrite":
            todos = [
                {"content": self._prose(7), "status": "pending", "activeForm": self._prose(6)}
                for _ in range(5)
            ]
            return (
                name,
                {"todos": todos},
                "Todos have been modified successfully.",
                {"oldTodos": todos, "newTodos": todos},
            )
        output = self._code(chance.choice((1, 4, 12, 40, 120)))
        if name == "Bash":
            details = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
            return (
                name,
                {"command": f"pytest -q {file}", "description": self._prose(6)},
                output,
                details,
            )
        return (
            "mcp__docs__look_up",
            {"query": self._prose(6)},
            output,
            [{"type": "text", "text": output}],
        )

    def _user(self, content: Any, extra: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "user", "content": content}
        return self._record(type="user", message=message, **self._identity(), **extra)

    def _assistant(self, message_id: str, block: dict[str, Any]) -> dict[str, Any]:
        usage = {
            "input_tokens": 10,
            "cache_creation_input_tokens": 1463,
            "cache_read_input_tokens": 40463,
            "cache_creation": {"ephemeral_5m_input_tokens": 1463, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 6,
            "service_tier": "standard",
        }
        message = {
            "model": "a-model-of-2026",
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        request = f"req_{_ROUND}{self.count:016d}"
        return self._record(
            message=message, requestId=request, type="assistant", **self._identity()
        )

    def _record(self, **own: Any) -> dict[str, Any]:
        parent, self.last = self.last, own["uuid"]
        return {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "@cwd@",
            "sessionId": "@session@",
            "version": "2.1.38",
            "gitBranch": "main",
            "slug": "quietly-counting-otter",
            **own,
        }

    def _identity(self) -> dict[str, str]:
        return {"uuid": self._uuid(), "timestamp": self._stamp()}

    def _uuid(self) -> str:
        self.count += 1
        return f"{_ROUND}-{self.count & 0xFFFF:04x}-4000-8000-{self.count:012x}"

    def _stamp(self) -> str:
        minutes, seconds = divmod(self.count, 60)
        clock = f"{minutes // 60 % 24:02d}:{minutes % 60:02d}:{seconds:02d}"
        return f"2026-01-01T{clock}.{self.count % 999:03d}Z"

    def _seal(self) -> str:
        return self.chance.randbytes(self.chance.randrange(200, 1200)).hex()

    def _prose(self, words: int) -> str:
        said = self._words(words)
        return said[0].upper() + said[1:] + "."

    def _words(self, count: int) -> str:
        return " ".join(self.chance.choice(_NAMES if n % 4 == 3 else _PROSE) for n in range(count))

    def _code(self, lines: int) -> str:
        pick = self.chance.choice
        return "\n".join(
            pick(_LINES).format(a=pick(_NAMES), b=pick(_NAMES), c=pick(_NAMES))
            for _ in range(lines)
        )
