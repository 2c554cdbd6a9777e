"""The interface of a reader, and the functions with which every reader makes its messages.

A reader is a subclass of `Conversation`; one object of it reads one file. `reading` calls the
reader. The helpers at the end of the module turn a value of unknown type into text or objects.

Invariant: a message keeps the limits of `bounds`, whatever the reader passes. Messages have one
shape for every agent: a failed command shows its exit code, a refusal its reason, and shells and
editors have the names and arguments that Claude Code gives them.
"""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from reflector.text import bounds
from reflector.transcripts.message import Message, Origin, Tally, ToolCall, ToolResult
from reflector.transcripts.records import JsonObject, record_key
from reflector.transcripts.tellings import Telling, telling_of

#: The names of tools in Claude Code, by their names in other agents in lower case.
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
#: The names of arguments in Claude Code, by their names in other agents.
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


class Kept(NamedTuple):
    """A folder in which an agent keeps its sessions: `~/.heron/projects` for `Kept("HERON_HOME",
    ".heron", "projects")`.

    variable  the environment variable that names the agent's own folder; "" if the agent does not
              have one
    default   the agent's own folder below the home folder, if the variable is not set
    below     the folder of the sessions, below the agent's own folder
    pattern   of the file names, at any depth
    """

    variable: str
    default: str
    below: str
    pattern: str = "*.jsonl"

    @property
    def folder(self) -> Path:
        """The absolute path of the folder, whether it exists or not."""
        home = os.environ.get("HOME") or "~"
        own = os.environ.get(self.variable) or f"{home}/{self.default}"
        return Path(own, self.below).expanduser().absolute()


class Load(NamedTuple):
    """Instruction files that an agent loads automatically when it starts.

    pattern  of their names, below the project or the user's own folder
    unless   names of files; if one of them exists, the agent does not load these
    lines    how many lines of a file the agent loads, 0 for all
    """

    pattern: str
    unless: tuple[str, ...] = ()
    lines: int = 0

    def files_in(self, folder: Path) -> list[Path]:
        """Return the files below a folder that match the pattern, sorted by name."""
        if {*"*?["}.isdisjoint(self.pattern):
            path = folder / self.pattern
            return [path] if path.exists() else []
        return sorted(path for path in folder.glob(self.pattern) if path.exists())

    def replacement_in(self, folder: Path) -> str:
        """Return the name of the file that the agent loads instead, "" for none."""
        return next((name for name in self.unless if (folder / name).exists()), "")


class Loads(NamedTuple):
    """All instruction files that one version of an agent loads when it starts.

    version  the version that `tests/client/test_loaded_files.py` tried
    project  those below the project, in the order in which the model reads them
    own      the user's own folder of the agent
    user     those in that folder
    imports  how many levels of imports (`@docs/style.md`) it follows, 0 for none
    above    whether it also loads those of the folders above the project
    memory   files in the user's own folder that the agent writes automatically; `{slug}` is the
             project's folder, with `-` for each character that is not a letter or a digit
    tools    files in that folder that a tool of the agent writes without naming them, by the tool
    """

    version: str = ""
    project: tuple[Load, ...] = ()
    own: Kept = Kept("", "", "")
    user: tuple[Load, ...] = ()
    imports: int = 0
    above: bool = False
    memory: tuple[Load, ...] = ()
    tools: Mapping[str, str] = MappingProxyType({})

    def users_files(self) -> list[Path]:
        """Return the user's own files that exist."""
        folder = self.own.folder
        loads = (load for load in self.user if not load.replacement_in(folder))
        return [path for load in loads for path in load.files_in(folder)]


