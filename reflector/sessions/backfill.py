"""A client's old transcripts, recorded by one process while others read ahead of it.

Invariant: files are recorded one after the other, oldest first, each to its last event before the next begins; reading
ahead changes when that is done and nothing else. What is ahead is bounded in files, whatever their size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from reflector.files import read_ours
from reflector.playbook.document import MAX_BYTES, load
from reflector.sessions.intake import Source
from reflector.sessions.pipeline import Pipeline, ask_model, open_pipeline
from reflector.sessions.prefetch import Prefetched, PrefetchedBackend, prefetch

if TYPE_CHECKING:
    from pathlib import Path

    from reflector.playbook.bullet import Bullet
    from reflector.project import Project
    from reflector.sessions.worker_pool import WorkerPool
    from reflector.transcripts.discovery import Found

Plan = Sequence[tuple["Project", Sequence["Found"]]]
#: Returns what was prefetched of the file whose turn it is. Raises whatever reading it raised.
Ready = Callable[[], Prefetched]

#: Files recorded before the project's lock is given to whoever waits for it.
_CHUNK = 25


@dataclass(slots=True)
class Backfilled:
    """A project's result: files with something new, answers that were prefetched, and each failed file's error."""

    taken: int = 0
    ahead: int = 0
    failed: list[tuple[Path, OSError | ValueError]] = field(default_factory=list)


def backfill(
    plan: Plan, pool: WorkerPool | None, begin: Callable[[Project], Callable[[Found], None]]
) -> Iterator[tuple[Project, Backfilled]]:
    """Record the projects of a plan, one after the other, and yield each when it is done. `pool` reads ahead.

    `begin` is called with each project and returns what is called with each finished file.
    Raises as `drain` does, after what was recorded until then.
    """
    ready = pool.ahead(prefetch, _jobs(plan)) if pool else repeat(None)
    for project, files in plan:
        yield project, _record(project, files, ready, begin(project))


def _record(
    project: Project, files: Sequence[Found], ready: Iterator[Ready | None], advance: Callable[[Found], None]
) -> Backfilled:
    done = Backfilled()
    is_model = False
    for start in range(0, len(files), _CHUNK):
        with open_pipeline(project) as pipeline:
            assert pipeline is not None  # it waited
            pipeline.runner.backend = backend = PrefetchedBackend(pipeline.runner.backend)
            is_model = backend.is_model
            for one in files[start : start + _CHUNK]:
                try:
                    done.taken += _record_one(pipeline, backend, one, next(ready))
                except (OSError, ValueError) as error:
                    done.failed.append((one.path, error))
                advance(one)
            pipeline.write()
        done.ahead += backend.used
    if is_model:
        ask_model(project, retry="left")
    return done


def _record_one(pipeline: Pipeline, backend: PrefetchedBackend, one: Found, ready: Ready | None) -> bool:
    """Return whether a file had something new."""
    ahead: Prefetched | None = None
    if ready is not None:
        with suppress(Exception):  # the pipeline meets the error again, and reports it
            ahead = ready()
    pipeline.readings.gathered.clear()
    taken = pipeline.take(Source(one.path, "ingest", limit=one.bytes), found=ahead.scan if ahead else None)
    if ahead is not None and taken.records == len(ahead.scan.keys) and not taken.carried:
        # Another open window may cite the same names and hold other words.
        waiting = [window.event_id for window in pipeline.ledger.open_windows()]
        backend.ready = ahead if waiting == [taken.event_id] else None
    pipeline.finish()
    return taken.event_id is not None


def _jobs(plan: Plan) -> Iterator[tuple[Path, int, dict[str, Bullet], int]]:
    """Yield what is prefetched of each file. Takes no lock: another project's is held meanwhile."""
    for project, files in plan:
        bullets: dict[str, Bullet] = {}
        begun: set[int] = set()
        # A file of weights may be written anew meanwhile: the backend reads it when it is this project's turn.
        if project.config.backend == "rules" and not project.config.judgement_weights:
            with suppress(Exception):  # met again, and reported, when it is this project's turn
                loaded = load(read_ours(project.playbook_json, MAX_BYTES), first=project.first_number)
                bullets = {bullet.name: bullet for bullet in loaded.bullets}
                if project.has_ledger():
                    with project.open_ledger() as ledger:
                        begun = ledger.seen([one.key for one in files if one.key is not None])
        # The window of a file that was begun before is not the whole of it, so it is only scanned.
        precision = project.config.judgement_precision
        yield from ((one.path, one.bytes, {} if one.key in begun else bullets, precision) for one in files)


def news(project: Project, files: Sequence[Found], pool: WorkerPool | None = None) -> Iterator[tuple[Found, int]]:
    """Yield the files with records that no window of the project has, with about how many bytes are new.

    Records nothing and creates no ledger. Raises LedgerError; a file that cannot be read is left out.
    """
    if not project.has_ledger():
        yield from ((one, one.bytes) for one in files)
        return
    with project.open_ledger() as ledger:
        jobs: Iterable[tuple[Path, int, dict[str, Bullet]]] = ((one.path, one.bytes, {}) for one in files)
        ready: Iterable[Ready] = pool.ahead(prefetch, jobs) if pool else (partial(prefetch, *job) for job in jobs)
        for one, answer in zip(files, ready, strict=True):
            with suppress(OSError, ValueError):
                keys = answer().scan.keys
                if new := len(keys) - len(ledger.seen(keys)):
                    yield one, one.bytes * new // len(keys)
