"""Reads the rollouts of Codex CLI: `{timestamp, type, payload}` on each line.

Invariant: only a `response_item` is a message. Events repeat what items said, compacted histories
repeat items, and a fork repeats its parent's file. What has no id of its own is therefore known by
the conversation it began in, by its words and by the words before it, all of which a copy keeps; a
copy's time is its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reflector.transcripts import building
from reflector.transcripts.building import Conversation, Place, digest, fields, joined, short, whole
from reflector.transcripts.message import Message, Origin, Tally, ToolCall
from reflector.transcripts.records import count_type
from reflector.transcripts.speakers import said_by

_TYPES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
#: Types of lines and items without words of anyone.
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

#: Shorter ids are a counter's, which local model servers begin anew: `call_0`.
_UNIQUE = 16

_ABORTED = re.compile(r"<turn_aborted>", re.IGNORECASE)
#: What an editor's extension puts in front of the words that were typed, and how it puts images
#: between them.
_IDE_REQUEST = "## My request for Codex:"
_IMAGE_TAG = re.compile(r"</?image\b[^>]*>\Z")
#: What a compaction hands to the next model.
_SUMMARY = "Another language model started to solve this problem"

_HEADERS = ("Script ", "Wall time", "Chunk ID", "Total output lines")
_EXIT = re.compile(r"^(?:Exit code: |Process exited with code )(-?\d{1,9})\s*$", re.MULTILINE)
_REFUSED = re.compile(
    r"(?:exec command |patch )?(?:rejected|aborted) by (?:the )?user\b",
    re.IGNORECASE,
)
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,400})$", re.MULTILINE)
#: Commands in a script that a model writes to run tools.
_SCRIPTED = re.compile(
    r"""\bcmd\s*:\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`)"""
)


class Codex(Conversation):
    agent, name = "codex", "Codex CLI"

    @staticmethod
    def recognises(record: dict[str, Any]) -> bool:
        return building.kind(record) in _TYPES and isinstance(record.get("payload"), dict)

    def __init__(self) -> None:
        super().__init__()
        self._root = ""
        self._described = self._began = False
        self._is_subagent = self._is_fork = False
        self._inherited = -1
        self._before = ""
        self._said: dict[str, int] = {}

    def messages(
        self, record: dict[str, Any], text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        kind, payload = building.kind(record), fields(record.get("payload"))
        if kind == "session_meta":
            self._describe(payload)
            return
        ordinal = record.get("ordinal")
        if isinstance(ordinal, int) and ordinal.bit_length() < 64 and ordinal < self._inherited:
            return
        place = Place(self.agent_id, short(record.get("timestamp")), offset)
        if kind == "response_item":
            yield from self._item(payload, fields(record.get("metadata")), place, tally)
        elif kind == "event_msg":
            if payload.get("type") == "turn_aborted" and payload.get("reason") == "interrupted":
                yield self._interrupted(place)
        elif kind == "compacted":
            if summary := whole(payload.get("message")):
                uuid = digest("codex", self._root, self._before, "summary", summary)
                yield building.by_user(uuid, place, "summary", summary)
        elif kind not in _WORDLESS:
            count_type(tally, kind or None)

    def _describe(self, meta: dict[str, Any]) -> None:
        """Keep whose file it is, and in which conversation its first record was made.

        A fork names itself and its parent first. Then most releases copy the parent's file with the
        names in it.
        """
        own, origin = short(meta.get("id")), short(meta.get("forked_from_id"))
        if not self._began:
            self._root = origin or own or self._root
            self._is_fork = self._is_fork or self._described or origin != ""
        if self._described:
            return
        self._described = True
        spawn = fields(meta.get("source")).get("subagent")
        self._is_subagent = meta.get("thread_source") == "subagent" or spawn is not None
        self.session_id = own
        if self._is_subagent:
            parent = fields(fields(spawn).get("thread_spawn")).get("parent_thread_id")
            self.session_id = (
                short(meta.get("session_id") or meta.get("parent_thread_id") or parent) or own
            )
            self.agent_id = own
            start = meta.get("subagent_history_start_ordinal")
            self._inherited = start if isinstance(start, int) and start.bit_length() < 64 else -1
        self.version = short(meta.get("cli_version"))

    def _item(
        self, item: dict[str, Any], metadata: dict[str, Any], place: Place, tally: Tally
    ) -> Iterator[Message]:
        self._began = True
        kind = building.kind(item)
        if metadata.get("compaction_output") is True:
            return
        if kind == "message":
            yield from self._message(
                item, place, copied=metadata.get("inherited_user_message") is True
            )
        elif kind == "reasoning":
            if thinking := joined(
                building.texts(item.get("summary")) or building.texts(item.get("content"))
            ):
                yield building.by_model(
                    self._uuid("reasoning", "", thinking), place, thinking=thinking
                )
        elif kind in _CALLS:
            call = _call(item)
            said = (
                whole(item.get("arguments"))
                or whole(item.get("input"))
                or str(call.input.get("command", ""))
            )
            yield building.by_model(self._uuid(call.name, call.id, said), place, calls=(call,))
        elif kind in _OUTPUTS:
            yield self._output(item, place)
        elif kind not in _WORDLESS:
            count_type(tally, item.get("type"))

    def _message(self, item: dict[str, Any], place: Place, *, copied: bool) -> Iterator[Message]:
        role, texts = item.get("role"), building.texts(item.get("content"))
        if role == "developer":  # the client's own instructions, and what hooks print
            self.hear(texts)
        said = joined(texts)
        if role not in ("user", "assistant") or not said:
            return
        uuid = self._uuid(role, short(item.get("id")), said)
        if role == "assistant":
            self._before = digest(role, said)
            yield building.by_model(uuid, place, said)
        elif _ABORTED.match(said.lstrip()):
            yield self._interrupted(place)
        elif said.startswith(_SUMMARY):
            yield building.by_user(uuid, place, "summary", said)
        else:
            origin, words = _spoken(item)
            if origin == "human" and not copied and (self._is_fork or not self._is_subagent):
                # in a copy, too, the next record stands behind it
                self._before = digest(role, said)
            if copied or self._is_subagent or origin == "injected":
                origin, words = "injected", said
            yield building.by_user(uuid, place, origin, words)

    def _output(self, item: dict[str, Any], place: Place) -> Message:
        text, code, failed = _outcome(item.get("output"))
        call_id = short(item.get("call_id"))
        uuid, refused = self._uuid("output", call_id, text), "" if _REFUSED.match(text) else None
        return building.by_tool(
            uuid, place, call_id, text, is_error=failed, exit_code=code, refused=refused
        )

    def _interrupted(self, place: Place) -> Message:
        """Reported by an event and by a note to the model; older releases write only one of
        them.
        """
        return building.by_user(
            digest("codex", self._root, self._before, "interrupted"), place, "refusal", ""
        )

    def _uuid(self, kind: str, own: str, said: str) -> str:
        if len(own) >= _UNIQUE:
            return digest("codex", kind, own, said)
        uuid = digest("codex", self._root, self._before, kind, own, said)
        times = self._said[uuid] = self._said.get(uuid, 0) + 1
        return uuid if times == 1 else f"{uuid}#{times}"


def _spoken(item: dict[str, Any]) -> tuple[Origin, str]:
    """Return who speaks in a message of the role user."""
    content = item.get("content")
    parts = content if isinstance(content, list) else [content]
    kinds = fields(item.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds")
    known = kinds if isinstance(kinds, list) and len(kinds) == len(parts) else None
    typed: list[str] = []
    for number, part in enumerate(parts):
        text = joined(building.texts(part))
        if known and known[number] not in ("user.text", "user.image"):
            continue
        _, request, asked = text.partition(_IDE_REQUEST)
        text = (asked if request else text).strip()
        if text and not _IMAGE_TAG.match(text):
            typed.append(text)
    return said_by(typed)


def _call(item: dict[str, Any]) -> ToolCall:
    kind, name = item.get("type"), item.get("name")
    given: Any = {}
    if kind == "function_call":
        given = building.parsed(item.get("arguments"))
    elif kind == "custom_tool_call":
        script = whole(item.get("input"))
        commands = (
            ["".join(found) for found in _SCRIPTED.findall(script[:8192])] if name == "exec" else []
        )
        given = {"command": "\n".join(commands)} if commands else {"input": script}
        name = "bash" if commands else name
    else:
        name, given = (
            "local_shell" if kind == "local_shell_call" else "web_search",
            fields(item.get("action")),
        )
    if name == "apply_patch" and isinstance(given, dict):
        patched = _PATCHED.search(whole(given.get("input"))[:65536])
        given = {"file_path": patched[1].strip(), **given} if patched else given
    return building.call(item.get("call_id") or item.get("id"), name, given)


def _outcome(output: Any) -> tuple[str, int | None, bool]:
    """Text, exit code and failure of an output, in each shape that Codex gave it."""
    failed = False
    if isinstance(output, dict):
        failed = output.get("success") is False
        output = output.get("content", output.get("output"))
    text = joined(building.texts(output))
    if text.startswith("{"):
        structured = fields(building.parsed(text))
        if isinstance(structured.get("output"), str):
            metadata = structured.get("metadata")
            code = (metadata if isinstance(metadata, dict) else structured).get("exit_code")
            return structured["output"], building.code(code), failed
    # A command may print the same words as the header has.
    head, mark, _ = text[:2000].partition("Output:\n")
    if not mark:
        return text, None, failed
    found = _EXIT.search(head)
    if found or head.startswith(_HEADERS):
        text = text[len(head) + len(mark) :]
    return (
        text,
        building.code(int(found[1])) if found else None,
        failed or head.startswith("Script failed"),
    )
