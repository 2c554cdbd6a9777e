"""Bounded messages out of what a record of any agent says.

Invariant: whatever a reader hands over, the message that comes out keeps the limits of `bounds` and
has one shape for every agent: a failed command shows its exit code, a refusal its reason, shells
and editors the names and arguments that Claude Code gives them. A reader is a `Conversation`, one
of which reads each file.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from reflector.text import bounds
from reflector.transcripts.citations import Telling, spread, telling_of
from reflector.transcripts.message import Message, Origin, Role, Tally, ToolCall, ToolResult
from reflector.transcripts.records import record_key

#: Tools by their name in Claude Code: what other agents call them, in lower case.
_TOOLS = {
    alias: name
    for name, aliases in {
        "Bash": (
            "shell container.exec exec_command shell_command local_shell run_shell_command bash"
        ),
        "PowerShell": "powershell",
        "BashOutput": "write_stdin read_bash read_powershell",
        "KillShell": "stop_bash",
        "Edit": "apply_patch edit edit_file replace str_replace str_replace_editor patch",
        "MultiEdit": "multiedit",
        "Write": "write write_file create",
        "Read": "read read_file read_many_files view view_image",
        "Grep": "grep rg search_file_content grep_search",
        "Glob": "glob find",
        "LS": "ls list list_directory",
        "WebFetch": "webfetch web_fetch",
        "WebSearch": "websearch web_search google_web_search",
        "Task": "task spawn_agent",
        "ExitPlanMode": "exit_plan_mode",
    }.items()
    for alias in aliases.split()
}
_SHELLS = frozenset(("Bash", "PowerShell"))
#: Arguments of these tools by their name in Claude Code: what other agents call them.
_ARGUMENTS = {
    alias: name
    for name, aliases in {
        "command": "cmd",
        "file_path": "filePath absolute_path path",
        "old_string": "oldString old_str oldText",
        "new_string": "newString new_str newText",
        "content": "file_text fileText",
    }.items()
    for alias in aliases.split()
}
_FILE_TOOLS = frozenset(("Edit", "MultiEdit", "Write", "Read"))


class Conversation(ABC):
    """One reading of one file: turns records into messages, and knows what earlier records said.

    agent, name  the name that sessions are recorded under, and the one that the agent's users know
    session_id, agent_id, version   of the file, as far as its records said by now; "" otherwise
    heard        what our hook told, until the model's next message takes it
    brief        whether calls may come without their arguments, and results without their text
    rested_at    the offset of the last line at which nothing was remembered of those before it
    """

    agent: str
    name: str
    brief = False
    rested_at = -1

    def __init__(self) -> None:
        self.session_id = self.agent_id = self.version = ""
        self.heard: list[Telling] = []

    def hear(self, texts: Iterable[str]) -> None:
        """Keep what a hook's output told, where it is our hook's."""
        self.heard += filter(None, map(telling_of, texts))

    @staticmethod
    @abstractmethod
    def recognises(record: dict[str, Any]) -> bool:
        """Return whether a record can be of this format and of no other."""

    @abstractmethod
    def messages(
        self, record: dict[str, Any], text: bytes, offset: int, tally: Tally
    ) -> Iterable[Message]:
        """Return the messages of one record, its JSON text being `text`; types without meaning
        here go to `tally`.
        """

    def leftover(self) -> Iterable[Message]:
        """Return the messages that only the end of the file tells."""
        return ()

    @property
    def is_at_rest(self) -> bool:
        """Whether the records so far do not bear on how later ones are read: a reading could
        begin here.
        """
        return False


class Place(NamedTuple):
    """The place of a message: its sidechain, its time as written, the offset of its line."""

    chain: str
    timestamp: str
    offset: int


def digest(*parts: str) -> str:
    """Return an id for a record that has none of its own: `sha256:<hex>` of what tells it apart."""
    return "sha256:" + sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def by_model(
    uuid: str,
    place: Place,
    text: str = "",
    *,
    thinking: str = "",
    calls: tuple[ToolCall, ...] = (),
    synthetic: bool = False,
    tokens: int = 0,
) -> Message:
    """Return the model's words and calls; `synthetic` where the client wrote them."""
    text, thinking = (
        spread(text),
        bounds.whole_excerpt(spread(thinking), bounds.MODEL_TEXT) if thinking else "",
    )
    origin: Origin = "synthetic" if synthetic else "model"
    more = {"thinking": thinking, "calls": calls, "tokens": tokens}
    return _message(uuid, place, "assistant", origin, text, bounds.MODEL_TEXT, more)


def by_tool(
    uuid: str,
    place: Place,
    call_id: Any,
    text: str,
    *,
    is_error: bool = False,
    exit_code: int | None = None,
    refused: str | None = None,
) -> Message:
    """Return what a tool answered, an error with its exit code where that is not 0. `refused` is
    the reason that a person gave for refusing the call, "" for none.
    """
    if exit_code:
        text = f"Exit code {exit_code}\n{text}"
    result = ToolResult(
        short(call_id), bounds.result_text(text), is_error or bool(exit_code) or refused is not None
    )
    return by_user(uuid, place, "tool" if refused is None else "refusal", refused or "", (result,))


