"""The classic list of `{role, content}` that a reflector with a model is given (requirements A-31).

Invariant: what a person or the model said, and nothing else: no tool results, no meta records, no
command echoes. Of Claude Code's transcripts texts are whole, of other agents' cut as `Message` cuts them.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from io import BufferedReader
from os import PathLike, fspath
from typing import Any

from reflector.transcripts.building import fields, objects, whole
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
    try:
        return [] if path is None else _said(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _said(path: str | PathLike[str]) -> list[dict[str, str]]:
    with suppress(UnknownTranscript):  # the classic list is made of lines that look like messages, whoever wrote them
        if agent_of(path) != CLAUDE_CODE.agent:
            said = (message for message in read_messages(path) if message.text and message.origin in _SAID)
            return [{"role": message.role, "content": message.text} for message in said]
    tally = Tally()
    try:
        with BufferedReader(open_file(path), 1024 * 1024) as file:
            records = (record for _, line in read_lines(file, None, tally) for record, _ in parse_line(line, tally))
            return [message for record in records if (message := _classic(record)) is not None]
    except UnknownTranscript as error:
        raise OSError(errno.EINVAL, "is not a regular file; give the path of a transcript", fspath(path)) from error


def _classic(record: dict[str, Any]) -> dict[str, str] | None:
    if record.get("type") not in ("user", "assistant"):
        return None
    if record.get("isMeta") or record.get("isVisibleInTranscriptOnly"):
        return None
    body = fields(record.get("message"))
    role, content = body.get("role"), body.get("content")
    if isinstance(content, list):
        blocks = (block.get("text") for block in objects(content) if block.get("type") == "text")
        content = "\n".join(text for text in blocks if isinstance(text, str))
    elif isinstance(content, str) and any(echo in content for echo in _COMMAND_ECHOES):
        return None
    said = {"role": whole(role), "content": whole(content)}
    return said if all(said.values()) else None
