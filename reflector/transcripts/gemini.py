"""Reads the chats of Gemini CLI: one JSON document, or since 0.58 lines that repeat a message as it grows.

Invariant: a message that grows counts once. Its words, each of its calls and each of its results are messages
of their own, known by the message's id and the call's, and a result is one when it is final. So a window that
took the words in leaves the results to the next one, in whichever of the two shapes the file is by then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from reflector.transcripts import building
from reflector.transcripts.building import Conversation, Format, Place, joined, short, whole
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.origins import typed, without_spans
from reflector.transcripts.records import count_type

_KINDS = frozenset(("user", "gemini", "info", "error", "warning"))
_FINAL = frozenset(("success", "error", "cancelled"))

#: What the client puts around or into what a person typed.
_SPAN = re.compile(r"<(session_context|hook_context)>")
#: What hooks printed stands in front of the words that were typed.
_CONTEXT, _CONTEXT_END = "<hook_context>", "</hook_context>"
_SUMMARY = "<state_snapshot>"
_CANCELLED = "Request cancelled."
_REFUSED = re.compile(
    r"\[Operation Cancelled\] Reason:|User (?:denied|did not allow|rejected)|.{0,40}cancelled by user", re.IGNORECASE
)
_EXIT = re.compile(r"^Exit Code: (\d{1,9})\s*$", re.MULTILINE)
_EXIT_SPAN = 2000
#: What the client (0.61) puts around what tools, web pages and MCP servers answer, and how it writes its own end in it.
_FENCE, _FENCE_END, _ESCAPED_END = "<untrusted_context>\n", "\n</untrusted_context>", "&lt;/untrusted_context&gt;"
#: What it says of a command that printed nothing.
_NOTHING = "(empty)"
_FOOTER = re.compile(r"(?:\n(?:Exit Code|Signal|Background PIDs|Process Group PGID): [^\n]{0,200}){1,4}\s*\Z")


class _Chat(Conversation):
    def __init__(self) -> None:
        super().__init__()
        self._asked: set[str] = set()

    def messages(self, record: dict[str, Any], text: bytes, offset: int, tally: Tally) -> Iterable[Message]:
        change = record.get("$set")
        if isinstance(change, dict):
            return self._all(change.get("messages"), offset, tally)
        if "$rewindTo" in record:
            return ()
        if building.kind(record) in _KINDS:
            return self._message(record, offset)
        if isinstance(record.get("sessionId"), str):
            self._describe(record)
            return self._all(record.get("messages"), offset, tally)
        count_type(tally, record.get("type"))
        return ()

    def _describe(self, header: dict[str, Any]) -> None:
        self.session_id = short(header.get("sessionId"))
        if header.get("kind") == "subagent":
            self.agent_id = self.session_id

    def _all(self, records: Any, offset: int, tally: Tally) -> Iterator[Message]:
        for record in records if isinstance(records, list) else ():
            if isinstance(record, dict):
                if building.kind(record) not in _KINDS:
                    count_type(tally, record.get("type"))
                yield from self._message(record, offset)

    def _message(self, record: dict[str, Any], offset: int) -> Iterable[Message]:
        place = Place(self.agent_id, short(record.get("timestamp")), offset)
        kind = building.kind(record)
        said = joined(building.texts(record.get("content")))
        own = short(record.get("id")) or building.digest(self.session_id, place.timestamp, kind, said)
        uuid = f"gemini:{own}"
        if kind == "gemini":
            return _model(record, uuid, place, said)
        if kind == "info" and said.strip() == _CANCELLED:
            return (building.by_user(uuid, place, "refusal", ""),)
        if kind != "user" or not said:
            return ()
        if said.startswith(_CONTEXT) and uuid not in self._asked:
            self._asked.add(uuid)
            self.hear([said[len(_CONTEXT) :].partition(_CONTEXT_END)[0]])
        if _SUMMARY in said[:4096]:
            return (building.by_user(uuid, place, "summary", said),)
        human = "" if self.agent_id else _typed(record, said)
        return (building.by_user(uuid, place, "human" if human else "injected", human or said),)


def _typed(record: dict[str, Any], said: str) -> str:
    # `displayContent` is what stood in the prompt before files that it names were read into it.
    shown = joined(building.texts(record.get("displayContent"))) or said
    shown = without_spans(shown, _SPAN).strip()
    return "" if shown.startswith(("/", "?", "<session_context>", "<hook_context>")) else typed(shown)


def _model(record: dict[str, Any], uuid: str, place: Place, said: str) -> Iterator[Message]:
    thoughts = record.get("thoughts")
    thinking = joined(
        joined((whole(thought.get("subject")), whole(thought.get("description"))))
        for thought in (thoughts if isinstance(thoughts, list) else ())
        if isinstance(thought, dict)
    )
    if said or thinking:
        # The words may come behind the thoughts of the same message: each has its own key.
        words = uuid if said else f"{uuid}:thoughts"
        # A compaction's summary repeats what was said.
        yield building.by_model(words, place, said, thinking=thinking, synthetic=said.startswith(_SUMMARY))
    calls = record.get("toolCalls")
    calls = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
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
        answer = part.get("functionResponse") if isinstance(part, dict) else None
        response = answer.get("response") if isinstance(answer, dict) else None
        if isinstance(response, dict):
            answers += [value for key in ("output", "error") if isinstance(value := response.get(key), str)]
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
    result = building.result(
        call.get("id"), text, is_error=call.get("status") != "success", exit_code=int(codes[-1]) if codes else None
    )
    refused = "" if call.get("status") == "cancelled" and (not text or _REFUSED.match(text)) else None
    return building.by_tools(uuid, place, (result,), refused)


def _unfenced(text: str) -> str:
    """Return the bare answer: its first and last lines say how a run began and ended."""
    if not (text.startswith(_FENCE) and text.rstrip().endswith(_FENCE_END)):
        return text
    return text.rstrip()[len(_FENCE) : -len(_FENCE_END)].replace(_ESCAPED_END, _FENCE_END.strip())


def _recognises(record: dict[str, Any]) -> bool:
    if isinstance(record.get("sessionId"), str):
        return isinstance(record.get("projectHash"), str) or _is_chat(record.get("messages"))
    return building.kind(record) in _KINDS and isinstance(record.get("id"), str) and "content" in record


def _is_chat(messages: Any) -> bool:
    first = messages[:50] if isinstance(messages, list) else []
    return any(isinstance(each, dict) and building.kind(each) in _KINDS and "content" in each for each in first)


FORMAT = Format("gemini-cli", "Gemini CLI", _recognises, _Chat, every=True)
