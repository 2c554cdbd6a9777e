"""Reads the chats of Gemini CLI: one JSON document, or since 0.58 lines that repeat a message as it
grows.

Invariant: a growing message counts once. Its words, each of its calls and each of its final results
are separate messages, identified by the ids of the message and of the call. So if a window contains
the words, the results belong to the next window, in both formats.
"""

from __future__ import annotations

import re
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
    content_id,
    fields,
    join_texts,
    object_in,
    objects_in,
    short_in,
    text_in,
    texts_of,
    tool_call,
)
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import JsonObject, count_type
from reflector.transcripts.speakers import Speech, spoken

_KINDS = frozenset(("user", "gemini", "info", "error", "warning"))
_FINAL = frozenset(("success", "error", "cancelled"))

#: The output of hooks, which comes before the words that the user typed.
_CONTEXT = "<hook_context>"
_CONTEXT_END = "</hook_context>"
_SUMMARY = "<state_snapshot>"
_CANCELLED = "Request cancelled."
_REFUSED = lazy_pattern(
    r"\[Operation Cancelled\] Reason:|User (?:denied|did not allow|rejected)"
    r"|.{0,40}cancelled by user",
    re.IGNORECASE,
)
_EXIT = lazy_pattern(r"^Exit Code: (\d{1,9})\s*$", re.MULTILINE)
_EXIT_SPAN = 2000
#: The client (0.61) puts a fence around the answers of tools, web pages and MCP servers. It escapes
#: the end of a fence inside them.
_FENCE = "<untrusted_context>\n"
_FENCE_END = "\n</untrusted_context>"
_ESCAPED_END = "&lt;/untrusted_context&gt;"
#: The output of a command that printed nothing.
_NO_OUTPUT = "(empty)"
_FOOTER = lazy_pattern(
    r"(?:\n(?:Exit Code|Signal|Background PIDs|Process Group PGID): "
    r"[^\n]{0,200}){1,4}\s*\Z"
)


