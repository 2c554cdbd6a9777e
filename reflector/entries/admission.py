"""Decides whether the file in a ledger's place may be opened.

Invariant: before a file that is not the noted one answers anything, its history is proved event by
event, and its tables are filled again from the events. The file is this user's if its history
equals or continues the copy in the user's folder, or if the user confirms it. If two histories of
one origin have parted, the file in place answers, and this home's history is kept aside. A ledger
of another origin, or one whose events were changed, is replaced by this user's own ledger.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Literal

import reflector.ledger as ledgers
from reflector.entries import copies, notes
from reflector.entries.notes import NOWHERE, Entry, Place
from reflector.entries.strangers import Look, inspect_file, looking
from reflector.ledger.errors import (
    LedgerCorrupt,
    LedgerError,
    LedgerGone,
    LedgerStrange,
    LedgerUnavailable,
)
from reflector.ledger.sqlite_file import claim_file, refuse_journal
from reflector.ledger.store import Ledger
from reflector.locate import own_folder

#: The relation of a file's history to that of a copy: it equals or continues it, it is an earlier
#: state of it, or both have the first events in common; "" for none of these.
Relation = Literal["same", "earlier", "parted", ""]
#: How often a file may change while one process examines it.
_MOST_TRIES = 5


def admit(
    place: Place, *, walks: bool = True, accepts_newer: bool = False, writes: bool = True
) -> bool:
    """Decide whether the file in a ledger's place may be opened. If needed, create it, prove it or
    restore it from its copy. Return whether its tables can be trusted.

    walks          False to skip this work, because the start hook does not wait for it
    accepts_newer  as in `Ledger.open`
    writes         False to prove the file and leave it unchanged

    Raises: LedgerStrange for a file that this home has not noted, LedgerGone for one that cannot be
    restored, LedgerLocked, LedgerError.
    """
    if not own_folder(str(place.root)):
        raise LedgerStrange(
            f"the owner of the ledger {place.file} is unknown, because HOME does not name a home "
            "folder. Set HOME to a folder of yours, or name the ledger with "
            f"REFLECTOR_LEDGER_URL=sqlite:///{place.file}"
        )
    if _is_noted(place, notes.entry_of(place.root)):
        return True
    if not walks:
        raise LedgerStrange(
            f"the ledger {place.file} was replaced by another file. To check whether the new file "
            "is yours, run `reflector status`"
        )
    if not writes:
        _prove(place)
        return False
    with notes.hold_notes(place.root):
        for _ in range(_MOST_TRIES):
            if _settle(place, accepts_newer=accepts_newer):
                return True
    raise LedgerUnavailable(
        f"another process repeatedly replaces {place.file}; stop that process, then try again"
    )


def _prove(place: Place) -> None:
    """Refuse a file that cannot be written, unless its history equals or continues a noted one.

    Raises: LedgerStrange, LedgerCorrupt.
    """
    entry = notes.entry_in_force(place)
    if entry is None or not notes.copy_end(place.root).position:
        if _original(place) is None:
            raise _strange(place)
        return
    with looking(place.file, entry.playbook) as stranger:
        relation = _relation(stranger, entry)
        fault = stranger.fault() if relation else ""
    if not relation:
        raise _strange(place)
    _refuse(place, fault)


def _refuse(place: Place, fault: str) -> None:
    """Raise LedgerCorrupt for a fault of a file's history, "" for none."""
    if fault:
        raise LedgerCorrupt(
            f"{place.file} was changed after it was written: {fault}; restore a backup with "
            f"`reflector ledger restore FILE`"
        )


def _proved_origin(place: Place) -> str:
    """Return the origin of a file's proved history, "" if the playbook's row does not exist yet.

    Raises: LedgerCorrupt.
    """
    with looking(place.file, place.playbook) as stranger:
        origin = stranger.origin
        fault = stranger.fault() if origin else ""
    _refuse(place, fault)
    return origin


