"""Reads a transcript of any agent: whole records in, messages out.

Invariant: `scan` and `messages` see the same messages under the same keys, each once, and
adding records to a file never changes the key of an earlier message. So a window of keys means the same
whenever its file is read again.

A format of lines is read in flat memory, up to a limit of bytes. A document is rewritten in place, where a
limit of bytes means nothing: it is read whole, up to `DOCUMENT_LIMIT`, and what was recorded before is known
by its keys.

A scan of lines can go on where an earlier one left a checkpoint (`reflector.transcripts.checkpoint`), and then finds
what a scan of the whole file would.
"""

from __future__ import annotations

import io
import os
import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from io import BufferedReader, FileIO
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.transcripts.building import unique
from reflector.transcripts.checkpoint import Checkpoint, Chunks, Found, Marks
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import parse_line, read_lines
from reflector.transcripts.source import UnknownTranscript
from reflector.transcripts.telling import Telling, telling_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Parsed, a document needs about three times its size in memory.
DOCUMENT_LIMIT = 128 * 1024 * 1024

_BUFFER = 1024 * 1024

#: Is given the messages that a scan reads, each with the names that it cites.
Watcher = Callable[[Message, list[str]], object]
#: Returns what is to be known of a message whose role is "user"; each thing has its `key`.
Gatherer = Callable[[Message], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass over a transcript found.

    agent        the name that the sessions of its agent are recorded under
    keys         record keys of all messages, in the order of `read_messages`
    cited        (key, names) of the model's records that cite
    told         (key, telling) of each echo of our hook's output; the key is that of the model's next message: without
                 one, the model got nothing
    answered     key of the model's last message; None where it said nothing
    session_id … version    of the conversation; "" where no record says
    first_uuid, last_uuid   of the first and last message
    started_at, ended_at    smallest and largest timestamp as written (their order in the file is not by time)
    bytes        where the reading ended; `tally.unfinished_bytes` before it were not consumed
    sha256       hex digest of the bytes read: from `since.offset`, 0 without it, to `bytes`
    since        the checkpoint that the scan went on from; `keys` and `tally` are of the bytes read then, all else of
                 the whole file. None for a scan of the whole file
    checkpoint   where a later scan can go on, None where it cannot
    is_exact     whether a scan of the whole file would have found the same
    gathered     what was to be known of the messages whose role is "user", None where nothing was asked
    """

    agent: str
    keys: array[int]
    cited: tuple[tuple[int, tuple[str, ...]], ...]
    told: tuple[tuple[int, Telling], ...]
    answered: int | None
    session_id: str
    agent_id: str
    cwd: str
    version: str
    first_uuid: str
    last_uuid: str
    started_at: str
    ended_at: str
    bytes: int
    sha256: str
    tally: Tally
    since: Checkpoint | None = None
    checkpoint: Checkpoint | None = None
    is_exact: bool = True
    gathered: tuple[Any, ...] | None = None


class Conversation(ABC):
    """One reading of one file: turns records into messages, and knows what earlier records said.

    session_id, agent_id, cwd, version   of the file, as far as its records said by now; "" otherwise
    heard        what our hook told, until the model's next message takes it
    brief        whether calls may come without their arguments, and results without their text
    """

    brief = False

    def __init__(self) -> None:
        self.session_id = self.agent_id = self.cwd = self.version = ""
        self.heard: list[Telling] = []

    def hear(self, texts: Iterable[str]) -> None:
        """Keep what a hook's output told, where it is our hook's."""
        self.heard += filter(None, map(telling_of, texts))

    @abstractmethod
    def messages(self, record: dict[str, Any], text: bytes, offset: int, tally: Tally) -> Iterable[Message]:
        """Return the messages of one record, its JSON text being `text`; types without meaning here go to `tally`."""

    def leftover(self) -> Iterable[Message]:
        """Return the messages that only the end of the file tells."""
        return ()

    def saved(self) -> list[Any] | None:
        """Return what `restore` needs to go on here, as JSON without anybody's words; None where that is not enough."""
        return None

    def restore(self, saved: list[Any]) -> None:
        """Go on from what `saved` returned. Raises ValueError and TypeError for anything else."""
        raise TypeError("this format is read from its first byte")


class Format(NamedTuple):
    """One agent's transcripts.

    agent        the name that sessions are recorded under
    name         the name that its users know
    recognises   whether a record can be of this format and of no other
    converse     starts a reading
    """

    agent: str
    name: str
    recognises: Callable[[dict[str, Any]], bool]
    converse: Callable[[], Conversation]


class RecordReader:
    """Reads the transcripts of one format, from a file at its first byte."""

    def __init__(self, format: Format, *, is_document: bool) -> None:
        self.agent = format.agent
        self._converse = format.converse
        self._is_document = is_document

    def scan(
        self,
        file: FileIO,
        limit: int | None,
        since: Checkpoint | None = None,
        *,
        once: Watcher | None = None,
        gather: Gatherer | None = None,
    ) -> Scan:
        """Return what one pass over the file finds, from a checkpoint of this file on where one is given.

        `once` is given every message with the names that it cites, and no checkpoint is looked for. `gather` is given
        the messages of role "user".
        """
        tally = Tally()
        conversation = self._converse()
        conversation.brief = once is None
        marks = None if once else Marks(conversation.saved, tally, since)
        found, keys = marks.found if marks else Found(), array("q")
        if since is not None:
            conversation.restore(since.conversation)
        gathered: list[Any] = []
        chunks = Chunks(file, since) if marks else None
        given = _Input(file, None if self._is_document else limit, since.offset if since else 0, chunks)
        for message in self._messages(given, None, conversation, tally, marks):
            keys.append(message.key)
            if message.origin == "model":
                found.answered = message.key
                if conversation.heard:
                    found.told += ((message.key, telling) for telling in conversation.heard)
                    conversation.heard.clear()
            names = citations_of(message)
            if names:
                found.cited.append((message.key, tuple(names)))
            if once is not None:
                once(message, names)
            if gather is not None and message.role == "user":
                gathered += gather(message)
            found.first_uuid = found.first_uuid or message.uuid
            found.last_uuid = message.uuid
            if stamp := message.timestamp:
                found.started_at = min(found.started_at or stamp, stamp)
                found.ended_at = max(found.ended_at, stamp)
            if marks is not None:
                marks.take(message)
        checkpoint = None
        if marks is not None and chunks is not None and not self._is_document:
            checkpoint = marks.checkpoint(self.agent, keys, given.tell(), chunks.digests, file)
        return Scan(
            agent=self.agent,
            keys=keys,
            cited=tuple(found.cited),
            told=tuple(found.told),
            answered=found.answered,
            session_id=conversation.session_id,
            agent_id=conversation.agent_id,
            cwd=conversation.cwd,
            version=conversation.version,
            first_uuid=found.first_uuid,
            last_uuid=found.last_uuid,
            started_at=found.started_at,
            ended_at=found.ended_at,
            bytes=given.tell(),
            sha256=given.digest.hexdigest(),
            tally=tally,
            since=since,
            checkpoint=checkpoint,
            is_exact=marks is None or marks.is_exact,
            gathered=None if gather is None else tuple(gathered),
        )

    def messages(self, file: FileIO, limit: int | None, tally: Tally) -> Iterator[Message]:
        """Yield the messages from where the file stands, in their order, each once."""
        return self._messages(file, limit, self._converse(), tally)

    def _messages(
        self,
        file: FileIO | _Input,
        limit: int | None,
        conversation: Conversation,
        tally: Tally,
        marks: Marks | None = None,
    ) -> Iterator[Message]:
        records = _whole(file, tally) if self._is_document else _lines(file, limit, tally)

        def every() -> Iterator[Message]:
            for record in records:
                if marks is not None and record[2] >= marks.next:
                    marks.come_to(record[2])
                yield from conversation.messages(*record, tally)
            yield from conversation.leftover()

        return unique(every(), tally)


def _lines(file: FileIO | _Input, limit: int | None, tally: Tally) -> Iterator[tuple[dict[str, Any], bytes, int]]:
    for offset, line in read_lines(BufferedReader(file, _BUFFER), limit, tally, file.tell()):
        for record, text in parse_line(line, tally):
            yield record, text, offset


def _whole(file: FileIO | _Input, tally: Tally) -> Iterator[tuple[dict[str, Any], bytes, int]]:
    for record in read_document(file, str(file.name), tally):
        yield record, b"", 0


def read_document(file: io.RawIOBase, name: str, tally: Tally) -> list[dict[str, Any]]:
    """The JSON objects that a file holds, usually one. Raises UnknownTranscript for no object and for too much."""
    size = os.fstat(file.fileno()).st_size
    buffered = BufferedReader(file, _BUFFER)
    data = b"" if size > DOCUMENT_LIMIT else buffered.read(DOCUMENT_LIMIT + 1)
    buffered.detach()
    if size > DOCUMENT_LIMIT or len(data) > DOCUMENT_LIMIT:
        raise UnknownTranscript(
            f"{name!r} is one JSON document of {max(size, len(data))} bytes; "
            f"at most {DOCUMENT_LIMIT // 1024 // 1024} MB are read, because a document has to be in memory whole"
        )
    tally.lines += 1
    records = [record for record, _ in parse_line(data.strip(), tally)]
    if not records:
        raise UnknownTranscript(
            f"{name!r} is not a whole JSON document: it is damaged, or its agent is still writing it; try again later"
        )
    return records


class _Input(io.RawIOBase):
    """A transcript from an offset to a limit, with the SHA-256 of what was read of it."""

    def __init__(self, file: FileIO, limit: int | None, start: int, chunks: Chunks | None) -> None:
        self.name = file.name
        self.digest = sha256()
        self._end, self._chunks = start, chunks
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
        if self._chunks is not None:
            self._chunks.update(view[:length])
        self._end += length
        return length
