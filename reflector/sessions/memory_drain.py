"""The drain's part in the log of memory files: which stores are compared, and with which sessions.

Invariant: a comparison never keeps a session from being recorded. What cannot be read or written
becomes a note, and the next drain compares again. The user's store is locked after the project's
lock was released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import ConfigError
from reflector.files import Changed, error_words
from reflector.ledger.errors import LedgerError
from reflector.memory.answers import undecided
from reflector.memory.backfill import fill_back, is_filled
from reflector.memory.calls import Transcript
from reflector.memory.changes import Store, changes_in
from reflector.memory.files import Table
from reflector.memory.recording import Recorder, leave_places, record_changes
from reflector.memory.restoring import finish, is_interrupted
from reflector.project import Project
from reflector.sessions import locks, opencode_store, spool
from reflector.sessions.found_transcripts import is_in_project, look_at, written_since

_TROUBLE = (LedgerError, ConfigError, OSError, ValueError, Changed)
_WAITS = "changes to your memory files are not recorded yet: {}"

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger


def record_memory(project: Project, ledger: Ledger) -> list[str]:
    """Record the changes of the watched files of a project; return notes for the user. The lock of
    the project must be held.
    """
    notes = _finish_undo(project, ledger)
    if not _watches(project):
        leave_places(project.root, [])
        return notes
    recorder = Recorder(project, lambda: ledger, project.root, "project")
    notes += record_changes(recorder, lambda time: _sessions(project, time))
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
            return record_changes(recorder, lambda time: _anywhere(project, time))
    except _TROUBLE as error:
        return [_WAITS.format(error_words(error))]


def fill_memory(project: Project, ledger: Ledger, transcripts: Iterable[Path]) -> list[str]:
    """Record the changes of watched files that transcripts and commits show, also of the user's own
    files if the user agreed; return notes for the user. The lock of the project must be held.
    """
    if not _watches(project):
        return []
    named = [_transcript(path, project.root) for path in transcripts]
    return _fill(project, ledger, lambda recorder: fill_back(recorder, named))


def _fill(project: Project, ledger: Ledger, fill: Callable[[Recorder], list[str]]) -> list[str]:
    """Fill the project's log, and the user's if the user agreed; return notes for the user."""
    try:
        notes = fill(Recorder(project, lambda: ledger, project.root, "project"))
        if _watches_users(project):
            with _users_recorder(project.root) as recorder:
                notes += fill(recorder)
        return notes
    except _TROUBLE as error:
        return [_WAITS.format(error_words(error))]


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
    """Record the changes since the last look, the commits, and at first all that transcripts show,
    so that a question needs no hook; return notes for the user. The lock of the project must be
    held.
    """

    def fill(recorder: Recorder) -> list[str]:
        transcripts = [] if is_filled(recorder) else _sessions(project, 0.0)
        return fill_back(recorder, [each for each in transcripts if each.is_here])

    notes = _fill(project, ledger, fill) if _watches(project) else []
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
    if not restored:
        return ["an undo was interrupted and changed nothing; see `reflector log --memory`"]
    return [f"finished an undo that was interrupted: {', '.join(restored)}"]


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


def _anywhere(project: Project, time: float) -> list[Transcript]:
    """Return the transcripts as `_sessions` does; every session may write the user's files."""
    return [each._replace(is_here=True) for each in _sessions(project, time)]


def _sessions(project: Project, time: float) -> list[Transcript]:
    """Return the transcripts that were written since a time, and those that wait in the spool.

    A session of OpenCode is in its database. It is written to a file first, because it may have
    made a change.
    """
    for session_id in spool.begun(project.root):
        with suppress(OSError, opencode_store.StoreRefused):
            opencode_store.write_export(session_id)
    deliveries = [
        *spool.pending_for(project.root),
        *spool.pending_for(project.root, "waiting"),
    ]
    waiting = (Path(each.transcript_path) for each in deliveries if each.transcript_path)
    paths = dict.fromkeys([*waiting, *written_since(time)])
    return [_transcript(path, project.root) for path in paths]


def _transcript(path: Path, root: Path) -> Transcript:
    try:
        seen = look_at(path)
    except OSError:
        return Transcript(path, str(root))
    folder = seen.cwd if Path(seen.cwd).is_absolute() else ""
    is_here = is_in_project(root, seen)
    return Transcript(path, folder or (str(root) if is_here else "/"), is_here)
