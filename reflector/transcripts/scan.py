"""The cheap first pass over a transcript, made at every session end: which records, which citations.

Invariant: `scan(path).keys` are the keys of `read_messages(path)`, in the same order, for every line
that is one whole record, or several as the client writes and glues them. Bytes decide where they
prove the answer: in JSON an unescaped quote behind a comma opens a key, and behind the last bracket
of a record only its own scalars follow. Every other line is parsed. What a line holds in its middle
is not looked at, so a record damaged there is counted here and missing there.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from io import FileIO
from threading import Thread
from typing import Any

from reflector.text.bounds import head_and_tail
from reflector.transcripts.citations import CITATION_BYTES, citations_of
from reflector.transcripts.claude_code import AGENT, Reader
from reflector.transcripts.envelope import ENVELOPE, GLUED, METADATA, is_metadata
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import LINE_LIMIT, is_complete, parse_line

_BLOCK = 2 * 1024 * 1024

_TYPE = b',"type":"'
_TYPE_FIRST = b'{"type":"'
_METADATA = frozenset(name.encode() for name in METADATA)
_USER = b',"type":"user","message":{'
_MESSAGE = b',"type":"message"'
_ASSISTANT = b',"type":"assistant","uuid":"'
#: How far from the end of a line the model's records say what they are, at most.
_END_SPAN = 800
#: The end of such a record: type, uuid and time, and no bracket up to its own last one.
_END = re.compile(_ASSISTANT + rb'([^"\\]{36})","timestamp":"([^"\\]++)"[^{}\[\]]*+\}')
#: Behind a user's message stand uuid and time; uuids of another length are left to the parser.
_STAMP = b'","timestamp":"'
_IDENTITY = re.compile(rb'\},"uuid":"([^"\\]{36})","timestamp":"([^"\\]++)"')
_IDENTITY_SPAN = len('},"uuid":"') + 36
#: Above every time that a record can have.
_NO_STAMP = b"\xff"


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass over a transcript's bytes found.

    agent        the name that the sessions of its agent are recorded under
    keys         record keys of all messages, first occurrences, in the order of `read_messages`
    cited        (key, names) of the model's records that cite
    session_id … version    of the first message that has one; "" where none has
    first_uuid, last_uuid   of the first and last record of type user or assistant
    started_at, ended_at    smallest and largest timestamp as written (their order in the file is not by time)
    bytes        bytes read; `bytes - tally.unfinished_bytes` of them were consumed
    sha256       hex digest of the bytes read
    """

    agent: str
    keys: array[int]
    cited: tuple[tuple[int, tuple[str, ...]], ...]
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


def scan(file: FileIO, limit: int | None) -> Scan:
    """Scan the first `limit` bytes of a transcript of Claude Code (None: all of it), in flat memory."""
    pass_ = _Pass()
    digest, size = _feed(pass_, file, limit)
    return pass_.result(digest, size)


def _feed(pass_: _Pass, file: FileIO, limit: int | None) -> tuple[str, int]:
    """Hand `file` over in blocks; SHA-256 and length of all that was read."""
    digest = sha256()
    size = 0
    rest = b""
    hashing: Thread | None = None
    # Two buffers, used in turn: fresh memory for each block costs more than reading it.
    blocks = bytearray(_BLOCK), bytearray(_BLOCK)
    while True:
        block = blocks[0]
        room = _BLOCK if limit is None else min(_BLOCK, limit - size)
        length = file.readinto(memoryview(block)[:room]) if room else 0
        # SHA-256 needs half as long as the rest of the pass, and runs without the interpreter's lock.
        if hashing is not None:
            hashing.join()
        if not length:
            break
        hashing = Thread(target=digest.update, args=(memoryview(block)[:length],))
        hashing.start()
        blocks = blocks[1], block
        base = size
        size += length
        first, last = block.find(b"\n", 0, length) + 1, block.rfind(b"\n", 0, length) + 1
        if last == 0:
            rest = pass_.keep(rest + block[:length])
            continue
        # Only the line that two blocks share is copied.
        shared = rest + block[:first]
        pass_.lines(shared, 0, len(shared), base - len(rest))
        pass_.lines(block, first, last, base)
        rest = pass_.keep(bytes(block[last:length]))
    pass_.last_line(rest, size - len(rest))
    return digest.hexdigest(), size