def claim(place: Place) -> None:
    """Note that a file is this user's ledger, because the user confirms it.

    Raises: OSError, LedgerError.
    """
    with notes.hold_notes(place.root):
        refuse_journal(place.file)
        origin = _proved_origin(place)
        copies.set_aside(place, origin)
        _accept(place, origin, notes.entry_of(place.root), accepts_newer=False)


def _is_noted(place: Place, entry: Entry | None) -> bool:
    """Return whether the noted file is there and has the history of the copy.

    True for a file that cannot be read, and for the noted file without its playbook if it has the
    copy's end. The next command reports the damage.
    """
    if entry is None or not entry.mark or not entry.origin:
        return False
    if notes.file_identity(place.file) != entry.file:
        return False
    end = notes.copy_end(place.root)
    if end.position and _is_empty(place.file):
        return False
    try:
        with looking(place.file, entry.playbook) as stranger:
            if not stranger.origin:
                return stranger.has_event(end.position, end.chain)
            if stranger.origin != entry.origin or not _has_mark(stranger, entry):
                return False
            return not end.position or stranger.chain_at(end.position) == end.chain
    except LedgerStrange:
        return False
    except LedgerUnavailable:
        return True


def _is_empty(file: Path) -> bool:
    with suppress(FileNotFoundError):  # another process may remove it
        return not file.stat().st_size
    return False


def _has_mark(stranger: Look, entry: Entry) -> bool:
    return bool(entry.mark) and stranger.has_checkpoint(notes.mark_name(entry.mark), entry.mark)


def _settle(place: Place, *, accepts_newer: bool) -> bool:
    """Create, restore or accept the ledger of a place, and note it. Return whether it may be opened
    now; False if another process created, replaced or removed the file meanwhile.

    Raises: LedgerStrange, LedgerGone, LedgerError, OSError.
    """
    file = notes.file_identity(place.file)
    entry = notes.entry_in_force(place)
    if _is_noted(place, entry):  # another process did it meanwhile
        return True
    is_lost = file == NOWHERE or _is_empty(place.file)
    if is_lost and entry is not None and notes.copy_end(place.root).position:
        empty = None if file == NOWHERE else copies.free_name(place.file.with_name("empty.db"))
        return _restore(place, entry, empty)
    if file == NOWHERE:
        _begin(place)
        return True
    if is_lost:  # `claim_file` reports an empty file
        if entry is None or entry.file != file:
            _begin(place)
        return True
    refuse_journal(place.file)
    if entry is not None:  # one command may name another playbook in the same file
        noted = place._replace(playbook=entry.playbook)
        if entry.file == file and _is_new(noted, entry):
            _go_on_making(noted, entry, accepts_newer=accepts_newer)
            return True
        if notes.copy_end(place.root).position:
            return _accept_or_restore(noted, entry, accepts_newer=accepts_newer)
    original = _original(place)
    if original is None:
        raise _strange(place)
    _arrive(place, original, accepts_newer=accepts_newer)
    return True


def _is_new(place: Place, entry: Entry) -> bool:
    """Return whether the creation of a noted file, or its first import, was interrupted before its
    copy was written.
    """
    if not entry.origin:
        return True
    if notes.copy_end(place.root).position:
        return False
    with looking(place.file, entry.playbook) as stranger:
        return _has_mark(stranger, entry)


def _begin(place: Place) -> None:
    """Create the file of a new ledger, and note it before it has an event.

    Raises: LedgerGone, OSError.
    """
    place.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    claim_file(place.file)
    notes.write_note(place, "", notes.new_mark())


def _go_on_making(place: Place, entry: Entry, *, accepts_newer: bool) -> None:
    """Accept the file of a ledger whose creation was interrupted, or runs in another process."""
    try:
        origin = _proved_origin(place)
    except LedgerStrange:  # it does not have tables yet
        return
    if origin:
        _accept(place, origin, entry, accepts_newer=accepts_newer)


