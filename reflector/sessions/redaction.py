"""Erases a text from a project: from its ledger and from the files that reflector wrote, and lists
the files that still contain it.

Invariant: a plan erases nothing. The ledger erases first, and then each file that still contains
the text is listed. A waiting session loses the text and is still recorded. A file that reflector
did not write is not changed. `reflector redact` uses this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reflector import entries
from reflector.changes.erase import Erasure, copies, echoes, erase
from reflector.events.event import MEMORY_CHANGED, Event
from reflector.files import error_words
from reflector.ledger.errors import LedgerError
from reflector.ledger.sqlite_copy import before_upgrade
from reflector.ledger.store import Ledger
from reflector.locate import AGENT_FILES, own_folder
from reflector.memory.bytes import Versions, versions_folder
from reflector.playbook_files.mirrors import mirrors
from reflector.project import Project
from reflector.sessions.drain import Pipeline
from reflector.sessions.last_session import forget_last_session
from reflector.sessions.spool import drop_words, pending_for


class Places(NamedTuple):
    """The places of a ledger's texts besides the ledger.

    folders     searched: the project's, and the user's own of the project
    files       other searched files
    own         the files and folders that reflector writes
    deliveries  the files of waiting deliveries
    copies      files and folders of reflector that are only copies, and may be removed
    rewritten   the files that the ledger writes again after an erasure
    """

    folders: Sequence[Path]
    files: Sequence[Path]
    own: Sequence[Path]
    deliveries: Sequence[Path]
    copies: Sequence[Path]
    rewritten: Sequence[Path]

    def holding(self, erasure: Erasure) -> list[Path]:
        """Return the files that contain an erased text."""
        return copies(self.folders, erasure, self.files)

    def is_ours(self, path: Path) -> bool:
        """Return whether reflector wrote a file."""
        return any(map(path.is_relative_to, self.own))


class RedactionPlan(NamedTuple):
    """The texts to erase, and the files that contain them.

    waiting    deliveries of hooks that lose the text
    removable  files of reflector that are removed if they still contain the text
    """

    erasure: Erasure
    places: Places
    files: Sequence[Path]
    waiting: Sequence[Path]
    removable: Sequence[Path]

    @property
    def has_work(self) -> bool:
        """Whether the ledger or a file contains the text."""
        return bool(self.erasure.events or self.files or self.erasure.stays)

    @property
    def lasting(self) -> list[Path]:
        """The files that the ledger does not write again automatically."""
        rewritten = self.places.rewritten if self.erasure.events else ()
        return [path for path in self.files if path not in rewritten]


#: Files in the user's own folder that are generated from others.
_DERIVED = ("rules.json", "counts.json", "births.json")


@dataclass(frozen=True, slots=True)
class Redacted:
    """The result of a redaction.

    events      the number of events that lost their text now
    earlier     the position of the event that erased it before, if nothing was left to erase
    removed     the files that were removed
    kept        the number of waiting deliveries that were kept without the text
    is_changed  whether an event or a file of reflector had the text
    left        the files that still contain it
    echoes      the events with the same text, or that belong to it
    trouble     the reason why the copy of the ledger could not be written again, "" if it was
    """

    events: int
    earlier: int | None
    removed: list[Path]
    kept: int
    is_changed: bool
    left: list[Path]
    echoes: list[Event]
    trouble: str


def plan_redaction(ledger: Ledger, project: Project, erasure: Erasure) -> RedactionPlan:
    """Return the places that contain the texts of an erasure.

    Raises: LedgerError.
    """
    places = _places_of(ledger, project)
    files = places.holding(erasure)
    is_everywhere = erasure.wanted is not None
    waiting = [path for path in files if is_everywhere and path in places.deliveries]
    copied = [path for path in files if any(map(path.is_relative_to, places.copies))]
    return RedactionPlan(erasure, places, files, waiting, [*waiting, *copied])


def carry_out(pipeline: Pipeline, plan: RedactionPlan, why: str) -> Redacted:
    """Erase the texts of a plan.

    Raises: ErasureRefused, LedgerError; LedgerLocked if another process reads the ledger's file, so
    that the file still contains the erased text. The same call later removes the text.
    """
    ledger = pipeline.ledger
    places = plan.places
    erasure = plan.erasure
    appended = erase(ledger, erasure, why)
    versions = _erase_versions(pipeline.project, erasure)
    forget_last_session(pipeline.project.root)  # it may contain parts of any text
    pipeline.write()
    trouble = _copy_trouble(ledger, pipeline.project)
    _each(plan.waiting, drop_words)
    held = [path for path in places.holding(erasure) if path in plan.removable]
    removed = [*versions, *_each(held, Path.unlink)]
    left = places.holding(erasure)
    echoing: list[Event] = []
    if erasure.wanted is None:  # other events, and the ledger's own copies, may have the same text
        left = [path for path in left if not places.is_ours(path)]
        echoing = echoes(ledger, erasure)
    new = sum(event.added for event in appended)
    return Redacted(
        events=new,
        earlier=appended[0].position if appended and not new else None,
        removed=removed,
        kept=sum(path not in removed for path in plan.waiting),
        is_changed=bool(new or removed or plan.removable),
        left=left,
        echoes=echoing,
        trouble=trouble,
    )


def _erase_versions(project: Project, erasure: Erasure) -> list[Path]:
    """Remove the kept versions of watched files before and after a change whose lines are erased.
    They contain secrets that its event does not.
    """
    digests = {
        erased.event.fact(name)
        for erased in erasure.events
        if erased.event.type == MEMORY_CHANGED
        for name in ("before", "after")
    }
    return Versions(project).erase([digest for digest in digests if isinstance(digest, str)])


def _places_of(ledger: Ledger, project: Project) -> Places:
    """Return the places of the texts of a project's ledger.

    Raises: LedgerError.
    """
    root = project.root
    claude = root / ".claude"
    # The user's own folder of the project; none for a user without a home.
    users = [Path(folder) for folder in [own_folder(str(root))] if folder]
    derived = [folder / name for folder in users for name in _DERIVED]
    not_rewritten = [*derived, *entries.lost_exports(root)]
    users_files = [path for folder in users for path in folder.rglob("*")]

    deliveries = _deliveries_of(project)
    before_upgrades = _copies_before_upgrade(ledger)
    with_section = [root / mirror.name for mirror in mirrors(ledger, project)]
    others = [*deliveries, *before_upgrades]
    return Places(
        folders=[claude, *users],
        files=[*(root / name for name in AGENT_FILES), *others],
        own=[claude / "reflector", claude / "playbook.json", *users, *with_section, *others],
        deliveries=deliveries,
        copies=[project.state_dir / "kept", versions_folder(project), *derived, *before_upgrades],
        rewritten=[path for path in users_files if path not in not_rewritten],
    )


def _deliveries_of(project: Project) -> list[Path]:
    parts = ("", "waiting")
    waiting = [delivery.path for part in parts for delivery in pending_for(project.root, part)]
    spooled = filter(Path.is_file, project.spool_dir.rglob("*"))
    return [*waiting, *spooled]


def _copies_before_upgrade(ledger: Ledger) -> list[Path]:
    url = ledger.engine.url
    upgrade = before_upgrade(Path(url.database)) if url.is_file else None
    return [upgrade.file] if upgrade is not None else []


def _copy_trouble(ledger: Ledger, project: Project) -> str:
    """Update the copy in the user's own folder, and return the reason if that fails."""
    try:
        entries.update_copy(ledger, project.place, entries.file_identity(project.ledger_file))
    except (OSError, LedgerError) as error:
        return error_words(error)
    is_behind = 0 < entries.copy_end(project.root).position < ledger.head().position
    return "another process has locked the copy of the ledger" if is_behind else ""


def _each(paths: Sequence[Path], act: Callable[[Path], object]) -> list[Path]:
    """Call a function for each file, and return the files with which it succeeded. The result names
    the others later, because they still contain the text.
    """
    done: list[Path] = []
    for path in paths:
        with suppress(OSError):
            act(path)
            done.append(path)
    return done
