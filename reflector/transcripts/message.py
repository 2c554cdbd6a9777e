"""The messages of a transcript: one vocabulary for every agent.

Readers make messages; the judges, the windows and the intake of sessions read them.

Invariant: a `Message` is bounded and never changes. Its texts are cut to fixed limits by the
reader, whatever the size of the record, so a window can be streamed in flat memory.

Messages are named tuples, because a window holds tens of thousands of them and a frozen dataclass
takes four times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Role = Literal["assistant", "user"]

Origin = Literal[
    "model",  # assistant: the model's own words and tool calls
    "synthetic",  # assistant: written by the client (model "<synthetic>", API error notices)
    "human",  # user: typed by the human user, including queued prompts
    "tool",  # user: carries tool results only
    # user: the user refused a tool call, perhaps with a reason (in `text`), or interrupted
    "refusal",
    # user: the speaker is unknown, because the text is inside a tag of no known client, or was
    # queued and never delivered
    "unknown",
    "injected",  # user: meta records, hook output, command echoes, notifications, reminders
    "summary",  # user: a compaction summary
]


#: Used instead of the whole arguments of a call if they were not kept.
NOT_KEPT: Mapping[str, Any] = MappingProxyType({})


class ToolCall(NamedTuple):
    """A tool call of the assistant.

    `input` contains the tool's own arguments, with bounded texts. `whole` contains the unchanged
    arguments if the caller asked for them.
    """

    id: str
    name: str
    input: Mapping[str, Any]
    whole: Mapping[str, Any] = NOT_KEPT


class ToolResult(NamedTuple):
    """The answer of a tool.

    text    bounded: head, tail and the lines that look like errors
    choice  the user's choice or answer in the client's own question tool; "" for other answers
    former  the whole text of the file before an edit, None if it is not recorded
    is_new  whether the tool created the file
    """

    call_id: str
    text: str
    is_error: bool
    choice: str = ""
    former: str | None = None
    is_new: bool = False


class Message(NamedTuple):
    """A record of a transcript with words, calls or results.

    key       64-bit identity of the record (`record_key(uuid)`); equal in every copy of the record
    uuid      the record's own id as written, or a digest of its line if it has none
    chain     "" for the main conversation, else the id of its sidechain (a subagent's)
    timestamp ISO 8601 as written, "" if the record has none
    text      visible text blocks joined by newlines; for origin "refusal" the user's reason
    thinking  thinking blocks joined by newlines (mostly empty in real transcripts)
    offset    byte offset of the record's line in the file
    tokens    number of tokens that the model wrote, 0 if the agent does not record it; each record
              of one answer has the number that it adds
    branch    the git branch at the time of the record, and the folder; "" if they are unknown
    beside    names of bullets whose citations were removed from the text, because the judge that
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
    branch: str = ""
    folder: str = ""


@dataclass(slots=True)
class Tally:
    """Counts of a reading. They show changes of an undocumented format.

    lines             complete lines that are not blank, including oversized ones
    records           JSON objects
    messages          messages, each once; `duplicates` are the others
    glued             lines with more than one JSON object
    malformed         texts that are not a JSON object
    oversized         lines above `records.LINE_LIMIT`, which are not parsed
    unfinished_bytes  size of an incomplete last line
    unknown_types     how often each record type appeared that the reader does not know
    """

    lines: int = 0
    records: int = 0
    messages: int = 0
    duplicates: int = 0
    glued: int = 0
    malformed: int = 0
    oversized: int = 0
    unfinished_bytes: int = 0
    unknown_types: dict[str, int] = field(default_factory=dict)