def _accept_or_restore(place: Place, entry: Entry, *, accepts_newer: bool) -> bool:
    """Accept a file in the place of a ledger of which this home has a copy, or restore that ledger
    in its place. Return whether the file there may be opened.
    """
    with looking(place.file, place.playbook) as stranger:
        origin = stranger.origin
        position = stranger.position
        relation = _relation(stranger, entry)
        fault = stranger.fault() if relation else f"another ledger, with the origin {origin}"
    if fault:
        return _restore_over(place, entry, origin, fault)
    end = notes.copy_end(place.root)
    if relation != "same":
        copies.keep_lost_copy(place, end)
    elif position > end.position:
        ledgers.tell(
            f"{place.file} was replaced; the new file contains your {end.position:,} events and "
            f"{position - end.position:,} new events"
        )
    _accept(place, origin, entry, accepts_newer=accepts_newer)
    return True


def _relation(stranger: Look, entry: Entry) -> Relation:
    """Return the relation of the history that a file shows to an entry's copy. The file's history
    is not proved by this.
    """
    end = notes.copy_end(Path(entry.root))
    if stranger.origin != entry.origin or not end.position or not stranger.position:
        return ""
    if stranger.chain_at(end.position) == end.chain:
        return "same"
    root = Path(entry.root)
    if _is_beginning_of_copy(stranger, root) and stranger.position < end.position:
        return "earlier"
    return "parted" if stranger.chain_at(1) == copies.chain_at(root, 1) else ""


def _is_beginning_of_copy(stranger: Look, root: Path) -> bool:
    """Return whether the copy of a project's ledger begins with the history that a file shows."""
    return copies.chain_at(root, stranger.position) == stranger.chain


def _restore_over(place: Place, entry: Entry, origin: str, fault: str) -> bool:
    """Restore this user's ledger in the place of another file, which is kept beside it. Return
    whether the ledger is restored.
    """
    kept_as = copies.free_name(place.file.with_name(f"another-{origin[:12]}.db"))
    if not _restore(place, entry, kept_as):
        return False
    ledgers.tell(
        f"another file was in the place of your ledger ({fault}); reflector renamed that file to "
        f"{kept_as}"
    )
    return True


def _restore(place: Place, entry: Entry, displaced: Path | None = None) -> bool:
    """Restore a ledger from its copy, and report this. Return whether the ledger is in its place:
    False if another process put a file there meanwhile.

    displaced  the new name of the file in the ledger's place; None if the ledger is missing

    Raises: LedgerGone, LedgerError, OSError.
    """
    end = notes.copy_end(place.root)
    state = "is gone"
    if displaced is not None:
        state = "is empty" if _is_empty(place.file) else "was replaced"
    is_same = bool({*notes.commits_of(place.root)} & {*entry.commits})
    try:
        displaced_name = None if displaced is None else displaced.name
        is_back = copies.restore_from_copy(place, entry, displaced_name, sure=is_same)
    except copies.NotTheSame as error:
        raise LedgerGone(
            f"the ledger {place.file} {state}, and reflector is not sure that the copy with "
            f"{end.position:,} events belongs to {place.root}; `reflector ledger take` restores "
            f"the ledger from the copy. `reflector ledger forget {quote(str(place.root))}` removes "
            "the copy, so that a new ledger can begin"
        ) from error
    except LedgerUnavailable:  # the copy may be sound
        raise
    except LedgerError as error:
        fault, *_ = str(error).split("; ")  # this error has its own way out
        raise LedgerGone(
            f"the ledger {place.file} {state}, and the ledger's copy "
            f"{own_folder(entry.root)}/{notes.COPY} is damaged ({fault}); to restore a backup "
            "instead, run `reflector ledger restore FILE`. To begin a new ledger, remove the "
            f"copy of the old ledger with `reflector ledger forget {quote(entry.root)}`"
        ) from error
    if is_back:
        events = f"{end.position:,} events were restored"
        where = own_folder(entry.root)
        before = state.replace("is ", "was ")
        ledgers.tell(f"{place.file} {before}; the ledger's {events} from the copy in {where}")
    return is_back


