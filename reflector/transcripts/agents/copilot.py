"""Reads the `events.jsonl` of Copilot CLI: `{type, data, id, timestamp, parentId}` on each line.

Invariant: each event is one message under its own id. A call appears in the message that asks for
it and again when it starts; the first of the two counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from reflector.transcripts import building
from reflector.transcripts.building import (
    Conversation,
    Kept,
    Load,
    Loads,
    Place,
    fields,
    objects,
    plain_text,
    short_text,
)
from reflector.transcripts.message import Message, Tally, ToolCall
from reflector.transcripts.records import count_type, record_uuid
from reflector.transcripts.speakers import spoken

#: The beginnings of event names that no other agent has.
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
_EXIT = re.compile(r"exit(?:ed with exit)? code:? (-?\d{1,9})>")
_EXIT_SPAN = 400
#: The number of calls and permissions that are remembered.
_MAX_REMEMBERED = 4096


class Copilot(Conversation):
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
        online="Copilot Memory, which GitHub keeps for a repository",
        imports=5,
    )

    @staticmethod
    def recognises(record: dict[str, Any]) -> bool:
        return building.kind(record) in _OWN and isinstance(record.get("data"), dict)

    @staticmethod
    def folder_of(record: dict[str, Any]) -> str:
        event = fields(record.get("data"))
        return plain_text(event.get("cwd")) or plain_text(fields(event.get("context")).get("cwd"))

    def __init__(self) -> None:
        super().__init__()
        self._requested_calls: dict[str, None] = {}
        #: The call that a permission was requested for, by the request's id.
        self._permissions: dict[str, str] = {}
        #: The person's reason, by the id of the refused call.
        self._denied: dict[str, str] = {}

    def messages(
        self, record: dict[str, Any], text: bytes, offset: int, tally: Tally
    ) -> Iterable[Message]:
        kind = building.kind(record)
        event = record.get("data")
        if not kind or not isinstance(event, dict):
            count_type(tally, record.get("type"))
            return ()
        event_id = short_text(record.get("id"))
        uuid = f"copilot:{event_id}" if event_id else record_uuid({}, text)
        chain = short_text(record.get("agentId")) or short_text(event.get("parentToolCallId"))
        place = Place(chain, short_text(record.get("timestamp")), offset)
        read_event = _EVENT_READERS.get(kind)
        if read_event is not None:
            return read_event(self, event, uuid, place) or ()
        if not kind.startswith(_FAMILIES):
            count_type(tally, kind)
        return ()

    def _describe(self, event: dict[str, Any], uuid: str, place: Place) -> None:
        self.session_id = short_text(event.get("sessionId")) or self.session_id
        self.version = short_text(event.get("copilotVersion")) or self.version
        self.model = short_text(event.get("selectedModel")) or self.model

    def _model_changed(self, event: dict[str, Any], uuid: str, place: Place) -> None:
        self.model = short_text(event.get("newModel")) or self.model

    def _user(self, event: dict[str, Any], uuid: str, place: Place) -> Iterable[Message]:
        # `transformedContent` has the same text and the additions of the client.
        text = plain_text(event.get("content"))
        if not text:
            return
        if _is_clients(event, place.chain):
            yield building.by_user(uuid, place, "injected", text)
        else:
            yield building.by_user(uuid, place, *spoken(text))

    def _assistant(self, event: dict[str, Any], uuid: str, place: Place) -> Iterable[Message]:
        calls = tuple(_call(request, "name") for request in objects(event.get("toolRequests")))
        for call in calls:
            _remember(self._requested_calls, call.id, None)
        text = plain_text(event.get("content"))
        thinking = plain_text(event.get("reasoningText"))
        yield building.by_model(uuid, place, text, thinking=thinking, calls=calls)

    def _call_started(self, event: dict[str, Any], uuid: str, place: Place) -> Iterable[Message]:
        call = _call(event, "toolName")
        if call.id not in self._requested_calls:
            yield building.by_model(uuid, place, calls=(call,))

    def _permission_requested(self, event: dict[str, Any], uuid: str, place: Place) -> None:
        permission = event.get("permissionRequest")
        if isinstance(permission, dict):
            call_id = short_text(permission.get("toolCallId"))
            _remember(self._permissions, short_text(event.get("requestId")), call_id)

    def _permission_completed(self, event: dict[str, Any], uuid: str, place: Place) -> None:
        decision = event.get("result")
        if not isinstance(decision, dict):
            return
        call_id = short_text(event.get("toolCallId"))
        if not call_id:
            call_id = self._permissions.pop(short_text(event.get("requestId")), "")
        if call_id and decision.get("kind") == "denied-interactively-by-user":
            _remember(self._denied, call_id, plain_text(decision.get("feedback"))[:4096])

    def _abort(self, event: dict[str, Any], uuid: str, place: Place) -> Iterable[Message]:
        if short_text(event.get("reason")).lower() in _INTERRUPTS:
            yield building.by_user(uuid, place, "refusal", "")

    def _compacted(self, event: dict[str, Any], uuid: str, place: Place) -> Iterable[Message]:
        if summary := plain_text(event.get("summaryContent")):
            yield building.by_user(uuid, place, "summary", summary)

    def _call_completed(self, event: dict[str, Any], uuid: str, place: Place) -> Iterable[Message]:
        call_id = short_text(event.get("toolCallId"))
        error = fields(event.get("error"))
        text = _output(event)
        refused = self._denied.pop(call_id, None)
        if refused is None and error.get("code") == "rejected":
            refused = ""
        yield building.by_tool(
            uuid,
            place,
            call_id,
            text,
            is_error=event.get("success") is False,
            exit_code=_exit_code(event, text),
            refused=refused,
        )


def _output(event: dict[str, Any]) -> str:
    """Return the text of a call's error and of its result, in each shape that releases wrote."""
    error = event.get("error")
    error_text = plain_text(error) or plain_text(fields(error).get("message"))
    result_text = plain_text(event.get("result"))
    for key in ("content", "detailedContent", "stdout"):
        result_text = result_text or plain_text(fields(event.get("result")).get(key))
    return building.join_texts((error_text, result_text))


