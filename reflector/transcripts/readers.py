"""The list of readers: the built-in ones, and those of extensions that the user's settings list.

The lists of formats in messages and pages, the options of `history` and the folders that `check`
searches derive from it.

Invariant: an extension's reader never takes a file that a built-in reader recognises, and a broken
one never prevents the reading of such a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple

from reflector import extensions
from reflector.extensions import Extension, ExtensionError
from reflector.transcripts import agents
from reflector.transcripts.building import Conversation, Kept
from reflector.transcripts.records import JsonObject

Reader = type[Conversation]


class Store(NamedTuple):
    """A folder of sessions, and the reader of its agent."""

    reader: Reader
    kept: Kept


@cache
def built_in_readers() -> tuple[Reader, ...]:
    """Return the readers of the modules of `transcripts.agents`, sorted by name."""
    readers_of_ours: list[Reader] = []
    for module_info in iter_modules(agents.__path__, f"{agents.__name__}."):
        module = import_module(module_info.name)
        for value in vars(module).values():
            is_reader = isinstance(value, type) and issubclass(value, Conversation)
            if is_reader and value.__module__ == module.__name__:
                readers_of_ours.append(value)
    return tuple(readers_of_ours)


def readers() -> tuple[Reader, ...]:
    """Return the built-in readers and those of extensions that can be loaded."""
    return (*built_in_readers(), *extension_readers())


def readers_in_use() -> tuple[Reader, ...]:
    """Return the readers of the agents that have a folder of sessions here.

    Return all readers if no agent has one, or if the files that one of these agents loads are not
    known (`loads`), because the agent may load any file.
    """
    used = [reader for reader in readers() if any(kept.folder.is_dir() for kept in reader.kept)]
    is_known = used and all(reader.loads.project for reader in used)
    return tuple(used) if is_known else readers()


class _Loaded(NamedTuple):
    """The listed readers that can be used, and the reasons why the others cannot be used."""

    readers: tuple[Reader, ...]
    faults: tuple[str, ...]


def extension_readers() -> tuple[Reader, ...]:
    """Return the usable readers that the user lists."""
    return _load_listed(extensions.listed_readers()).readers


def faults() -> tuple[str, ...]:
    """Return the reasons why listed readers cannot be used, each with a remedy."""
    return _load_listed(extensions.listed_readers()).faults


@cache
def _load_listed(names: tuple[str, ...]) -> _Loaded:
    loaded: list[Reader] = []
    reasons: list[str] = []
    for name in names:
        try:
            loaded.append(load_reader(extensions.find_extension("readers", name)))
        except ExtensionError as error:
            reasons.append(str(error))
    return _Loaded(tuple(loaded), tuple(reasons))


def load_reader(extension: Extension) -> Reader:
    """Return the reader of an extension.

    Raises: ExtensionError if it is not a reader, or has the name of a built-in reader.
    """
    reader = extensions.load_extension(extension)
    if not (isinstance(reader, type) and issubclass(reader, Conversation)):
        raise extensions.broken(extension, "is not a subclass of Conversation")
    names = [getattr(reader, "agent", ""), getattr(reader, "name", "")]
    if "" in names:
        raise extensions.broken(extension, "lacks `agent` or `name`")
    if reader.__abstractmethods__:
        lacking = ", ".join(sorted(reader.__abstractmethods__))
        raise extensions.broken(extension, f"lacks {lacking}")
    for own in built_in_readers():
        if reader.agent == own.agent or option_of(reader) == option_of(own):
            raise extensions.broken(
                extension, (f"has the same name as the built-in reader {own.name}")
            )
    return reader


def option_of(reader: Reader) -> str:
    """Return the agent's name in `--agent`."""
    return reader.option or reader.agent


def stores() -> list[Store]:
    """Return the folders in which agents keep their sessions, whether they exist or not."""
    return [Store(reader, kept) for reader in readers() for kept in reader.kept]


def kept_files() -> Iterator[Path]:
    """Yield the files in which agents keep their sessions."""
    for _, kept in stores():
        yield from kept.folder.rglob(kept.pattern)


def transcripts_of(session_id: str) -> Iterator[Path]:
    """Yield the transcripts that agents keep under the id of a session."""
    ends = (f"-{session_id}", f"_{session_id}")
    for path in kept_files():
        name = path.parent.name if path.name == "events.jsonl" else path.stem
        if name == session_id or name.endswith(ends):
            yield path


def is_subagents(path: Path) -> bool:
    """Return whether a transcript's name shows that it belongs to a subagent."""
    return path.name.startswith("agent-") or path.parent.name == "subagents"


def folder_named_in(record: JsonObject) -> str:
    """Return the agent's working folder; "" if a record does not name it. A chat of Gemini CLI has
    a hash of the folder.
    """
    for reader in readers():
        if folder := reader.folder_of(record):
            return folder
    return ""


def time_named_in(record: JsonObject) -> str:
    """Return the time of a record in ISO 8601; "" if it does not name one."""
    for reader in readers():
        if time := reader.time_of(record):
            return time
    return ""
