"""What was said: one vocabulary for every agent's transcript.

Invariant: a `Message` is bounded and never changes. Whatever the size of the record it was read
from, its texts are cut to fixed limits by the reader, so a window can be streamed in flat memory.

Named tuples, for once: a window holds tens of thousands of messages, and a frozen dataclass takes
four times as long to make; importing `dataclasses` takes as long as a search through 20 MB.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

Role = Literal["assistant", "user"]

Origin = Literal[
    "model",  # assistant: the model's own words and tool calls
    "synthetic",  # assistant: written by the client (model "<synthetic>", API error notices)
    "human",  # user: typed by a person, queued prompts included
    "tool",  # user: carries tool results only
    # user: a person refused a tool call, perhaps with a reason (in `text`), or interrupted
    "refusal",
    # user: wholly inside a tag that no client's list has, or queued and never delivered: nobody's
    # words
    "unknown",
    "injected",  # user: meta records, hook output, command echoes, notifications, reminders
    "summary",  # user: a compaction summary
]


class ToolCall(NamedTuple):
    """One tool call of the assistant. `input` holds the tool's own arguments, string values
    bounded.
    """

    id: str
    name: str
    input: Mapping[str, Any]


class ToolResult(NamedTuple):
    """What a tool answered. `text` is bounded: head, tail and the lines that look like errors."""

    call_id: str
    text: str
    is_error: bool


class Message(NamedTuple):
    """One record of a transcript that carries words, calls or results.

    key       64-bit identity of the record (`record_key(uuid)`); equal in every copy of the record
    uuid      the record's own id as written, or a digest of its line where it has none
    chain     "" for the main conversation, else the id of the sidechain (subagent) it belongs to
    timestamp ISO 8601 as written, "" where the record has none
    text      visible text blocks joined by newlines; for origin "refusal" the person's reason
    thinking  thinking blocks joined by newlines (mostly empty in real transcripts)
    offset    byte offset of the record's line in the file
    tokens    that the model wrote, where the agent says so; of an answer in several records each
              has what it adds
    beside    names of bullets whose citations were taken out of the text, because the judge that
              reads it does not judge them there
    """

    key: int
    uuid: str
    role: Role
    origin: Origin
    chain: str
    timestamp: str
    text: str
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    offset: int = 0
    tokens: int = 0
    beside: tuple[str, ...] = ()


class Tally(SimpleNamespace):
    """What a reader saw, so that drift of an undocumented format shows instead of passing
    silently.
    """

    lines: int
    records: int
    messages: int
    duplicates: int
    glued: int
    malformed: int
    oversized: int
    unfinished_bytes: int
    unknown_types: dict[str, int]

    def __init__(self, **counted: int) -> None:
        super().__init__(
            **(dict.fromkeys(Tally.__annotations__, 0) | {"unknown_types": {}} | counted)
        )
