"""Reads a transcript of any agent: whole records in, messages out.

Invariant: `scan` and `messages` see the same messages under the same keys, each once, and adding
records to a file never changes the key of an earlier message. So a window of keys always means the
same messages.

A format is never guessed, neither from a file's name or place nor from the agent whose hook named
it, because a hook that was copied from another agent delivers that agent's files. A file that no
format recognises is refused with the list of formats.

The classic list of `load_transcript` (requirements A-31) contains only the words of the user and of
the model: no tool results, no meta records, no command echoes. For Claude Code's transcripts, its
texts are complete.

A format of lines is read in constant memory, up to a limit of bytes, and from any `Place` that an
earlier scan found. A document is rewritten in place, so a limit of bytes has no meaning for it. It
is read whole, up to `DOCUMENT_LIMIT`, and its recorded part is recognised by its keys.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from io import BufferedReader, FileIO
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.extensions import error_of, listed_readers
from reflector.refusal import Refusal
from reflector.text.lazy import lazy_pattern
from reflector.transcripts.agents.claude_code import ClaudeCode
from reflector.transcripts.building import (
    Conversation,
    content_id,
    object_in,
    objects,
    plain_text,
    text_in,
)
from reflector.transcripts.citations import called_wrong, citations_of
from reflector.transcripts.message import NOT_KEPT, Message, Tally
from reflector.transcripts.readers import (
    Reader,
    built_in_readers,
    extension_readers,
    faults,
    readers,
)
from reflector.transcripts.records import LINE_LIMIT, JsonObject, parse_line, read_lines, record_key
from reflector.transcripts.speakers import tag_around
from reflector.transcripts.tellings import Telling

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

AnyPath = str | PathLike[str]
#: Parsed, a document needs about three times its size in memory.
DOCUMENT_LIMIT = 128 * 1024 * 1024
#: The beginning of a JSON list of messages. No agent resumes a session from such a list.
_LIST = lazy_pattern(rb"\A(?:\xef\xbb\xbf)?\s*\[\s*\{\s*\"type\"")
#: The limits of the search for a known record. A first prompt with images has megabytes.
_SNIFF_LINES = 200
_SNIFF_BYTES = 64 * 1024 * 1024
_BUFFER = 1024 * 1024
#: A scan of at most this number of bytes keeps its messages for a judge. The messages of a longer
#: one are read again.
_MAX_KEPT_BYTES = 8 * 1024 * 1024
#: The maximum number of kept texts of the model. The last answer has one text for each block.
_KEPT_ANSWERS = 16
#: Messages that a copy may write in other words: those of clients and tools.
_NO_TWINS = frozenset(("injected", "tool", "synthetic"))
_COMMAND_ECHOES = ("<command-name>", "<local-command-stdout>")
#: Bytes that may come before a JSON object, including a byte order mark.
_BLANKS = b" \t\r\n\xef\xbb\xbf"
#: The minimum number of messages between two places.
_MIN_DISTANCE = 20


class UnknownTranscript(Refusal, ValueError):
    """The file is readable, but it is not a known transcript."""


class Place(NamedTuple):
    """A line at which a reading can begin, because its records can be read without those before it.

    offset  of the line, in bytes
    key     of the first message there
    passed  the number of messages before it: in its scan, or of its session
    """

    offset: int
    key: int
    passed: int


@dataclass(slots=True)
class Scan:
    """The facts of one pass over a transcript.

    agent        the agent's name in records of its sessions
    start, bytes the offsets at which the reading began and ended; `tally.unfinished_bytes` before
                 the end were not consumed
    sha256       hex digest of the bytes between
    keys         record keys of all messages, in the order of `messages`
    twins        (key, twin) of each message of the user or the model that has words; the twin is a
                 key of its time, role and words, so it is equal for a copy under a new id
    cited        (key, names) of the model's records that cite
    wrong        (key, reason by name) of those that call a bullet wrong
    told         (key, telling) of each echo of our hook's output; the key is that of the model's
                 next message, because without one the model got nothing
    nobodys      (key, tag) of each message whose speaker is unknown; "" outside of tags
    answered     key of the model's last message; None without one
    answers      (key, text) of the last texts of the model, oldest first
    session_id … version    of the conversation; "" if no record has it
    models       number of messages of each model, by its name; "" for an unknown one
    first_uuid, last_uuid   of the first and last message
    ended_at     the largest timestamp as written (records are not in the order of time)
    places       lines at which a later reading can begin
    messages     all messages of a short scan, none of a long one
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
    answers: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=_KEPT_ANSWERS))
    session_id: str = ""
    agent_id: str = ""
    version: str = ""
    models: Counter[str] = field(default_factory=Counter)
    first_uuid: str = ""
    last_uuid: str = ""
    ended_at: str = ""
    places: list[Place] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    @property
    def model(self) -> str:
        """The model of most messages; "" if no record names one."""
        named = Counter({name: count for name, count in self.models.items() if name})
        return next((name for name, _ in named.most_common(1)), "")

    @property
    def people(self) -> list[Message] | None:
        """The messages of the user; None if the scan did not keep messages."""
        if not self.messages:
            return None
        return [message for message in self.messages if message.origin in ("human", "refusal")]

    def add(self, message: Message, conversation: Conversation) -> None:
        """Add the facts of the next message."""
        key = message.key
        self._add_place(message, conversation.rested_at)
        self.keys.append(key)
        if not conversation.brief:
            self.messages.append(message)
        self.first_uuid = self.first_uuid or message.uuid
        self.last_uuid = message.uuid
        self.ended_at = max(self.ended_at, message.timestamp)
        if message.origin == "model":
            self.answered = key
            self.models[conversation.model] += 1
            self.told += ((key, telling) for telling in conversation.heard)
            conversation.heard.clear()
        if message.role == "assistant" and message.text.strip():
            self.answers.append((key, message.text))
        if message.origin == "unknown":
            self.nobodys.append((key, tag_around(message.text)))
        if message.text and message.timestamp and message.origin not in _NO_TWINS:
            twin = content_id("twin", self.agent, message.timestamp, message.role, message.text)
            self.twins.append((key, record_key(twin)))
        if names := citations_of(message):
            self.cited.append((key, tuple(names)))
            if wrong := called_wrong(message):
                self.wrong.append((key, wrong))

    def _add_place(self, message: Message, rested_at: int) -> None:
        """Keep the place of a message if a reading can begin there."""
        passed = len(self.keys)
        is_far = not self.places or passed - self.places[-1].passed >= _MIN_DISTANCE
        if is_far and message.offset == rested_at:
            self.places.append(Place(message.offset, message.key, passed))


