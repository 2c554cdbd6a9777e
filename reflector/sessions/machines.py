"""Imports the ledger of another machine into a project from a file.

Invariant: a file with one faulty line changes nothing. An empty ledger becomes the file's, with its
chain. A ledger with events keeps its own, and each event of the file is appended once. No session
is recorded meanwhile. `reflector import` uses this module.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from reflector import entries
from reflector.events.event import TRIAL_OPENED
from reflector.exchange.merge import Lines, Merged, merge_ledger
from reflector.exchange.transfer import checked_lines, load_ledger
from reflector.ledger.rows import Head
from reflector.ledger.store import Ledger
from reflector.playbook_files.kept_copies import drop_known
from reflector.playbook_files.playbook_json import settle_file
from reflector.project import Project
from reflector.sessions import locks
from reflector.sessions.drain import Pipeline
from reflector.sessions.spool import is_untouched
from reflector.trials.trial import Trial, elsewhere, trial_place

_MAX_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Loaded:
    """The end of a ledger that an export filled.

    kept  the copy of a playbook.json of another history
    """

    head: Head
    kept: Path | None
    #: The trials of another place that are still open.
    trials: list[Trial] = field(repr=False)


def is_export(file: Path) -> bool:
    """Return whether a file has the name or the beginning of a ledger's export."""
    if not file.is_file():  # a pipe may never end
        return False
    if file.suffix == ".ndjson":
        return True
    try:
        with file.open("rb") as opened:
            header = json.loads(opened.readline(_MAX_HEADER_BYTES))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and "specversion" in header


def has_events(project: Project) -> bool:
    """Return whether the project's ledger has events. It does not record waiting edits of
    playbook.json first.
    """
    if not project.has_ledger():
        return False
    with project.open_ledger() as ledger:
        return ledger.head().position > 0


def load_export(project: Project, lines: Lines) -> Loaded:
    """Fill a project's empty ledger with an export. The next command writes playbook.json.

    lines  returns the file's lines, each time it is called

    Raises: WrongLine, LedgerError, OSError.
    """
    if is_untouched(project):  # a wrong file must not create a ledger
        _, checked = checked_lines(lines())
        deque(checked, maxlen=0)
    state = project.make_state_dir()
    with (
        locks.held(state, "model.lock", wait=True),
        locks.held(state, "drain.lock", wait=True),
        project.open_ledger() as ledger,
    ):
        head = load_ledger(ledger, lines())
        kept = settle_file(ledger, project)
        return Loaded(head, kept, _trials_from(ledger, project, 0))


def merge_export(
    pipeline: Pipeline, file: Path, lines: Lines, *, rename: bool
) -> tuple[Merged, list[Trial]]:
    """Append the events of an export to the project's ledger. Return the result, and the open
    trials of other places that the export brought.

    lines  returns the file's lines, each time it is called

    Raises: WrongLine, LedgerError, OSError.
    """
    ledger = pipeline.ledger
    project = pipeline.project
    before = ledger.head().position
    is_lost = not project.config.ledger_url and entries.is_lost_export(project.root, file)
    merged = merge_ledger(ledger, lines, rename=rename, first=project.first_number, own=is_lost)
    if is_lost:
        drop_known(ledger, project)
    return merged, _trials_from(ledger, project, before)


def drop_merged(project: Project, file: Path) -> None:
    """Remove an export of this ledger that was kept when the ledger was lost, and is merged now."""
    if not project.config.ledger_url:
        entries.drop_imported(project.place, file)


def _trials_from(ledger: Ledger, project: Project, before: int) -> list[Trial]:
    if not ledger.has(TRIAL_OPENED):
        return []
    return elsewhere(ledger, trial_place(project), before)