class Gemini(Conversation):
    """The records of Gemini CLI, as docs/agents.md describes them.

    reads     one JSON document, or JSON Lines since 0.58
    words     `user`, without `<hook_context>`, file contents and commands
    refusal   status `cancelled` by the user, `Request cancelled.`
    failure   status `error`, `Exit Code:` of a shell
    ignored   `info`, `warning`, `error`
    identity  the message's id, and the call's id for each call and each final result. So if a
              message grows, reflector adds only the new parts
    """

    agent = "gemini-cli"
    name = "Gemini CLI"
    option = "gemini"
    kept = (Kept("GEMINI_CLI_HOME", "", ".gemini/tmp", "chats/*.json*"),)
    loads = Loads(
        version="0.61.0",
        project=(Load("GEMINI.md"),),
        own=Kept("GEMINI_CLI_HOME", "", ".gemini"),
        user=(Load("GEMINI.md"),),
        imports=5,
        tools={"save_memory": "GEMINI.md"},
    )

    @staticmethod
    def recognises(record: JsonObject) -> bool:
        if isinstance(record.get("sessionId"), str):
            first_messages = objects_in(record, "messages")[:50]
            has_message = any(map(_is_message, first_messages))
            return has_message or isinstance(record.get("projectHash"), str)
        return _is_message(record) and isinstance(record.get("id"), str)

    @staticmethod
    def folder_of(record: JsonObject) -> str:
        """Return a hash of the folder (see `project_hash`)."""
        return text_in(record, "projectHash")

    def __init__(self) -> None:
        super().__init__()
        self._with_context: set[str] = set()

    def messages(
        self, record: JsonObject, text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        change = record.get("$set")
        if isinstance(change, dict):
            yield from self._listed(change, offset, tally)
        elif "$rewindTo" in record:
            return
        elif text_in(record, "type") not in _KINDS and isinstance(record.get("sessionId"), str):
            self.session_id = short_in(record, "sessionId")
            if record.get("kind") == "subagent":
                self.agent_id = self.session_id
            yield from self._listed(record, offset, tally)
        else:
            yield from self._message(record, offset, tally)

    def _listed(self, chat: JsonObject, offset: int, tally: Tally) -> Iterator[Message]:
        for record in objects_in(chat, "messages"):
            yield from self._message(record, offset, tally)

    def _message(self, record: JsonObject, offset: int, tally: Tally) -> Iterator[Message]:
        place = Place(self.agent_id, short_in(record, "timestamp"), offset)
        kind = text_in(record, "type")
        if kind not in _KINDS:
            count_type(tally, record.get("type"))
        text = join_texts(texts_of(record.get("content")))
        own_id = short_in(record, "id")
        if not own_id:
            own_id = content_id(self.session_id, place.timestamp, kind, text)
        uuid = f"gemini:{own_id}"
        if kind == "gemini":
            self.model = short_in(record, "model") or self.model
            yield from _model(record, uuid, place, text)
        elif kind == "info" and text.strip() == _CANCELLED:
            yield by_user(uuid, place, "refusal", "")
        elif kind == "user" and text:
            yield self._user(record, uuid, place, text)

    def _user(self, record: JsonObject, uuid: str, place: Place, text: str) -> Message:
        if text.startswith(_CONTEXT) and uuid not in self._with_context:
            self._with_context.add(uuid)
            context, _, _ = text.removeprefix(_CONTEXT).partition(_CONTEXT_END)
            self.hear([context])
        if _SUMMARY in text[:4096]:
            return by_user(uuid, place, "summary", text)
        if self.agent_id:
            return by_user(uuid, place, "injected", text)
        return by_user(uuid, place, *_spoken(record, text))


def _is_message(record: JsonObject) -> bool:
    return text_in(record, "type") in _KINDS and "content" in record


def _spoken(record: JsonObject, text: str) -> Speech:
    # `displayContent` is the prompt without the content of the files that it names.
    typed = join_texts(texts_of(record.get("displayContent")))
    speech = spoken(typed or text)
    is_command = speech.words.startswith(("/", "?", "<session_context>", "<hook_context>"))
    return Speech("injected", text) if speech.origin == "injected" or is_command else speech


def _model(record: JsonObject, uuid: str, place: Place, text: str) -> Iterator[Message]:
    """Yield the messages of a record of the model: its words and thoughts, its calls, and then the
    results of the calls that have ended.
    """
    thoughts = objects_in(record, "thoughts")
    thinking = join_texts(
        text_in(thought, key) for thought in thoughts for key in ("subject", "description")
    )
    if text or thinking:
        # The words may come after the thoughts of the same message, so each has its own key.
        words_uuid = uuid if text else f"{uuid}:thoughts"
        # A compaction summary repeats earlier words.
        is_summary = text.startswith(_SUMMARY)
        yield by_model(words_uuid, place, text, thinking=thinking, synthetic=is_summary)
    tool_calls = objects_in(record, "toolCalls")
    for fields_of_call in tool_calls:
        call = tool_call(
            fields_of_call.get("id"), fields_of_call.get("name"), fields_of_call.get("args")
        )
        yield by_model(f"{uuid}:call:{call.id}", place, calls=(call,))
    for fields_of_call in tool_calls:
        if text_in(fields_of_call, "status") in _FINAL:
            timestamp = short_in(fields_of_call, "timestamp") or place.timestamp
            result_uuid = f"{uuid}:result:{short_in(fields_of_call, 'id')}"
            yield _result(fields_of_call, result_uuid, place._replace(timestamp=timestamp))


def _result(call: JsonObject, uuid: str, place: Place) -> Message:
    text = _unfenced(_answer_of(call.get("result"))) or text_in(call, "resultDisplay")
    exit_code = None
    if call.get("name") in ("run_shell_command", "shell"):
        # The exit code follows the output of a command. The output may contain the same words.
        end = text[-_EXIT_SPAN:]
        for code_text in _EXIT.findall(end):
            exit_code = int(code_text)
        text = (text[:-_EXIT_SPAN] + _FOOTER.sub("", end)).removeprefix("Output: ")
        text = "" if text == _NO_OUTPUT else text
    is_cancelled = call.get("status") == "cancelled"
    is_refused = is_cancelled and (not text or _REFUSED.match(text))
    return by_tool(
        uuid,
        place,
        call.get("id"),
        text,
        is_error=call.get("status") != "success",
        exit_code=exit_code,
        refused="" if is_refused else None,
    )


def _answer_of(parts: Any) -> str:
    """Return the text of a tool's answer, which has function responses or texts."""
    answers: list[str] = []
    for part in parts if isinstance(parts, list) else [parts]:
        response = object_in(fields(part), "functionResponse").get("response")
        if isinstance(response, dict):
            answers += (text_in(response, key) for key in ("output", "error"))
        else:
            answers += texts_of(part)
    return join_texts(answers)


def _unfenced(text: str) -> str:
    """Return an answer without its fence, so that its first and last lines belong to the output
    itself.
    """
    stripped = text.rstrip()
    if not (text.startswith(_FENCE) and stripped.endswith(_FENCE_END)):
        return text
    answer = stripped[len(_FENCE) : -len(_FENCE_END)]
    return answer.replace(_ESCAPED_END, _FENCE_END.strip())
