"""The transcripts that agents still keep: found by their heads, and recorded one after the other.

Invariant: the project of a transcript is the folder that its records name. The name of its own
folder is the path with everything but letters and digits replaced, so several projects share one
name, and a session can be moved to another.

A history is recorded oldest first, each file to its last event before the next begins, so an import
that is stopped goes on where it ended. `reflector import-history` uses it, and `checks` finds the
transcripts of a check by it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from reflector.events import event as ev
from reflector.project import project_of
from reflector.sessions.drain import Pipeline, ask_model, waiting_pipeline
from reflector.sessions.intake import Source
from reflector.transcripts.message import Tally
from reflector.transcripts.readers import folder_named_in, readers, time_named_in
from reflector.transcripts.reading import scan
from reflector.transcripts.records import parse_line, read_lines
from reflector.trials.trial import missing_outcomes

if TYPE_CHECKING:
    from reflector.project import Project

#: Files of a history that are recorded before the project's lock is given to whoever waits for it.
_MAX_FILES_AT_ONCE = 25
#: How far into a file its folder and its first time are looked for. A first prompt with images has
#: megabytes.
_HEAD_BYTES = 8 * 1024 * 1024
_HEAD_LINES = 200
_MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
_COMPRESSED = frozenset((".zst", ".gz", ".xz", ".bz2", ".zip", ".lz4", ".br"))
#: Files beside the transcripts that are not transcripts.
_OTHER_FILES = frozenset({"journal.jsonl", "history.jsonl"})


@dataclass(frozen=True, slots=True)
class FoundTranscript:
    """A transcript as its head shows it.

    cwd         the folder the agent worked in, "" where no record says
    started_at  the first time in the file, ISO 8601 as written, "" where there is none
    bytes       size of the file
    """

    path: Path
    cwd: str
    started_at: str
    bytes: int


def find_transcripts(
    folder: Path,
    pattern: str = "*.jsonl",
    known: Mapping[tuple[str, int], str] = MappingProxyType({}),
) -> Iterator[FoundTranscript]:
    """Yield the transcripts below a folder, also those of subagents, in no order. A file that
    cannot be read is passed over.

    known  the folder that the agent worked in, by the path and the bytes of a file: such a file is
           not opened
    """
    for path in sorted(folder.rglob(pattern)):
        if path.name in _OTHER_FILES or not path.is_file():
            continue
        with suppress(OSError):
            size = path.stat().st_size
            cwd = known.get((str(path), size))
            yield look_at(path) if cwd is None else FoundTranscript(path, cwd, "", size)


def compressed(folders: Iterable[Path]) -> list[Path]:
    """Return the compressed transcripts below some folders, which are not read: of any project."""
    files: list[Path] = []
    for folder in folders:
        if folder.is_dir():
            named = (path for path in folder.rglob("*.json*") if path.suffix in _COMPRESSED)
            files += filter(Path.is_file, named)
    return sorted(files)


def look_at(path: Path) -> FoundTranscript:
    """Return a transcript by the head of its file. Raises OSError."""
    cwd = started_at = ""
    tally = Tally()
    if path.suffix == ".json":
        return FoundTranscript(path, _folder_of_document(path), "", path.stat().st_size)
    with path.open("rb", buffering=256 * 1024) as file:
        for line in read_lines(file, _HEAD_BYTES, tally):
            for record, _ in parse_line(line.text, tally):
                cwd = cwd or _folder(record)
                started_at = started_at or time_named_in(record, readers())
            if (cwd and started_at) or tally.lines >= _HEAD_LINES:
                break
    return FoundTranscript(path, cwd, started_at, path.stat().st_size)


def _folder_of_document(path: Path) -> str:
    """Return the folder that a document names. Raises OSError."""
    try:
        record = json.loads(path.read_bytes()) if path.stat().st_size <= _MAX_DOCUMENT_BYTES else {}
    except (ValueError, RecursionError):
        return ""
    return _folder(record) if isinstance(record, dict) else ""


def project_hash(root: Path) -> str:
    """Return how Gemini CLI names a project in its chats."""
    return sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()


def in_project(project: Project, file: FoundTranscript) -> bool:
    """Return whether a session worked in a project. A path of another system (`D:\\shop`, in a
    copied home) would be in any project, so it is in none.
    """
    return _is_in(file.cwd, project.root)


@lru_cache(maxsize=4096)
def _is_in(folder: str, project: Path) -> bool:
    cwd = Path(folder)
    try:
        if not cwd.is_absolute():
            return False
        cwd = cwd.resolve()
    except (OSError, ValueError):  # a NUL in it, half a surrogate pair
        return False
    root, mine = project_of(cwd), project.resolve()
    # The user may name a project although the rule finds one further up.
    return root == mine or (cwd.is_relative_to(mine) and not root.is_relative_to(mine))


def _folder(record: dict[str, Any]) -> str:
    """Return the folder that a record names; a chat of Gemini CLI has a hash of it."""
    return folder_named_in(record, readers())


@dataclass(slots=True)
class Imported:
    """The result of an import.

    taken     how many files had something new, and `records` how many records that were
    cited     how many bullets their sessions cite
    wishes    how many changes people asked for in them
    is_empty  whether the playbook has no bullet
    failed    each failed file's error
    """

    taken: int = 0
    records: int = 0
    cited: int = 0
    wishes: int = 0
    is_empty: bool = False
    failed: list[tuple[Path, OSError | ValueError]] = field(default_factory=list)


def record_history(
    project: Project,
    files: Sequence[FoundTranscript],
    advance: Callable[[FoundTranscript], object],
) -> Imported:
    """Record a project's transcripts in their order; `advance` is called with each finished file.
    Raises as `drain_project` does, after the files that were recorded until then.
    """
    imported = Imported()
    is_model = False
    for start in range(0, len(files), _MAX_FILES_AT_ONCE):
        with waiting_pipeline(project) as pipeline:
            ledger = pipeline.ledger
            is_model = pipeline.runner.backend.is_model
            before = ledger.head().position
            for file in files[start : start + _MAX_FILES_AT_ONCE]:
                _record_file(pipeline, file, imported)
                advance(file)
            if not start:
                ledger.append([missing.outcome for missing in missing_outcomes(ledger)])
            proposed = ledger.events(types=[ev.CHANGE_PROPOSED], after=before)
            imported.wishes += len(list(proposed))
            pipeline.write()
            imported.is_empty = not ledger.rows()
    if is_model:
        ask_model(project, retry="left", confirmed=len(files))
    return imported


def _record_file(pipeline: Pipeline, file: FoundTranscript, imported: Imported) -> None:
    pipeline.people_messages.clear()
    try:
        taken = pipeline.take(Source(file.path, "ingest", limit=file.bytes))
        pipeline.finish()
    except (OSError, ValueError) as error:
        imported.failed.append((file.path, error))
        return
    imported.taken += taken.event_id is not None
    imported.records += taken.records
    imported.cited += len(taken.cited)


def news(project: Project, files: Sequence[FoundTranscript]) -> Iterator[tuple[int, int]]:
    """Yield for each file with records that no window of the project has the approximate number of
    new bytes, and the number of bullets that they cite. Records nothing; a file that cannot be read
    is left out. Raises LedgerError.
    """
    with project.open_ledger() if project.has_ledger() else nullcontext() as ledger:
        for file in files:
            with suppress(OSError, ValueError):
                scanned = scan(file.path, file.bytes)
                seen = ledger.seen(scanned.keys) if ledger is not None else set()
                new = len(scanned.keys) - len(seen)
                if not new:
                    continue
                cited: set[str] = set()
                for key, names in scanned.cited:
                    if key not in seen:
                        cited.update(names)
                yield file.bytes * new // len(scanned.keys), len(cited)
