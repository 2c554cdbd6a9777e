"""A client's old transcripts, recorded one after the other.

Invariant: files are recorded oldest first, each to its last event before the next begins, so an import that is stopped
goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reflector.events.event import CHANGE_PROPOSED
from reflector.sessions.drain import ask_model, open_pipeline
from reflector.sessions.intake import Source
from reflector.transcripts.reading import scan
from reflector.trials.trial import lacking

if TYPE_CHECKING:
    from pathlib import Path

    from reflector.project import Project
    from reflector.transcripts.discovery import Found

#: Files recorded before the project's lock is given to whoever waits for it.
_CHUNK = 25


@dataclass(slots=True)
class Imported:
    """A project's result.

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


def record_history(project: Project, files: Sequence[Found], advance: Callable[[Found], object]) -> Imported:
    """Record a project's transcripts in their order; `advance` is called with each finished file. Raises as `drain`
    does, after what was recorded until then."""
    done = Imported()
    is_model = False
    for start in range(0, len(files), _CHUNK):
        with open_pipeline(project) as pipeline:
            assert pipeline is not None  # it waited
            is_model, before = pipeline.runner.backend.is_model, pipeline.ledger.head().position
            for one in files[start : start + _CHUNK]:
                pipeline.heard.clear()
                try:
                    taken = pipeline.take(Source(one.path, "ingest", limit=one.bytes))
                    pipeline.finish()
                    done.taken += taken.event_id is not None
                    done.records += taken.records
                    done.cited += len(taken.cited)
                except (OSError, ValueError) as error:
                    done.failed.append((one.path, error))
                advance(one)
            pipeline.ledger.append([came for _, came in lacking(pipeline.ledger)] if not start else [])
            done.wishes += sum(1 for _ in pipeline.ledger.events(types=[CHANGE_PROPOSED], after=before))
            pipeline.write()
            done.is_empty = not pipeline.ledger.rows()
    if is_model:
        ask_model(project, retry="left", confirmed=len(files))
    return done


def news(project: Project, files: Sequence[Found]) -> Iterator[tuple[int, int]]:
    """Yield for each file with records that no window of the project has about how many bytes are new, and how many
    bullets they cite. Records nothing; a file that cannot be read is left out. Raises LedgerError."""
    with project.open_ledger() if project.has_ledger() else nullcontext() as ledger:
        for one in files:
            with suppress(OSError, ValueError):
                found = scan(one.path, one.bytes)
                seen = ledger.seen(found.keys) if ledger is not None else set()
                if new := len(found.keys) - len(seen):
                    cites = {name for key, names in found.cited if key not in seen for name in names}
                    yield one.bytes * new // len(found.keys), len(cites)
