"""Deliveries of the spool, taken into the ledger one by one.

Invariant: a delivery is settled after what it says is committed; one that cannot be recorded is kept with its error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.curation.proposals import sweep
from reflector.reflection.recording import Reflected
from reflector.reflection.runner import Retry
from reflector.sessions import last_session, spool
from reflector.sessions.fallback import stand_ins
from reflector.sessions.intake import safe_id, source_of
from reflector.sessions.pauses import heard_at_ns
from reflector.sessions.spool import Delivery

if TYPE_CHECKING:
    from reflector.sessions.pipeline import Pipeline

#: What is said of a file in the spool's folder `broken/`.
NOT_A_PAYLOAD = "not a hook payload; it is kept in the spool's folder broken/ until you remove it"


@dataclass(slots=True)
class Drained:
    """What a drain did: deliveries recorded, those set aside with their error, files that are not deliveries,
    reflections, and notes for the user."""

    taken: int = 0
    empty: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    broken: list[Path] = field(default_factory=list)
    reflected: list[Reflected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def take_deliveries(
    pipeline: Pipeline, done: Drained, *, retry: Retry, progress: Callable[[Delivery], None] | None
) -> None:
    """Record what waits in the spool, finish what is pending, and write playbook.json; `done` takes what came of it.

    Raises as `drain` does.
    """
    spool.sweep(pipeline.project.spool_dir)
    again = spool.retry_failed if retry == "all" else spool.retry_due
    folders = [pipeline.project.spool_dir, *(state / "spool" for state in stand_ins())]
    for folder in folders:
        again(folder)
    aside, broken = _set_aside(pipeline.project.root, folders)
    _claim_idle(pipeline)
    while deliveries := spool.pending_for(pipeline.project.root):
        for delivery in deliveries:
            if progress is not None:
                progress(delivery)
            _take_delivery(pipeline, delivery, done, aside)
    # A record that cannot be read never becomes a delivery: reading the spool sets it aside.
    failed_now, broken_now = _set_aside(pipeline.project.root, folders)
    done.failed += [(str(path), error) for path, error in failed_now.items() if path not in aside]
    done.broken += [path for path in broken_now if path not in broken]
    pipeline.finish(retry=retry)
    sweep(pipeline.ledger)
    pipeline.write()
    # The model is asked when the project is free again.
    asked = pipeline.ledger.open_windows() if done.taken and pipeline.project.config.asks_model else []
    waiting = [Reflected(one.event_id, "waiting", session_id=one.session_id) for one in asked]
    last_session.leave(pipeline.project.root, [*pipeline.reflected, *waiting])
    done.reflected += pipeline.reflected
    done.notes += pipeline.notes


def _set_aside(project: Path, folders: Sequence[Path]) -> tuple[dict[Path, str], list[Path]]:
    """Return what could not be recorded, with the reason of each, and the files that are not deliveries.

    Projects drain at the same time, and share the stand-ins: each tells of its own failures.
    """
    own, *shared = folders
    failures = [*spool.failed(own), *(failure for folder in shared for failure in spool.failed(folder, project))]
    failed = {failure.path: failure.error for failure in failures}
    return failed, [path for folder in folders for path in spool.broken(folder)]


def _take_delivery(pipeline: Pipeline, delivery: Delivery, done: Drained, aside: dict[Path, str]) -> None:
    source = source_of(delivery)
    if source is None:
        spool.settle(delivery)
        done.empty += 1
        return
    try:
        taken = pipeline.take(source)
    except (OSError, ValueError) as error:
        if _says_nothing(pipeline, delivery, source.path):
            if delivery.event == "SessionEnd" and not source.path.exists():
                spool.keep_silent(delivery)
            else:
                spool.settle(delivery)
            done.empty += 1
            return
        # The path stands before it already.
        said = error.strerror if isinstance(error, OSError) and error.strerror else f"{error}"
        done.failed.append((str(source.path), said))
        aside[spool.fail(delivery, error)] = said
        return
    if taken.event_id is None:
        done.empty += 1
    else:
        done.taken += 1
    spool.settle(delivery)


def _says_nothing(pipeline: Pipeline, delivery: Delivery, transcript: Path) -> bool:
    """Return whether there never was anything to record, so that nothing is lost.

    An empty transcript says nothing. A missing one may have been lost or moved, so its delivery is kept with the
    error. But two never exist: that of a client's own summariser run, and that of a session which was opened and
    left without a word. Of the latter nothing but start and end is heard; a turn would have left its Stop.
    """
    try:
        return transcript.stat().st_size == 0 and not delivery.transcript_bytes
    except FileNotFoundError:
        if delivery.transcript_bytes is not None:
            return False
        if delivery.event == "SubagentStop":
            return True
        session_id = safe_id(delivery.session_id)
        if session_id is None or delivery.event != "SessionEnd":
            return False
        return not spool.has_stop(delivery) and not pipeline.ledger.windows(session_id)
    except OSError:
        return False


def _claim_idle(pipeline: Pipeline) -> None:
    """Claim the stops of sessions whose end never came, once nothing was heard for `idle_minutes`."""
    oldest = time.time_ns() - pipeline.project.config.idle_minutes * 60_000_000_000
    for delivery in spool.waiting_for(pipeline.project.root):
        if heard_at_ns(delivery.path, delivery.received_at_ns) <= oldest:
            spool.claim(delivery)
