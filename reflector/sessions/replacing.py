"""Replaces a project's ledger: rebuilds it, restores it from a backup, or takes it as yours.

Invariant: no other process works on the playbook meanwhile, and playbook.json is written
afterwards. The replaced ledger is kept, and so is a playbook.json that did not come from the new
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from reflector import entries
from reflector.exchange import backup as backups
from reflector.ledger.errors import LedgerError, LedgerUnavailable
from reflector.ledger.rows import Anchor
from reflector.ledger.url import url_of
from reflector.playbook_files.admission import PlaybookRefused
from reflector.playbook_files.playbook_json import (
    checkpoint_of,
    set_aside,
    set_unreadable_aside,
)
from reflector.project import Project
from reflector.sessions import locks
from reflector.sessions.drain import waiting_pipeline
from reflector.text.phrases import counted
from reflector.trials.trial import Trial, keep_note, running, trial_place

#: Prints notes, each once.
Notes = Callable[[Iterable[str]], None]


def rebuild_project(
    project: Project, progress: Callable[[int], AbstractContextManager[Any]], note: Notes
) -> Path | None:
    """Rebuild the tables, and write playbook.json. Return the copy of the old playbook.json if it
    could not be read, else None.

    progress  returns a progress bar for a number of events

    Raises: LedgerError, OSError. LedgerUnavailable also for a writer on a server, after the file is
    written, because the tables belong to the owner.
    """
    refused: LedgerUnavailable | None = None
    with (
        locks.held(project.make_state_dir(), "drain.lock", wait=True),
        project.open_ledger() as ledger,
    ):
        # First, because the rest reads the tables.
        try:
            with progress(ledger.head().position) as bar:
                ledger.rebuild(lambda reached: bar.update(reached - bar.pos))
        except LedgerUnavailable as error:
            if not ledger.may_append():
                raise
            refused = error
        kept = set_unreadable_aside(ledger, project)
    if kept is not None:
        file = project.playbook_json
        new = f"reflector could not read {file}, so reflector wrote a new file"
        note([f"{new}. reflector saved the old file as {kept}"])
    with waiting_pipeline(project) as pipeline:
        pass  # its end writes the file
    note(pipeline.notes)
    if refused is not None:
        raise refused
    return kept


class Restored(NamedTuple):
    """The result of a restore.

    end       the head of the restored ledger
    ledger    the copy of the replaced ledger
    playbook  the copy of the replaced playbook.json
    """

    end: Anchor
    ledger: Path | None
    playbook: Path | None


def restore_project(project: Project, backup: Path, note: Notes, *, force: bool) -> Restored:
    """Put a backup in the place of the project's ledger. The caller then calls `go_on`.

    force  restore the backup even if it lacks events of the ledger

    Raises: LedgerError, OSError.
    """
    url = url_of(project.database_url)
    present = backups.ledger_file(url)
    backups.check_is_backup(backup)
    state = project.make_state_dir()
    if present.exists() and present.stat().st_size:
        # Edits of playbook.json become events of the replaced ledger, so that they are not lost.
        try:
            with waiting_pipeline(project) as pipeline:
                pass
            note(pipeline.notes)
        except (LedgerError, PlaybookRefused) as error:
            note([str(error)])
    with locks.held(state, "model.lock", wait=True), locks.held(state, "drain.lock", wait=True):
        playbook_copy = None
        own_file = None
        if (aside := set_aside(project)) is not None:
            playbook_copy, digest = aside
            own_file = (checkpoint_of(project), digest)
        end, ledger_copy = backups.restore_ledger(
            backup, present, project.config.playbook, force=force, own_file=own_file
        )
        if not project.config.ledger_url:
            entries.claim(project.place)
    return Restored(end, ledger_copy, playbook_copy)


class Offer(NamedTuple):
    """A ledger that may become yours: its origin in words, and the question about it."""

    words: str
    question: str


def offer(project: Project) -> Offer:
    """Examine a ledger that came with the project, or the copy of one that is gone.

    Raises: LedgerUnavailable if there is neither.
    """
    file = project.ledger_file
    if file.exists():
        seen = entries.inspect_file(file, project.place.playbook)
        span = f"{seen.first[:10]} to {seen.last[:10]}"
        words = f"{file}: origin {seen.origin}, {counted(seen.position, 'event')}, {span}"
        return Offer(words, "Is this ledger yours?")
    entry = entries.entry_in_force(project.place)
    end = entries.copy_end(project.root)
    if entry is not None and end.position:
        words = (
            f"{file} is missing. reflector has a copy of the ledger {entry.origin} with "
            f"{counted(end.position, 'event')}"
        )
        return Offer(words, "Restore this copy?")
    raise LedgerUnavailable(
        f"{project.root} has neither a ledger nor a copy of a ledger; start a ledger with "
        "`reflector add`"
    )


def take_project(project: Project) -> None:
    """Accept the ledger of `offer` as yours, or put it back. The caller then calls `go_on`.

    Raises: LedgerUnavailable if another process created the file meanwhile; LedgerError, OSError.
    """
    of = project.place
    entry = entries.entry_in_force(of)
    with locks.held(project.make_state_dir(), "drain.lock", wait=True):
        if project.ledger_file.exists():
            entries.claim(of)
        elif entry is not None and not entries.restore_from_copy(of, entry):
            raise LedgerUnavailable(
                f"another process created {project.ledger_file}; run the same command again"
            )


def go_on(project: Project, note: Notes) -> Trial | None:
    """Write the files of a ledger that is now yours, and return its running trial, which continues
    here.
    """
    with waiting_pipeline(project) as pipeline:
        keep_note(project, pipeline.ledger, opens=True)
        trial = running(pipeline.ledger, trial_place(project))
        pipeline.write()
    note(pipeline.notes)
    return trial
