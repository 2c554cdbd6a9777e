"""The tool calls of a session that write watched files, and your words before them, from its
transcript.

An editor's call has the new content, or the edits that lead to it. The effect of a command on the
file that it names is unknown, so the command counts only if it can write the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from reflector.attribution.files import Table
from reflector.attribution.steps import NO_FILE, UNSEEN_CONTENT, Author, Content, content_of
from reflector.events.event import time_of, written
from reflector.events.memory import AGENT
from reflector.files import expanded, open_regular
from reflector.text.bounds import clean
from reflector.transcripts.building import fields, objects, plain_text
from reflector.transcripts.message import ToolCall, ToolResult
from reflector.transcripts.reading import UnknownTranscript, open_session, read_messages

_EDITORS = frozenset(("Edit", "MultiEdit", "Write"))
_SHELLS = frozenset(("Bash", "PowerShell", "Shell"))
_PATCHED = r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.{1,400})$"
_MAX_COMMAND = 1 << 16
#: The most characters of the id of a session or a call in an event.
MAX_ID = 1_000
#: Commands that change a file that they name. Most drains do not read a command, so the
#: expressions are compiled at their first use.
_WRITERS = (
    r"(?:^|[\s(/])(?:tee|mv|rm|unlink|touch|truncate|dd|patch|apply_patch|ed|ex"
    r"|sed\s+(?:\S+\s+)*-[a-zA-Z]*i|perl\s+(?:\S+\s+)*-[a-zA-Z]*i"
    r"|git\s+(?:\S+\s+)*?(?:checkout|restore|reset|stash|apply|rm|mv|revert))(?=[\s.]|$)"
)
#: Commands that write the last file that they name.
_COPIERS = r"(?:^|[\s(/])(?:cp|ln|install)(?=\s)"
_REMOVERS = r"\b(?:rm|unlink|mv|remove|rename|git|Delete)\b"
_INTERPRETERS = r"(?:^|[\s;&|(/])(?:python[\d.]*|node|ruby|perl|php)\b"
_OPENS_TO_WRITE = (
    r"(?<!stdout\.)(?<!stderr\.)write|unlink|rename|os\.(?:remove|replace)"
    r"|open\((?:(?:[^()]|\([^()]*\))*,)?\s*(?:mode\s*=\s*)?['\"](?:[awx]b?\+?|rb?\+)['\"]"
)
_DIVIDES = r"&&|\|\||[;|\n]"
_WORDS = r"[^\s'\"`=;|&<>(),]+"
_INTO = r">{1,2}\s*['\"]?([^\s'\"`;|&<>()]+)"
_FOLDER = r"\A\s*cd\s+['\"]?([^\s'\"`;|&]+)['\"]?\s*(?:&&|;|\n)"


class Transcript(NamedTuple):
    """The transcript of a session.

    folder        the folder in which the session worked, for relative paths
    is_here       whether that folder is in the project
    began, ended  the times of its first and last message, in seconds since the epoch
    """

    path: Path
    folder: str
    is_here: bool = True
    began: float = 0.0
    ended: float = inf

    def is_active(self, since: float, until: float) -> bool:
        """Return whether the session ran at any time between two moments."""
        return self.began <= until and self.ended >= since

    def may_write(self, names: Iterable[str], table: Table) -> bool:
        """Return whether a call may write one of the files with some names.

        Such a transcript contains the name of the file, or of a tool that writes without naming a
        file.
        """
        words = [*(Path(name).name for name in names), *table.tools]
        if not all(map(str.isascii, words)):
            return True  # JSON may escape the name
        encoded = list(map(str.encode, words))
        with suppress(OSError), open_regular(self.path) as file:
            return any(word in line for line in file for word in encoded)
        return False


class Edit(NamedTuple):
    """A replacement of one text by another; with `everywhere`, of each occurrence. Without an old
    text, it creates a file.
    """

    old: bytes
    new: bytes
    everywhere: bool = False

    def apply(self, text: bytes | None) -> bytes | None:
        """Return a text after the edit; None if the edit does not fit the text."""
        if text is None:
            return self.new if not self.old else None
        old = self.old
        new = self.new
        if b"\r\n" in text and old not in text:  # an editor hides Windows line ends
            old = old.replace(b"\n", b"\r\n")
            new = new.replace(b"\n", b"\r\n")
        if not old or old not in text:
            return None
        return text.replace(old, new, -1 if self.everywhere else 1)


class Call(NamedTuple):
    """A tool call that wrote a file.

    content  the whole new content of the file; None if the call does not have it
    edits    the edits that lead to the new content; none if the call does not have them either
    is_shell  whether it is a command that names the file
    text     the words of the call's arguments
    former   the content of the file before, if the call's result has it
    author   with the session, and the id of the call or of its message
    began    the time of the call, in seconds since the epoch
    time     the time of its result; that of the call if it does not have a result
    """

    file: str
    content: Content | None = None
    edits: tuple[Edit, ...] = ()
    is_shell: bool = False
    text: str = ""
    former: Content = UNSEEN_CONTENT
    author: Author = Author(AGENT)
    began: float = 0.0
    time: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        """The file, the session and the call, which are the key of the change in the log."""
        return self.file, self.author.session, self.author.call

    @property
    def is_opaque(self) -> bool:
        """Whether the call does not show the new content."""
        return self.content is None and not self.edits

    def is_after(self, moment: float) -> bool:
        """Return whether the call may have changed the file after a moment.

        If the change was earlier, it is recognised by its content.
        """
        return (self.began if self.is_opaque else self.time) > moment

    def starts_at(self, content: Content) -> Content:
        """Return the content of the file when the call changed it.

        The result of the call is a better source than the content that was known before.
        """
        if not self.former.is_known:
            return content
        # Claude Code shows line ends of Windows as those of other systems.
        shown = content.bytes and content.bytes.replace(b"\r\n", b"\n")
        return content if shown and shown == self.former.bytes else self.former

    def apply(self, before: Content) -> Content | None:
        """Return the content after the call; None if it cannot be determined."""
        if self.content is not None or self.is_opaque or not before.is_known:
            return self.content
        text = before.bytes
        for edit in self.edits:
            text = edit.apply(text)
            if text is None:
                return None
        return content_of(text)

    def take_back(self, after: Content) -> Content | None:
        """Return the content before the call; None if it cannot be determined."""
        text = after.bytes
        for edit in reversed(self.edits):
            if text is None or edit.everywhere or text.count(edit.new) != 1:
                return None
            text = text.replace(edit.new, edit.old)
        return content_of(text) if self.edits else None

    def is_seen_in(self, content: Content) -> bool:
        """Return whether a content has all new texts of the call."""
        text = content.bytes
        return text is not None and bool(self.edits) and all(e.new in text for e in self.edits)

    def explains(self, before: Content, after: Content, *, is_last: bool = False) -> bool:
        """Return whether an unknown result of the call may be a content.

        Its text must contain all words that were added or removed, or the whole new content.

        is_last  whether the file was last written during the call. Then the text need not contain
                 the change. If it contains only some of the added lines, there was another change.
        """
        if after.is_known and not after.bytes:
            return is_last or re.search(_REMOVERS, self.text) is not None
        if not (before.is_known and after.is_known):
            return is_last
        change = _words_of_change(before.bytes or b"", after.bytes or b"")
        words = _words_in(self.text)
        if _has_all(words, change.changed) or _has_all(words, change.whole):
            return True
        has_added_line = any(_has_all(words, line) for line in change.added)
        return is_last and not has_added_line

    def wrote(self, line: bytes) -> bool:
        """Return whether its text contains a whole line, apart from the quotes of a shell."""
        text = _unquoted(line.strip())
        return bool(text) and text in _unquoted(_bytes(self.text))

    def reworded(self, old: bytes, new: bytes) -> bool:
        """Return whether its text contains the words by which two lines differ, which are several
        words.
        """
        changed = _words(old) ^ _words(new)
        return len(changed) > 1 and changed <= _words_in(self.text)


class _ChangeWords(NamedTuple):
    """The words of a change.

    changed  those that it added or removed
    whole    those of the whole new content
    added    those of each added line
    """

    changed: set[bytes]
    whole: set[bytes]
    added: list[set[bytes]]


@lru_cache(maxsize=16)  # a replay asks this often
def _words_of_change(before: bytes, after: bytes) -> _ChangeWords:
    old, new = (set(content.splitlines()) for content in (before, after))
    changed = _words(*new - old) ^ _words(*old - new)
    return _ChangeWords(changed, _words(*new), [_words(line) for line in new - old])


@lru_cache(maxsize=256)  # a command is asked for each line
def _unquoted(text: bytes) -> bytes:
    return re.sub(rb"[\\'\"`]", b"", text)


@lru_cache(maxsize=256)  # a command is asked for each line
def _words_in(text: str) -> set[bytes]:
    return _words(_bytes(text))


def _words(*lines: bytes) -> set[bytes]:
    return set(re.findall(rb"[\w\x80-\xff]+", b"\n".join(lines).replace(rb"\n", b"\n")))


def _has_all(words: set[bytes], sought: set[bytes]) -> bool:
    """Return whether words contain all sought words; False if no words are sought."""
    return bool(sought) and sought <= words


def calls_of(transcript: Transcript, table: Table) -> list[Call]:
    """Return the calls of a session that wrote files, and its running commands; none if it cannot
    be read.
    """
    made: list[Call] = []
    waiting: dict[str, list[Call]] = {}
    with suppress(OSError, UnknownTranscript, ValueError), open_session(transcript.path) as reading:
        for message in reading:
            moment = time_of(message.timestamp)
            now = moment.timestamp() if moment else 0.0
            for result in message.results:
                calls = waiting.pop(result.call_id, ())
                if not result.is_error and message.origin != "refusal":
                    former = _former(result)
                    made += [call._replace(time=now or call.time, former=former) for call in calls]
            for call in message.calls:
                call_id = clean(call.id or message.uuid, MAX_ID)
                session = clean(reading.conversation.session_id, MAX_ID)
                author = Author(AGENT, reading.reader.name, session, call_id)
                writes = [
                    each._replace(text=_text_of(call), author=author, began=now, time=now)
                    for each in _written(call, table, transcript.folder)
                ]
                if call.id:
                    waiting[call.id] = writes
                else:
                    made += writes
    # The file may change before the result of a command is written.
    return made + [call for calls in waiting.values() for call in calls if call.is_shell]


def _former(result: ToolResult) -> Content:
    if result.former is None:
        return NO_FILE if result.is_new else UNSEEN_CONTENT
    return content_of(_bytes(result.former))


def _text_of(call: ToolCall) -> str:
    command = plain_text(call.whole.get("command"))
    return command or json.dumps(call.whole, ensure_ascii=False)


def _written(call: ToolCall, table: Table, folder: str) -> Iterator[Call]:
    """Yield the changes to files that a call makes if it succeeds.

    folder  the folder in which the session works
    """
    if file := table.tools.get(call.name):
        yield Call(file)
    elif call.name in _EDITORS:
        yield from _by_editor(call, table, folder)
    elif call.name in _SHELLS:
        command = plain_text(call.whole.get("command"))[:_MAX_COMMAND]
        for file in _files_written(command, table, folder):
            yield Call(file, is_shell=True)


def _by_editor(call: ToolCall, table: Table, folder: str) -> Iterator[Call]:
    """Yield the changes to files by an editing tool: with their edits, with the whole content of a
    written file, or without either for a patch.
    """
    arguments = call.whole
    paths = re.findall(_PATCHED, plain_text(arguments.get("input") or arguments.get("patch")))
    change = Call("")
    if not paths:
        paths = [plain_text(arguments.get("file_path"))]
        content = arguments.get("content")
        if call.name == "Write" and isinstance(content, str):
            change = Call("", content_of(_bytes(content)))
        else:
            edits = objects(arguments.get("edits")) or [fields(arguments)]
            change = Call("", edits=tuple(filter(None, map(_edit_of, edits))))
    for path in paths:
        if file := table.name_of(path.strip(), folder):
            yield change._replace(file=file)


def _edit_of(arguments: Mapping[str, Any]) -> Edit | None:
    old = arguments.get("old_string", arguments.get("oldText"))
    new = arguments.get("new_string", arguments.get("newText"))
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    return Edit(_bytes(old), _bytes(new), arguments.get("replace_all") is True)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _files_written(command: str, table: Table, folder: str) -> set[str]:
    """Return the files that a command names and can write."""
    if not any(ending in command for ending in table.endings):
        return set()
    words = re.findall(_INTO, command)
    if re.search(_INTERPRETERS, command) and re.search(_OPENS_TO_WRITE, command):
        words += re.findall(_WORDS, command)
    for part in re.split(_DIVIDES, command):
        if re.search(_WRITERS, part):
            words += re.findall(_WORDS, part)
        elif re.search(_COPIERS, part):
            words += re.findall(_WORDS, part)[-1:]
    moved = re.match(_FOLDER, command)
    if moved:
        folder = os.path.join(folder, expanded(moved[1]))  # noqa: PTH118
    paths = (word.replace("$HOME", "~") for word in words if word.endswith(table.endings))
    return set(filter(None, (table.name_of(path, folder) for path in paths)))


def words_before_call(transcript: Path, call: str, until: str) -> str:
    """Return your last words in a transcript before a call and a time; "" if there are none.

    Raises: OSError, UnknownTranscript.
    """
    words = ""
    for message in read_messages(transcript):
        time = time_of(message.timestamp)
        if time is not None and written(time) > until:
            break
        if message.origin == "human" and message.text.strip():
            words = message.text
        if call and (call == message.uuid or any(each.id == call for each in message.calls)):
            break
    return words
