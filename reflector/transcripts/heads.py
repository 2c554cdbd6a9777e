"""The head of a transcript (the folder, the branch and the beginning of its session), and the time
of its last record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from reflector.files import open_regular, read_bounded
from reflector.transcripts.message import Tally
from reflector.transcripts.readers import folder_named_in, time_named_in
from reflector.transcripts.records import parse_line, read_lines

#: The number of bytes in which a file's folder and first time are searched. A first prompt with
#: images has megabytes.
_HEAD_BYTES = 8 * 1024 * 1024
_HEAD_LINES = 200
#: The number of bytes at the end of a file in which its last time is searched.
_TAIL_BYTES = 64 * 1024
#: Fields of Claude Code's first message. If one is set, an earlier part is missing.
_EARLIER = ("parentUuid", "logicalParentUuid", "isCompactSummary")
_MAX_DOCUMENT_BYTES = 64 * 1024 * 1024


class Head(NamedTuple):
    """The head of a transcript.

    folder      the agent's working folder; "" if no record names it
    started_at  the first time in the file as written; "" if there is none
    """

    folder: str
    started_at: str


def read_head(path: Path) -> Head:
    """Return the head of a transcript.

    Raises: OSError.
    """
    if path.suffix == ".json":
        return Head(_folder_of_document(path), "")
    folder = started_at = ""
    for record in _first_records(path):
        folder = folder or folder_named_in(record)
        started_at = started_at or time_named_in(record)
        if folder and started_at:
            break
    return Head(folder, started_at)


def branch_in(path: Path) -> str:
    """Return the git branch in the first records of a transcript; "" if they contain none."""
    with suppress(OSError):
        for record in _first_records(path):
            if isinstance(branch := record.get("gitBranch"), str):
                return branch
    return ""


def _first_records(path: Path) -> Iterator[dict[str, Any]]:
    tally = Tally()
    with open_regular(path) as file:
        for line in read_lines(file, _HEAD_BYTES, tally):
            yield from (record.value for record in parse_line(line.text, tally))
            if tally.lines >= _HEAD_LINES:
                return


def is_whole(path: Path) -> bool:
    """Return whether a transcript contains the beginning of its session. It does not if its first
    message follows a record that is not in the file, or summarizes earlier records.

    Raises: OSError.
    """
    if path.suffix == ".json":
        return True
    messages = (record for record in _first_records(path) if "parentUuid" in record)
    first = next(messages, {})
    return not any(map(first.get, _EARLIER))


def last_time(path: Path) -> str:
    """Return the last time in the records at the end of a transcript; "" if there is none.

    Raises: OSError.
    """
    with open_regular(path) as file:
        file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
        lines = file.read(_TAIL_BYTES).splitlines()
    for line in reversed(lines):
        for record, _ in parse_line(line, Tally()):
            if time := time_named_in(record):
                return time
    return ""


def _folder_of_document(path: Path) -> str:
    """Return the folder that a document names.

    Raises: OSError.
    """
    try:
        is_large = path.stat().st_size > _MAX_DOCUMENT_BYTES
        record = {} if is_large else json.loads(read_bounded(path, _MAX_DOCUMENT_BYTES))
    except (ValueError, RecursionError):
        return ""
    return folder_named_in(record) if isinstance(record, dict) else ""
