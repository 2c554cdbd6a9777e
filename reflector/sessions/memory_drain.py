"""The drain's part in the log of memory files: the stores to compare, and their sessions.

Invariant: a comparison never prevents the recording of a session. If something cannot be read or
written, this becomes a note, and the next drain compares again. The user's store is locked after
the project, for one step at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.attribution.calls import Transcript
from reflector.attribution.naming import FindTranscripts
from reflector.config import ConfigError
from reflector.events.event import time_of
from reflector.files import Changed, error_words
from reflector.ledger.errors import LedgerError
from reflector.memory.places import checked_at, leave_places, scopes_of
from reflector.memory.recording import Recorder, record_changes
from reflector.project import Project
from reflector.sessions import locks, opencode_store, spool
from reflector.sessions.found_transcripts import ended_at, is_in_project, look_at, written_since

_TROUBLE = (LedgerError, ConfigError, OSError, ValueError, Changed)
_WAITS = "changes to your memory files are not recorded yet: {}"

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger


def record_memory(project: Project, ledger: Ledger) -> list[str]:
    """Record the changes of the watched files of a project, and of the user's own files if the user
    agreed; return notes for the user. The lock of the project must be held.
    """
    began = time.time()
    notes: list[str] = []
    places: dict[str, bool] = {}
    is_whole = True
    for recording, find in _recordings(project, ledger):
        try:
            with recording as recorder:
                notes += record_changes(recorder, find, checked_at(project))
                places |= recorder.table.places()
        except _TROUBLE as error:
            notes.append(_WAITS.format(error_words(error)))
            is_whole = False
    if is_whole:
        leave_places(project, places, began)
    return notes


def _recordings(
    project: Project, ledger: Ledger
) -> Iterator[tuple[AbstractContextManager[Recorder], FindTranscripts]]:
    """Yield the recorder of each watched scope, with the sessions that may have written its
    files.
    """
    scopes = scopes_of(project)
    if "project" in scopes:
        recorder = Recorder(project, lambda: ledger, project.root, "project")
        yield nullcontext(recorder), lambda since: _sessions(project, since)
    if "user" in scopes:
        # Every session may write the user's files.
        yield (
            _users_recorder(project.root),
            lambda since: [each._replace(is_here=True) for each in _sessions(project, since)],
        )


def fill_memory(project: Project, ledger: Ledger, transcripts: Iterable[Path]) -> list[str]:
    """Record the changes to watched files that transcripts and commits show, also of the user's own
    files if the user agreed; return notes for the user. The lock of the project must be held.
    """
    from reflector.memory.backfill import fill_back

    named = [transcript_at(path, project.root) for path in transcripts]
    return _fill(project, ledger, lambda recorder: fill_back(recorder, named))


def _fill(project: Project, ledger: Ledger, fill: Callable[[Recorder], list[str]]) -> list[str]:
    """Fill the project's log, and the user's if the user agreed; return notes for the user."""
    notes: list[str] = []
    try:
        for recording, _ in _recordings(project, ledger):
            with recording as recorder:
                notes += fill(recorder)
    except _TROUBLE as error:
        notes.append(_WAITS.format(error_words(error)))
    return notes


def undecided_files(project: Project, ledger: Ledger) -> int:
    """Return the number of watched files with a change of an agent that you neither kept nor took
    back.
    """
    from reflector.memory.answers import undecided
    from reflector.memory.changes import Store, changes_in

    users = Project.of_user()
    with ExitStack() as closing:
        stores = [Store(project, ledger)]
        if "user" in scopes_of(project) and users.has_ledger():
            stores.append(Store(users, closing.enter_context(users.open_ledger())))
        root = None if project.is_users else project.root
        waiting = undecided(project, changes_in(stores, root))
    return len({change.file for change in waiting})


def bring_up_to_date(project: Project, ledger: Ledger) -> list[str]:
    """Record the changes since the last look, the commits, and at first all changes that
    transcripts show, so that a question does not need hooks. Return notes for the user. The lock of
    the project must be held.
    """
    from reflector.memory.backfill import fill_back

    def fill(recorder: Recorder) -> list[str]:
        transcripts = [] if recorder.is_filled else _sessions(project, 0.0)
        return fill_back(recorder, [each for each in transcripts if each.is_here])

    return [*_fill(project, ledger, fill), *record_memory(project, ledger)]


@contextmanager
def _users_recorder(root: Path) -> Iterator[Recorder]:
    """Hold the lock of the user's store, and yield its recorder. The ledger is opened when
    something is recorded.
    """
    users = Project.of_user()
    with locks.held(users.make_state_dir(), "drain.lock", wait=True), ExitStack() as closing:
        yield Recorder(users, lambda: closing.enter_context(users.open_ledger()), root, "user")


def _sessions(project: Project, since: float) -> list[Transcript]:
    """Return the transcripts that were written since a time, and those of waiting deliveries.

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
    paths = dict.fromkeys([*waiting, *written_since(since)])
    return [transcript_at(path, project.root) for path in paths]


def transcript_at(path: Path, root: Path) -> Transcript:
    """Return a transcript by the first and the last records of its file."""
    try:
        seen = look_at(path)
        ended = ended_at(path)
    except OSError:
        return Transcript(path, str(root))
    is_here = is_in_project(root, seen)
    folder = str(root) if is_here else "/"
    if Path(seen.cwd).is_absolute():
        folder = seen.cwd
    # The beginning of a document is not known, because its time is that of its file.
    began = time_of(seen.started_at) if path.suffix != ".json" else None
    return Transcript(path, folder, is_here, began.timestamp() if began else 0.0, ended)
