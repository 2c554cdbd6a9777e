"""A client's old transcripts, taken in by the one process that writes while others read ahead of it.

Invariant: files are taken in one after the other, oldest first, each to its last event before the next begins; who
reads ahead changes when that is done and nothing else. What is ahead is bounded in files, whatever their size: of a
file come back its keys and one answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from reflector.sessions.intake import Source
from reflector.sessions.pipeline import Pipeline, ask_model, open_pipeline
from reflector.sessions.prefetch import Prefetched, PrefetchedBackend, packed, prefetch

if TYPE_CHECKING:
    from pathlib import Path

    from reflector.project import Project
    from reflector.sessions.worker_pool import WorkerPool
    from reflector.transcripts.discovery import Found

Plan = Sequence[tuple["Project", Sequence["Found"]]]

#: Files taken in before the project's lock is given to whoever waits for it.
_CHUNK = 25
#: Files that are read ahead for each worker. A large one keeps its worker busy while the others go on.
_AHEAD = 8


@dataclass(slots=True)
class Backfilled:
    """What came of a project's files: how many had something new, how many of these were judged before their turn,
    and each that failed with its error."""

    taken: int = 0
    ahead: int = 0
    failed: list[tuple[Path, OSError | ValueError]] = field(default_factory=list)


class Backfill:
    """Takes the projects of a plan in, one after the other; their files oldest first. `pool` reads ahead."""

    def __init__(self, plan: Plan, pool: WorkerPool | None = None) -> None:
        self._plan = plan
        self._pool = pool
        self._jobs: deque[tuple[Found, bytes | None]] = deque()
        self._ahead: deque[tuple[Path, Callable[[], Prefetched]]] = deque()

    def run(self, begin: Callable[[Project], Callable[[Found], None]]) -> Iterator[tuple[Project, Backfilled]]:
        """Take everything in, and tell of each project when it is done.

        `begin` is called with each project, and answers what is to be called with each file that is done.
        Raises as `drain` does, after what was taken in until then.
        """
        prepared = 0
        for number, (project, files) in enumerate(self._plan):
            # The next project's files as well: nobody is idle while the last ones of this project are read.
            for other in self._plan[prepared : number + 2]:
                self._prepare(*other)
                prepared += 1
            yield project, self._take(project, files, begin(project))

    def _take(self, project: Project, files: Sequence[Found], advance: Callable[[Found], None]) -> Backfilled:
        done = Backfilled()
        is_model = False
        for start in range(0, len(files), _CHUNK):
            with open_pipeline(project) as pipeline:
                assert pipeline is not None  # it waited
                backend = PrefetchedBackend(pipeline.runner.backend)
                pipeline.runner.backend = backend
                is_model = backend.is_model
                for one in files[start : start + _CHUNK]:
                    try:
                        done.taken += self._take_one(pipeline, backend, one)
                    except (OSError, ValueError) as error:
                        done.failed.append((one.path, error))
                    advance(one)
                pipeline.write()
            done.ahead += backend.used
        if is_model:
            ask_model(project, retry="left")
        return done

    def _take_one(self, pipeline: Pipeline, backend: PrefetchedBackend, one: Found) -> bool:
        """Return whether there was something new in a file."""
        ahead = self._looked_at(one.path)
        taken = pipeline.take(Source(one.path, "ingest", limit=one.bytes), found=ahead.scan if ahead else None)
        if ahead is not None and taken.records == len(ahead.scan.keys) and not taken.carried:
            # Another window that is open may cite the same names and hold other words.
            waiting = [window.event_id for window in pipeline.ledger.open_windows()]
            backend.ready = ahead.judged if waiting == [taken.event_id] else None
        pipeline.finish()
        return taken.event_id is not None

    def _prepare(self, project: Project, files: Sequence[Found]) -> None:
        """Put a project's files behind those that are to be read ahead. No lock is held, for this takes one."""
        if self._pool is None:
            return
        bullets: bytes | None = None
        seen: set[int] = set()
        if project.config.backend == "rules":
            try:
                with open_pipeline(project) as pipeline:
                    assert pipeline is not None  # it waited
                    live = [row.bullet for row in pipeline.ledger.rows() if row.status == "live"]
                    seen = pipeline.ledger.seen([one.key for one in files if one.key is not None])
                    bullets = packed(live, project.config.judgement_precision) if live else None
            except Exception:  # noqa: BLE001  it is met again, and told, when it is this project's turn
                pass
        # A file that was begun before is only looked at: its window is not the whole of it.
        self._jobs.extend((one, None if one.key in seen else bullets) for one in files)

    def _looked_at(self, path: Path) -> Prefetched | None:
        """Return what was found ahead in the file whose turn it is; None where nobody did, or could."""
        if self._pool is None:
            return None
        while self._jobs and len(self._ahead) < _AHEAD * self._pool.size:
            one, bullets = self._jobs.popleft()
            self._ahead.append((one.path, self._pool.submit(prefetch, one.path, one.bytes, bullets)))
        due, answer = self._ahead.popleft()
        assert due == path  # both go through the plan in its order
        try:
            return answer()
        except Exception:  # noqa: BLE001  the road meets it again, and has the words for it
            return None


def news(project: Project, files: Sequence[Found], pool: WorkerPool | None = None) -> Iterator[tuple[Found, int]]:
    """Yield the files that hold a record which no window of the project has, with about how many bytes are new.

    Takes nothing in and makes no ledger. Raises LedgerError; a file that cannot be read is left out.
    """
    if not project.has_ledger():
        yield from ((one, one.bytes) for one in files)
        return
    with project.open_ledger() as ledger:
        for one, keys in _keys(files, pool):
            if new := len(keys) - len(ledger.seen(keys)):
                yield one, one.bytes * new // len(keys)


def _keys(files: Sequence[Found], pool: WorkerPool | None) -> Iterator[tuple[Found, Sequence[int]]]:
    ahead: deque[tuple[Found, Callable[[], Prefetched]]] = deque()
    left = iter(files)
    while True:
        for one in islice(left, _AHEAD * pool.size - len(ahead) if pool else 1):
            given = (one.path, one.bytes, None)
            ahead.append((one, pool.submit(prefetch, *given) if pool else partial(prefetch, *given)))
        if not ahead:
            return
        one, answer = ahead.popleft()
        with suppress(OSError, ValueError):
            yield one, answer().scan.keys