def by_user(
    uuid: str, place: Place, origin: Origin, text: str, results: tuple[ToolResult, ...] = ()
) -> Message:
    """Words under the name of the user: a person's, or whose `origin` says."""
    limit = bounds.HUMAN_TEXT if origin in ("human", "refusal", "unknown") else bounds.INJECTED_TEXT
    return _message(uuid, place, "user", origin, text, limit, {"results": results})


def _message(
    uuid: str,
    place: Place,
    role: Role,
    origin: Origin,
    text: str,
    limit: int,
    more: Mapping[str, Any],
) -> Message:
    text = bounds.whole_excerpt(text, limit) if text else ""
    chain, timestamp, offset = place
    return Message(
        record_key(uuid), uuid, role, origin, chain, timestamp, text, offset=offset, **more
    )


def call(call_id: Any, name: Any, given: Any) -> ToolCall:
    """Return a tool call in the names of Claude Code, as far as it has one; `given` is the
    tool's own arguments.
    """
    name = short(name)
    known = _TOOLS.get(name.lower())
    arguments = _renamed(known, fields(given)) if known else fields(given)
    return ToolCall(short(call_id), known or name, bounds.arguments(arguments))


def parsed(given: Any) -> Any:
    """Return a tool's arguments, parsed where a record has them as text."""
    if isinstance(given, str):
        try:
            return json.loads(given, strict=False)
        except (ValueError, RecursionError):
            return {"arguments": given}
    return given


def _renamed(tool: str, given: Mapping[Any, Any]) -> dict[Any, Any]:
    edits = given.get("edits")
    if tool == "Edit" and isinstance(edits, list) and edits and isinstance(edits[0], dict):
        given = {**given, **edits[0]}
    renamed: dict[Any, Any] = {}
    for key, value in given.items():
        other = _ARGUMENTS.get(key) if isinstance(key, str) else None
        if other is None or other in given or (key == "path" and tool not in _FILE_TOOLS):
            renamed[key] = value
        else:
            renamed[other] = value
    if tool in _SHELLS and isinstance(renamed.get("command"), list):
        renamed["command"] = _command_line(renamed["command"])
    return renamed


def _command_line(words: list[Any]) -> str:
    """`["bash", "-lc", "make test"]` and its like as one typed them: `make test`."""
    shown = [word for word in words if isinstance(word, str)]
    if (
        len(shown) == 3
        and shown[0].rpartition("/")[2] in ("bash", "sh", "zsh")
        and shown[1] in ("-lc", "-c")
    ):
        return shown[2]
    return " ".join(shown)


def texts(content: Any) -> list[str]:
    """The texts of a string, a block or a list of blocks; an image leaves a mark: "like this"
    needs its object.
    """
    if isinstance(content, str):
        return [content] if content else []
    found: list[str] = []
    for block in content if isinstance(content, list) else (content,):
        if isinstance(block, str):
            found.append(block)
        elif isinstance(block, dict):
            text = block.get("text")
            if isinstance(text, str):
                if text and block.get("thought") is not True:
                    found.append(text)
            elif block.get("type") in ("image", "input_image") or "inlineData" in block:
                found.append("[image]")
    return found


def whole(value: Any) -> str:
    """`value` where it is text, else ""."""
    return value if isinstance(value, str) else ""


def fields(value: Any) -> dict[str, Any]:
    """`value` where it is a JSON object, else one without fields."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects of a list; none of anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def kind(record: dict[str, Any], key: str = "type") -> str:
    """Return the type of a record, or the text of another key; "" for anything but text, which
    may be unhashable.
    """
    return whole(record.get(key))


def code(value: Any) -> int | None:
    """Return an exit code as a record has it, None for what cannot be one."""
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 32
        else None
    )


def short(value: Any) -> str:
    """Return an id, a name or a time: text of at most about 128 characters, "" for anything
    else.
    """
    if not isinstance(value, str):
        return ""
    return value if len(value) <= 128 and value.isascii() else bounds.head_and_tail(value, 128)


def path(value: Any) -> str:
    """Return a path or a version as a record has it, bounded."""
    return bounds.head_and_tail(value, 4096) if isinstance(value, str) else ""


def instant(milliseconds: Any) -> str:
    """Milliseconds since the epoch as ISO 8601 in UTC, "" for anything else."""
    if (
        isinstance(milliseconds, bool)
        or not isinstance(milliseconds, int | float)
        or not 0 < milliseconds < 1e14
    ):
        return ""
    seconds, rest = divmod(int(milliseconds), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


def joined(parts: Iterable[str]) -> str:
    """Texts, one after the other on lines of their own."""
    return "\n".join(part for part in parts if part)