def recognise(path: AnyPath) -> Reader:
    """Return the reader of a transcript.

    Raises: as `scan`.
    """
    with _opened(path) as reading:
        return reading.reader


def scan(path: AnyPath, limit: int | None = None, *, start: int = 0) -> Scan:
    """Return the facts of a transcript from the offset `start` to the offset `limit` (None for the
    end of the file). The memory does not grow with the file.

    Raises: OSError (missing file, folder, no permission) and UnknownTranscript. The content of a
    line never raises.
    """
    with _opened(path, start, limit) as reading:
        size = os.fstat(reading.file.fileno()).st_size
        end = size if limit is None else min(size, limit)
        conversation = reading.conversation
        conversation.brief = end - start > _MAX_KEPT_BYTES
        reading.keeps_whole = True
        reading.file.digest = sha256()
        result = Scan(reading.reader.agent, start, tally=reading.tally)
        for message in reading:
            result.add(message, conversation)
        result.session_id = conversation.session_id
        result.agent_id = conversation.agent_id
        result.version = conversation.version
        result.bytes = reading.file.tell()
        result.sha256 = reading.file.digest.hexdigest()
    return result


def read_messages(
    path: AnyPath,
    *,
    limit: int | None = None,
    start: int = 0,
    keeps_whole: bool = False,
) -> Iterator[Message]:
    """Yield the messages of a transcript, without duplicates, in the order in which the model saw
    them.

    limit        the offset of the end: the file's size when its window was closed
    start        the offset of the beginning, which must be a place
    keeps_whole  whether calls keep their whole arguments, which may be of any size

    Raises: as `scan`, at the first step of the iteration.
    """
    with _opened(path, start, limit) as reading:
        reading.keeps_whole = keeps_whole
        yield from reading


