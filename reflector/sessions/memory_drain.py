"""The drain's part in the log of memory files: which stores are compared, and with which sessions.

Invariant: a comparison never keeps a session from being recorded. What cannot be read or written
becomes a note, and the next drain compares again. The user's store is locked after the project's
lock was released.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import ConfigError
from reflector.events.event import MEMORY_CHANGED
from reflector.files import Changed, error_words
from reflector.ledger.errors import LedgerError
from reflector.memory.answers import undecided
from reflector.memory.backfill import fill_back
from reflector.memory.changes import Store, changes_in
from reflector.memory.files import Table
from reflector.memory.recording import Recorder, leave_places, record_changes
from reflector.memory.restoring import finish, is_interrupted
from reflector.project import Project
from reflector.sessions import locks, spool
from reflector.sessions.found_transcripts import written_since

_TROUBLE = (LedgerError, ConfigError, OSError, Changed)
_WAITS = "changes of your memory files wait to be recorded: {}"

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger


def record_memory(project: Project, ledger: Ledger) -> list[str]:
    """Record the changes of the watched files of a project; return notes for the user. The lock of
    the project must be held.
    """
    notes = _finish_undo(project, ledger)
    if not _watches(project):
        return notes
    recorder = Recorder(project, lambda: ledger, project.root, "project")
    notes += record_changes(recorder, lambda time: _sessions(project, time, project.root)).notes
    tables = [recorder.table]
    if _watches_users(project):
        tables.append(Table(project.root, "user"))
    leave_places(project.root, tables)
    return notes


def record_users_memory(project: Project) -> list[str]:
    """Record the changes of the user's own files that agents load in a project, if the user agreed;
    return notes for the user.
    """
    if not _watches(project) or not _watches_users(project):
        return []
    try:
        with _users_recorder(project.root) as recorder:
            return record_changes(recorder, lambda time: _sessions(project, time)).notes
    except _TROUBLE as error:
        return [_WAITS.format(error_words(error))]


def fill_memory(project: Project, ledger: Ledger, transcripts: Iterable[Path]) -> list[str]:
    """Record the changes of watched files that transcripts and commits show, also of the user's own
    files if the user agreed; return notes for the user. The lock of the project must be held.
    """
    if not _watches(project):
        return []
    paths = list(transcripts)
    try:
        fill_back(Recorder(project, lambda: ledger, project.root, "project"), paths)
        if _watches_users(project):
            with _users_recorder(project.root) as recorder:
                fill_back(recorder, paths)
    except _TROUBLE as error:
        return [_WAITS.format(error_words(error))]
    return []


def undecided_files(project: Project, ledger: Ledger) -> int:
    """Return how many watched files have a change of an agent that you neither kept nor took
    back.
    """
    users = Project.of_user()
    with ExitStack() as closing:
        stores = [Store(project, ledger)]
        if _watches_users(project) and not project.is_users and users.has_ledger():
            stores.append(Store(users, closing.enter_context(users.open_ledger())))
        root = None if project.is_users else project.root
        waiting = undecided(project, changes_in(stores, root))
    return len({change.file for change in waiting})


def bring_up_to_date(project: Project, ledger: Ledger) -> list[str]:
    """Record the changes since the last look, and at first those that transcripts and commits show,
    so that a question needs no hook; return notes for the user. The lock of the project must be
    held.
    """
    notes: list[str] = []
    if _watches(project) and not ledger.has(MEMORY_CHANGED):
        notes += fill_memory(project, ledger, _sessions(project, 0.0, project.root))
    return [*notes, *record_memory(project, ledger), *record_users_memory(project)]


def _finish_undo(project: Project, ledger: Ledger) -> list[str]:
    """Finish an undo that was interrupted; return notes for the user. The lock of the project must
    be held.
    """
    if not is_interrupted(project):
        return []
    try:
        with _users_recorder(project.root) as recorder:
            stores = [Store(project, ledger)]
            if recorder.project.has_ledger():
                stores.append(Store(recorder.project, recorder.ledger))
            restored = finish(project, stores)
    except _TROUBLE as error:
        return [_WAITS.format(error_words(error))]
    return [f"finished an undo that was interrupted: {', '.join(one.file for one in restored)}"]


@contextmanager
def _users_recorder(root: Path) -> Iterator[Recorder]:
    """Hold the lock of the user's store; its ledger is opened if there is something to record."""
    users = Project.of_user()
    with locks.held(users.make_state_dir(), "drain.lock", wait=True), ExitStack() as closing:
        yield Recorder(users, lambda: closing.enter_context(users.open_ledger()), root, "user")


def _watches(project: Project) -> bool:
    is_plain = not project.is_users and project.outer is None
    return is_plain and project.config.memory != "off"


def _watches_users(project: Project) -> bool:
    return project.config.memory_user


def _sessions(project: Project, time: float, root: Path | None = None) -> Sequence[Path]:
    """Return the transcripts that were written since a time, and those that wait in the spool."""
    deliveries = [
        *spool.pending_for(project.root),
        *spool.pending_for(project.root, "waiting"),
    ]
    named = (Path(each.transcript_path) for each in deliveries if each.transcript_path)
    return list(dict.fromkeys([*named, *written_since(time, root)]))
