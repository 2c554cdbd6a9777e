"""Where a scan of a growing transcript can go on, and what proves that the bytes before it are those that were read.

Invariant: going on finds what reading the whole file would, or says that it may not. A checkpoint lies at the start of
a line at which nothing is remembered that it does not hold, so far before the end that a judge who begins there knows
what one who read the whole file knows of the checks before the next citation (`reflector.reflection.rules.reading`).

What is proved, by digests of chunks of 1 MB: the file is the same one (device and inode) and not shorter; its first
chunk, its last two before the checkpoint, and a few others, different ones each time. So a file that was replaced,
cut, moved or written anew is noticed at once: what is inserted or left out anywhere moves the last chunks. A change
that keeps the length of everything and hits no chunk of this time is noticed by one of the next scans; up to 8 MB, at
once. The digest of a chunk is its CRC-32, a sixth of the work of SHA-256: it is for accidents, and who wants to deceive
the ledger can write what they like into a transcript.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import FileIO
from typing import Any, Self
from zlib import crc32

from reflector.transcripts.message import Message, Tally
from reflector.transcripts.telling import Telling

#: Raised whenever a reader finds other messages, keys or citations in the same bytes.
READER = 1
CHUNK = 1024 * 1024
#: Chunks that are looked at beside the first and the last.
_LOOKED_AT = 6
#: Places to go on are so far apart.
_SPACING = 128 * 1024
#: What a judge remembers: so many results before a citation, and so many calls without a result.
_RESULTS, _CALLS = 40, 128


@dataclass(slots=True)
class Found:
    """What a scan found up to some place, as `Scan` has it."""

    cited: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    told: list[tuple[int, Telling]] = field(default_factory=list)
    answered: int | None = None
    first_uuid: str = ""
    last_uuid: str = ""
    started_at: str = ""
    ended_at: str = ""

    def so_far(self) -> Callable[[], Found]:
        """Return what returns what is found by now, also when more was found."""
        cited, told = len(self.cited), len(self.told)
        rest = (self.answered, self.first_uuid, self.last_uuid, self.started_at, self.ended_at)
        return lambda: Found(self.cited[:cited], self.told[:told], *rest)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A place to go on.

    agent         whose format the file is of
    offset        where the next scan begins, bytes
    bytes         where this scan ended
    conversation  what the reader of the format has to know there
    found         what was found before the offset
    chain         of all messages so far, None before the first
    open          ids of calls before the offset that have no result yet
    tail          keys of the messages from the offset to the end of this scan
    file          device and inode
    chunks        digests of the whole chunks before the offset
    rest          digest of the bytes between these and the offset
    turn          how many scans went on from one another; which chunks are looked at
    window        the id of the window that the records were recorded with last, as who keeps it says
    """

    agent: str
    offset: int
    bytes: int
    conversation: list[Any]
    found: Found
    chain: str | None
    open: Sequence[str]
    tail: Sequence[int]
    file: Sequence[int]
    chunks: list[int]
    rest: int
    turn: int
    window: str = ""

    def holds(self, file: FileIO, limit: int | None) -> bool:
        """Return whether a file, up to a limit, begins with what was read, as far as it is looked at."""
        state = os.fstat(file.fileno())
        if [state.st_dev, state.st_ino] != list(self.file) or min(state.st_size, limit or state.st_size) < self.bytes:
            return False
        count = len(self.chunks)
        looked_at = {0, count - 1, *(self.turn * _LOOKED_AT + number for number in range(_LOOKED_AT))} if count else ()
        pieces = {number % count: self.chunks[number % count] for number in looked_at}
        return (
            self.offset // CHUNK == count
            and crc32(_piece(file, count * CHUNK, self.offset)) == self.rest
            and all(
                crc32(_piece(file, number * CHUNK, (number + 1) * CHUNK)) == digest for number, digest in pieces.items()
            )
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        held = {name: getattr(self, name) for name in self.__slots__}
        found = {name: getattr(self.found, name) for name in self.found.__slots__}
        return {"reader": READER, **held, "found": found}

    @classmethod
    def of_json(cls, held: dict[str, Any]) -> Self:
        """Return what `as_json` made. Raises ValueError, KeyError and TypeError for anything else."""
        fields = dict(held)
        if fields.pop("reader") != READER:
            raise ValueError("another reader's")
        found = fields.pop("found")
        cited = [(int(key), tuple(names)) for key, names in found.pop("cited")]
        told = [
            (int(key), Telling(tuple(bullets), tuple(lessons), digest, seed))
            for key, (bullets, lessons, digest, seed) in found.pop("told")
        ]
        return cls(**fields, found=Found(cited, told, **found))


@dataclass(slots=True)
class _Mark:
    """A place that may become a checkpoint: how many messages and results came before it, and what was found."""

    offset: int
    conversation: list[Any]
    found: Callable[[], Found]
    open: frozenset[str]
    messages: int
    results: int


class Marks:
    """Watches a scan for places at which a later one can go on.

    A person or the agent speaks there, so that nothing is left open of what was said before, and all messages so far
    are of one chain.
    """

    def __init__(self, saved: Callable[[], list[Any] | None], tally: Tally, since: Checkpoint | None) -> None:
        self.found = since.found.so_far()() if since else Found()
        self.is_exact = True
        #: The offset from which on a place is looked for.
        self.next = (since.offset if since else 0) + _SPACING
        self._saved, self._tally, self._since = saved, tally, since
        self._chain = since.chain if since else None
        self._is_mixed = False
        self._calls = dict.fromkeys(since.open if since else ())
        self._open = frozenset(self._calls)
        self._at, self._messages, self._results, self._duplicates = -1, 0, 0, 0
        self._here: _Mark | None = None
        self._marks: deque[_Mark] = deque()
        if since:
            self._marks.append(_Mark(since.offset, since.conversation, self.found.so_far(), self._open, 0, 0))

    def come_to(self, offset: int) -> None:
        """Look at the place before a record; those of one line have one offset."""
        if offset == self._at:
            return
        self._at, self._here = offset, None
        self._drop_if_repeated()
        if self._is_mixed or (saved := self._saved()) is None:
            return
        self._here = _Mark(offset, saved, self.found.so_far(), frozenset(self._calls), self._messages, self._results)

    def take(self, message: Message) -> None:
        """Take the next message of the scan."""
        here, self._here = self._here, None
        self._messages += 1
        if message.chain != self._chain:
            self._is_mixed = self._is_mixed or self._chain is not None
            self._chain = message.chain
        if here is not None and here.offset == message.offset and not self._is_mixed and speaks(message):
            self._marks.append(here)
            self.next = here.offset + _SPACING
        if message.origin == "model":
            for call in message.calls:
                self._calls[call.id] = None
                if len(self._calls) > _CALLS:
                    del self._calls[next(iter(self._calls))]
        elif message.results and message.origin in ("tool", "human", "refusal"):
            self._answer(one.call_id for one in message.results if message.origin == "tool" or not one.is_error)

    def _answer(self, ids: Iterable[str]) -> None:
        for id in ids:
            if id not in self._calls:
                continue
            del self._calls[id]
            self._results += 1
            if any(id in mark.open for mark in self._marks):
                self._marks = deque(mark for mark in self._marks if id not in mark.open)
            if id in self._open:  # the call stands before the checkpoint
                self.is_exact = False
        while len(self._marks) > 1 and self._results - self._marks[1].results >= _RESULTS:
            self._marks.popleft()

    def _drop_if_repeated(self) -> None:
        """Drop the places before a record that the file has twice: who begins there would take it for the first."""
        if self._tally.duplicates != self._duplicates:
            self._duplicates = self._tally.duplicates
            self._marks.clear()

    def checkpoint(self, agent: str, keys: array[int], size: int, chunks: list[int], file: FileIO) -> Checkpoint | None:
        """Return the latest place that is good enough, None where there is none."""
        self._drop_if_repeated()
        mark = self._marks[0] if self._marks else None
        if not self.is_exact or self._is_mixed or mark is None or self._results - mark.results < _RESULTS:
            return None
        whole = mark.offset // CHUNK
        state = os.fstat(file.fileno())
        return Checkpoint(
            agent=agent,
            offset=mark.offset,
            bytes=size,
            conversation=mark.conversation,
            found=mark.found(),
            chain=self._chain,
            open=sorted(mark.open),
            tail=keys[mark.messages :].tolist(),
            file=[state.st_dev, state.st_ino],
            chunks=chunks[:whole],
            rest=crc32(_piece(file, whole * CHUNK, mark.offset)),
            turn=self._since.turn + 1 if self._since else 0,
        )


class Chunks:
    """Digests of the chunks of a file that is read from a checkpoint on."""

    def __init__(self, file: FileIO, since: Checkpoint | None) -> None:
        self.digests: list[int] = list(since.chunks) if since else []
        begun = _piece(file, len(self.digests) * CHUNK, since.offset) if since else b""
        self._digest, self._room = crc32(begun), CHUNK - len(begun)

    def update(self, view: memoryview) -> None:
        """Take the bytes that follow."""
        while len(view) >= self._room:
            self.digests.append(crc32(view[: self._room], self._digest))
            view = view[self._room :]
            self._digest, self._room = 0, CHUNK
        self._digest = crc32(view, self._digest)
        self._room -= len(view)


def speaks(message: Message) -> bool:
    """Return whether somebody speaks: nothing is left open then of what was said before."""
    if message.origin in ("human", "refusal"):
        return not message.results
    return message.origin == "model" and bool(message.text.strip())


def _piece(file: FileIO, start: int, end: int) -> bytes:
    """Return bytes of a file, fewer where it ends before; the file stays where it stands."""
    at = file.tell()
    file.seek(start)
    parts: list[bytes] = []
    while start < end and (part := file.read(end - start)):
        parts.append(part)
        start += len(part)
    file.seek(at)
    return b"".join(parts)
