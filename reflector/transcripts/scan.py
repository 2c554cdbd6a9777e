"""The cheap first pass over a transcript, made at every session end: which records, which citations.

Invariant: `scan(path).keys` are the keys of `read_messages(path)`, in the same order, for every line
that is one whole record or several glued ones. Bytes decide where they prove the answer: in JSON an
unescaped quote behind a comma opens a key, and behind the last bracket of a record only its own
scalars follow. Every other line is parsed. What a line holds in its middle is not looked at, so a
record damaged there is counted here and missing there.
"""

from __future__ import annotations

import hashlib
import re
import sys
from array import array
from dataclasses import dataclass
from os import PathLike
from threading import Thread
from typing import Any, BinaryIO

from reflector.transcripts.bounds import head_and_tail
from reflector.transcripts.citations import CITATION
from reflector.transcripts.claude_code import Reader, is_metadata
from reflector.transcripts.message import Tally
from reflector.transcripts.records import LINE_LIMIT, is_complete, parse_line
from reflector.transcripts.source import open_transcript

_BLOCK = 4 * 1024 * 1024

#: How far from its end a record's own `type` stands at most, where it does not stand at its start.
_TAIL = 800

_ENVELOPE = b'{"parentUuid":'
_CITED = re.compile(rb"\[(?:(?:pat|mis|pref|ctx|oth)-\d+|kpt_\d+)\]")

