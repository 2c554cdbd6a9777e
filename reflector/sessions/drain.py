"""The drain: from the spool into the ledger, and from the ledger to playbook.json.

Invariant: a delivery is settled after what it says is committed, and one that cannot be recorded is kept with its
error. So a drain that is killed at any point leaves the rest to the next one, and taking the same delivery in again
adds nothing. One process at a time drains a project; one that leaves because another holds the lock can do so because
the holder looks once more after it let go.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reflector.curation.proposals import sweep
from reflector.project import Project
from reflector.sessions import last_session, locks, spool
from reflector.sessions.pipeline import Pipeline, open_pipeline, runner_of

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger, WindowRow
    from reflector.reflection.recording import Reflected
    from reflector.reflection.runner import Retry, Runner
    from reflector.sessions.spool import Delivery

#: What is said of a file in the spool's folder `broken/`.
NOT_A_PAYLOAD: Final = "not a hook payload; it is kept in the spool's folder broken/ until you remove it"
#: The pauses of a drain in the background that finds the ledger's server away, in seconds: five minutes. A cluster has
#: another primary within one; a server that stays away is asked by the next drain.
OUTAGE_PAUSES: Final = (1, 2, 4, 8, 15, 30, 60, 60, 60, 60)


@dataclass(slots=True)
class Drained(spool.Aside):
    """What a drain did: deliveries recorded, those set aside with their error, files that are not deliveries,
    reflections, and notes for the user."""

    taken: int = 0
    empty: int = 0
    reflected: list[Reflected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run(project: str) -> int | None:
    """Drain a project for a hook. Returns the exit code, None after an error: the command line meets it again, and has
    its words and its exit code.

    While the ledger's server is away, as in a failover, one drain of the project waits for it.
    """
    try:
        root = Path(project).absolute()
        if not root.is_dir():
            return None
        done = _drain_patiently(Project.at(root))
    except Exception:  # noqa: BLE001  the command line meets it again
        return None
    return 1 if done is not None and (done.failed or done.broken) else 0


def _drain_patiently(project: Project) -> Drained | None:
    from reflector.ledger.errors import LedgerAway

    for pause in OUTAGE_PAUSES:
        try:
            return drain(project)
        except LedgerAway:
            # Held for the pause alone, so that who holds it looks into the spool after who leaves.
            with locks.held(project.state_dir, "away.lock", wait=False) as held:
                if not held:
                    return None
                time.sleep(pause)
    return drain(project)


def drain(project: Project, *, wait: bool = False, retry: Retry = "due") -> Drained | None:
    """Process the spool and finish what is pending; None if another process is at it and `wait` is False.

    `retry` says which failed reflections are tried again; "all" tries failed deliveries again as well, which
    otherwise are tried when their pause is over.
    Raises LedgerError (the delivery stays in the spool), PlaybookRefused, ConfigError.
    """
    done = Drained()
    asking: list[Project] = []
    met: set[Path] = set()
    round_ = retry
    again = True
    while again:
        with open_pipeline(project, wait=wait) as pipeline:
            if pipeline is None:
                # The holder of the lock looks into the spool once more after releasing it.
                return done if done != Drained() else None
            met |= _take_deliveries(pipeline, done, round_)
            asking = [project] if project.config.asks_model else []
            if pipeline.users is not None and (waits := pipeline.users.asks_model):
                asking.append(waits)
        round_ = "due"
        # One that is there though it was settled is left to the next drain.
        again = any(one.path not in met for one in spool.ready_for(project.root))
    for one in asking:
        asked = ask_model(one, retry=retry, wait=wait)
        last_session.leave(one.root, asked.reflected)
        done.reflected += asked.reflected
        done.notes += asked.notes
    return done


def _take_deliveries(pipeline: Pipeline, done: Drained, retry: Retry) -> set[Path]:
    """Record what waits in the spool, finish what is pending, and write playbook.json; `done` takes what came of it.

    Returns the paths of the deliveries. Raises as `drain` does.
    """
    from reflector.reflection.recording import Reflected

    root = pipeline.project.root
    spool.tidy(root, everything=retry == "all")
    oldest = time.time_ns() - pipeline.project.config.idle_minutes * 60_000_000_000
    for stop in spool.pending_for(root, "waiting", done):  # of sessions whose end never came
        if spool.heard_at_ns(stop) <= oldest:
            spool.claim(stop)
    deliveries = spool.pending_for(root, aside=done)
    for delivery in deliveries:
        _take_delivery(pipeline, delivery, done)
    pipeline.finish(retry=retry)
    sweep(pipeline.ledger)
    pipeline.write()
    # The model is asked when the project is free again.
    asked = pipeline.ledger.open_windows() if done.taken and pipeline.project.config.asks_model else []
    waiting = [Reflected(one.event_id, "waiting", session_id=one.session_id) for one in asked]
    last_session.leave(root, [*pipeline.reflected, *waiting])
    done.reflected += pipeline.reflected
    done.notes += pipeline.notes
    return {delivery.path for delivery in deliveries}


def _take_delivery(pipeline: Pipeline, delivery: Delivery, done: Drained) -> None:
    from reflector.sessions.intake import source_of

    source, end, is_new = source_of(delivery), spool.settle, False
    if source is not None:
        try:
            is_new = pipeline.take(source).event_id is not None
        except (OSError, ValueError) as error:
            if not _says_nothing(pipeline, delivery, source.path):
                # The path stands before it already.
                said = error.strerror if isinstance(error, OSError) and error.strerror else f"{error}"
                done.failed.append((str(source.path), said))
                spool.fail(delivery, error)
                return
            # A client may write a subagent's transcript after its end.
            if delivery.event in ("SessionEnd", "SubagentStop") and not source.path.exists():
                end = spool.keep_silent
    done.taken += is_new
    done.empty += not is_new
    end(delivery)


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
        from reflector.sessions.intake import safe_id

        session_id = safe_id(delivery.session_id) if delivery.event == "SessionEnd" else None
        return session_id is not None and not spool.has_stop(delivery) and not pipeline.ledger.windows(session_id)
    except OSError:
        return False


def ask_model(project: Project, *, retry: Retry = "due", wait: bool = True) -> Drained:
    """Finish what is pending with a model, each window tried once, while others may use the project.

    If another process is at it, the windows are left to it. When the API cannot be reached or refuses us, the
    other windows wait for a later drain. Raises as `drain` does.
    """
    from reflector import curator

    done = Drained()
    tried: set[str] = set()
    left = True
    while left:
        with locks.held(project.make_state_dir(), "model.lock", wait=wait) as held:
            if not held:
                break
            with project.open_ledger() as ledger:
                runner = runner_of(project, ledger)
                done.reflected += _ask_about(runner, tried, retry)
                done.notes.append(curator.ask(ledger, runner))
        # After releasing the lock: a window that another process recorded before that is left to this one.
        with project.open_ledger() as ledger:
            left = bool(_untried(ledger, tried))
    if done.reflected:
        with open_pipeline(project) as pipeline:
            assert pipeline is not None  # it waited
            pipeline.note(curator.propose(project.config, pipeline.ledger))
            pipeline.write()
            done.notes += pipeline.notes
    done.notes = [text for text in done.notes if text]
    return done


def _ask_about(runner: Runner, tried: set[str], retry: Retry) -> Iterator[Reflected]:
    """Finish those that are due, and those that waited for a budget, as long as it lasts, oldest first. All count as
    tried as soon as the API cannot be reached or refuses us."""
    from reflector.reflection.protocol import OUTAGES

    open_ = _untried(runner.ledger, tried)
    if runner.api_rests(open_, retry):
        tried.update(window.event_id for window in open_)
        return
    reopened = {window.event_id: window for window in runner.reopened() if window.event_id not in tried}
    windows = sorted([*open_, *reopened.values()], key=lambda window: window.position)
    month_is_spent = False
    for window in windows:
        tried.add(window.event_id)
        waited = window.event_id in reopened
        if (waited and month_is_spent) or not runner.is_due(window, retry):
            continue
        reflected = runner.finish(window)
        if waited and reflected.outcome == "skipped":  # it waits as before
            month_is_spent = "monthly" in reflected.detail
            continue
        yield reflected
        if reflected.outcome == "failed" and reflected.stage in {*OUTAGES, "request"}:
            tried.update(other.event_id for other in windows)
            return


def _untried(ledger: Ledger, tried: Collection[str]) -> list[WindowRow]:
    return [window for window in ledger.open_windows() if window.event_id not in tried]


def refresh(project: Project) -> list[str]:
    """Process the spool before a question is answered, unless another process is at it.

    playbook.json is written only where sessions had ended, as the drain would have done: asking changes no file of the
    project. What a model would be asked waits for the drain. Returns notes for the user: also on what the answer lacks.
    """
    with open_pipeline(project, wait=False, write=False) as pipeline:
        if pipeline is None:
            drains = spool.counts(project.spool_dir).pending
            what = "a session is still being processed" if drains else "another command is at work on this playbook"
            return [f"{what}; ask again in a moment"]
        if pipeline.only_reads:
            waits = len(spool.ready_for(project.root))
            return [f"the ledger may only be read; sessions that wait here: {waits}"] if waits else []
        aside: list[str] = []
        if spool.ready_for(project.root):
            done = Drained()
            _take_deliveries(pipeline, done, "due")
            aside = [f"{where}: {error}; kept in the spool" for where, error in done.failed]
            aside += [f"{path}: {NOT_A_PAYLOAD}" for path in done.broken]
        else:
            sweep(pipeline.ledger)
        notes = [*pipeline.notes, *aside]
        if project.config.asks_model and (asked := len(pipeline.ledger.open_windows())):
            notes.append(f"{asked} session window{'s wait' if asked > 1 else ' waits'} for the model's verdicts")
        return notes
