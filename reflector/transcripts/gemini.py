"""Reads the chats of Gemini CLI: one JSON document, or since 0.58 lines that repeat a message as it
grows.

Invariant: a message that grows counts once. Its words, each of its calls and each of its results
are messages of their own, known by the message's id and the call's, and a result is one when it is
final. So a window that took the words in leaves the results to the next one, in whichever of the
two shapes the file is by then.
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
    joined,
    objects,
    short,
    whole,
)
from reflector.transcripts.message import Message, Origin, Tally
from reflector.transcripts.records import count_type
from reflector.transcripts.speakers import spoken

_KINDS = frozenset(("user", "gemini", "info", "error", "warning"))
_FINAL = frozenset(("success", "error", "cancelled"))

#: What hooks printed stands in front of the words that were typed.
_CONTEXT, _CONTEXT_END = "<hook_context>", "</hook_context>"
_SUMMARY = "<state_snapshot>"
_CANCELLED = "Request cancelled."
_REFUSED = re.compile(
    (
        r"\[Operation Cancelled\] Reason:|User (?:denied|did not allow|rejected)|"
        r".{0,40}cancelled by "
        r"user"
    ),
    re.IGNORECASE,
)
_EXIT = re.compile(r"^Exit Code: (\d{1,9})\s*$", re.MULTILINE)
_EXIT_SPAN = 2000
#: What the client (0.61) puts around what tools, web pages and MCP servers answer, and how it
#: writes its own end in it.
_FENCE, _FENCE_END, _ESCAPED_END = (
    "<untrusted_context>\n",
    "\n</untrusted_context>",
    "&lt;/untrusted_context&gt;",
)
#: What it says of a command that printed nothing.
_NOTHING = "(empty)"
_FOOTER = re.compile(
    r"(?:\n(?:Exit Code|Signal|Background PIDs|Process Group PGID): "
    r"[^\n]{0,200}){1,4}\s*\Z"
)


class Gemini(Conversation):
    agent, name = "gemini-cli", "Gemini CLI"

    @staticmethod
    def recognises(record: dict[str, Any]) -> bool:
        if isinstance(record.get("sessionId"), str):
            first = objects(record.get("messages"))[:50]
            said = any(building.kind(each) in _KINDS and "content" in each for each in first)
            return said or isinstance(record.get("projectHash"), str)
        return (
            building.kind(record) in _KINDS
            and isinstance(record.get("id"), str)
            and "content" in record
        )

    def __init__(self) -> None:
        super().__init__()
        self._asked: set[str] = set()

    def messages(
        self, record: dict[str, Any], text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        change = record.get("$set")
        if isinstance(change, dict):
            yield from self._all(change, offset, tally)
        elif "$rewindTo" in record:
            return
        elif building.kind(record) not in _KINDS and isinstance(record.get("sessionId"), str):
            self.session_id = short(record.get("sessionId"))
            if record.get("kind") == "subagent":
                self.agent_id = self.session_id
            yield from self._all(record, offset, tally)
        else:
            yield from self._message(record, offset, tally)

    def _all(self, holding: dict[str, Any], offset: int, tally: Tally) -> Iterator[Message]:
        for record in objects(holding.get("messages")):
            yield from self._message(record, offset, tally)

    def _message(self, record: dict[str, Any], offset: int, tally: Tally) -> Iterator[Message]:
        place = Place(self.agent_id, short(record.get("timestamp")), offset)
        kind = building.kind(record)
        if kind not in _KINDS:
            count_type(tally, record.get("type"))
        said = joined(building.texts(record.get("content")))
        own = short(record.get("id")) or building.digest(
            self.session_id, place.timestamp, kind, said
        )
        uuid = f"gemini:{own}"
        if kind == "gemini":
            yield from _model(record, uuid, place, said)
        elif kind == "info" and said.strip() == _CANCELLED:
            yield building.by_user(uuid, place, "refusal", "")
        if kind != "user" or not said:
            return
        if said.startswith(_CONTEXT) and uuid not in self._asked:
            self._asked.add(uuid)
            self.hear([said[len(_CONTEXT) :].partition(_CONTEXT_END)[0]])
        if _SUMMARY in said[:4096]:
            yield building.by_user(uuid, place, "summary", said)
        else:
            injected: tuple[Origin, str] = ("injected", said)
            yield building.by_user(
                uuid, place, *(injected if self.agent_id else _spoken(record, said))
            )


def _spoken(record: dict[str, Any], said: str) -> tuple[Origin, str]:
    # `displayContent` is what stood in the prompt before files that it names were read into it.
    origin, words = spoken(joined(building.texts(record.get("displayContent"))) or said)
    is_command = words.startswith(("/", "?", "<session_context>", "<hook_context>"))
    return ("injected", said) if origin == "injected" or is_command else (origin, words)


def _model(record: dict[str, Any], uuid: str, place: Place, said: str) -> Iterator[Message]:
    thoughts = objects(record.get("thoughts"))
    thinking = joined(
        whole(thought.get(key)) for thought in thoughts for key in ("subject", "description")
    )
    if said or thinking:
        # The words may come behind the thoughts of the same message: each has its own key.
        words = uuid if said else f"{uuid}:thoughts"
        # A compaction's summary repeats what was said.
        yield building.by_model(
            words, place, said, thinking=thinking, synthetic=said.startswith(_SUMMARY)
        )
    calls = objects(record.get("toolCalls"))
    for call in calls:
        made = building.call(call.get("id"), call.get("name"), call.get("args"))
        yield building.by_model(f"{uuid}:call:{made.id}", place, calls=(made,))
    for call in calls:
        if building.kind(call, "status") in _FINAL:
            at = place._replace(timestamp=short(call.get("timestamp")) or place.timestamp)
            yield _result(call, f"{uuid}:result:{short(call.get('id'))}", at)


def _result(call: dict[str, Any], uuid: str, place: Place) -> Message:
    answers: list[str] = []
    parts = call.get("result")
    for part in parts if isinstance(parts, list) else [parts]:
        response = fields(fields(part).get("functionResponse")).get("response")
        if isinstance(response, dict):
            answers += [
                value for key in ("output", "error") if isinstance(value := response.get(key), str)
            ]
        else:
            answers += building.texts(part)
    text = _unfenced(joined(answers)) or whole(call.get("resultDisplay"))
    is_shell = call.get("name") in ("run_shell_command", "shell")
    # The exit code follows the output of a command, which may print the same words.
    codes = _EXIT.findall(text[-_EXIT_SPAN:]) if is_shell else []
    if is_shell:
        text = text[:-_EXIT_SPAN] + _FOOTER.sub("", text[-_EXIT_SPAN:])
        text = text.removeprefix("Output: ")
        text = "" if text == _NOTHING else text
    refused = (
        "" if call.get("status") == "cancelled" and (not text or _REFUSED.match(text)) else None
    )
    failed, code = call.get("status") != "success", int(codes[-1]) if codes else None
    return building.by_tool(
        uuid, place, call.get("id"), text, is_error=failed, exit_code=code, refused=refused
    )


def _unfenced(text: str) -> str:
    """Return the bare answer: its first and last lines say how a run began and ended."""
    if not (text.startswith(_FENCE) and text.rstrip().endswith(_FENCE_END)):
        return text
    return text.rstrip()[len(_FENCE) : -len(_FENCE_END)].replace(_ESCAPED_END, _FENCE_END.strip())
