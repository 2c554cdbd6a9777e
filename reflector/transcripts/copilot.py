"""Reads the `events.jsonl` of Copilot CLI: `{type, data, id, timestamp, parentId}` on each line.

Invariant: each event is one message under its own id. A call appears in the message that asks for
it and again when it starts; the first of the two counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reflector.transcripts import building
from reflector.transcripts.building import Conversation, Place, fields, objects, short, whole
from reflector.transcripts.message import Message, Tally, ToolCall
from reflector.transcripts.records import count_type, record_uuid
from reflector.transcripts.speakers import spoken

#: What only this agent's event names begin with.
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
#: Calls and permissions that are kept in mind.
_KEPT = 4096


class Copilot(Conversation):
    agent, name = "copilot-cli", "Copilot CLI"

    @staticmethod
    def recognises(record: dict[str, Any]) -> bool:
        return building.kind(record) in _OWN and isinstance(record.get("data"), dict)

    def __init__(self) -> None:
        super().__init__()
        self._asked: dict[str, None] = {}
        self._permissions: dict[str, str] = {}
        self._denied: dict[str, str] = {}

    def messages(
        self, record: dict[str, Any], text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        kind, data = record.get("type"), record.get("data")
        if not isinstance(kind, str) or not isinstance(data, dict):
            count_type(tally, kind)
            return
        chain = short(record.get("agentId")) or short(data.get("parentToolCallId"))
        uuid = short(record.get("id"))
        uuid = f"copilot:{uuid}" if uuid else record_uuid({}, text)
        place = Place(chain, short(record.get("timestamp")), offset)
        if kind in ("session.start", "session.resume"):
            self.session_id = short(data.get("sessionId")) or self.session_id
            self.version = short(data.get("copilotVersion")) or self.version
        elif kind == "user.message":
            # `transformedContent` holds the same with what the client added.
            if said := whole(data.get("content")):
                yield building.by_user(
                    uuid, place, *(("injected", said) if _is_clients(data, chain) else spoken(said))
                )
        elif kind == "assistant.message":
            calls = [_call(one, "name") for one in objects(data.get("toolRequests"))]
            for call in calls:
                _remember(self._asked, call.id, None)
            said, thinking = whole(data.get("content")), whole(data.get("reasoningText"))
            yield building.by_model(uuid, place, said, thinking=thinking, calls=tuple(calls))
        elif kind == "tool.execution_start":
            call = _call(data, "toolName")
            if call.id not in self._asked:
                yield building.by_model(uuid, place, calls=(call,))
        elif kind == "tool.execution_complete":
            yield self._result(data, uuid, place)
        elif kind.startswith("permission."):
            self._permission(kind, data)
        elif kind == "abort":
            if short(data.get("reason")).lower() in _INTERRUPTS:
                yield building.by_user(uuid, place, "refusal", "")
        elif kind == "session.compaction_complete":
            if summary := whole(data.get("summaryContent")):
                yield building.by_user(uuid, place, "summary", summary)
        elif not kind.startswith(_FAMILIES):
            count_type(tally, kind)

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
        call_id, answer, error = (
            short(data.get("toolCallId")),
            data.get("result"),
            data.get("error"),
        )
        said = (whole(fields(answer).get(key)) for key in ("content", "detailedContent", "stdout"))
        text = building.joined(
            (
                whole(error) or whole(fields(error).get("message")),
                whole(answer) or next(filter(None, said), ""),
            )
        )
        code = building.code(fields(answer).get("exitCode"))
        if code is None and (found := _EXIT.findall(text[-_EXIT_SPAN:])):
            code = int(found[-1])
        refused = self._denied.pop(call_id, None)
        if refused is None and fields(error).get("code") == "rejected":
            refused = ""
        failed = data.get("success") is False
        return building.by_tool(
            uuid, place, call_id, text, is_error=failed, exit_code=code, refused=refused
        )


def _is_clients(data: dict[str, Any], chain: str) -> bool:
    by_program = data.get("isAutopilotContinuation") is True or data.get("inputOrigin") is not None
    return by_program or chain != "" or short(data.get("source")) not in _HUMAN


def _call(data: dict[str, Any], name: str) -> ToolCall:
    return building.call(
        data.get("toolCallId"), data.get(name), building.parsed(data.get("arguments"))
    )


def _remember(kept: dict[str, Any], key: str, value: Any) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]
