"""Says whose transcript a file is, by what its records hold, and hands out the reader for it.

Invariant: a format is never guessed, neither from a file's name or place nor from the agent whose hook named it.
A hook that was copied from another agent hands over that agent's files, and what no format recognises is
refused with the list of those that were tried.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from os import PathLike, fspath

from reflector.transcripts.checkpoint import Checkpoint
from reflector.transcripts.claude_code import FORMAT as CLAUDE_CODE
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.reading import Gatherer, RecordReader, Scan, Watcher
from reflector.transcripts.records import LINE_LIMIT, parse_line, read_lines
from reflector.transcripts.source import UnknownTranscript, open_file

#: How far to look for a record that is recognised. A first prompt with images has megabytes.
_SNIFF_LINES = 200
_SNIFF_BYTES = 64 * 1024 * 1024
_BUFFER = 64 * 1024

#: How files begin that hold transcripts in a form that is not read, and what to do about it.
_WRAPPED = (
    (b"\x28\xb5\x2f\xfd", "is compressed; unpack it with `zstd -d` and ingest the result"),
    (b"\x1f\x8b", "is compressed; unpack it with `gunzip` and ingest the result"),
    (
        b"SQLite format 3\0",
        "is a database; for OpenCode's, write a session to a file with `opencode export` and ingest that",
    ),
)


def scan(
    path: str | PathLike[str],
    limit: int | None = None,
    *,
    once: Watcher | None = None,
    gather: Gatherer | None = None,
) -> Scan:
    """Scan the first `limit` bytes of a transcript (None: all of it), in flat memory.

    `once` is given every message of it with the names that it cites; no later scan can go on from this one. `gather`
    is given the messages whose role is "user", without what tools answered.
    Raises OSError (missing file, folder, no permission) and `UnknownTranscript`; never for what a line contains.
    """
    with _opened(path) as (reader, file):
        return reader.scan(file, limit, once=once, gather=gather)


def scan_on(
    path: str | PathLike[str], limit: int | None, since: Checkpoint, *, gather: Gatherer | None = None
) -> Scan | None:
    """Scan a transcript from a checkpoint to `limit`; None where it is not, or may not be, what was read before.

    The scan may still turn out not to be exact. Raises as `scan` does.
    """
    with _opened(path) as (reader, file):
        if reader.agent != since.agent or not since.holds(file, limit):
            return None
        file.seek(since.offset)
        with suppress(ValueError, TypeError):
            return reader.scan(file, limit, since, gather=gather)
        return None


def read_messages(
    path: str | PathLike[str],
    *,
    limit: int | None = None,
    tally: Tally | None = None,
    skip: Container[int] = frozenset(),
    start: int = 0,
) -> Iterator[Message]:
    """Yield the messages of a transcript, in the order in which the model saw them, each once.

    limit   bytes to read at most: the file's size when its window was closed
    tally   filled while reading: what was not understood
    skip    keys of records to leave out, those of earlier windows
    start   where to begin, the offset of a checkpoint

    Raises as `scan` does, at the first step of the iteration.
    """
    with _opened(path) as (reader, file):
        file.seek(start)
        for message in reader.messages(file, limit, Tally() if tally is None else tally):
            if message.key not in skip:
                yield message


def agent_of(path: str | PathLike[str]) -> str:
    """Return the name of the agent that wrote a transcript. Raises as `scan` does."""
    with _opened(path) as (reader, _):
        return reader.agent


@contextmanager
def _opened(path: str | PathLike[str]) -> Iterator[tuple[RecordReader, FileIO]]:
    """A transcript, open at its first byte, and its reader."""
    with open_file(path) as file:
        reader = _reader_of(file, fspath(path))
        file.seek(0)
        yield reader, file


def _reader_of(file: FileIO, name: str) -> RecordReader:
    tally = Tally()
    is_document: bool | None = None
    buffered = BufferedReader(file, _BUFFER)
    head = buffered.peek(16)[:16]
    for _, line in read_lines(buffered, _SNIFF_BYTES, tally):
        records = parse_line(line, tally)
        if is_document is None:
            is_document = not records
        for record, _ in records:
            if CLAUDE_CODE.recognises(record):
                buffered.detach()
                return RecordReader(CLAUDE_CODE, is_document=False)
            # The others are loaded when they are needed: a hook waits for none of them.
            from reflector.transcripts.others import reader_of

            if reader := reader_of(record):
                buffered.detach()
                return reader
        if tally.lines >= _SNIFF_LINES:
            break
    # A document over many lines, or on one above the limit.
    is_document = is_document or tally.oversized > 0 or tally.unfinished_bytes > LINE_LIMIT
    buffered.detach()
    if is_document and head.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{"):
        from reflector.transcripts.others import reader_of_document

        file.seek(0)
        if document := reader_of_document(file, name):
            return document
    raise UnknownTranscript(_refusal(name, head, tally))


def _refusal(name: str, head: bytes, tally: Tally) -> str:
    for magic, advice in _WRAPPED:
        if head.startswith(magic):
            return f"{name!r} {advice}"
    if tally.lines == 0:
        if not tally.unfinished_bytes:
            return f"{name!r} is empty: it contains no records yet"
        return f"{name!r} holds {tally.unfinished_bytes} bytes of an unfinished line: it contains no records yet"
    from reflector.transcripts.others import NAMES

    looked_for = f"looked for records of Claude Code, {NAMES}"
    if tally.records == 0:
        return f"{name!r} is not a transcript: its beginning has no line that is a JSON object; {looked_for}"
    return f"{name!r} is not a known transcript: none of its first {tally.records} records is one; {looked_for}"
