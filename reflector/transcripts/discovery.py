"""Finding the transcripts that a client left: where they lie, whose they are, how old.

Invariant: the project of a transcript is what its records say. The folder's name is the path with everything
but letters and digits replaced, so several projects share one name, and a session can be moved to another. Where a hook
named no transcript, only a file that is named by the very id of the session is taken for it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reflector.transcripts.building import fields, whole
from reflector.transcripts.message import Tally
from reflector.transcripts.records import parse_line, read_lines, record_key

#: How far into a file its folder and its first time are looked for. A first prompt with images has megabytes.
_HEAD_BYTES = 8 * 1024 * 1024
_HEAD_LINES = 200
_MOST_DOCUMENT = 64 * 1024 * 1024
#: Files beside the transcripts that are none.
_OTHERS = frozenset({"journal.jsonl", "history.jsonl"})
_SPOKEN = ("user", "assistant")
_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class Found:
    """A transcript as its head tells.

    cwd         the folder the agent worked in, "" where no record says
    started_at  the first time in the file, ISO 8601 as written, "" where there is none
    bytes       size of the file
    key         of the first record with words, None where the head has none that is known by itself
    """

    path: Path
    cwd: str
    started_at: str
    bytes: int
    key: int | None = None


def find_transcripts(
    folder: Path, pattern: str = "*.jsonl", known: Mapping[tuple[str, int], str] = MappingProxyType({})
) -> Iterator[Found]:
    """Yield the transcripts below a folder, subagents' as well, in no order. What cannot be read is passed over.

    known  the folder that the agent worked in, by the path and the bytes of a file: such a one is not opened
    """
    for path in sorted(folder.rglob(pattern)):
        if path.name in _OTHERS or not path.is_file():
            continue
        with suppress(OSError):
            size = path.stat().st_size
            cwd = known.get((str(path), size)) if known else None
            yield look_at(path) if cwd is None else Found(path, cwd, "", size)


def look_at(path: Path) -> Found:
    """Return what the head of one file tells. Raises OSError."""
    cwd = started_at = uuid = ""
    tally = Tally()
    if path.suffix == ".json":
        return Found(path, _of_document(path), "", path.stat().st_size)
    with path.open("rb", buffering=256 * 1024) as file:
        for _, line in read_lines(file, _HEAD_BYTES, tally):
            for record, _ in parse_line(line, tally):
                cwd = cwd or _folder(record)
                started_at = started_at or whole(record.get("timestamp"))
                if whole(record.get("type")) in _SPOKEN:
                    uuid = uuid or whole(record.get("uuid"))
            if (cwd and started_at and uuid) or tally.lines >= _HEAD_LINES:
                break
    return Found(path, cwd, started_at, path.stat().st_size, record_key(uuid) if uuid else None)


def _of_document(path: Path) -> str:
    """Return the folder that a document names. Raises OSError."""
    try:
        record = json.loads(path.read_bytes()) if path.stat().st_size <= _MOST_DOCUMENT else {}
    except (ValueError, RecursionError):
        return ""
    return _folder(record) if isinstance(record, dict) else ""


def project_hash(root: Path) -> str:
    """Return how Gemini CLI names a project in its chats."""
    return sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()


def _folder(record: dict[str, Any]) -> str:
    """Return the folder that a record names: beside its type, or where Codex CLI, Copilot CLI and OpenCode put it. A
    chat of Gemini CLI has a hash of it."""
    places = [record, fields(record.get("payload")), fields(record.get("data"))]
    places += [fields(place.get("context")) for place in places]
    found = (cwd for place in places if (cwd := whole(place.get("cwd"))))
    return next(found, "") or whole(fields(record.get("info")).get("directory")) or whole(record.get("projectHash"))


def find_transcript(session_id: str | None) -> Path | None:
    """Return the newest transcript of a session of Codex CLI or Copilot CLI, which may name none at an end; None for
    one that left no file under `$CODEX_HOME` or `~/.codex`, `$COPILOT_HOME` or `~/.copilot`."""
    if not session_id or _ID.fullmatch(session_id) is None:
        return None
    try:
        codex = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
        copilot = Path(os.environ.get("COPILOT_HOME") or Path.home() / ".copilot")
        found = sorted(codex.glob(f"sessions/*/*/*/rollout-*-{session_id}.jsonl"))
        found += copilot.glob(f"session-state/{session_id}/events.jsonl")
    except (OSError, RuntimeError):
        return None
    return found[-1] if found else None
