"""The drain's part in the log of memory files: which stores are compared, and with which sessions.

Invariant: a comparison never keeps a session from being recorded. What cannot be read or written
becomes a note, and the next drain compares again. The user's store is locked after the project's
lock was released.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import ConfigError
from reflector.events.event import MEMORY_CHANGED
from reflector.files import error_words
from reflector.ledger.errors import LedgerError
from reflector.memory.answers import undecided
from reflector.memory.backfill import fill_back
from reflector.memory.changes import Store, changes_in
from reflector.memory.files import Table
from reflector.memory.recording import Recorder, leave_places, record_changes
from reflector.project import Project
from reflector.sessions import locks, spool
from reflector.sessions.found_transcripts import written_since

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger


def record_memory(project: Project, ledger: Ledger) -> list[str]:
    """Record the changes of the watched files of a project; return notes for the user. The lock of
    the project must be held.
    """
    if not _watches(project):
        return []
    recorder = Recorder(project, lambda: ledger, project.root, "project")
    notes = record_changes(recorder, lambda time: _sessions(project, time, project.root)).notes
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
        users = Project.of_user()
        with locks.held(users.make_state_dir(), "drain.lock", wait=True), ExitStack() as closing:
            recorder = _users_recorder(users, project.root, closing)
            return record_changes(recorder, lambda time: _sessions(project, time)).notes
    except (LedgerError, ConfigError, OSError) as error:
        return [f"changes of your memory files wait to be recorded: {error_words(error)}"]


def fill_memory(project: Project, ledger: Ledger, transcripts: Iterable[Path]) -> int:
    """Record the changes of watched files that transcripts and commits show, also of the user's own
    files if the user agreed; return the number of new events. The lock of the project must be held.

    Raises:
        OSError, LedgerError, ConfigError: not everything is recorded.
    """
    if not _watches(project):
        return 0
    paths = list(transcripts)
    count = fill_back(Recorder(project, lambda: ledger, project.root, "project"), paths)
    if _watches_users(project):
        users = Project.of_user()
        with locks.held(users.make_state_dir(), "drain.lock", wait=True), ExitStack() as closing:
            count += fill_back(_users_recorder(users, project.root, closing), paths)
    return count


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

    Raises:
        OSError, LedgerError, ConfigError: not everything is recorded.
    """
    if not ledger.has(MEMORY_CHANGED):
        fill_memory(project, ledger, _sessions(project, 0.0, project.root))
    return [*record_memory(project, ledger), *record_users_memory(project)]


def _users_recorder(users: Project, root: Path, closing: ExitStack) -> Recorder:
    return Recorder(users, lambda: closing.enter_context(users.open_ledger()), root, "user")


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
