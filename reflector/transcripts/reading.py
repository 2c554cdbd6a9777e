"""Reads a transcript of any agent: whole records in, messages out.

Invariant: `scan` and `messages` see the same messages under the same keys, each once, and adding
records to a file never changes the key of an earlier message. So a window of keys means the same
whenever its file is read again.

A format is never guessed, neither from a file's name or place nor from the agent whose hook named
it: a hook that was copied from another agent hands over that agent's files. What no format
recognises is refused with the list of those that were tried.

The classic list of `load_transcript` (requirements A-31) is what a person or the model said, and
nothing else: no tool results, no meta records, no command echoes. Of Claude Code's transcripts its
texts are whole.

A format of lines is read in flat memory, up to a limit of bytes, and from any `Place` that an
earlier scan found. A document is rewritten in place, where a limit of bytes means nothing: it is
read whole, up to `DOCUMENT_LIMIT`, and what was recorded before is known by its keys.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from io import BufferedReader, FileIO
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.transcripts.building import Conversation, digest, fields, objects, whole
from reflector.transcripts.citations import Telling, called_wrong, citations_of
from reflector.transcripts.claude_code import ClaudeCode
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import LINE_LIMIT, parse_line, read_lines, record_key
from reflector.transcripts.speakers import tag_around

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Parsed, a document needs about three times its size in memory.
DOCUMENT_LIMIT = 128 * 1024 * 1024
#: How a JSON document of messages begins that no agent resumes from.
_LIST = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*\[\s*\{\s*\"type\"")
#: How far to look for a record that is recognised. A first prompt with images has megabytes.
_SNIFF_LINES = 200
_SNIFF_BYTES = 64 * 1024 * 1024
_BUFFER = 1024 * 1024
#: A scan keeps the messages of so many bytes for whoever judges them; of more, they are read again.
_HELD = 8 * 1024 * 1024
_SAID = frozenset(("human", "model"))
#: So many texts of the model are kept: the last answer has one for each block.
_ANSWERS = 16
#: Messages that a copy may word anew: what clients and tools say.
_NO_TWINS = frozenset(("injected", "tool", "synthetic"))
_COMMAND_ECHOES = ("<command-name>", "<local-command-stdout>")
#: What may stand before a JSON object, a byte order mark included.
_BLANKS = b" \t\r\n\xef\xbb\xbf"
#: Places are at least so many messages apart.
_APART = 20


class UnknownTranscript(ValueError):
    """The file is readable, and is not a transcript that reflector knows."""


class Place(NamedTuple):
    """A line at which a reading can begin: nothing before it bears on how its records are read.

    offset  of the line, in bytes
    key     of the first message there
    passed  how many messages come before it: in the scan that found it, or of its session
    """

    offset: int
    key: int
    passed: int


@dataclass(slots=True)
class Scan:
    """What one pass over a transcript found.

    agent        the name that the sessions of its agent are recorded under
    start, bytes where the reading began and ended; `tally.unfinished_bytes` before the end were not
    consumed
    sha256       hex digest of the bytes between
    keys         record keys of all messages, in the order of `messages`
    twins        (key, twin) of each message of a person or the model that has words; a twin is what
                 it has in common with its copy under a new id: its time, its role and its words
    cited        (key, names) of the model's records that cite
    wrong        (key, reason by name) of those that call a bullet wrong
    told         (key, telling) of each echo of our hook's output; the key is that of the model's
                 next message: without one, the model got nothing
    nobodys      (key, tag) of each message whose speaker is unknown; "" for one that stands in no
                 tag
    answered     key of the model's last message; None where it said nothing
    answers      (key, text) of the last texts of the model, oldest first
    session_id … version    of the conversation; "" where no record says
    first_uuid, last_uuid   of the first and last message
    ended_at     the largest timestamp as written (their order in the file is not by time)
    places       where a later reading can begin
    messages     all of them where they are few enough to be kept, else none
    """

    agent: str
    start: int
    bytes: int = 0
    sha256: str = ""
    tally: Tally = field(default_factory=Tally)
    keys: array[int] = field(default_factory=lambda: array("q"))
    twins: list[tuple[int, int]] = field(default_factory=list)
    cited: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    wrong: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    told: list[tuple[int, Telling]] = field(default_factory=list)
    nobodys: list[tuple[int, str]] = field(default_factory=list)
    answered: int | None = None
    answers: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=_ANSWERS))
    session_id: str = ""
    agent_id: str = ""
    version: str = ""
    first_uuid: str = ""
    last_uuid: str = ""
    ended_at: str = ""
    places: list[Place] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    @property
    def people(self) -> list[Message] | None:
        """What people said; None where the messages are too many to be kept."""
        said = [one for one in self.messages if one.origin in ("human", "refusal")]
        return said if self.messages else None


def recognise(path: str | PathLike[str]) -> type[Conversation]:
    """Return the format of a transcript. Raises as `scan` does."""
    with _opened(path) as reading:
        return reading.format


def scan(path: str | PathLike[str], limit: int | None = None, *, start: int = 0) -> Scan:
    """Scan the first `limit` bytes of a transcript (None: all of it) from `start` on, in flat
    memory. Raises OSError (missing file, folder, no permission) and UnknownTranscript; never for
    what a line contains.
    """
    with _opened(path, start, limit) as reading:
        given, conversation = reading.given, reading.conversation
        found = Scan(reading.format.agent, start, tally=reading.tally)
        size = os.fstat(given.fileno()).st_size
        conversation.brief = (size if limit is None else min(size, limit)) - start > _HELD
        for message in reading:
            key, places, passed = message.key, found.places, len(found.keys)
            if message.offset == conversation.rested_at and (
                not places or passed - places[-1].passed >= _APART
            ):
                places.append(Place(message.offset, key, passed))
            found.keys.append(key)
            if not conversation.brief:
                found.messages.append(message)
            if message.origin == "model":
                found.answered = key
                found.told += ((key, telling) for telling in conversation.heard)
                conversation.heard.clear()
            if message.text and message.timestamp and message.origin not in _NO_TWINS:
                words = ("twin", found.agent, message.timestamp, message.role, message.text)
                found.twins.append((key, record_key(digest(*words))))
            if message.role == "assistant" and message.text.strip():
                found.answers.append((key, message.text))
            if message.origin == "unknown":
                found.nobodys.append((key, tag_around(message.text)))
            if names := citations_of(message):
                found.cited.append((key, tuple(names)))
                if wrong := called_wrong(message):
                    found.wrong.append((key, wrong))
            found.first_uuid, found.last_uuid = found.first_uuid or message.uuid, message.uuid
            found.ended_at = max(found.ended_at, message.timestamp)
        found.session_id, found.agent_id = conversation.session_id, conversation.agent_id
        found.version = conversation.version
        found.bytes, found.sha256 = given.tell(), given.digest.hexdigest()
    return found


def read_messages(
    path: str | PathLike[str], *, limit: int | None = None, start: int = 0
) -> Iterator[Message]:
    """Yield the messages of a transcript, in the order in which the model saw them, each once.

    limit   bytes to read at most: the file's size when its window was closed
    start   where to begin, the offset of a place

    Raises as `scan` does, at the first step of the iteration.
    """
    with _opened(path, start, limit) as reading:
        yield from reading


def load_transcript(path: str | PathLike[str] | None) -> list[dict[str, str]]:
    """Return the messages of a transcript of any agent, each `{"role": str, "content": str}`, in
    file order, all in memory; [] without a path or a file. Malformed lines are skipped. Raises
    OSError for what exists and cannot be read, and for what is not a file, such as a pipe.
    """
    try:
        return [] if path is None else _said(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _said(path: str | PathLike[str]) -> list[dict[str, str]]:
    # The classic list is made of lines that look like messages, whoever wrote them.
    with suppress(UnknownTranscript), _opened(path) as reading:
        if reading.format is not ClaudeCode:
            said = (message for message in reading if message.text and message.origin in _SAID)
            return [{"role": message.role, "content": message.text} for message in said]
    tally = Tally()
    try:
        with BufferedReader(open_file(path), 1024 * 1024) as file:
            records = (
                record
                for _, line in read_lines(file, None, tally)
                for record, _ in parse_line(line, tally)
            )
            return [message for record in records if (message := _classic(record)) is not None]
    except UnknownTranscript as error:
        raise OSError(
            errno.EINVAL, ("is not a regular file; give the path of a transcript"), fspath(path)
        ) from error


def _classic(record: dict[str, Any]) -> dict[str, str] | None:
    if record.get("type") not in ("user", "assistant"):
        return None
    if record.get("isMeta") or record.get("isVisibleInTranscriptOnly"):
        return None
    body = fields(record.get("message"))
    role, content = body.get("role"), body.get("content")
    if isinstance(content, list):
        blocks = (block.get("text") for block in objects(content) if block.get("type") == "text")
        content = "\n".join(text for text in blocks if isinstance(text, str))
    elif isinstance(content, str) and any(echo in content for echo in _COMMAND_ECHOES):
        return None
    said = {"role": whole(role), "content": whole(content)}
    return said if all(said.values()) else None


def open_file(path: str | PathLike[str]) -> FileIO:
    """Open a regular file, unbuffered and without waiting: a hook may name any path, and a pipe
    would wait for its end. Raises OSError, and UnknownTranscript for anything but a regular file.
    """
    file = open(  # noqa: SIM115
        path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
    )
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UnknownTranscript(
            f"{fspath(path)!r} is not a regular file; give the path of a transcript"
        )
    return file


class _Reading:
    """One reading of a transcript from an offset to a limit, of a document as a whole: its
    messages, each once.
    """

    def __init__(self, file: FileIO, start: int, limit: int | None) -> None:
        self.format, self.is_document = _sniffed(file)
        self.given = _Input(file, start, None if self.is_document else limit)
        self.conversation = self.format()
        self.tally = Tally()

    def __iter__(self) -> Iterator[Message]:
        seen: set[int] = set()
        for message in self._messages():
            if message.key in seen:
                self.tally.duplicates += 1
                continue
            seen.add(message.key)
            self.tally.messages += 1
            yield message

    def _messages(self) -> Iterator[Message]:
        conversation, tally = self.conversation, self.tally
        for record, text, offset in self._records():
            if offset != conversation.rested_at and conversation.is_at_rest:
                conversation.rested_at = offset
            yield from conversation.messages(record, text, offset, tally)
        yield from conversation.leftover()

    def _records(self) -> Iterator[tuple[dict[str, Any], bytes, int]]:
        if self.is_document:
            yield from ((record, b"", 0) for record in _document(self.given, self.tally))
            return
        for offset, line in read_lines(
            BufferedReader(self.given, _BUFFER), None, self.tally, self.given.tell()
        ):
            for record, text in parse_line(line, self.tally):
                yield record, text, offset


@contextmanager
def _opened(
    path: str | PathLike[str], start: int = 0, limit: int | None = None
) -> Iterator[_Reading]:
    """Open a transcript. Raises OSError and UnknownTranscript."""
    with open_file(path) as file:
        yield _Reading(file, start, limit)


def _sniffed(file: FileIO) -> tuple[type[Conversation], bool]:
    """Return the format of the first record that one recognises, and whether the file is one
    document.

    Of Claude Code it is the first with words: another agent has records of the same envelope
    without any.
    """
    tally = Tally()
    envelope: type[Conversation] | None = None
    is_strange = False
    is_document: bool | None = None
    buffered = BufferedReader(file, _BUFFER // 16)
    head = buffered.peek(64)[:64]
    try:
        for _, line in read_lines(buffered, _SNIFF_BYTES, tally):
            records = parse_line(line, tally)
            if is_document is None:
                is_document = not records
            for record, _ in records:
                format = _format_of(record)
                if format is None:
                    is_strange = is_strange or _may_say(record)
                elif format is not ClaudeCode or _may_say(record):
                    return format, format is not ClaudeCode and isinstance(
                        record.get("messages"), list
                    )
                else:
                    envelope = format
            if tally.lines >= _SNIFF_LINES:
                break
    finally:
        buffered.detach()
    if envelope is not None and not is_strange:
        return envelope, False
    # A document over many lines, or on one above the limit.
    is_document = is_document or tally.oversized > 0 or tally.unfinished_bytes > LINE_LIMIT
    if is_document and head.lstrip(_BLANKS).startswith(b"{"):
        file.seek(0)
        for record in _document(file, Tally()):
            if (format := _format_of(record)) and format is not ClaudeCode:
                return format, True
    if _LIST.match(head):
        raise UnknownTranscript(
            f"{str(file.name)!r} is not a transcript but a list of messages, as Claude Code's "
            "GitHub Action and "
            "`claude -p --output-format json` write it; the session's transcript is below "
            "~/.claude/projects on the "
            "machine that ran it"
        )
    may_go_on = head.lstrip(_BLANKS)[:1] in (b"", b"{")
    raise UnknownTranscript(f"{str(file.name)!r} {_refusal(tally, may_go_on=may_go_on)}")


def _may_say(record: dict[str, Any]) -> bool:
    """Return whether a record is one of a person or a model."""
    return record.get("type") in ("user", "assistant")


def formats() -> tuple[type[Conversation], ...]:
    """Return every format but Claude Code's. They are loaded when they are needed: a drain waits
    for none of them.
    """
    from reflector.transcripts import codex, copilot, gemini, opencode, pi

    return (codex.Codex, gemini.Gemini, copilot.Copilot, pi.Pi, opencode.OpenCode)


def _format_of(record: dict[str, Any]) -> type[Conversation] | None:
    """Return the format of a record. None is recognised by two of them, so their order decides
    nothing.
    """
    if ClaudeCode.recognises(record):
        return ClaudeCode
    return next((format for format in formats() if format.recognises(record)), None)


def _document(file: FileIO | _Input, tally: Tally) -> list[dict[str, Any]]:
    """The JSON objects that a file holds, usually one. Raises UnknownTranscript for no object
    and for too much.
    """
    size = os.fstat(file.fileno()).st_size
    buffered = BufferedReader(file, _BUFFER)
    data = b"" if size > DOCUMENT_LIMIT else buffered.read(DOCUMENT_LIMIT + 1)
    buffered.detach()
    if size > DOCUMENT_LIMIT or len(data) > DOCUMENT_LIMIT:
        raise UnknownTranscript(
            f"{str(file.name)!r} is one JSON document of {max(size, len(data))} bytes; "
            f"at most {DOCUMENT_LIMIT // 1024 // 1024} MB are read, because a document has to be "
            "in memory whole"
        )
    tally.lines += 1
    records = [record for record, _ in parse_line(data.strip(), tally)]
    if not records:
        raise UnknownTranscript(
            f"{str(file.name)!r} is not a whole JSON document: it is damaged, or its agent is "
            "still writing it; "
            "try again later"
        )
    return records


def _refusal(tally: Tally, *, may_go_on: bool) -> str:
    if tally.lines == 0 and may_go_on:
        return (
            f"contains no records yet ({tally.unfinished_bytes} bytes of an unfinished line); "
            "try again later"
        )
    looked_for = (
        "looked for records of "
        f"{', '.join([ClaudeCode.name, *(format.name for format in formats())])}"
    )
    if tally.records:
        return (
            f"is not a known transcript: none of its first {tally.records} records is one; "
            f"{looked_for}"
        )
    return (
        f"is not a transcript: its beginning has no line that is a JSON object; {looked_for}. "
        "Unpack a compressed "
        "file, and write a session of OpenCode to a file with `opencode export`"
    )


class _Input(io.RawIOBase):
    """A transcript from where it stands to a limit, with the SHA-256 of what was read of it."""

    def __init__(self, file: FileIO, start: int, limit: int | None) -> None:
        self.name = file.name
        self.digest = sha256()
        self._end = file.seek(start)
        self._limit = sys.maxsize if limit is None else limit
        self._file = file

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def tell(self) -> int:
        return self._end

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        length = self._file.readinto(view[: max(0, self._limit - self._end)]) or 0
        self.digest.update(view[:length])
        self._end += length
        return length
