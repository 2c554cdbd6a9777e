"""Reads the exports of OpenCode (`opencode export`): `{info, messages: [{info, parts}]}`.

Invariant: a part that is still being written is not read yet. An export shows a session as it is at
that moment, so words count when their writing has ended, calls when they have been made and results
when they are there, each under the id of its part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reflector.transcripts import building
from reflector.transcripts.building import (
    Conversation,
    Place,
    fields,
    instant,
    objects,
    short,
    whole,
)
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import count_type
from reflector.transcripts.speakers import spoken

#: Types of parts without words of anyone.
_WORDLESS = frozenset(
    ("file", "step-start", "step-finish", "snapshot", "patch", "agent", "retry", "compaction")
)
_REFUSED = re.compile(r"(?:Error: )?The user (?:rejected permission|dismissed this question)")
_FEEDBACK = re.compile(r"feedback: ?")


class OpenCode(Conversation):
    agent, name = "opencode", "OpenCode"

    @staticmethod
    def recognises(record: dict[str, Any]) -> bool:
        info, messages = record.get("info"), record.get("messages")
        if (
            not isinstance(info, dict)
            or not isinstance(messages, list)
            or not isinstance(info.get("id"), str)
        ):
            return False
        return all(
            isinstance(message, dict) and "info" in message and "parts" in message
            for message in messages[:50]
        )

    def messages(
        self, record: dict[str, Any], text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        info = record.get("info")
        if isinstance(info, dict):
            self.session_id = short(info.get("id"))
            self.agent_id = self.session_id if isinstance(info.get("parentID"), str) else ""
            self.session_id = short(info.get("parentID")) or self.session_id
            self.version = short(info.get("version"))
        for message in objects(record.get("messages")):
            if isinstance(message.get("info"), dict):
                yield from self._message(message["info"], message.get("parts"), tally)

    def _message(self, info: dict[str, Any], parts: Any, tally: Tally) -> Iterator[Message]:
        times = fields(info.get("time"))
        place = Place(self.agent_id, instant(times.get("created")), 0)
        ended = "completed" in times or info.get("error") is not None
        for number, part in enumerate(parts if isinstance(parts, list) else ()):
            if not isinstance(part, dict):
                continue
            own = short(part.get("id")) or f"{short(info.get('id'))}:{number}"
            kind = building.kind(part)
            if info.get("role") == "user":
                yield from self._typed(f"opencode:{own}", part, place)
            elif kind in ("text", "reasoning"):
                yield from _words(f"opencode:{own}", part, place, info, ended=ended)
            elif kind == "tool":
                yield from _tool(f"opencode:{own}", part, place)
            if kind not in ("text", "reasoning", "tool", "subtask") and kind not in _WORDLESS:
                count_type(tally, part.get("type"))
        if fields(info.get("error")).get("name") == "MessageAbortedError":
            yield building.by_user(
                f"opencode:{short(info.get('id'))}:aborted", place, "refusal", ""
            )

    def _typed(self, uuid: str, part: dict[str, Any], place: Place) -> Iterator[Message]:
        text = whole(part.get("text")) or whole(part.get("prompt"))
        if text and part.get("ignored") is not True:
            by_client = (
                part.get("type") != "text" or part.get("synthetic") is True or self.agent_id != ""
            )
            yield building.by_user(
                uuid, place, *(("injected", text) if by_client else spoken(text))
            )


def _words(
    uuid: str, part: dict[str, Any], place: Place, info: dict[str, Any], *, ended: bool
) -> Iterator[Message]:
    text = whole(part.get("text"))
    if not text or not (ended or "end" in fields(part.get("time"))):
        return
    if info.get("summary") is True:
        yield building.by_user(uuid, place, "summary", text)
    elif part.get("type") == "reasoning":
        yield building.by_model(uuid, place, thinking=text)
    else:
        yield building.by_model(uuid, place, text, synthetic=part.get("synthetic") is True)


def _tool(uuid: str, part: dict[str, Any], place: Place) -> Iterator[Message]:
    state = fields(part.get("state"))
    status = state.get("status")
    if status not in ("running", "completed", "error"):
        return
    call = building.call(part.get("callID"), part.get("tool"), state.get("input"))
    yield building.by_model(f"{uuid}:call", place, calls=(call,))
    if status == "running":
        return
    failed, refused = status == "error", None
    text = whole(state.get("error" if failed else "output"))
    code = building.code(fields(state.get("metadata")).get("exit"))
    if failed and _REFUSED.match(text):
        feedback = _FEEDBACK.search(text)
        refused = text[feedback.end() :].strip() if feedback else ""
    own = (f"{uuid}:result", place, part.get("callID"), text)
    yield building.by_tool(*own, is_error=failed, exit_code=code, refused=refused)