_SCALAR = rb'(?:"(?:[^"\\]++|\\.)*+"|null|true|false|-?[\d.]++)'
_AT_START = re.compile(rb'\{(?:"[\w-]++":' + _SCALAR + rb',){0,24}?"type":"([\w-]++)"')
_PAIR = rb',"uuid":"(?P<uuid>[^"\\]++)"(?:,"timestamp":"(?P<stamp>[^"\\]++)")?+'
_UUID = re.compile(_PAIR)
_AT_END = re.compile(rb',"type":"(?P<type>[\w-]++)"' + _PAIR + rb'(?:,"[\w-]++":' + _SCALAR + rb")*+\}")


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass over a transcript's bytes found.

    keys         record keys of all messages, first occurrences, in the order of `read_messages`
    cited        (key, byte offset of its line) of the model's records whose bytes hold something like
                 a citation: suspects, to be read with `read_messages` rules before anything is counted
    session_id … version    of the first message that has one; "" where none has
    first_uuid, last_uuid   of the first and last record of type user or assistant
    started_at, ended_at    smallest and largest timestamp as written (their order in the file is not by time)
    bytes        bytes read; `bytes - tally.unfinished_bytes` of them were consumed
    sha256       hex digest of the bytes read
    """

    keys: array[int]
    cited: tuple[tuple[int, int], ...]
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


def scan(path: str | PathLike[str], limit: int | None = None) -> Scan:
    """Scan the first `limit` bytes of a transcript (None: all of it), in flat memory.

    Raises OSError (missing file, folder, no permission) and `UnknownTranscript`; never for what a
    line contains.
    """
    pass_ = _Pass()
    with open_transcript(path, limit) as file:
        digest, size = _feed(pass_, file, limit)
    return pass_.result(digest, size)


def _feed(pass_: _Pass, file: BinaryIO, limit: int | None) -> tuple[str, int]:
    """Hand `file` over in blocks that end with a line; SHA-256 and length of all that was read."""
    digest = hashlib.sha256()
    size = 0
    rest = b""
    hashing: Thread | None = None
    while True:
        block = file.read(_BLOCK if limit is None else min(_BLOCK, limit - size))
        if hashing is not None:
            hashing.join()
        if not block:
            break
        # SHA-256 needs about as long as the rest of the pass and runs without the interpreter's lock.
        hashing = Thread(target=digest.update, args=(block,))
        hashing.start()
        base = size - len(rest)
        size += len(block)
        end = block.rfind(b"\n") + 1
        if end == 0:
            rest = pass_.keep(rest + block)
            continue
        pass_.lines(rest + block[:end] if rest else block, len(rest) + end, base)
        rest = pass_.keep(block[end:])
    pass_.last_line(rest, size - len(rest))
    return digest.hexdigest(), size


class _Pass:
    """The state of one scan. A chunk is a piece of the file that starts with a line, at offset `base`."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._reader = Reader()
        self._keys = bytearray()
        self._seen: set[bytes] = set()
        self._cited: list[tuple[bytes, int]] = []
        self._first_uuid = self._last_uuid = self._first_stamp = self._last_stamp = b""
        self._first_line = self._last_line = b""
        self._last_span = (0, 0)
        self._passed_over = 0

    def keep(self, rest: bytes) -> bytes:
        """The begun line to carry to the next block; of one above the limit only its length is kept."""
        if self._passed_over or len(rest) > LINE_LIMIT:
            self._passed_over += len(rest)
            return b""
        return rest

    def lines(self, chunk: bytes, end: int, base: int) -> None:
        """All lines of chunk[:end]."""
        start = 0
        if self._passed_over:
            self._passed_over = 0
            self.tally.lines += 1
            self.tally.oversized += 1
            start = chunk.find(b"\n", 0, end) + 1
        self._last_span = (0, 0)
        while start < end:
            stop = chunk.find(b"\n", start, end)
            if stop < 0:
                stop = end
            if not self._is_plain(chunk, start, stop, base):
                self._other(chunk[start:stop], base + start)
            start = stop + 1
        if self._last_span != (0, 0):
            self._last_line = chunk[slice(*self._last_span)]

    def last_line(self, rest: bytes, offset: int) -> None:
        """The line behind the last newline: taken when it is whole, else left for the next scan."""
        if self._passed_over:
            self.tally.unfinished_bytes = self._passed_over
        elif is_complete(rest):
            self.lines(rest, len(rest), offset)
        elif rest.strip():
            self.tally.unfinished_bytes = len(rest)

    def result(self, digest: str, size: int) -> Scan:
        """Close the pass."""
        for message in self._reader.leftover():
            self._add(message.uuid.encode())
        keys = array("q", bytes(self._keys))
        if sys.byteorder == "little":
            keys.byteswap()
        first, last = _record(self._first_line), _record(self._last_line)
        agent = _text(first, "agentId") if first.get("isSidechain") is True else ""
        return Scan(
            keys=keys,
            cited=tuple((int.from_bytes(key, "big", signed=True), offset) for key, offset in self._cited),
            session_id=_text(last, "sessionId") or _text(first, "sessionId"),
            agent_id=agent if agent == _text(last, "agentId") else "",
            cwd=_text(first, "cwd") or _text(last, "cwd"),
            version=_text(last, "version") or _text(first, "version"),
            first_uuid=self._first_uuid.decode("utf-8", "replace"),
            last_uuid=self._last_uuid.decode("utf-8", "replace"),
            started_at=self._first_stamp.decode("utf-8", "replace"),
            ended_at=self._last_stamp.decode("utf-8", "replace"),
            bytes=size,
            sha256=digest,
            tally=self.tally,
        )

    def _is_plain(self, chunk: bytes, start: int, stop: int, base: int) -> bool:
        """Take chunk[start:stop] when its bytes prove that it is one record of type user or assistant."""
        if not chunk.startswith(_ENVELOPE, start, stop) or stop - start > LINE_LIMIT:
            return False
        at = chunk.rfind(b',"type":"', max(start, stop - _TAIL), stop)
        match = _AT_END.fullmatch(chunk, at, stop) if at > 0 else None
        if match is None:
            opening = _AT_START.match(chunk, start, stop)
            if opening is None:
                return False
            kind = opening[1]
            at = chunk.find(b',"uuid":"', start, stop)
            match = _UUID.match(chunk, at, stop) if at > 0 else None
            # A second one may be the record's own, and this one nested.
            if match is None or chunk.find(b',"uuid":"', match.end(), stop) > 0:
                return False
        else:
            kind = match["type"]
        if kind != b"assistant" and kind != b"user":
            return False
        # Behind a record that was cut off, or glued to it, another begins.
        if chunk.find(_ENVELOPE, start + 1, stop) > 0:
            return False
        uuid, stamp = match["uuid"], match["stamp"]
        self.tally.lines += 1
        self.tally.records += 1
        key = self._add(uuid)
        if key and kind == b"assistant" and _CITED.search(chunk, start, stop):
            self._cited.append((key, base + start))
        if not self._first_uuid:
            self._first_uuid, self._first_line = uuid, chunk[start:stop]
        self._last_uuid, self._last_span = uuid, (start, stop)
        if stamp:
            self._stamp(stamp)
        return True

    def _other(self, line: bytes, offset: int) -> None:
        """A line whose bytes prove nothing: metadata, glued, odd, damaged."""
        if len(line) > LINE_LIMIT:
            self.tally.lines += 1
            self.tally.oversized += 1
            return
        line = line.strip()
        if not line:
            return
        self.tally.lines += 1
        if is_metadata(line):
            self.tally.records += 1
            return
        for record, text in parse_line(line, self.tally):
            for message in self._reader.messages(record, text, offset, self.tally):
                uuid = message.uuid.encode("utf-8", "surrogatepass")
                key = self._add(uuid)
                if key and message.role == "assistant" and CITATION.search(text):
                    self._cited.append((key, offset))
                if record.get("type") not in ("user", "assistant"):
                    continue
                if not self._first_uuid:
                    self._first_uuid, self._first_line = uuid, text.encode()
                self._last_uuid, self._last_line, self._last_span = uuid, text.encode(), (0, 0)
                if message.timestamp:
                    self._stamp(message.timestamp.encode())

    def _add(self, uuid: bytes) -> bytes:
        """The key of a record seen for the first time; b"" for one seen before."""
        key = hashlib.sha256(uuid).digest()[:8]
        if key in self._seen:
            self.tally.duplicates += 1
            return b""
        self._seen.add(key)
        self._keys += key
        self.tally.messages += 1
        return key

    def _stamp(self, stamp: bytes) -> None:
        if stamp > self._last_stamp:
            self._last_stamp = stamp
        if stamp < self._first_stamp or not self._first_stamp:
            self._first_stamp = stamp


def _record(line: bytes) -> dict[str, Any]:
    records = parse_line(line, Tally())
    return records[0][0] if records else {}


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    return head_and_tail(value, 4096) if isinstance(value, str) else ""
