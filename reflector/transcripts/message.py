"""What was said: one vocabulary for every agent's transcript.

Invariant: a `Message` is bounded. Whatever the size of the record it was read from, its texts are
cut to fixed limits by the reader, so a window can be streamed in flat memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["assistant", "user"]

Origin = Literal[
    "model",  # assistant: the model's own words and tool calls
    "synthetic",  # assistant: written by the client (model "<synthetic>", API error notices)
    "human",  # user: typed by a person, queued prompts included
    "tool",  # user: carries tool results only
    "refusal",  # user: a person refused a tool call, perhaps with a reason (in `text`), or interrupted
    "injected",  # user: meta records, hook output, command echoes, notifications, reminders
    "summary",  # user: a compaction summary
]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of the assistant. `input` holds the tool's own arguments, string values bounded."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered. `text` is bounded: head, tail and the lines that look like errors."""

    call_id: str
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One record of a transcript that carries words, calls or results.

    key       64-bit identity of the record (`record_key(uuid)`); equal in every copy of the record
    uuid      the record's own id as written, or a digest of its line where it has none
    chain     "" for the main conversation, else the id of the sidechain (subagent) it belongs to
    timestamp ISO 8601 as written, "" where the record has none
    text      visible text blocks joined by newlines; for origin "refusal" the person's reason
    thinking  thinking blocks joined by newlines (mostly empty in real transcripts)
    offset    byte offset of the record's line in the file
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


@dataclass(slots=True)
class Tally:
    """What a reader saw, so that drift of an undocumented format shows instead of passing silently."""

    lines: int = 0
    records: int = 0
    messages: int = 0
    duplicates: int = 0
    glued: int = 0
    malformed: int = 0
    oversized: int = 0
    unfinished_bytes: int = 0
    unknown_types: dict[str, int] = field(default_factory=dict)
