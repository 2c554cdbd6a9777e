"""The head of a transcript (the folder of its session, and its beginning), and the time of its last
record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reflector.transcripts.message import Tally
from reflector.transcripts.readers import folder_named_in, time_named_in
from reflector.transcripts.records import parse_line, read_lines

#: How far into a file its folder and its first time are looked for. A first prompt with images has
#: megabytes.
_HEAD_BYTES = 8 * 1024 * 1024
_HEAD_LINES = 200
#: How far from the end of a file its last time is looked for.
_TAIL_BYTES = 64 * 1024
#: Fields of Claude Code's first message; one that is set shows that an earlier part is missing.
_EARLIER = ("parentUuid", "logicalParentUuid", "isCompactSummary")
_MAX_DOCUMENT_BYTES = 64 * 1024 * 1024


class Head(NamedTuple):
    """The head of a transcript.

    folder      the folder the agent worked in, "" if no record names it
    started_at  the first time in the file as written, "" if there is none
    """

    folder: str
    started_at: str


def read_head(path: Path) -> Head:
    """Return the head of a transcript. Raises OSError."""
    if path.suffix == ".json":
        return Head(_folder_of_document(path), "")
    folder = started_at = ""
    for record in _first_records(path):
        folder = folder or folder_named_in(record)
        started_at = started_at or time_named_in(record)
        if folder and started_at:
            break
    return Head(folder, started_at)


def _first_records(path: Path) -> Iterator[dict[str, Any]]:
    tally = Tally()
    with path.open("rb", buffering=256 * 1024) as file:
        for line in read_lines(file, _HEAD_BYTES, tally):
            yield from (record.value for record in parse_line(line.text, tally))
            if tally.lines >= _HEAD_LINES:
                return


def is_whole(path: Path) -> bool:
    """Return whether a transcript begins where its session began. It does not if its first message
    follows a record that the file lacks, or sums up earlier ones. Raises OSError.
    """
    if path.suffix == ".json":
        return True
    messages = (record for record in _first_records(path) if "parentUuid" in record)
    first = next(messages, {})
    return not any(map(first.get, _EARLIER))


def last_time(path: Path) -> str:
    """Return the last time that a record at the end of a transcript names; "" if none does. Raises
    OSError.
    """
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
        lines = file.read(_TAIL_BYTES).splitlines()
    for line in reversed(lines):
        for record, _ in parse_line(line, Tally()):
            if time := time_named_in(record):
                return time
    return ""


def _folder_of_document(path: Path) -> str:
    """Return the folder that a document names. Raises OSError."""
    try:
        record = json.loads(path.read_bytes()) if path.stat().st_size <= _MAX_DOCUMENT_BYTES else {}
    except (ValueError, RecursionError):
        return ""
    return folder_named_in(record) if isinstance(record, dict) else ""
