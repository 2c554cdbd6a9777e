"""Every format but Claude Code's, in the order in which they are tried.

Invariant: no record is recognised by two of them, so the order decides nothing.
"""

from __future__ import annotations

from io import RawIOBase
from typing import Any

from reflector.transcripts import codex, copilot, gemini, opencode, pi
from reflector.transcripts.message import Tally
from reflector.transcripts.reading import Format, RecordReader, read_document

FORMATS: tuple[Format, ...] = (codex.FORMAT, gemini.FORMAT, copilot.FORMAT, pi.FORMAT, opencode.FORMAT)
NAMES = ", ".join(format.name for format in FORMATS)


def format_of(record: dict[str, Any]) -> Format | None:
    """Return the format that a record is of, None for none of them."""
    return next((format for format in FORMATS if format.recognises(record)), None)


def reader_of(record: dict[str, Any]) -> RecordReader | None:
    """Return the reader of the file that holds a record; a record with all messages in it makes it a document."""
    format = format_of(record)
    return format and RecordReader(format, is_document=isinstance(record.get("messages"), list))


def reader_of_document(file: RawIOBase, name: str) -> RecordReader | None:
    """The reader of a file that is one JSON document. Raises UnknownTranscript for one that is cut off or too big."""
    for record in read_document(file, name, Tally()):
        if format := format_of(record):
            return RecordReader(format, is_document=True)
    return None
