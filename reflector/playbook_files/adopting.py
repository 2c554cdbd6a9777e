"""Adopts rules from a file that you name: CLAUDE.md, any Markdown, or a playbook of any system.

Invariant: a plan changes nothing, and only its new rules are added. A rule that stays in a file
becomes a rule of the playbook and keeps its evidence. Rules in a file that an agent loads stay in
the file and only get names. `reflector adopt` uses this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from reflector.changes.apply import apply_changes, plan_changes
from reflector.events import event as ev
from reflector.files import read_bounded
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.document import MAX_BYTES, Loaded
from reflector.playbook.markdown import load_any
from reflector.playbook_files.admission import (
    PlaybookRefused,
    bullets_to_import,
    without_known,
)
from reflector.playbook_files.edits import under_free_names
from reflector.playbook_files.playbook_json import import_bullets
from reflector.playbook_files.watching import (
    Watching,
    adopting,
    advice_of,
    watch,
    watching,
)
from reflector.project import Project


class Naming(NamedTuple):
    """The rules of files that an agent loads. The rules stay in these files.

    lines    the rules by their names, including those of the playbook
    new      the names that are new to the ledger
    omitted  a line for each part of the files that is not a rule
    """

    watching: Watching
    new: Sequence[str]
    omitted: Sequence[str]


def plan_naming(ledger: Ledger, project: Project, files: Sequence[Path]) -> Naming:
    """Return the names that the rules of these files would get.

    Raises: OSError, LedgerError.
    """
    advice = advice_of(project.root, files)
    names = watching(ledger, advice.rules, first=project.first_number)
    before = {row.name for row in ledger.rows() if row.status in ("live", "watched")}
    new = [name for name in names.lines if name not in before]
    return Naming(names, new, advice.omitted)


def name_rules(ledger: Ledger, naming: Naming) -> range:
    """Record the names, and return the positions of the events. The playbook's lock must be held.

    Raises: LedgerError.
    """
    before = ledger.head().position
    if naming.watching.changes:
        watch(ledger, naming.watching, ev.IMPORT)
    return range(before + 1, ledger.head().position + 1)


class Adoption(NamedTuple):
    """The rules that a file would bring.

    bullets  the new rules, starting with those that are watched
    watched  the changes that move watched rules into the playbook
    omitted  a line for each part of the file that is not a rule
    known    a line for each entry whose text a rule has already
    """

    file: Path
    raw: bytes
    loaded: Loaded
    bullets: Sequence[Bullet]
    watched: Sequence[Change]
    omitted: Sequence[str]
    known: Sequence[str]


def plan_adoption(ledger: Ledger, project: Project, file: Path, *, rename: bool) -> Adoption:
    """Return the rules that a file would bring.

    rename  give a new name to each rule whose name belongs to another rule here

    Raises: PlaybookRefused, OSError, LedgerError.
    """
    raw = read_bounded(file, MAX_BYTES)
    loaded = load_any(raw, [row.name for row in ledger.rows()], project.first_number)
    if loaded.problems:
        raise PlaybookRefused(file, loaded.problems)
    loaded, watched = adopting(ledger, loaded, raw)
    if rename:
        loaded = under_free_names(ledger, loaded, project.first_number)
    loaded, known = without_known(ledger, loaded)
    restored = [bullet for step in plan_changes(ledger, watched) for bullet in step.after]
    new = bullets_to_import(ledger, loaded, file)
    return Adoption(file, raw, loaded, [*restored, *new], watched, loaded.notes, known)


def carry_out(ledger: Ledger, project: Project, adoption: Adoption) -> range:
    """Add the rules, and return the positions of the events. The playbook's lock must be held.

    Raises: PlaybookRefused, LedgerError, OSError.
    """
    tx = ledger.draw()
    before = ledger.head().position
    apply_changes(ledger, adoption.watched, actor=ev.IMPORT, tx=tx)
    import_bullets(ledger, project, adoption.loaded, adoption.raw, adoption.file, tx)
    return range(before + 1, ledger.head().position + 1)