def _original(place: Place) -> Entry | None:
    """Return the noted ledger of another folder from which a file came: the file is that ledger, or
    contains only events of that ledger's copy.

    Return None without such a ledger, because others may then have written the file's events. Also
    return None if the file's history was changed after it was appended.
    """
    file = notes.file_identity(place.file)
    with looking(place.file, place.playbook) as stranger:

        def nearness(entry: Entry) -> int:
            """Return 3 for the same file, 2 for all events of a copy, 1 for its first events, 0 for
            another ledger.
            """
            is_this_project = entry.root == str(place.root)
            is_same_playbook = entry.playbook == place.playbook
            if is_this_project or not is_same_playbook or entry.origin != stranger.origin:
                return 0
            if entry.file == file and _has_mark(stranger, entry):
                return 3
            end = notes.copy_end(Path(entry.root))
            if not stranger.position:
                return 0
            if (end.position, end.chain) == (stranger.position, stranger.chain):
                return 2
            return 1 if _is_beginning_of_copy(stranger, Path(entry.root)) else 0

        nearest = max(notes.entries(), key=nearness, default=None)
        if nearest is None or not nearness(nearest):
            return None
        return None if stranger.fault() else nearest


def _arrive(place: Place, original: Entry, *, accepts_newer: bool) -> None:
    """Accept a ledger that came with a moved or copied project.

    A moved project takes the notes of its old folder along, and so keeps the ledger's mark. A copy
    gets notes and a mark of its own, because the original still needs those.
    """
    old_file = Path(original.root) / place.file.relative_to(place.root)
    is_copy = notes.file_identity(old_file) == original.file
    entry = None
    if not is_copy:
        with suppress(OSError):
            from shutil import rmtree

            # The folder here has no copy of a ledger, so it can be replaced.
            rmtree(own_folder(str(place.root)), ignore_errors=True)
            os.rename(own_folder(original.root), own_folder(str(place.root)))  # noqa: PTH104
            entry = original
    _accept(place, original.origin, entry, accepts_newer=accepts_newer)


def _accept(place: Place, origin: str, entry: Entry | None, *, accepts_newer: bool) -> None:
    """Fill the tables of a proved file again, mark it and note it.

    Raises: LedgerCorrupt, LedgerError, OSError.
    """
    from reflector.proof.schema import wrong_triggers

    mark = (entry.mark if entry is not None else "") or notes.new_mark()
    with Ledger.open_file(place.file, place.playbook, accepts_newer=accepts_newer) as ledger:
        ledger.repair_triggers()
        with ledger.asking() as sql:
            strange = sorted(wrong_triggers(sql))
        if strange:
            drops = "; ".join(f"DROP TRIGGER {quote(name)}" for name in strange)
            raise LedgerCorrupt(
                f"{place.file} has triggers that do not belong to the ledger: "
                f"{', '.join(strange)}; find out who created them, then drop them with "
                f"sqlite3: {drops}"
            )
        ledger.rebuild()
        ledger.set_checkpoint(notes.mark_name(mark), 0, mark)
    notes.write_note(place, origin, mark)


def _strange(place: Place) -> LedgerStrange:
    seen = inspect_file(place.file, place.playbook)
    return LedgerStrange(
        f"reflector does not recognise {place.file} as your ledger: the ledger came with the "
        "project, or you have not used the ledger on this machine. The ledger contains "
        f"{seen.position:,} events, from {seen.first[:10]} to {seen.last[:10]}. To use this "
        "ledger, run `reflector ledger take`. To start your own ledger, move this file away"
    )
