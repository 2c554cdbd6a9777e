"""Reads the rollouts of Codex CLI: `{timestamp, type, payload}` on each line.

Invariant: only a `response_item` is a message. Events repeat the words of items, compacted
histories repeat items, and a fork repeats its parent's file. So a record without an id of its own
is identified by the conversation in which it began, by its words and by the words before it, which
a copy keeps. A copy has its own time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

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
    exit_code_of,
    fields,
    join_texts,
    object_in,
    parse_arguments,
    short_in,
    short_text,
    text_in,
    texts_of,
    tool_call,
)
from reflector.transcripts.message import Message, Tally, ToolCall
from reflector.transcripts.records import JsonObject, count_type
from reflector.transcripts.speakers import Speech, speaker_of

_TYPES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
#: Types of lines and items without words.
_WORDLESS = frozenset(
    """
    turn_context token_usage_record world_state inter_agent_communication
    inter_agent_communication_metadata additional_tools agent_message compaction compaction_summary
    compaction_trigger configuration_update context_compaction ghost_snapshot image_generation_call
    other tool_search_call tool_search_output
    """.split()
)
#: Items with words.
_CALLS = frozenset(("function_call", "custom_tool_call", "local_shell_call", "web_search_call"))
_OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output"))

#: A shorter id, such as `call_0`, is not unique, because local model servers restart their counter.
_MIN_UNIQUE_ID = 16

_ABORTED = lazy_pattern(r"<turn_aborted>", re.IGNORECASE)
#: The text that an editor's extension puts before the user's words, and its mark for an image
#: between them.
_IDE_REQUEST = "## My request for Codex:"
_IMAGE_TAG = lazy_pattern(r"</?image\b[^>]*>\Z")
#: The beginning of the summary that the next model gets after a compaction.
_SUMMARY = "Another language model started to solve this problem"

_HEADERS = ("Script ", "Wall time", "Chunk ID", "Total output lines")
_EXIT = lazy_pattern(r"^(?:Exit code: |Process exited with code )(-?\d{1,9})\s*$", re.MULTILINE)
_REFUSED = lazy_pattern(
    r"(?:exec command |patch )?(?:rejected|aborted) by (?:the )?user\b",
    re.IGNORECASE,
)
_PATCHED = lazy_pattern(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,400})$", re.MULTILINE)
#: Commands in a script that a model wrote to run tools. One of the groups contains the command.
_SCRIPTED = lazy_pattern(
    r"""\bcmd\s*:\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`)"""
)


class Codex(Conversation):
    """The records of Codex CLI, as docs/agents.md describes them.

    reads     rollouts, also those before September 2025; `.jsonl.zst` files are counted, not read
    words     `user` items that the agent's program did not write. `content_item_kinds` shows this,
              or the item's first words if this field is missing
    refusal   `rejected by user`, `turn_aborted`
    failure   an exit code in the output's header or envelope, or `success: false`
    ignored   events that repeat items, `developer` items, replaced histories, encrypted reasoning
    identity  the record's id and words. If the id is missing, the identity is the original
              conversation, the record's words and the words before it. The identity does not
              include the time, because forks and subagents copy records with new times
    """

    agent = "codex"
    name = "Codex CLI"
    kept = (
        Kept("CODEX_HOME", ".codex", "sessions"),
        Kept("CODEX_HOME", ".codex", "archived_sessions"),
    )
    loads = Loads(
        version="0.171.0",
        project=(Load("AGENTS.override.md"), Load("AGENTS.md", ("AGENTS.override.md",))),
        own=Kept("CODEX_HOME", ".codex", ""),
        user=(Load("AGENTS.override.md"), Load("AGENTS.md", ("AGENTS.override.md",))),
        memory=(Load("memories/**/*.md"),),
    )

    @staticmethod
    def recognises(record: JsonObject) -> bool:
        return text_in(record, "type") in _TYPES and isinstance(record.get("payload"), dict)

    @staticmethod
    def folder_of(record: JsonObject) -> str:
        return text_in(object_in(record, "payload"), "cwd")

    def __init__(self) -> None:
        super().__init__()
        #: The conversation of the first record in the file.
        self._root = ""
        self._is_described = False
        self._has_items = False
        self._is_subagent = False
        self._is_fork = False
        #: Records with a smaller number belong to the parent.
        self._first_own_ordinal = -1
        #: An id of the previous words. A copy has the same words there.
        self._previous_words = ""
        self._times_seen: dict[str, int] = {}

    def messages(
        self, record: JsonObject, text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        kind = text_in(record, "type")
        payload = object_in(record, "payload")
        if kind == "session_meta":
            self._describe(payload)
            return
        ordinal = _ordinal(record.get("ordinal"))
        if ordinal is not None and ordinal < self._first_own_ordinal:
            return
        place = Place(self.agent_id, short_in(record, "timestamp"), offset)
        if kind == "turn_context":
            self.model = short_in(payload, "model") or self.model
        if kind == "response_item":
            yield from self._item(payload, object_in(record, "metadata"), place, tally)
        elif kind == "event_msg":
            if payload.get("type") == "turn_aborted" and payload.get("reason") == "interrupted":
                yield self._interrupted(place)
        elif kind == "compacted":
            if summary := text_in(payload, "message"):
                uuid = content_id("codex", self._root, self._previous_words, "summary", summary)
                yield by_user(uuid, place, "summary", summary)
        elif kind not in _WORDLESS:
            count_type(tally, kind or None)

    def _describe(self, meta: JsonObject) -> None:
        """Keep the session of the file, and the conversation of its first record.

        A fork names itself and its parent first. Then most releases copy the parent's file,
        including the names in it.
        """
        own_id = short_in(meta, "id")
        parent_id = short_in(meta, "forked_from_id")
        if not self._has_items:
            self._root = parent_id or own_id or self._root
            self._is_fork = self._is_fork or self._is_described or parent_id != ""
        if self._is_described:
            return
        self._is_described = True
        self.session_id = own_id
        self.version = short_in(meta, "cli_version")
        spawn = object_in(meta, "source").get("subagent")
        self._is_subagent = meta.get("thread_source") == "subagent" or spawn is not None
        if self._is_subagent:
            thread = object_in(fields(spawn), "thread_spawn")
            parent = meta.get("session_id") or meta.get("parent_thread_id")
            self.session_id = short_text(parent or thread.get("parent_thread_id")) or own_id
            self.agent_id = own_id
            first_own = _ordinal(meta.get("subagent_history_start_ordinal"))
            self._first_own_ordinal = -1 if first_own is None else first_own

    def _item(
        self, item: JsonObject, metadata: JsonObject, place: Place, tally: Tally
    ) -> Iterator[Message]:
        self._has_items = True
        kind = text_in(item, "type")
        if metadata.get("compaction_output") is True:
            return
        if kind == "message":
            is_copy = metadata.get("inherited_user_message") is True
            yield from self._message(item, place, is_copy=is_copy)
        elif kind == "reasoning":
            thinking = join_texts(texts_of(item.get("summary")) or texts_of(item.get("content")))
            if thinking:
                uuid = self._uuid("reasoning", "", thinking)
                yield by_model(uuid, place, thinking=thinking)
        elif kind in _CALLS:
            yield self._call(item, place)
        elif kind in _OUTPUTS:
            yield self._output(item, place)
        elif kind not in _WORDLESS:
            count_type(tally, item.get("type"))

    def _message(self, item: JsonObject, place: Place, *, is_copy: bool) -> Iterator[Message]:
        role = item.get("role")
        texts = texts_of(item.get("content"))
        words = join_texts(texts)
        if role == "developer":  # the client's own instructions, and the output of hooks
            self.hear(texts)
        elif role == "assistant" and words:
            uuid = self._uuid(role, short_in(item, "id"), words)
            self._previous_words = content_id(role, words)
            yield by_model(uuid, place, words)
        elif role == "user" and words:
            yield self._user(item, place, words, is_copy=is_copy)

    def _user(self, item: JsonObject, place: Place, words: str, *, is_copy: bool) -> Message:
        """Return the message of words under the user's name. They may be the client's, or those of
        another session that this one copied.
        """
        uuid = self._uuid("user", short_in(item, "id"), words)
        if _ABORTED.match(words.lstrip()):
            return self._interrupted(place)
        if words.startswith(_SUMMARY):
            return by_user(uuid, place, "summary", words)
        origin, own_words = _spoken(item)
        is_in_copies = self._is_fork or not self._is_subagent
        if origin == "human" and not is_copy and is_in_copies:
            # In a copy, the next record also follows these words.
            self._previous_words = content_id("user", words)
        if is_copy or self._is_subagent or origin == "injected":
            return by_user(uuid, place, "injected", words)
        return by_user(uuid, place, origin, own_words)

    def _call(self, item: JsonObject, place: Place) -> Message:
        call = _call_of(item)
        arguments = text_in(item, "arguments") or text_in(item, "input")
        words = arguments or str(call.input.get("command", ""))
        return by_model(self._uuid(call.name, call.id, words), place, calls=(call,))

    def _output(self, item: JsonObject, place: Place) -> Message:
        output = _output_of(item.get("output"))
        call_id = short_in(item, "call_id")
        uuid = self._uuid("output", call_id, output.text)
        return by_tool(
            uuid,
            place,
            call_id,
            output.text,
            is_error=output.is_error,
            exit_code=output.exit_code,
            refused="" if _REFUSED.match(output.text) else None,
        )

    def _interrupted(self, place: Place) -> Message:
        """Return the message of an interruption. Its two records, an event and a note to the model,
        get the same id. Older releases write only one of the two.
        """
        uuid = content_id("codex", self._root, self._previous_words, "interrupted")
        return by_user(uuid, place, "refusal", "")

    def _uuid(self, kind: str, own_id: str, words: str) -> str:
        if len(own_id) >= _MIN_UNIQUE_ID:
            return content_id("codex", kind, own_id, words)
        uuid = content_id("codex", self._root, self._previous_words, kind, own_id, words)
        times = self._times_seen.get(uuid, 0) + 1
        self._times_seen[uuid] = times
        return uuid if times == 1 else f"{uuid}#{times}"


def _ordinal(value: Any) -> int | None:
    """Return the number of a record; None for an impossible value."""
    return value if isinstance(value, int) and value.bit_length() < 64 else None


def _spoken(item: JsonObject) -> Speech:
    """Return the speaker and the words of a message with the role `user`."""
    content = item.get("content")
    parts = content if isinstance(content, list) else [content]
    passthrough = object_in(item, "internal_chat_message_metadata_passthrough")
    kinds = passthrough.get("content_item_kinds")
    if isinstance(kinds, list) and len(kinds) == len(parts):
        pairs = zip(kinds, parts, strict=True)
        parts = [part for kind, part in pairs if kind in ("user.text", "user.image")]
    typed: list[str] = []
    for part in parts:
        text = join_texts(texts_of(part))
        _, is_in_editor, request = text.partition(_IDE_REQUEST)
        text = (request if is_in_editor else text).strip()
        if text and not _IMAGE_TAG.match(text):
            typed.append(text)
    return speaker_of(typed)


def _call_of(item: JsonObject) -> ToolCall:
    """Return the tool call of an item."""
    name = item.get("name")
    arguments: Any = {}
    match item.get("type"):
        case "function_call":
            arguments = parse_arguments(item.get("arguments"))
        case "custom_tool_call":
            script = text_in(item, "input")
            commands = _SCRIPTED.findall(script[:8192]) if name == "exec" else []
            arguments = {"input": script}
            if commands:
                name = "bash"
                # Of the groups of a match, one has text.
                arguments = {"command": "\n".join(map("".join, commands))}
        case "local_shell_call":
            name = "local_shell"
            arguments = object_in(item, "action")
        case _:  # web_search_call
            name = "web_search"
            arguments = object_in(item, "action")
    if name == "apply_patch" and isinstance(arguments, dict):
        arguments = _with_patched_file(arguments)
    return tool_call(item.get("call_id") or item.get("id"), name, arguments)


def _with_patched_file(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a patch with the first file that it changes."""
    patched = _PATCHED.search(text_in(arguments, "input")[:65536])
    return {"file_path": patched[1].strip(), **arguments} if patched else arguments


class _Output(NamedTuple):
    """The output of a call: its text without the header, its exit code, and whether it failed."""

    text: str
    exit_code: int | None
    is_error: bool


def _output_of(output: Any) -> _Output:
    """Return an output from any of the shapes that Codex writes."""
    is_error = False
    if isinstance(output, dict):
        is_error = output.get("success") is False
        output = output.get("content", output.get("output"))
    text = join_texts(texts_of(output))
    if text.startswith("{"):  # perhaps JSON of the output and its exit code
        structured = fields(parse_arguments(text))
        if isinstance(structured.get("output"), str):
            holder = structured.get("metadata")
            exit_code = (holder if isinstance(holder, dict) else structured).get("exit_code")
            return _Output(structured["output"], exit_code_of(exit_code), is_error)
    # The output of a command may contain the words of the header.
    head, output_mark, _ = text[:2000].partition("Output:\n")
    if not output_mark:
        return _Output(text, None, is_error)
    code_line = _EXIT.search(head)
    if code_line or head.startswith(_HEADERS):
        text = text[len(head) + len(output_mark) :]
    exit_code = exit_code_of(int(code_line[1])) if code_line else None
    return _Output(text, exit_code, is_error or head.startswith("Script failed"))
