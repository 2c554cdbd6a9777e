"""The transcripts that agents still keep: found by their heads, and recorded one after the other.

Invariant: the project of a transcript is the folder that its records name. The name of its own
folder is the path with everything but letters and digits replaced, so several projects share one
name, and a session can be moved to another.

A history is recorded oldest first, each file to its last event before the next begins, so a
recording that is stopped goes on where it ended. `reflector history` and `ingest` use it, and
`checks` finds the transcripts of a check by it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from reflector.events import event as ev
from reflector.project import Project, project_of
from reflector.sessions.drain import Pipeline, ask_model, waiting_pipeline
from reflector.sessions.intake import Source, WindowMode
from reflector.transcripts.message import Tally
from reflector.transcripts.readers import (
    Reader,
    folder_named_in,
    option_of,
    readers,
    stores,
    time_named_in,
)
from reflector.transcripts.reading import scan
from reflector.transcripts.records import parse_line, read_lines
from reflector.trials.trial import missing_outcomes

T = TypeVar("T")

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

    cwd         the folder the agent worked in, "" if no record names it
    started_at  the first time in the file, ISO 8601 as written; the file's own if there is none
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
    stat = path.stat()
    written_at = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat()
    if path.suffix == ".json":
        return FoundTranscript(path, _folder_of_document(path), written_at, stat.st_size)
    with path.open("rb", buffering=256 * 1024) as file:
        for line in read_lines(file, _HEAD_BYTES, tally):
            for record, _ in parse_line(line.text, tally):
                cwd = cwd or _folder(record)
                started_at = started_at or time_named_in(record, readers())
            if (cwd and started_at) or tally.lines >= _HEAD_LINES:
                break
    return FoundTranscript(path, cwd, started_at or written_at, stat.st_size)


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


def _folder(record: dict[str, Any]) -> str:
    """Return the folder that a record names; a chat of Gemini CLI has a hash of it."""
    return folder_named_in(record, readers())


def is_in_project(root: Path, transcript: FoundTranscript) -> bool:
    """Return whether a session worked in a project. A path of another system (`D:\\shop`, in a
    copied home) is in none.
    """
    return transcript.cwd == project_hash(root) or _is_folder_of(transcript.cwd, root)


@lru_cache(maxsize=4096)
def _is_folder_of(folder: str, root: Path) -> bool:
    cwd = Path(folder)
    try:
        if not cwd.is_absolute():
            return False
        cwd = cwd.resolve()
    except (OSError, ValueError):  # a NUL in it, half a surrogate pair
        return False
    owner = project_of(cwd)
    own = root.resolve()
    # You may name a project if the rule finds another one further up.
    return owner == own or (cwd.is_relative_to(own) and not owner.is_relative_to(own))


class Watch(Protocol):
    """A function that passes on what it is given, and may show its progress under a label."""

    def __call__(self, values: Iterable[T], label: str, /) -> Iterator[T]:
        """Yield the values."""


class AgentSessions(NamedTuple):
    """The sessions of a project that one agent still keeps, oldest first.

    title       the agent's name, and `option` the one for `--agent`
    folders     the folders in which it keeps them, whether they exist or not
    compressed  the compressed sessions in these folders, of any project, which are not read
    """

    title: str
    option: str
    folders: Sequence[Path]
    files: Sequence[FoundTranscript]
    compressed: Sequence[Path]

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)


class HistoryPlan(NamedTuple):
    """The sessions to record, by the agents that keep them."""

    project: Project
    agents: Sequence[AgentSessions]

    @property
    def files(self) -> list[FoundTranscript]:
        """The sessions of all agents, oldest first."""
        return sorted((file for agent in self.agents for file in agent.files), key=_age)


def plan_history(
    project: Project, among: Sequence[Reader], watch: Watch, *, since: str = ""
) -> HistoryPlan:
    """Return the sessions of a project that some agents still keep; records nothing.

    since  a day: an older session is omitted
    """
    agents: list[AgentSessions] = []
    for reader in among:
        kept = [store.kept for store in stores([reader]) if store.kept.folder.is_dir()]
        transcripts = (
            file for store in kept for file in find_transcripts(store.folder, store.pattern)
        )
        own = [
            file
            for file in watch(transcripts, f"looking at the sessions of {reader.name}")
            if file.started_at >= since and is_in_project(project.root, file)
        ]
        folders = [store.folder for store in reader.kept]
        files = sorted(own, key=_age)
        agents.append(
            AgentSessions(reader.name, option_of(reader), folders, files, compressed(folders))
        )
    return HistoryPlan(project, agents)


def _age(file: FoundTranscript) -> tuple[str, str]:
    return file.started_at, str(file.path)


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file that was read.

    window_id  the event that records it; null if no record was new
    outcome    of the reflection; null if it is not judged yet
    """

    file: Path
    session_id: str
    window_id: str | None
    records: int
    cited: tuple[str, ...]
    outcome: str | None = None