def load_transcript(path: AnyPath | None) -> list[dict[str, str]]:
    """Return the messages of a transcript of any agent, in file order, each `{"role": str,
    "content": str}`. All are in memory. Return [] without a path or a file. Malformed lines are
    skipped.

    Raises: OSError if the path exists and cannot be read, or is not a file, such as a pipe.
    """
    try:
        return [] if path is None else _plain_messages(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _plain_messages(path: AnyPath) -> list[dict[str, str]]:
    """Return the messages of a transcript. In one of Claude Code or of an unknown form, each line
    that looks like a message of Claude Code is one.

    Raises: OSError.
    """
    with suppress(UnknownTranscript), _opened(path) as reading:
        if reading.reader is not ClaudeCode:
            return [
                {"role": message.role, "content": message.text}
                for message in reading
                if message.text and message.origin in ("human", "model")
            ]
    return _classic_messages(path)


def _classic_messages(path: AnyPath) -> list[dict[str, str]]:
    tally = Tally()
    try:
        with BufferedReader(open_transcript(path), _BUFFER) as file:
            records = (
                record.value
                for line in read_lines(file, None, tally)
                for record in parse_line(line.text, tally)
            )
            return list(filter(None, map(_classic_message, records)))
    except UnknownTranscript as error:
        raise OSError(
            errno.EINVAL, "is not a regular file; give the path of a transcript", fspath(path)
        ) from error


def _classic_message(record: JsonObject) -> dict[str, str] | None:
    """Return the role and the words of a record; None if it has no words, or if the client wrote
    it.
    """
    if not _may_have_words(record):
        return None
    if record.get("isMeta") or record.get("isVisibleInTranscriptOnly"):
        return None
    body = object_in(record, "message")
    content = body.get("content")
    if isinstance(content, list):
        texts = (block.get("text") for block in objects(content) if block.get("type") == "text")
        content = "\n".join(text for text in texts if isinstance(text, str))
    elif isinstance(content, str) and any(echo in content for echo in _COMMAND_ECHOES):
        return None
    message = {"role": text_in(body, "role"), "content": plain_text(content)}
    return message if all(message.values()) else None


def open_transcript(path: AnyPath) -> FileIO:
    """Open a regular file, unbuffered and without blocking. A hook may name any path, and opening a
    pipe would block.

    Raises: OSError; UnknownTranscript if it is not a regular file.
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


class SessionReading:
    """A reading of a transcript from an offset to a limit. It yields each message once. A document
    is always read as a whole.

    keeps_whole  whether calls keep their whole arguments
    """

    keeps_whole = False

    def __init__(self, file: FileIO, start: int, limit: int | None) -> None:
        self.reader, self._is_document = _recognise_open(file)
        self.file = _Input(file, start, None if self._is_document else limit)
        self.tally = Tally()
        with _faults_of(self.reader):
            self.conversation = self.reader()

    def __iter__(self) -> Iterator[Message]:
        seen: set[int] = set()
        with _faults_of(self.reader):
            for message in self._messages():
                if message.key in seen:
                    self.tally.duplicates += 1
                    continue
                seen.add(message.key)
                self.tally.messages += 1
                yield message if self.keeps_whole or not message.calls else _bounded(message)

    def _messages(self) -> Iterator[Message]:
        """Yield the messages, also repeated ones. Note the last line at which a later reading can
        begin.
        """
        conversation = self.conversation
        if self._is_document:
            for value in _read_document(self.file, self.tally):
                yield from conversation.messages(value, b"", 0, self.tally)
        else:
            buffered = BufferedReader(self.file, _BUFFER)
            for line in read_lines(buffered, None, self.tally, self.file.tell()):
                for record in parse_line(line.text, self.tally):
                    if line.offset != conversation.rested_at and conversation.is_at_rest:
                        conversation.rested_at = line.offset
                    yield from conversation.messages(
                        record.value, record.text, line.offset, self.tally
                    )
        yield from conversation.leftover()


def _bounded(message: Message) -> Message:
    """Return a message without the whole arguments of its calls, which may be of any size."""
    return message._replace(calls=tuple([call._replace(whole=NOT_KEPT) for call in message.calls]))


@contextmanager
def open_session(path: AnyPath) -> Iterator[SessionReading]:
    """Open a transcript without the text that reflector shows: calls have only their whole
    arguments, and results may be without text, unless they report an error.

    Raises: as `scan`.
    """
    with _opened(path) as reading:
        reading.keeps_whole = True
        reading.conversation.brief = True
        yield reading


def session_named_in(path: AnyPath) -> str:
    """Return the session id in the first records of a transcript; "" if it cannot be read."""
    with suppress(OSError, UnknownTranscript), open_session(path) as reading:
        for _ in reading:
            if session_id := reading.conversation.session_id:
                return session_id
    return ""


def messages_at(path: AnyPath, places: Mapping[int, int]) -> dict[int, Message]:
    """Return the messages of the user with these keys, by key. Each is read from its own record
    only. If a record alone does not show its message, the whole transcript is read.

    places  the offset of the record's line by the key of the message

    Raises: as `scan`.
    """
    found: dict[int, Message] = {}
    reader = recognise(path)
    with BufferedReader(open_transcript(path), _BUFFER // 16) as file:
        for offset in places.values():
            file.seek(offset)
            for record in parse_line(file.readline(LINE_LIMIT).strip(), Tally()):
                conversation = reader()
                read = conversation.messages(record.value, record.text, offset, Tally())
                messages = [*read, *conversation.leftover()]
                found |= {message.key: message for message in messages if message.text}
    if places.keys() <= found.keys():
        return found
    return {message.key: message for message in read_messages(path) if message.key in places}


@contextmanager
def _opened(path: AnyPath, start: int = 0, limit: int | None = None) -> Iterator[SessionReading]:
    """Open a transcript.

    Raises: OSError and UnknownTranscript.
    """
    with open_transcript(path) as file:
        yield SessionReading(file, start, limit)


class _Recognised(NamedTuple):
    """The reader of a file, and whether the file is one document."""

    reader: Reader
    is_document: bool


_ReaderOf = Callable[[JsonObject], Reader | None]


@dataclass(slots=True)
class _Beginning:
    """The result of the search for a known record at the beginning of a file.

    head         the first bytes
    recognised   the reader of the first record that decides; None without one
    is_document  whether the first line is not a JSON object, as in a document on many lines
    has_envelope whether a record has the envelope of Claude Code, but no words
    is_foreign   whether a record of the user or the model has an unknown format
    """

    head: bytes
    tally: Tally = field(default_factory=Tally)
    recognised: _Recognised | None = None
    is_document: bool = False
    has_envelope: bool = False
    is_foreign: bool = False


def _recognise_open(file: FileIO) -> _Recognised:
    """Return the reader of an open file: a built-in one, or else one of an extension.

    Raises: UnknownTranscript
    """
    beginning = _search_beginning(file, _built_in_reader_of)
    recognised = _reader_by(file, beginning, _built_in_reader_of)
    if recognised is None and listed_readers():
        file.seek(0)
        recognised = _reader_by(
            file, _search_beginning(file, _extension_reader_of), _extension_reader_of
        )
    if recognised is None:
        raise UnknownTranscript(f"{str(file.name)!r} {_refusal(beginning)}")
    return recognised


def _reader_by(file: FileIO, beginning: _Beginning, reader_of: _ReaderOf) -> _Recognised | None:
    """Return the reader of a file by a record at its beginning, or, if there is none, by the JSON
    document that the whole file is. Return None for any other file.
    """
    if beginning.recognised is not None:
        return beginning.recognised
    if beginning.has_envelope and not beginning.is_foreign:
        return _Recognised(ClaudeCode, is_document=False)
    tally = beginning.tally
    # One JSON object on many lines, or on one line above the limit.
    is_long_line = tally.oversized > 0 or tally.unfinished_bytes > LINE_LIMIT
    is_document = beginning.is_document or is_long_line
    if is_document and beginning.head.lstrip(_BLANKS).startswith(b"{"):
        file.seek(0)
        for value in _read_document(file, Tally()):
            reader = reader_of(value)
            if reader is not None and reader is not ClaudeCode:
                return _Recognised(reader, is_document=True)
    return None


def _search_beginning(file: FileIO, reader_of: _ReaderOf) -> _Beginning:
    """Search the first lines of a file for a record that a reader recognises.

    Claude Code needs a record with words, because another agent writes the same envelope without
    words.
    """
    buffered = BufferedReader(file, _BUFFER // 16)
    beginning = _Beginning(buffered.peek(64)[:64])
    tally = beginning.tally
    try:
        for number, line in enumerate(read_lines(buffered, _SNIFF_BYTES, tally)):
            records = parse_line(line.text, tally)
            if number == 0:
                beginning.is_document = not records
            for record in records:
                _note_record(record.value, beginning, reader_of)
                if beginning.recognised is not None:
                    return beginning
            if tally.lines >= _SNIFF_LINES:
                break
    finally:
        buffered.detach()
    return beginning


def _note_record(value: JsonObject, beginning: _Beginning, reader_of: _ReaderOf) -> None:
    """Note in `beginning` the reader of a record, or why the record does not determine it."""
    reader = reader_of(value)
    has_words = _may_have_words(value)
    if reader is None:
        beginning.is_foreign = beginning.is_foreign or has_words
    elif reader is not ClaudeCode:
        is_document = isinstance(value.get("messages"), list)
        beginning.recognised = _Recognised(reader, is_document)
    elif has_words:
        beginning.recognised = _Recognised(ClaudeCode, is_document=False)
    else:
        beginning.has_envelope = True


def _may_have_words(record: JsonObject) -> bool:
    """Return whether a record in Claude Code's envelope comes from the user or the model."""
    return record.get("type") in ("user", "assistant")


def _built_in_reader_of(record: JsonObject) -> Reader | None:
    """Return the built-in reader of a record.

    Two built-in readers never recognise the same record, so their order does not matter.
    """
    if ClaudeCode.recognises(record):
        return ClaudeCode
    return next((reader for reader in built_in_readers() if reader.recognises(record)), None)


def _extension_reader_of(record: JsonObject) -> Reader | None:
    """Return the first reader of an extension that recognises a record."""
    for reader in extension_readers():
        with _faults_of(reader):
            if reader.recognises(record):
                return reader
    return None


@contextmanager
def _faults_of(reader: Reader) -> Iterator[None]:
    """Refuse the file if the reader of an extension fails on it.

    Raises: UnknownTranscript
    """
    try:
        yield
    except (OSError, UnknownTranscript):
        raise
    except Exception as error:
        if reader in built_in_readers():
            raise
        fault = f"the reader {reader.agent}, which is an extension, failed: {error_of(error)}"
        raise UnknownTranscript(f"cannot be read, because {fault}") from error


def _read_document(file: FileIO | _Input, tally: Tally) -> list[JsonObject]:
    """Return the JSON objects of a file, usually one.

    Raises: UnknownTranscript if the file does not have an object, or is above the limit.
    """
    size = os.fstat(file.fileno()).st_size
    buffered = BufferedReader(file, _BUFFER)
    content = b"" if size > DOCUMENT_LIMIT else buffered.read(DOCUMENT_LIMIT + 1)
    buffered.detach()
    size = max(size, len(content))
    if size > DOCUMENT_LIMIT:
        raise UnknownTranscript(
            f"{str(file.name)!r} is a single JSON document of {size:,} bytes, which must fit into "
            f"memory; reflector reads at most {DOCUMENT_LIMIT // 1024 // 1024} MB"
        )
    tally.lines += 1
    values = [record.value for record in parse_line(content.strip(), tally)]
    if not values:
        raise UnknownTranscript(
            f"{str(file.name)!r} is not a complete JSON document: the file is damaged, or an "
            "agent is still writing the file; try again later"
        )
    return values


def _refusal(beginning: _Beginning) -> str:
    """Return the reason why a file is refused, with a remedy."""
    tally = beginning.tally
    if _LIST.match(beginning.head):
        return (
            "is not a transcript, but a list of messages. Claude Code's GitHub Action and "
            "`claude -p --output-format json` write lists of messages. Name the transcript of "
            "the session, below ~/.claude/projects on the machine that ran the session"
        )
    may_go_on = beginning.head.lstrip(_BLANKS)[:1] in (b"", b"{")
    if tally.lines == 0 and may_go_on:
        return (
            f"contains no records yet ({tally.unfinished_bytes} bytes of an unfinished line); "
            "try again later"
        )
    writers = (reader.writers or reader.name for reader in readers())
    looked_for = "; ".join([f"reflector can read transcripts of {', '.join(writers)}", *faults()])
    if tally.records:
        return (
            f"is not a known transcript: its first {tally.records} records are unknown; "
            f"{looked_for}"
        )
    return (
        f"is not a transcript: its first lines are not JSON objects; {looked_for}. Unpack a "
        "compressed file. Write an OpenCode session to a file with `opencode export`"
    )


class _Input(io.RawIOBase):
    """A transcript from its current position to a limit.

    digest  the SHA-256 of the bytes read; None for a reading that does not need it
    """

    digest: Any = None

    def __init__(self, file: FileIO, start: int, limit: int | None) -> None:
        self.name = file.name
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
        if self.digest is not None:
            self.digest.update(view[:length])
        self._end += length
        return length
