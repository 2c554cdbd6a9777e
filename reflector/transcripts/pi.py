"""Reads the sessions of pi and OpenClaw: entries of a tree, `{type, id, parentId, timestamp,
message}`, on lines.

Invariant: an entry is known by its time and its words. Its id has eight digits, changes when an old
file is migrated, and is missing in the oldest; a fork copies the entry with its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reflector.transcripts import building
from reflector.transcripts.building import (
    Conversation,
    Place,
    digest,
    fields,
    joined,
    objects,
    short,
    whole,
)
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import count_type
from reflector.transcripts.speakers import spoken

_WORDLESS = frozenset(
    ("model_change thinking_level_change custom label session_info leaf usage context_edit").split()
)
_SUMMARIES = frozenset(("branchSummary", "compactionSummary"))
_ROLES = _SUMMARIES | {"user", "assistant", "toolResult", "bashExecution", "custom", "hookMessage"}


class Pi(Conversation):
    agent, name = "pi", "pi or OpenClaw"

    @staticmethod
    def recognises(record: dict[str, Any]) -> bool:
        kind = building.kind(record)
        if kind == "session":
            return isinstance(record.get("id"), str) and ("cwd" in record or "version" in record)
        message = fields(record.get("message"))
        # Factory's Droid writes the same envelope, around messages without a time of their own.
        return (
            kind == "message"
            and building.kind(message, "role") in _ROLES
            and "timestamp" in message
        )

    def messages(
        self, record: dict[str, Any], text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        kind = building.kind(record)
        place = Place("", short(record.get("timestamp")), offset)
        if kind == "session":
            self._describe(record)
        elif kind == "message":
            message = fields(record.get("message"))
            role = building.kind(message, "role")
            if role in _ROLES:
                yield from _message(message, place)
            elif role != "system":  # the prompt and the tools, or a change of them
                count_type(tally, message.get("role"))
        elif kind in ("compaction", "branch_summary"):
            if summary := whole(record.get("summary")):
                yield building.by_user(
                    digest("pi", place.timestamp, kind, summary), place, "summary", summary
                )
        elif kind == "custom_message":
            said = joined(building.texts(record.get("content")))
            yield building.by_user(
                digest("pi", place.timestamp, kind, said), place, "injected", said
            )
        elif kind not in _WORDLESS:
            count_type(tally, record.get("type"))

    def _describe(self, header: dict[str, Any]) -> None:
        # A file has one header, and who glues two sessions together goes on with the first.
        if not self.session_id:
            version = header.get("version")
            self.session_id = short(header.get("id"))
            self.version = (
                f"session-{version}" if isinstance(version, int) and 0 < version < 1000 else ""
            )


def _message(message: dict[str, Any], place: Place) -> Iterator[Message]:
    role = message["role"]
    content = message.get("content")
    said = joined(building.texts(content))
    sent = message.get("timestamp")
    stamp = str(sent) if isinstance(sent, int) and sent.bit_length() < 64 else ""
    blocks = objects(content)
    made = (block for block in blocks if block.get("type") == "toolCall")
    calls = tuple(
        building.call(one.get("id"), one.get("name"), one.get("arguments")) for one in made
    )
    own = (place.timestamp, stamp, short(message.get("toolCallId")), *(call.id for call in calls))
    uuid = digest("pi", role, *own, said)
    if role == "assistant":
        thinking = joined(whole(block.get("thinking")) for block in blocks)
        if said or thinking or calls:
            yield building.by_model(uuid, place, said, thinking=thinking, calls=calls)
        if message.get("stopReason") == "aborted":
            yield building.by_user(f"{uuid}:aborted", place, "refusal", "")
    elif role == "toolResult":
        failed = message.get("isError") is True
        yield building.by_tool(uuid, place, message.get("toolCallId"), said, is_error=failed)
    elif role == "user":
        if said:
            yield building.by_user(uuid, place, *spoken(said))
    elif role in _SUMMARIES:
        yield building.by_user(uuid, place, "summary", whole(message.get("summary")))
    else:
        # A command that a person ran by hand, or a message of an extension.
        said = said or joined((whole(message.get("command")), whole(message.get("output"))))
        yield building.by_user(uuid, place, "injected", said)