class Conversation(ABC):
    """A reading of one file. It turns records into messages and remembers earlier records. The
    docstring of a built-in reader describes its records for docs/agents.md.

    agent        the agent's name in records of its sessions
    name         the agent's name for users
    writers      the programs that write the format, if there is more than one
    option       the agent's name in `--agent`, if it is not `agent`
    kept         the folders in which the agent keeps its sessions
    loads        the instruction files that the agent loads, as far as they are known
    tags         the tags that the agent puts around, before or into the words that the user typed
    session_id, agent_id, version   of the file, as far as it was read; "" if no record has it
    model        the name of the current model; "" if no record names it
    heard        texts of our hook, until the next message of the model takes them
    brief        whether calls may come without their arguments, and results without their text
    rested_at    the offset of the last line at which the conversation was `is_at_rest`, where a
                 later reading can begin; -1 for none. `reading` sets it
    """

    agent: ClassVar[str]
    name: ClassVar[str]
    writers: ClassVar[str] = ""
    option: ClassVar[str] = ""
    kept: ClassVar[tuple[Kept, ...]] = ()
    loads: ClassVar[Loads] = Loads()
    tags: ClassVar[str] = ""
    brief = False
    rested_at = -1

    def __init__(self) -> None:
        self.session_id = self.agent_id = self.version = self.model = ""
        self.heard: list[Telling] = []

    def hear(self, texts: Iterable[str]) -> None:
        """Keep the bullets and lessons that a hook printed, if it is reflector's hook."""
        self.heard += filter(None, map(telling_of, texts))

    @staticmethod
    @abstractmethod
    def recognises(record: JsonObject) -> bool:
        """Return whether a record has this format and cannot have another one."""

    @staticmethod
    def folder_of(record: JsonObject) -> str:
        """Return the agent's working folder; "" if the record does not name it."""
        return text_in(record, "cwd")

    @staticmethod
    def time_of(record: JsonObject) -> str:
        """Return the time of a record in ISO 8601; "" if the record does not have one."""
        return text_in(record, "timestamp")

    @abstractmethod
    def messages(
        self, record: JsonObject, text: bytes, offset: int, tally: Tally
    ) -> Iterable[Message]:
        """Return the messages of one record. Count the record's type if the reader does not know
        it.

        text    the JSON text of the record
        offset  of the record's line in the file, in bytes
        """

    def leftover(self) -> Iterable[Message]:
        """Return the messages that are only complete at the end of the file."""
        return ()

    @property
    def is_at_rest(self) -> bool:
        """Whether a reading can begin at the next record, because it does not need the earlier
        ones.
        """
        return False


class Place(NamedTuple):
    """The place of a message: its sidechain, its time as written, and the offset of its line."""

    chain: str
    timestamp: str
    offset: int


def content_id(*parts: str) -> str:
    """Return an id for a record without its own id: `sha256:<hex>` of its distinctive parts."""
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
    branch: str = "",
    folder: str = "",
) -> Message:
    """Return a message of the model. With `synthetic`, the client wrote it under the model's
    name.
    """
    from reflector.transcripts.citations import spread  # not needed to find the files of an agent

    return Message(
        record_key(uuid),
        uuid,
        "assistant",
        "synthetic" if synthetic else "model",
        place.chain,
        place.timestamp,
        _bounded(spread(text), bounds.MODEL_TEXT),
        thinking=_bounded(spread(thinking), bounds.MODEL_TEXT),
        calls=calls,
        offset=place.offset,
        tokens=tokens,
        branch=branch,
        folder=folder,
    )


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
    """Return the answer of a tool. The text of a failed command begins with its exit code.

    refused  the reason of the user who refused the call, "" without a reason; None if the call was
             not refused
    """
    if exit_code:
        text = f"Exit code {exit_code}\n{text}"
        is_error = True
    is_refused = refused is not None
    result = ToolResult(
        short_text(call_id), bounds.result_text(text), is_error=is_error or is_refused
    )
    return by_user(uuid, place, "refusal" if is_refused else "tool", refused or "", (result,))


def by_user(
    uuid: str, place: Place, origin: Origin, text: str, results: tuple[ToolResult, ...] = ()
) -> Message:
    """Return a message under the user's name. `origin` is its real speaker."""
    is_persons = origin in ("human", "refusal", "unknown")
    limit = bounds.HUMAN_TEXT if is_persons else bounds.INJECTED_TEXT
    return Message(
        record_key(uuid),
        uuid,
        "user",
        origin,
        place.chain,
        place.timestamp,
        _bounded(text, limit),
        results=results,
        offset=place.offset,
    )


def _bounded(text: str, limit: int) -> str:
    return bounds.whole_excerpt(text, limit) if text else ""


def tool_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """Return a tool call with Claude Code's names for the tool and its arguments."""
    tool = short_text(name)
    common_name = _TOOLS.get(tool.lower())
    values = fields(arguments)
    if common_name:
        values = _renamed_arguments(common_name, values)
    bounded = bounds.arguments(values)
    return ToolCall(short_text(call_id), common_name or tool, bounded, whole=values)


