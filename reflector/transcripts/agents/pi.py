"""Reads the sessions of pi and OpenClaw: entries of a tree, `{type, id, parentId, timestamp,
message}`, on lines.

Invariant: an entry is identified by its time and its words. Its id has eight digits, changes when
an old file is migrated, and is missing in the oldest files. A fork copies the entry with its time.
"""

from __future__ import annotations

from collections.abc import Iterable

from reflector.transcripts.building import (
    Conversation,
    Kept,
    Load,
    Loads,
    Place,
    by_model,
    by_tool,
    by_user,
    content_id,
    join_texts,
    object_in,
    objects_in,
    short_in,
    text_in,
    texts_of,
    tool_call,
)
from reflector.transcripts.message import Message, Tally, ToolCall
from reflector.transcripts.records import JsonObject, count_type
from reflector.transcripts.speakers import spoken

_WORDLESS = frozenset(
    ("model_change thinking_level_change custom label session_info leaf usage context_edit").split()
)
#: The roles of messages with words.
_ROLES = frozenset(
    (
        "assistant toolResult user branchSummary compactionSummary bashExecution custom hookMessage"
    ).split()
)

#: pi loads the first of these that exists.
_CONTEXT_FILES = (
    Load("AGENTS.override.md"),
    Load("AGENTS.md", ("AGENTS.override.md",)),
    Load("CLAUDE.md", ("AGENTS.override.md", "AGENTS.md")),
)


class Pi(Conversation):
    """The records of pi, as docs/agents.md describes them.

    reads     JSON Lines, versions 1 to 3
    words     role `user`, without a skill's text
    refusal   `stopReason: aborted`
    failure   `isError`
    ignored   extensions' state, labels
    identity  the record's time and words, because pi changes the ids when it migrates an old file
    """

    agent = "pi"
    name = "pi"
    writers = "pi or OpenClaw"
    kept = (Kept("PI_CODING_AGENT_DIR", ".pi/agent", "sessions"),)
    tags = "skill read-files modified-files project_instructions previous-summary"
    loads = Loads(
        version="1.6.0",
        project=_CONTEXT_FILES,
        own=Kept("PI_CODING_AGENT_DIR", ".pi/agent", ""),
        user=_CONTEXT_FILES,
        above=True,
    )

    @staticmethod
    def recognises(record: JsonObject) -> bool:
        kind = text_in(record, "type")
        if kind == "session":
            return isinstance(record.get("id"), str) and ("cwd" in record or "version" in record)
        message = object_in(record, "message")
        is_known = text_in(message, "role") in _ROLES
        # Factory's Droid writes the same envelope around messages without their own time.
        return kind == "message" and is_known and "timestamp" in message

    def messages(
        self, record: JsonObject, text: bytes, offset: int, tally: Tally
    ) -> Iterable[Message]:
        kind = text_in(record, "type")
        place = Place("", short_in(record, "timestamp"), offset)
        if kind == "session":
            self._describe(record)
        elif kind == "message":
            message = object_in(record, "message")
            self.model = short_in(message, "model") or self.model
            yield from _read_entry(message, place, tally)
        elif kind in ("compaction", "branch_summary"):
            if summary := text_in(record, "summary"):
                uuid = content_id("pi", place.timestamp, kind, summary)
                yield by_user(uuid, place, "summary", summary)
        elif kind == "custom_message":
            words = join_texts(texts_of(record.get("content")))
            uuid = content_id("pi", place.timestamp, kind, words)
            yield by_user(uuid, place, "injected", words)
        elif kind not in _WORDLESS:
            count_type(tally, record.get("type"))

    def _describe(self, header: JsonObject) -> None:
        # Two concatenated sessions are read as the first one.
        if not self.session_id:
            version = header.get("version")
            is_version = isinstance(version, int) and 0 < version < 1000
            self.session_id = short_in(header, "id")
            self.version = f"session-{version}" if is_version else ""


def _read_entry(message: JsonObject, place: Place, tally: Tally) -> Iterable[Message]:
    """Yield the messages of an entry, by the role of its speaker."""
    role = text_in(message, "role")
    if role not in _ROLES:
        if role != "system":  # the prompt and the tools, or a change of them
            count_type(tally, message.get("role"))
        return
    blocks = objects_in(message, "content")
    text = join_texts(texts_of(message.get("content")))
    calls = tuple(
        tool_call(block.get("id"), block.get("name"), block.get("arguments"))
        for block in blocks
        if block.get("type") == "toolCall"
    )
    uuid = _uuid_of(message, place, text, calls)
    match role:
        case "assistant":
            thinking = join_texts(text_in(block, "thinking") for block in blocks)
            if text or thinking or calls:
                yield by_model(uuid, place, text, thinking=thinking, calls=calls)
            if message.get("stopReason") == "aborted":
                yield by_user(f"{uuid}:aborted", place, "refusal", "")
        case "toolResult":
            is_error = message.get("isError") is True
            yield by_tool(uuid, place, message.get("toolCallId"), text, is_error=is_error)
        case "user":
            if text:
                yield by_user(uuid, place, *spoken(text))
        case "branchSummary" | "compactionSummary":
            yield by_user(uuid, place, "summary", text_in(message, "summary"))
        case _:  # a command that the user ran by hand, or a message of an extension
            shown = (text_in(message, key) for key in ("command", "output"))
            yield by_user(uuid, place, "injected", text or join_texts(shown))


def _uuid_of(message: JsonObject, place: Place, text: str, calls: Iterable[ToolCall]) -> str:
    milliseconds = message.get("timestamp")
    is_time = isinstance(milliseconds, int) and milliseconds.bit_length() < 64
    own_time = str(milliseconds) if is_time else ""
    answered_call = short_in(message, "toolCallId")
    role = text_in(message, "role")
    call_ids = (call.id for call in calls)
    return content_id("pi", role, place.timestamp, own_time, answered_call, *call_ids, text)