@dataclass(slots=True)
class Recorded:
    """The result of a recording.

    files     each file that could be read
    failed    each other file, with its error
    wishes    the number of changes that you asked for in these sessions
    is_empty  whether the playbook has no rule
    """

    files: list[RecordedFile] = field(default_factory=list)
    failed: list[tuple[Path, OSError | ValueError]] = field(default_factory=list)
    wishes: int = 0
    is_empty: bool = False

    @property
    def new(self) -> list[RecordedFile]:
        """The files with new records."""
        return [file for file in self.files if file.window_id is not None]


def record_history(plan: HistoryPlan, advance: Callable[[FoundTranscript], object]) -> Recorded:
    """Record the sessions of a plan; `advance` is called with each finished file.

    Raises: as `drain_project` does, after the files that were recorded until then.
    """
    files = plan.files
    recorded = Recorded()
    is_model = False
    for start in range(0, len(files), _MAX_FILES_AT_ONCE):
        with waiting_pipeline(plan.project) as pipeline:
            ledger = pipeline.ledger
            is_model = pipeline.runner.backend.is_model
            before = ledger.head().position
            for file in files[start : start + _MAX_FILES_AT_ONCE]:
                pipeline.people_messages.clear()
                record_file(pipeline, recorded, file.path, limit=file.bytes)
                advance(file)
            if not start:
                ledger.append([missing.outcome for missing in missing_outcomes(ledger)])
            proposed = ledger.events(types=[ev.CHANGE_PROPOSED], after=before)
            recorded.wishes += len(list(proposed))
            pipeline.write()
            recorded.is_empty = not ledger.rows()
    if is_model:
        ask_model(plan.project, retry="left", confirmed=len(files))
    return recorded


def record_file(
    pipeline: Pipeline,
    recorded: Recorded,
    path: Path,
    *,
    limit: int | None = None,
    window: WindowMode = "new",
) -> None:
    """Record one file up to its size, or up to a `limit`, and add the result."""
    try:
        size = path.stat().st_size if limit is None else limit
        taken = pipeline.take(Source(path.absolute(), "ingest", limit=size), window=window)
        pipeline.finish()
    except (OSError, ValueError) as error:
        recorded.failed.append((path, error))
        return
    recorded.files.append(
        RecordedFile(path, taken.session_id, taken.event_id, taken.records, taken.cited)
    )


class News(NamedTuple):
    """The part of a session that was not recorded: its approximate bytes, and the number of rules
    that it cites.
    """

    bytes: int
    cited: int


def news(project: Project, files: Sequence[FoundTranscript]) -> Iterator[News | None]:
    """Yield the unrecorded part of each file; None if there is none, or the file cannot be read.

    Raises: LedgerError.
    """
    with project.open_ledger() if project.has_ledger() else nullcontext() as ledger:
        for file in files:
            fresh: News | None = None
            with suppress(OSError, ValueError):
                scanned = scan(file.path, file.bytes)
                seen = ledger.seen(scanned.keys) if ledger is not None else set()
                if new := len(scanned.keys) - len(seen):
                    cited = {
                        name for key, names in scanned.cited if key not in seen for name in names
                    }
                    fresh = News(file.bytes * new // len(scanned.keys), len(cited))
            yield fresh


def requests_of(plan: HistoryPlan, watch: Watch) -> list[int]:
    """Return the tokens of each question that a model would be asked about a plan; none if your
    judge is not a model.
    """
    config = plan.project.config
    if not config.asks_model:
        return []
    fresh = filter(None, watch(news(plan.project, plan.files), "reading new sessions"))
    return [min(part.bytes // 3, config.request_tokens) for part in fresh]
