"""Says whose transcript a file is, by what its records hold, and hands out the reader for it.

Invariant: a format is never guessed, neither from a file's name or place nor from the agent whose hook named it.
A hook that was copied from another agent hands over that agent's files, and what no format recognises is
refused with the list of those that were tried.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from io import BufferedReader
from os import PathLike, fspath
from typing import Protocol

from reflector.transcripts import citing, claude_code
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import LINE_LIMIT, parse_line, read_lines
from reflector.transcripts.scan import Scan
from reflector.transcripts.scan import scan as scan_claude_code
from reflector.transcripts.source import UnknownTranscript, is_claude_code, open_file

#: How far to look for a record that is recognised. A first prompt with images has megabytes.
_SNIFF_LINES = 200
_SNIFF_BYTES = 64 * 1024 * 1024
_BUFFER = 64 * 1024

#: How files begin that hold transcripts in a form that is not read, and what to do about it.
_WRAPPED = (
    (b"\x28\xb5\x2f\xfd", "is compressed; unpack it with `zstd -d` and take the result in"),
    (b"\x1f\x8b", "is compressed; unpack it with `gunzip` and take the result in"),
    (
        b"SQLite format 3\0",
        "is a database; for OpenCode's, write a session to a file with `opencode export` and take that in",
    ),
)


class Reader(Protocol):
    """The one interface to the transcripts of every agent. All raise OSError and `UnknownTranscript`.

    agent   the name that its sessions are recorded under
    """

    agent: str

    def scan(self, path: str | PathLike[str], limit: int | None = None) -> Scan:
        """Which messages, which of them hold something like a citation, and what the file says about itself."""
        ...

    def messages_at(self, path: str | PathLike[str], places: Iterable[tuple[int, int]]) -> Iterator[Message]:
        """The messages of `places`, (key, offset) pairs of `Scan.cited`; what is no longer there is left out."""
        ...

    def read_messages(
        self,
        path: str | PathLike[str],
        *,
        limit: int | None = None,
        tally: Tally | None = None,
        skip: Container[int] = frozenset(),
    ) -> Iterator[Message]:
        """All messages in their order, each once."""
        ...


class _ClaudeCode:
    agent = "claude-code"
    scan = staticmethod(scan_claude_code)
    messages_at = staticmethod(citing.messages_at)
    read_messages = staticmethod(claude_code.read_messages)


_CLAUDE_CODE: Reader = _ClaudeCode()


def reader_for(path: str | PathLike[str]) -> Reader:
    """The reader of the agent that wrote `path`.

    Raises OSError as `open` does, and `UnknownTranscript` for what is empty, not a regular file or of no format
    that is known.
    """
    name = fspath(path)
    tally = Tally()
    is_document: bool | None = None
    with BufferedReader(open_file(path), _BUFFER) as file:
        head = file.peek(16)[:16]
        for _, line in read_lines(file, _SNIFF_BYTES, tally):
            records = parse_line(line, tally)
            if is_document is None:
                is_document = not records
            for record, _ in records:
                if is_claude_code(record):
                    return _CLAUDE_CODE
                # The others are loaded when they are needed: a hook waits for none of them.
                from reflector.transcripts.others import reader_of

                if reader := reader_of(record):
                    return reader
            if tally.lines >= _SNIFF_LINES:
                break
        # A document over many lines, or on one above the limit.
        is_document = is_document or tally.oversized > 0 or tally.unfinished_bytes > LINE_LIMIT
        if is_document and head.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{"):
            from reflector.transcripts.others import reader_of_document

            file.raw.seek(0)
            if document := reader_of_document(file.raw, name):
                return document
    raise UnknownTranscript(_refusal(name, head, tally))


def _refusal(name: str, head: bytes, tally: Tally) -> str:
    for magic, advice in _WRAPPED:
        if head.startswith(magic):
            return f"{name!r} {advice}"
    if tally.lines == 0:
        if not tally.unfinished_bytes:
            return f"{name!r} is empty: there is no record in it yet"
        return f"{name!r} holds {tally.unfinished_bytes} bytes of an unfinished line: there is no record in it yet"
    from reflector.transcripts.others import NAMES

    looked_for = f"looked for records of Claude Code, {NAMES}"
    if tally.records == 0:
        return f"{name!r} is not a transcript: no line of its first {tally.lines} holds a JSON object; {looked_for}"
    return f"{name!r} is not a known transcript: none of its first {tally.records} records is one; {looked_for}"