def parse_arguments(arguments: Any) -> Any:
    """Return the arguments of a tool. They are parsed if the record has them as JSON text."""
    if isinstance(arguments, str):
        try:
            return json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            return {"arguments": arguments}
    return arguments


def _renamed_arguments(tool: str, arguments: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a tool's arguments with Claude Code's names. Of several edits in one call, the first
    one gives the texts. A command in several words becomes one text.
    """
    edits = objects(arguments.get("edits")) if tool == "Edit" else []
    if edits:
        arguments = {**arguments, **edits[0]}
    renamed: dict[Any, Any] = {}
    for key, value in arguments.items():
        common_name = _ARGUMENTS.get(key) if isinstance(key, str) else None
        is_search_path = key == "path" and tool not in _FILE_TOOLS
        if common_name is None or common_name in arguments or is_search_path:
            renamed[key] = value
        else:
            renamed[common_name] = value
    command = renamed.get("command")
    if tool in _SHELLS and isinstance(command, list):
        renamed["command"] = _command_line(command)
    return renamed


def _command_line(words: list[Any]) -> str:
    """Return a command as it was typed: `make test` for `["bash", "-lc", "make test"]`."""
    texts = [word for word in words if isinstance(word, str)]
    match texts:
        case [shell, "-lc" | "-c", command] if shell.rpartition("/")[2] in ("bash", "sh", "zsh"):
            return command
    return " ".join(texts)


def texts_of(content: Any) -> list[str]:
    """Return the texts of a string, a block or a list of blocks.

    An image becomes the text `[image]`, because words such as "like this" need an object.
    """
    if isinstance(content, str):
        return [content] if content else []
    texts: list[str] = []
    for block in content if isinstance(content, list) else (content,):
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict):
            texts += _block_texts(block)
    return texts


def _block_texts(block: JsonObject) -> Iterable[str]:
    """Return the text of a block, or a mark for an image; nothing for a thought."""
    text = block.get("text")
    if isinstance(text, str):
        is_thought = block.get("thought") is True
        return (text,) if text and not is_thought else ()
    is_image = block.get("type") in ("image", "input_image") or "inlineData" in block
    return ("[image]",) if is_image else ()


def plain_text(value: Any) -> str:
    """Return `value` if it is text, else ""."""
    return value if isinstance(value, str) else ""


def fields(value: Any) -> JsonObject:
    """Return `value` if it is a JSON object, else an object without fields."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[JsonObject]:
    """Return the JSON objects of a list, [] for another value."""
    values = value if isinstance(value, list) else []
    return [each for each in values if isinstance(each, dict)]


def text_in(record: Mapping[str, Any], key: str) -> str:
    """Return a text of a record; "" for a missing one, and for a value that is not text."""
    return plain_text(record.get(key))


def short_in(record: JsonObject, key: str) -> str:
    """Return an id, a name or a time of a record, as `short_text` does."""
    return short_text(record.get(key))


def object_in(record: JsonObject, key: str) -> JsonObject:
    """Return a JSON object of a record, as `fields` does."""
    return fields(record.get(key))


def objects_in(record: JsonObject, key: str) -> list[JsonObject]:
    """Return the JSON objects in a list of a record."""
    return objects(record.get(key))


def exit_code_of(value: Any) -> int | None:
    """Return an exit code of a record; None for an impossible value."""
    is_code = type(value) is int and value.bit_length() < 32
    return value if is_code else None


def short_text(value: Any) -> str:
    """Return an id, a name or a time, cut to about 128 characters; "" for a value that is not
    text.
    """
    if not isinstance(value, str):
        return ""
    return value if len(value) <= 128 and value.isascii() else bounds.head_and_tail(value, 128)


def bounded_path(value: Any) -> str:
    """Return a path or a version of a record, cut to a limit; "" for a value that is not text."""
    return bounds.head_and_tail(value, 4096) if isinstance(value, str) else ""


def utc_time(milliseconds: Any) -> str:
    """Return milliseconds since the epoch as ISO 8601 in UTC, "" for another value."""
    if type(milliseconds) not in (int, float) or not 0 < milliseconds < 1e14:
        return ""
    seconds, rest = divmod(int(milliseconds), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


def join_texts(parts: Iterable[str]) -> str:
    """Return texts on separate lines, without empty ones."""
    return "\n".join(part for part in parts if part)