def _exit_code(event: dict[str, Any], text: str) -> int | None:
    """Return the exit code of a call: its own field, else the last one at the end of its text."""
    code = building.exit_code_of(fields(event.get("result")).get("exitCode"))
    if code is None:
        for code_text in _EXIT.findall(text[-_EXIT_SPAN:]):
            code = int(code_text)
    return code


def _is_clients(event: dict[str, Any], chain: str) -> bool:
    """Return whether a message under the user's name is not a person's."""
    if event.get("isAutopilotContinuation") is True or event.get("inputOrigin") is not None:
        return True
    return chain != "" or short_text(event.get("source")) not in _HUMAN


def _call(event: dict[str, Any], name_key: str) -> ToolCall:
    arguments = building.parse_arguments(event.get("arguments"))
    return building.call(event.get("toolCallId"), event.get(name_key), arguments)


def _remember(values: dict[str, Any], key: str, value: Any) -> None:
    """Keep a value; the oldest one is forgotten above `_MAX_REMEMBERED`."""
    values[key] = value
    if len(values) > _MAX_REMEMBERED:
        del values[next(iter(values))]


_EventReader = Callable[[Copilot, dict[str, Any], str, Place], Iterable[Message] | None]
_EVENT_READERS: Final[dict[str, _EventReader]] = {
    "session.start": Copilot._describe,
    "session.resume": Copilot._describe,
    "session.model_change": Copilot._model_changed,
    "session.compaction_complete": Copilot._compacted,
    "user.message": Copilot._user,
    "assistant.message": Copilot._assistant,
    "tool.execution_start": Copilot._call_started,
    "tool.execution_complete": Copilot._call_completed,
    "permission.requested": Copilot._permission_requested,
    "permission.completed": Copilot._permission_completed,
    "abort": Copilot._abort,
}
