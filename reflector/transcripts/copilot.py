"""Reads the `events.jsonl` of Copilot CLI: `{type, data, id, timestamp, parentId}` on each line.

Invariant: each event is one message under its own id. A call appears in the message that asks for it and again
when it starts; the first of the two counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from reflector.transcripts import building
from reflector.transcripts.building import Conversation, Format, Place, short, whole
from reflector.transcripts.message import Message, Tally, ToolCall
from reflector.transcripts.records import count_type, record_uuid

#: What only this agent's event names begin with.
_FAMILIES = tuple(
    """
    session. user. assistant. tool. hook. permission. subagent. system. skill. model. mcp. user_input. elicitation.
    sampling. command. abort
    """.split()
)
_OWN = frozenset(("session.start", "session.resume", "user.message", "assistant.message", "assistant.turn_start"))
_HUMAN = frozenset(("", "user"))
_INTERRUPTS = frozenset(("", "user initiated", "user_initiated", "user_abort"))
_EXIT = re.compile(r"exit(?:ed with exit)? code:? (-?\d{1,9})>")
_EXIT_SPAN = 400
#: Calls and permissions that are kept in mind.
_KEPT = 4096


class _Events(Conversation):
    def __init__(self) -> None:
        super().__init__()
        self._asked: dict[str, None] = {}
        self._permissions: dict[str, str] = {}
        self._denied: dict[str, str] = {}

    def messages(self, record: dict[str, Any], text: bytes, offset: int, tally: Tally) -> Iterable[Message]:
        kind, data = record.get("type"), record.get("data")
        if not isinstance(kind, str) or not isinstance(data, dict):
            count_type(tally, kind)
            return ()
        chain = short(record.get("agentId")) or short(data.get("parentToolCallId"))
        uuid = short(record.get("id"))
        uuid = f"copilot:{uuid}" if uuid else record_uuid({}, text)
        place = Place(chain, short(record.get("timestamp")), offset)
        if kind in ("session.start", "session.resume"):
            self._describe(data)
        elif kind == "user.message":
            return self._said(data, uuid, place)
        elif kind == "assistant.message":
            return (self._model(data, uuid, place),)
        elif kind == "tool.execution_start":
            call = _call(data.get("toolCallId"), data.get("toolName"), data.get("arguments"))
            if call.id not in self._asked:
                return (building.by_model(uuid, place, calls=(call,)),)
        elif kind == "tool.execution_complete":
            return (self._result(data, uuid, place),)
        elif kind.startswith("permission."):
            self._permission(kind, data)
        elif kind == "abort":
            if short(data.get("reason")).lower() in _INTERRUPTS:
                return (building.by_user(uuid, place, "refusal", ""),)
        elif kind == "session.compaction_complete":
            summary = whole(data.get("summaryContent"))
            return (building.by_user(uuid, place, "summary", summary),) if summary else ()
        elif not kind.startswith(_FAMILIES):
            count_type(tally, kind)
        return ()

    def _describe(self, data: dict[str, Any]) -> None:
        context = data.get("context")
        self.session_id = short(data.get("sessionId")) or self.session_id
        self.cwd = building.path(context.get("cwd")) if isinstance(context, dict) else self.cwd
        self.version = short(data.get("copilotVersion")) or self.version

    def _said(self, data: dict[str, Any], uuid: str, place: Place) -> Iterable[Message]:
        # `transformedContent` holds the same with what the client added.
        text = whole(data.get("content"))
        by_client = (
            short(data.get("source")) not in _HUMAN
            or data.get("isAutopilotContinuation") is True
            or data.get("inputOrigin") is not None
            or place.chain != ""
        )
        return (building.by_user(uuid, place, "injected" if by_client else "human", text),) if text else ()

    def _model(self, data: dict[str, Any], uuid: str, place: Place) -> Message:
        calls: list[ToolCall] = []
        asked = data.get("toolRequests")
        for request in asked if isinstance(asked, list) else ():
            if isinstance(request, dict):
                calls.append(_call(request.get("toolCallId"), request.get("name"), request.get("arguments")))
                _remember(self._asked, calls[-1].id, None)
        return building.by_model(
            uuid,
            place,
            whole(data.get("content")),
            thinking=whole(data.get("reasoningText")),
            calls=tuple(calls),
        )

    def _permission(self, kind: str, data: dict[str, Any]) -> None:
        request = short(data.get("requestId"))
        asked, answer = data.get("permissionRequest"), data.get("result")
        if kind == "permission.requested" and isinstance(asked, dict):
            _remember(self._permissions, request, short(asked.get("toolCallId")))
        elif kind == "permission.completed" and isinstance(answer, dict):
            call_id = short(data.get("toolCallId")) or self._permissions.pop(request, "")
            if answer.get("kind") == "denied-interactively-by-user" and call_id:
                _remember(self._denied, call_id, whole(answer.get("feedback"))[:4096])

    def _result(self, data: dict[str, Any], uuid: str, place: Place) -> Message:
        call_id, answer, error = short(data.get("toolCallId")), data.get("result"), data.get("error")
        text, code = "", None
        if isinstance(answer, dict):
            text = whole(answer.get("content")) or whole(answer.get("detailedContent")) or whole(answer.get("stdout"))
            code = answer.get("exitCode")
        elif isinstance(answer, str):
            text = answer
        if isinstance(error, dict):
            text = building.joined((whole(error.get("message")), text))
        elif isinstance(error, str):
            text = building.joined((error, text))
        code = building.code(code)
        if code is None and (found := _EXIT.findall(text[-_EXIT_SPAN:])):
            code = int(found[-1])
        refused = self._denied.pop(call_id, None)
        if refused is None and isinstance(error, dict) and error.get("code") == "rejected":
            refused = ""
        result = building.result(call_id, text, is_error=data.get("success") is False, exit_code=code)
        return building.by_tools(uuid, place, (result,), refused)


def _call(call_id: Any, name: Any, given: Any) -> ToolCall:
    return building.call(call_id, name, building.parsed(given))


def _remember(kept: dict[str, Any], key: str, value: Any) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]


def _recognises(record: dict[str, Any]) -> bool:
    return building.kind(record) in _OWN and isinstance(record.get("data"), dict)


FORMAT = Format("copilot-cli", "Copilot CLI", _recognises, _Events, every=True)