class _Pass:
    """The state of one scan. A chunk is a piece of the file that starts with a line, at offset `base`."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._reader = Reader()
        self._keys = bytearray()
        self._seen: set[bytes] = set()
        self._cited: list[tuple[bytes, tuple[str, ...]]] = []
        self._first_uuid = self._last_uuid = b""
        self._first_line = self._last_line = b""
        self._first_stamp, self._last_stamp = _NO_STAMP, b""
        self._plain = self._parsed = self._metadata = 0
        self._passed_over = 0

    def keep(self, rest: bytes) -> bytes:
        """Return the begun line to carry to the next block; of one above the limit only its length is kept."""
        if self._passed_over or len(rest) > LINE_LIMIT:
            self._passed_over += len(rest)
            return b""
        return rest

    def lines(self, chunk: bytes | bytearray, start: int, end: int, base: int) -> None:
        """All lines of chunk[start:end]. One long loop: a call for each line would cost as much as the line."""
        if self._passed_over:
            self._passed_over = 0
            self.tally.lines += 1
            self.tally.oversized += 1
            start = end
        find, startswith = chunk.find, chunk.startswith
        seen, keys = self._seen, self._keys
        first_stamp, last_stamp = self._first_stamp, self._last_stamp
        plain = metadata = 0
        last: tuple[bytes, int, int] | None = None
        while start < end:
            stop = find(b"\n", start, end)
            if stop < 0:
                stop = end
            match = None
            by_model = False
            if startswith(ENVELOPE, start):
                at = find(_TYPE, start, stop)
            else:
                at = start if startswith(_TYPE_FIRST, start) else -1
            if at < 0 or stop - start > LINE_LIMIT:
                pass
            elif startswith(_USER, at):
                # Its own type if no bracket opens before it. A second time may be the record's own,
                # or that of a record glued to it.
                stamp_at = find(_STAMP, at, stop)
                if (
                    stamp_at > 0
                    and find(b"{", start + 1, at) < 0
                    and find(b"[", start + 1, at) < 0
                    and find(_STAMP, stamp_at + 1, stop) < 0
                ):
                    match = _IDENTITY.match(chunk, stamp_at - _IDENTITY_SPAN, stop)
            elif startswith(_MESSAGE, at) or startswith(_ASSISTANT, at):
                # The first is the message's; the record's own stands behind it. In front may stand
                # a record that was cut off, or one that it is glued to.
                at = chunk.rfind(_ASSISTANT, max(start, stop - _END_SPAN), stop)
                if at > start and find(ENVELOPE, start + 1, stop) < 0:
                    match = _END.fullmatch(chunk, at, stop)
                    by_model = True
            elif (
                bytes(chunk[at + len(_TYPE) : find(b'"', at + len(_TYPE), stop)]) in _METADATA
                and find(b"{", start + 1, at) < 0
                and find(b"[", start + 1, at) < 0
                and find(ENVELOPE, at, stop) < 0
                and find(GLUED, at, stop) < 0
            ):
                metadata += 1
                start = stop + 1
                continue
            if match is None:
                if self._other(bytes(chunk[start:stop]), base + start):
                    last = None
            else:
                uuid, stamp = match.groups()
                plain += 1
                key = sha256(uuid).digest()[:8]
                if key not in seen:
                    seen.add(key)
                    keys += key
                    if by_model and CITATION_BYTES.search(chunk, start, stop):
                        self._cite(key, Reader().of_line(bytes(chunk[start:stop])))
                last = uuid, start, stop
                if stamp > last_stamp:
                    last_stamp = stamp
                if stamp < first_stamp:
                    first_stamp = stamp
                if not self._first_uuid:
                    self._first_uuid, self._first_line = uuid, bytes(chunk[start:stop])
            start = stop + 1
        self._plain += plain
        self._metadata += metadata
        self._first_stamp = min(self._first_stamp, first_stamp)
        self._last_stamp = max(self._last_stamp, last_stamp)
        if last is not None:
            self._last_uuid, self._last_line = last[0], bytes(chunk[last[1] : last[2]])

    def last_line(self, rest: bytes, offset: int) -> None:
        """The line behind the last newline: taken when it is whole, else left for the next scan."""
        if self._passed_over:
            self.tally.unfinished_bytes = self._passed_over
        elif is_complete(rest):
            self.lines(rest, 0, len(rest), offset)
        elif rest.strip():
            self.tally.unfinished_bytes = len(rest)

    def result(self, digest: str, size: int) -> Scan:
        """Close the pass."""
        for message in self._reader.leftover():
            self._add(message.uuid.encode())
        self.tally.lines += self._plain + self._metadata
        self.tally.records += self._plain + self._metadata
        self.tally.messages = len(self._seen)
        self.tally.duplicates = self._plain + self._parsed - len(self._seen)
        keys = array("q", bytes(self._keys))
        if sys.byteorder == "little":
            keys.byteswap()
        first, last = _record(self._first_line), _record(self._last_line)
        agent = _text(first, "agentId") if first.get("isSidechain") is True else ""
        return Scan(
            agent=AGENT,
            keys=keys,
            cited=tuple((int.from_bytes(key, "big", signed=True), names) for key, names in self._cited),
            session_id=_text(last, "sessionId") or _text(first, "sessionId"),
            agent_id=agent if agent == _text(last, "agentId") else "",
            cwd=_text(first, "cwd") or _text(last, "cwd"),
            version=_text(last, "version") or _text(first, "version"),
            first_uuid=self._first_uuid.decode("utf-8", "replace"),
            last_uuid=self._last_uuid.decode("utf-8", "replace"),
            started_at="" if self._first_stamp == _NO_STAMP else self._first_stamp.decode("utf-8", "replace"),
            ended_at=self._last_stamp.decode("utf-8", "replace"),
            bytes=size,
            sha256=digest,
            tally=self.tally,
        )

    def _other(self, line: bytes, offset: int) -> bool:
        """Return a line whose bytes prove nothing: metadata, glued, odd or damaged. True when it held a message."""
        if len(line) > LINE_LIMIT:
            self.tally.lines += 1
            self.tally.oversized += 1
            return False
        line = line.strip()
        if not line:
            return False
        self.tally.lines += 1
        if is_metadata(line):
            self.tally.records += 1
            return False
        held = False
        for record, text in parse_line(line, self.tally):
            for message in self._reader.messages(record, text, offset, self.tally):
                uuid = message.uuid.encode("utf-8", "surrogatepass")
                key = self._add(uuid)
                if key:
                    self._cite(key, (message,))
                if record.get("type") not in ("user", "assistant"):
                    continue
                held = True
                self._last_uuid, self._last_line = uuid, text.encode()
                if not self._first_uuid:
                    self._first_uuid, self._first_line = uuid, self._last_line
                if stamp := message.timestamp.encode():
                    self._first_stamp = min(self._first_stamp, stamp)
                    self._last_stamp = max(self._last_stamp, stamp)
        return held

    def _cite(self, key: bytes, messages: Iterable[Message]) -> None:
        if names := tuple(name for message in messages for name in citations_of(message)):
            self._cited.append((key, names))

    def _add(self, uuid: bytes) -> bytes:
        """Return the key of a parsed record seen for the first time; b"" for one seen before."""
        self._parsed += 1
        key = sha256(uuid).digest()[:8]
        if key in self._seen:
            return b""
        self._seen.add(key)
        self._keys += key
        return key


def _record(line: bytes) -> dict[str, Any]:
    records = parse_line(line, Tally())
    return records[0][0] if records else {}


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    return head_and_tail(value, 4096) if isinstance(value, str) else ""
