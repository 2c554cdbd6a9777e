"""Reads the `events.jsonl` of Copilot CLI: `{type, data, id, timestamp, parentId}` on each line.

Invariant: each event is one message under its own id. A call appears in the message that asks for
it and again when it starts; the first of the two counts.
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
    join_texts,
    object_in,
    objects_in,
    parse_arguments,
    plain_text,
    short_in,
    text_in,
    tool_call,
)
from reflector.transcripts.message import Message, Tally, ToolCall
from reflector.transcripts.records import JsonObject, count_type, record_uuid
from reflector.transcripts.speakers import Speech, spoken

#: The beginnings of event names that only this agent uses.
_FAMILIES = tuple(
    """
    session. user. assistant. tool. hook. permission. subagent. system. skill. model. mcp.
    user_input. elicitation. sampling. command. abort
    """.split()
)
_OWN = frozenset(
    ("session.start", "session.resume", "user.message", "assistant.message", "assistant.turn_start")
)
_HUMAN = frozenset(("", "user"))
_INTERRUPTS = frozenset(("", "user initiated", "user_initiated", "user_abort"))
_EXIT = lazy_pattern(r"exit(?:ed with exit)? code:? (-?\d{1,9})>")
_EXIT_SPAN = 400
#: The maximum number of calls and permissions that are remembered.
_MAX_REMEMBERED = 4096


class Copilot(Conversation):
    """The records of Copilot CLI, as docs/agents.md describes them.

    reads     JSON Lines
    words     `user.message` from a person (`source`)
    refusal   permission `denied-interactively-by-user` with its feedback, `abort`
    failure   `success: false`, `exit code N` at the output's end
    ignored   `transformedContent`, `system.*`, `hook.*`
    identity  the event's id
    """

    agent = "copilot-cli"
    name = "Copilot CLI"
    option = "copilot"
    kept = (Kept("COPILOT_HOME", ".copilot", "session-state"),)
    loads = Loads(
        version="1.0.102",
        project=(
            Load(".github/copilot-instructions.md"),
            Load("AGENTS.md"),
            Load("CLAUDE.md"),
            Load("GEMINI.md"),
            Load(".claude/rules/**/*.md"),
            Load(".github/instructions/**/*.instructions.md"),
        ),
        own=Kept("COPILOT_HOME", ".copilot", ""),
        user=(Load("copilot-instructions.md"), Load("instructions/**/*.instructions.md")),
        imports=5,
    )

    @staticmethod
    def recognises(record: JsonObject) -> bool:
        return text_in(record, "type") in _OWN and isinstance(record.get("data"), dict)

    @staticmethod
    def folder_of(record: JsonObject) -> str:
        event = object_in(record, "data")
        return text_in(event, "cwd") or text_in(object_in(event, "context"), "cwd")

    def __init__(self) -> None:
        super().__init__()
        self._requested_calls: dict[str, None] = {}
        #: The call that needs a permission, by the id of the permission request.
        self._permissions: dict[str, str] = {}
        #: The user's reason, by the id of the refused call.
        self._denied: dict[str, str] = {}

    def messages(
        self, record: JsonObject, text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        kind = text_in(record, "type")
        event = record.get("data")
        if not kind or not isinstance(event, dict):
            count_type(tally, record.get("type"))
            return
        event_id = short_in(record, "id")
        uuid = f"copilot:{event_id}" if event_id else record_uuid({}, text)
        chain = short_in(record, "agentId") or short_in(event, "parentToolCallId")
        place = Place(chain, short_in(record, "timestamp"), offset)
        match kind:
            case "session.start" | "session.resume":
                self._describe(event)
            case "session.model_change":
                self.model = short_in(event, "newModel") or self.model
            case "session.compaction_complete":
                if summary := text_in(event, "summaryContent"):
                    yield by_user(uuid, place, "summary", summary)
            case "user.message":
                # `transformedContent` contains the same text with the client's additions.
                if words := text_in(event, "content"):
                    yield by_user(uuid, place, *_spoken(event, place.chain, words))
            case "assistant.message":
                yield self._assistant(event, uuid, place)
            case "tool.execution_start":
                call = _call(event, "toolName")
                if call.id not in self._requested_calls:
                    yield by_model(uuid, place, calls=(call,))
            case "tool.execution_complete":
                yield self._call_completed(event, uuid, place)
            case "permission.requested":
                self._permission_requested(event)
            case "permission.completed":
                self._permission_completed(event)
            case "abort":
                if short_in(event, "reason").lower() in _INTERRUPTS:
                    yield by_user(uuid, place, "refusal", "")
            case _ if not kind.startswith(_FAMILIES):
                count_type(tally, kind)

    def _describe(self, event: JsonObject) -> None:
        self.session_id = short_in(event, "sessionId") or self.session_id
        self.version = short_in(event, "copilotVersion") or self.version
        self.model = short_in(event, "selectedModel") or self.model

    def _assistant(self, event: JsonObject, uuid: str, place: Place) -> Message:
        calls = tuple(_call(request, "name") for request in objects_in(event, "toolRequests"))
        for call in calls:
            _remember(self._requested_calls, call.id, None)
        text = text_in(event, "content")
        thinking = text_in(event, "reasoningText")
        return by_model(uuid, place, text, thinking=thinking, calls=calls)

    def _permission_requested(self, event: JsonObject) -> None:
        permission = event.get("permissionRequest")
        if isinstance(permission, dict):
            call_id = short_in(permission, "toolCallId")
            _remember(self._permissions, short_in(event, "requestId"), call_id)

    def _permission_completed(self, event: JsonObject) -> None:
        decision = event.get("result")
        if not isinstance(decision, dict):
            return
        call_id = short_in(event, "toolCallId")
        if not call_id:
            call_id = self._permissions.pop(short_in(event, "requestId"), "")
        if call_id and decision.get("kind") == "denied-interactively-by-user":
            _remember(self._denied, call_id, text_in(decision, "feedback")[:4096])

    def _call_completed(self, event: JsonObject, uuid: str, place: Place) -> Message:
        call_id = short_in(event, "toolCallId")
        error = object_in(event, "error")
        text = _output(event)
        refused = self._denied.pop(call_id, None)
        if refused is None and error.get("code") == "rejected":
            refused = ""
        return by_tool(
            uuid,
            place,
            call_id,
            text,
            is_error=event.get("success") is False,
            exit_code=_exit_code(event, text),
            refused=refused,
        )


def _output(event: JsonObject) -> str:
    """Return the text of a call's error and of its result, in every shape of the releases."""
    error = event.get("error")
    error_text = plain_text(error) or text_in(fields(error), "message")
    result_text = text_in(event, "result")
    for key in ("content", "detailedContent", "stdout"):
        result_text = result_text or text_in(object_in(event, "result"), key)
    return join_texts((error_text, result_text))


def _exit_code(event: JsonObject, text: str) -> int | None:
    """Return the exit code of a call: its own field, or else the last one at the end of its
    text.
    """
    code = exit_code_of(object_in(event, "result").get("exitCode"))
    if code is None:
        for code_text in _EXIT.findall(text[-_EXIT_SPAN:]):
            code = int(code_text)
    return code


def _spoken(event: JsonObject, chain: str, words: str) -> Speech:
    """Return the speaker of a message under the user's name."""
    is_automatic = event.get("isAutopilotContinuation") is True
    if is_automatic or chain != "" or event.get("inputOrigin") is not None:
        return Speech("injected", words)
    if short_in(event, "source") not in _HUMAN:
        return Speech("injected", words)
    return spoken(words)


def _call(event: JsonObject, name_key: str) -> ToolCall:
    arguments = parse_arguments(event.get("arguments"))
    return tool_call(event.get("toolCallId"), event.get(name_key), arguments)


def _remember(values: JsonObject, key: str, value: Any) -> None:
    """Keep a value. Above `_MAX_REMEMBERED`, forget the oldest one."""
    values[key] = value
    if len(values) > _MAX_REMEMBERED:
        del values[next(iter(values))]
