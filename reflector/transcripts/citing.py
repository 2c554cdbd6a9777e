"""The messages that cite, found without parsing the rest.

Invariant: whatever `citations_of` finds in `read_messages` is found here. A citation stands in a
record's JSON as the model wrote it, so lines without its bytes need no look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BufferedReader, FileIO
from os import PathLike

from reflector.transcripts.citations import CITATION_BYTES, citations_of
from reflector.transcripts.claude_code import Reader
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import LINE_LIMIT, is_complete, parse_line
from reflector.transcripts.source import open_transcript

_BLOCK = 1024 * 1024
#: How many bytes there have to be for each bracket.
_RARE = 128
_INITIALS = frozenset(b"pmcok")


def citing_messages(path: str | PathLike[str], limit: int | None = None) -> Iterator[Message]:
    """Messages of the model that cite a name, each once, among the first `limit` bytes, in file order.

    Their chains are not resolved: of a sidechain without `agentId` each message names its own.
    Raises OSError and `UnknownTranscript`, at the first step of the iteration.
    """
    seen: set[int] = set()
    with open_transcript(path, limit) as file:
        for offset, line in _lines_with_names(file, limit):
            for message in _messages(line, offset):
                if message.key not in seen:
                    seen.add(message.key)
                    if citations_of(message):
                        yield message


def messages_at(path: str | PathLike[str], places: Iterable[tuple[int, int]]) -> Iterator[Message]:
    """The messages of `places`: (record key, byte offset of its line) pairs such as `Scan.cited`.

    What is no longer there (the file was replaced since) is left out. Raises OSError and `UnknownTranscript`.
    """
    with BufferedReader(open_transcript(path)) as file:
        for key, offset in places:
            file.seek(offset)
            for message in _messages(file.readline(LINE_LIMIT + 1), offset):
                if message.key == key:
                    yield message
                    break


def _messages(line: bytes, offset: int) -> Iterator[Message]:
    tally = Tally()
    reader = Reader()
    for record, text in parse_line(line.strip(), tally):
        yield from reader.messages(record, text, offset, tally)


def _lines_with_names(file: FileIO, limit: int | None) -> Iterator[tuple[int, bytes]]:
    """(offset, line) of each complete line of the model in which a name stands in brackets."""
    rest = b""
    size = 0
    passing_over = False
    while block := file.read(_BLOCK if limit is None else min(_BLOCK, limit - size)):
        base = size
        size += len(block)
        first, last = block.find(b"\n") + 1, block.rfind(b"\n") + 1
        if first:
            # Only the line that two blocks share is copied.
            shared = rest + block[:first]
            if not passing_over:
                yield from _named(shared, 0, len(shared), base - len(rest))
            yield from _named(block, first, last, base)
            rest, passing_over = b"", False
        if not passing_over:
            rest += block[last:]
        if len(rest) > LINE_LIMIT:
            rest, passing_over = b"", True
    if is_complete(rest):
        yield from _named(rest, 0, len(rest), size - len(rest))


def _named(chunk: bytes, start: int, end: int, base: int) -> Iterator[tuple[int, bytes]]:
    at = start
    while (found := _next_name(chunk, at, end)) >= 0:
        begin = chunk.rfind(b"\n", start, found) + 1 or start
        at = chunk.find(b"\n", found, end) + 1 or end
        line = chunk[begin:at]
        if len(line) <= LINE_LIMIT and b'"assistant"' in line:
            yield base + begin, line


def _next_name(chunk: bytes, at: int, end: int) -> int:
    """Where the next name in brackets stands in chunk[at:end], or -1.

    Looking for one byte is several times as fast as the pattern is, as long as brackets are rare.
    """
    find, match = chunk.find, CITATION_BYTES.match
    for _ in range((end - at) // _RARE):
        at = find(b"[", at, end - 1)
        if at < 0:
            return -1
        if chunk[at + 1] in _INITIALS and match(chunk, at, end):
            return at
        at += 1
    found = CITATION_BYTES.search(chunk, at, end)
    return found.start() if found else -1
