"""Reads the exports of OpenCode (`opencode export`): `{info, messages: [{info, parts}]}`.

Invariant: a part that is still being written is not read yet, because an export shows a session as
it is at that moment. Words count when they are complete, calls when they are made, and results when
they are complete, each under the id of its part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reflector.text.lazy import lazy_pattern
from reflector.transcripts.building import (
    Conversation,
    Kept,
    Load,
    Loads,
    Place,
    by_model,
    by_tool,
    by_user,
    exit_code_of,
    fields,
    object_in,
    objects_in,
    short_in,
    text_in,
    tool_call,
    utc_time,
)
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import JsonObject, count_type
from reflector.transcripts.speakers import spoken

#: Types of parts without words.
_WORDLESS = frozenset(
    ("file", "step-start", "step-finish", "snapshot", "patch", "agent", "retry", "compaction")
)
_WORDED = frozenset(("text", "reasoning", "tool", "subtask"))
_REFUSED = lazy_pattern(r"(?:Error: )?The user (?:rejected permission|dismissed this question)")
_FEEDBACK = lazy_pattern(r"feedback: ?")


class OpenCode(Conversation):
    """The records of OpenCode, as docs/agents.md describes them.

    reads     files of the plugin or of `opencode export`; not the database
    words     `text` parts that are not `synthetic`
    refusal   `The user rejected permission …` with its feedback, `MessageAbortedError`
    failure   status `error`, `metadata.exit`
    ignored   parts that are still being written, files, steps
    identity  the part's id. A call and its result are two records
    """

    agent = "opencode"
    name = "OpenCode"
    kept = (Kept("XDG_DATA_HOME", ".local/share", "opencode/reflector", "*.json"),)
    tags = "skill_content skill_files github_action_context"
    loads = Loads(
        version="1.18.33",
        project=(
            Load("AGENTS.md"),
            Load("CLAUDE.md", ("AGENTS.md",)),
            Load("CONTEXT.md", ("AGENTS.md", "CLAUDE.md")),
        ),
        own=Kept("XDG_CONFIG_HOME", ".config", "opencode"),
        user=(Load("AGENTS.md"),),
    )

    @staticmethod
    def recognises(record: JsonObject) -> bool:
        info = object_in(record, "info")
        messages = record.get("messages")
        if not isinstance(messages, list) or not isinstance(info.get("id"), str):
            return False
        first_messages = map(fields, messages[:50])
        return all({"info", "parts"} <= message.keys() for message in first_messages)

    @staticmethod
    def folder_of(record: JsonObject) -> str:
        return text_in(object_in(record, "info"), "directory")

    def messages(
        self, record: JsonObject, text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        info = record.get("info")
        if isinstance(info, dict):
            own_id = short_in(info, "id")
            is_subagent = isinstance(info.get("parentID"), str)
            self.agent_id = own_id if is_subagent else ""
            self.session_id = short_in(info, "parentID") or own_id
            self.version = short_in(info, "version")
        for message in objects_in(record, "messages"):
            if isinstance(message.get("info"), dict):
                yield from self._message(message["info"], message.get("parts"), tally)

    def _message(self, info: JsonObject, parts: Any, tally: Tally) -> Iterator[Message]:
        created = object_in(info, "time").get("created")
        place = Place(self.agent_id, utc_time(created), 0)
        message_id = short_in(info, "id")
        if info.get("role") == "assistant":
            self.model = short_in(info, "modelID") or self.model
        for number, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, dict):
                uuid = f"opencode:{short_in(part, 'id') or f'{message_id}:{number}'}"
                yield from self._part(uuid, part, info, place, tally)
        if object_in(info, "error").get("name") == "MessageAbortedError":
            yield by_user(f"opencode:{message_id}:aborted", place, "refusal", "")

    def _part(
        self, uuid: str, part: JsonObject, info: JsonObject, place: Place, tally: Tally
    ) -> Iterator[Message]:
        kind = text_in(part, "type")
        if kind not in _WORDED and kind not in _WORDLESS:
            count_type(tally, part.get("type"))
        if info.get("role") == "user":
            yield from self._typed(uuid, part, place)
        elif kind in ("text", "reasoning"):
            is_ended = "completed" in object_in(info, "time") or info.get("error") is not None
            if is_ended or "end" in object_in(part, "time"):
                yield from _words(uuid, part, place, is_summary=info.get("summary") is True)
        elif kind == "tool":
            yield from _tool(uuid, part, place)

    def _typed(self, uuid: str, part: JsonObject, place: Place) -> Iterator[Message]:
        text = text_in(part, "text") or text_in(part, "prompt")
        if not text or part.get("ignored") is True:
            return
        is_synthetic = part.get("type") != "text" or part.get("synthetic") is True
        if is_synthetic or self.agent_id:
            yield by_user(uuid, place, "injected", text)
        else:
            yield by_user(uuid, place, *spoken(text))


def _words(uuid: str, part: JsonObject, place: Place, *, is_summary: bool) -> Iterator[Message]:
    text = text_in(part, "text")
    if not text:
        return
    if is_summary:
        yield by_user(uuid, place, "summary", text)
    elif part.get("type") == "reasoning":
        yield by_model(uuid, place, thinking=text)
    else:
        yield by_model(uuid, place, text, synthetic=part.get("synthetic") is True)


def _tool(uuid: str, part: JsonObject, place: Place) -> Iterator[Message]:
    state = object_in(part, "state")
    status = state.get("status")
    if status not in ("running", "completed", "error"):
        return
    call = tool_call(part.get("callID"), part.get("tool"), state.get("input"))
    yield by_model(f"{uuid}:call", place, calls=(call,))
    if status == "running":
        return
    is_error = status == "error"
    text = text_in(state, "error" if is_error else "output")
    refused = None
    if is_error and _REFUSED.match(text):
        feedback = _FEEDBACK.search(text)
        refused = text[feedback.end() :].strip() if feedback else ""
    yield by_tool(
        f"{uuid}:result",
        place,
        part.get("callID"),
        text,
        is_error=is_error,
        exit_code=exit_code_of(object_in(state, "metadata").get("exit")),
        refused=refused,
    )
