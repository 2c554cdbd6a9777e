"""Records the transcripts that agents still keep, one after the other.

Invariant: a history is recorded oldest first, and each file to its last event before the next
begins. So a stopped recording continues at its place. `reflector history` and `ingest` use this
module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from reflector.events import event as ev
from reflector.project import Project
from reflector.sessions.drain import Pipeline, ask_model, waiting_pipeline
from reflector.sessions.found_transcripts import (
    FoundTranscript,
    compressed,
    find_transcripts,
    is_in_project,
)
from reflector.sessions.intake import Source, WindowMode
from reflector.sessions.memory_drain import fill_memory
from reflector.transcripts.readers import Reader, option_of
from reflector.transcripts.reading import scan
from reflector.trials.trial import missing_outcomes

T = TypeVar("T")

#: The number of files that are recorded before the project's lock is released for other processes.
_MAX_FILES_AT_ONCE = 25


class Watch(Protocol):
    """A function that passes on its items, and may show its progress under a label."""

    def __call__(self, values: Iterable[T], label: str, /) -> Iterator[T]:
        """Yield the values."""


class AgentSessions(NamedTuple):
    """The sessions of a project that one agent still keeps, oldest first.

    title       the agent's name
    option      its value of `--agent`
    folders     the folders in which it keeps sessions, whether or not they exist
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
    project: Project, among: Sequence[Reader], watch: Watch, *, since: str
) -> HistoryPlan:
    """Return the sessions of a project that some agents still keep; records nothing.

    since  a day: an older session is omitted
    """
    agents: list[AgentSessions] = []
    for reader in among:
        transcripts = (
            file for kept in reader.kept for file in find_transcripts(kept.folder, kept.pattern)
        )
        own = [
            file
            for file in watch(transcripts, f"searching for sessions of {reader.name}")
            if file.started_at >= since and is_in_project(project.root, file)
        ]
        folders = [kept.folder for kept in reader.kept]
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
    outcome    the outcome of the reflection; null if it is not judged yet
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
    heard     the number of your lasting requests in these sessions
    proposed  the number of proposals that they became
    is_empty  whether the playbook has no rule
    """

    files: list[RecordedFile] = field(default_factory=list)
    failed: list[tuple[Path, OSError | ValueError]] = field(default_factory=list)
    heard: int = 0
    proposed: int = 0
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
                paths = [file.path for file in files]
                pipeline.note(*fill_memory(plan.project, ledger, paths))
                ledger.append([missing.outcome for missing in missing_outcomes(ledger)])
            events = ledger.events(types=[ev.WISH_HEARD, ev.CHANGE_PROPOSED], after=before)
            kinds = Counter(event.type for event in events)
            recorded.heard += kinds[ev.WISH_HEARD]
            recorded.proposed += kinds[ev.CHANGE_PROPOSED]
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
    """Yield the unrecorded part of each file. None if it has no such part, or cannot be read.

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
    """Return the tokens of each question that a model would be asked about a plan; [] if your judge
    is not a model.
    """
    config = plan.project.config
    if not config.asks_model:
        return []
    fresh = filter(None, watch(news(plan.project, plan.files), "reading new sessions"))
    return [min(part.bytes // 3, config.request_tokens) for part in fresh]
