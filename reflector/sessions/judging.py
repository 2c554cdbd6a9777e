"""Judging by command: sessions and trajectories that you name, and sessions that you give up.

Invariant: the model's lock is held while a judge is asked, so two commands never ask about the same
window. A window that another process judged meanwhile is not asked again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.events import event as ev
from reflector.events.event import Appended
from reflector.judges.protocol import OUTAGES, Backend
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake
from reflector.playbook.bullet import Verdict
from reflector.project import Project
from reflector.reflection.gate import Gate, Spending, waiting_for_budget
from reflector.reflection.recorder import Failure, Recorder, Reflected, failure_event
from reflector.reflection.standing import OpenCitation, record_verdict
from reflector.sessions import locks
from reflector.sessions.drain import runner_of
from reflector.sessions.last_session import leave_last_session

if TYPE_CHECKING:
    from reflector.judges.truth.questions import Case, Talk


@contextmanager
def _asking(project: Project) -> Iterator[Ledger]:
    """Open a project's ledger as the only process that asks its judge."""
    state_dir = project.make_state_dir()
    with locks.held(state_dir, "model.lock", wait=True), project.open_ledger() as ledger:
        yield ledger


def judge_sessions(
    project: Project, backend: Backend, session_ids: Collection[str]
) -> list[Reflected]:
    """Judge the windows of sessions that are not judged yet, past the gate; return the result of
    each.

    Raises:
        LedgerError: the ledger cannot be read or written.
    """
    with _asking(project) as ledger:
        runner = runner_of(project, ledger, backend)
        windows = [window for window in ledger.windows() if window.session_id in session_ids]
        open_windows = [window for window in windows if window.state != "completed"]
        return [runner.finish(window, forced=True) for window in open_windows]


class Surplus(NamedTuple):
    """The number of windows to judge, and the smaller number of requests that are left today."""

    windows: int
    requests_left: int


def surplus_of_today(project: Project, ledger: Ledger) -> Surplus | None:
    """Return the surplus of waiting windows if they are more than today's requests allow, else
    None.
    """
    config = project.config
    if not (config.is_daily_limited and config.daily_requests):
        return None
    windows = len([*ledger.open_windows(), *waiting_for_budget(ledger)])
    try:
        requests_left = max(0, config.daily_requests - Spending().requests_today())
    except OSError:  # the drain reports it
        return None
    return Surplus(windows, requests_left) if windows > requests_left else None


def give_up(ledger: Ledger, session_id: str, why: str, backend: str) -> int:
    """Record that no judge is asked about a session any more; return the number of its windows.

    The playbook's lock must be held.

    Raises:
        LedgerError: the ledger cannot be read or written.
    """
    windows = [window for window in ledger.open_windows() if window.session_id == session_id]
    failure = Failure("given up", why, attempts=0, final=True)
    events = [failure_event(window, backend, failure, actor=ev.HUMAN) for window in windows]
    ledger.append(events)
    return len(events)


def give_verdict(
    project: Project, ledger: Ledger, citation: OpenCitation, verdict: Verdict, why: str
) -> Appended:
    """Record your verdict on a citation, also for the first line of the next session.

    The playbook's lock must be held.

    Raises:
        LedgerError: the ledger cannot be read or written.
    """
    appended = record_verdict(ledger, citation, verdict, why)
    words = f"{citation.name} {verdict}"
    reflected = Reflected(citation.session_id, citation.window_id, "completed", words)
    leave_last_session(project.root, [reflected], only=True)
    return appended


class JudgedCase(NamedTuple):
    """The place of a trajectory in its file, its answers, and the result of judging it.

    reflected  None if it had a result before
    mistake    the reason why it was not recorded
    """

    where: str
    talk: Talk
    reflected: Reflected | None
    mistake: Mistake | None = None


def judge_cases(
    project: Project, backend: Backend, builder: Any, cases: Iterable[tuple[str, Case]]
) -> Iterator[JudgedCase]:
    """Record trajectories and judge them; after an outage they are only recorded. The playbook's
    lock is held until the iterator ends.

    Raises:
        LedgerError: the ledger cannot be read or written.
    """
    # Imported here, because they load pydantic and `give_verdict` does not need them.
    from reflector.judges.truth.questions import Talk
    from reflector.reflection.trajectories import run_recorded

    is_away = False
    with _asking(project) as ledger:
        recorder = Recorder(ledger, backend, gate=Gate(project.config, project.root))
        for where, case in cases:
            try:
                talk, reflected = run_recorded(recorder, builder, case, ask=not is_away)
            except Mistake as mistake:
                yield JudgedCase(where, Talk(), None, mistake)
                continue
            is_away = is_away or (reflected is not None and reflected.stage in OUTAGES)
            yield JudgedCase(where, talk, reflected)
