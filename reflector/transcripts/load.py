"""The classic list of `{role, content}` that a reflector with a model is given (requirements A-31).

Invariant: what a person or the model said, and nothing else: no tool results, no meta records, no
command echoes. Of Claude Code's transcripts texts are whole, of other agents' cut as `Message` cuts them.
"""

from __future__ import annotations

import errno
from io import BufferedReader
from os import PathLike, fspath
from typing import Any

from reflector.transcripts.claude_code import FORMAT as CLAUDE_CODE
from reflector.transcripts.message import Tally
from reflector.transcripts.reading import UnknownTranscript, agent_of, open_file, read_messages
from reflector.transcripts.records import parse_line, read_lines

_SAID = frozenset(("human", "model"))
_COMMAND_ECHOES = ("<command-name>", "<local-command-stdout>")


def load_transcript(path: str | PathLike[str] | None) -> list[dict[str, str]]:
    """Messages of a transcript of any agent, each `{"role": str, "content": str}`, in file order.

    No path and a missing one give []; malformed lines are skipped. Raises OSError for what exists and cannot be read,
    and for what is not a file, such as a pipe. The whole conversation is in memory: for large files stream
    `read_messages` instead.
    """
    if path is None:
        return []
    messages: list[dict[str, str]] = []
    tally = Tally()
    try:
        if agent_of(path) != CLAUDE_CODE.agent:
            said = (message for message in read_messages(path) if message.text and message.origin in _SAID)
            return [{"role": message.role, "content": message.text} for message in said]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except UnknownTranscript:
        # Lines that look like messages are what the classic list is made of, whoever wrote them.
        pass
    try:
        with BufferedReader(open_file(path), 1024 * 1024) as file:
            for _, line in read_lines(file, None, tally):
                for record, _ in parse_line(line, tally):
                    message = _classic(record)
                    if message is not None:
                        messages.append(message)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except UnknownTranscript as error:
        raise OSError(errno.EINVAL, "is not a regular file; give the path of a transcript", fspath(path)) from error
    return messages


def _classic(record: dict[str, Any]) -> dict[str, str] | None:
    if record.get("type") not in ("user", "assistant"):
        return None
    if record.get("isMeta") or record.get("isVisibleInTranscriptOnly"):
        return None
    body = record.get("message")
    if not isinstance(body, dict):
        return None
    role, content = body.get("role"), body.get("content")
    if not isinstance(role, str) or not role:
        return None
    if isinstance(content, list):
        blocks = [block for block in content if isinstance(block, dict) and block.get("type") == "text"]
        content = "\n".join(block["text"] for block in blocks if isinstance(block.get("text"), str))
    elif isinstance(content, str) and any(echo in content for echo in _COMMAND_ECHOES):
        return None
    if not isinstance(content, str) or not content:
        return None
    return {"role": role, "content": content}
