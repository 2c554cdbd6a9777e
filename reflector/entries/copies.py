"""Keeps a copy of the events of a user's ledger outside the project, and restores the ledger from
it.

Invariant: an event that this home acknowledged stays in its folder until the ledger has it. A
process appends its lines to the copy when it closes the ledger. If the process is killed, the copy
lacks them, and the next process adds them. The copy is not synced, so lines that a system crash
removes from its end are written again too. A redaction writes the whole copy again. If the ledger
lacks the end of the copy, the copy is kept as an export with its own name until it is imported.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from itertools import chain, count, islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

import reflector.ledger as ledgers
from reflector.entries import notes
from reflector.entries.notes import COPY, NOWHERE, End, Entry, Place
from reflector.events.event import EVENT_REDACTED
from reflector.files import error_words, folder_of, read_bounded, write_durably
from reflector.git import repository
from reflector.handover import LACKED
from reflector.ledger.errors import LedgerError, LedgerLocked, LedgerUnavailable
from reflector.ledger.rows import Anchor
from reflector.ledger.sqlite_file import file_lock
from reflector.ledger.url import sqlite_url, url_of
from reflector.locate import own_folder
from reflector.mistakes import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reflector.files import Folder
    from reflector.ledger.store import Ledger

#: Seconds that a process waits before it leaves the copy to the next process, and the projects
#: for which it did so.
_PATIENCE = 1.0
_left: Final[set[Path]] = set()
#: The number of events that are looked up at once, and of bytes that are copied at once.
_PAGE = 1000
_CHUNK = 1 << 20
#: The text before an event's chain in its line.
_CHAIN = b'"chain":"'


class NotTheSame(LedgerError):
    """Nothing confirms that a folder is still the project of a copy's ledger."""


def update_copy(ledger: Ledger, place: Place, opened: tuple[int, int]) -> None:
    """Update the copy of a noted ledger. If another process has the lock, the next process updates
    it.

    `opened` is the file from which the ledger was opened. By now it may be missing or replaced.

    Raises: OSError, LedgerError.
    """
    entry = notes.entry_of(place.root)
    head = ledger.head()
    if entry is None or opened == NOWHERE:
        return
    is_copied = notes.copy_end(place.root)[:2] == (head.position, head.chain)
    if is_copied and entry.origin == head.origin and entry.file == opened:
        return
    try:
        with notes.hold_notes(place.root, 0.0 if place.root in _left else _PATIENCE):
            entry = notes.entry_of(place.root)
            if entry is not None and entry.file == opened:
                _write_copy(ledger, place, entry)
            elif entry is not None and entry.origin == head.origin:
                _keep_replaced(ledger, place)
    except LedgerLocked as error:
        if place.root in _left:
            return
        _left.add(place.root)
        ledgers.tell(
            f"reflector could not update the copy of the ledger ({error}); the next command tries "
            "again"
        )


def _keep_replaced(ledger: Ledger, place: Place) -> None:
    """Keep the events of a ledger whose file was replaced while it was open, unless the copy has
    them.
    """
    head = ledger.head()
    if head.position and chain_at(place.root, head.position) != head.chain:
        from reflector.exchange.transfer import exported

        lines = (f"{line}\n".encode() for line in exported(ledger))
        _keep_export(place, Anchor(head.position, head.chain), lines)


def _write_copy(ledger: Ledger, place: Place, entry: Entry) -> None:
    """Note a new ledger, and append the new events to its copy.

    If the copy has events that the ledger lacks, an export of the copy is kept before. After an
    erasure, the whole copy is written again. Exports whose events the ledger has again are removed.

    Raises: OSError, LedgerError.
    """
    from reflector.exchange.transfer import exported  # most questions do not need it

    head = ledger.head()
    end = notes.copy_end(place.root)
    # An import gives an empty ledger another origin.
    is_loaded = entry.origin != head.origin and not end.position
    if not entry.origin or is_loaded:
        ledger.set_checkpoint(notes.mark_name(entry.mark), 0, entry.mark)
        notes.write_note(place, head.origin, entry.mark)
    elif entry.playbook != head.playbook:
        return  # another playbook in the same file
    # The repository may not have had a commit yet.
    elif not entry.commits and repository(place.root)[1] is not None:
        notes.write_note(place, head.origin, entry.mark)
    copy = Path(own_folder(str(place.root)), COPY)
    if end.position and not _has_history(ledger, end):
        keep_lost_copy(place, end)
        end = _common_history(ledger, copy)
    if next(ledger.events(types=[EVENT_REDACTED], after=end.position), None) is not None:
        end = End()
    target = copy if end.position else copy.with_name(f".{COPY}.tmp")
    with os.fdopen(os.open(target, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
        file.truncate(end.size)
        file.seek(end.size)
        file.writelines(f"{line}\n".encode() for line in exported(ledger, after=end.position))
    target.rename(copy)
    for export in lost_exports(place.root):
        if not _lacks_event(ledger, place.root, export):
            _remove_export(place, export)


def _common_history(ledger: Ledger, copy: Path) -> End:
    """Return the end of the history that a ledger and a copy have in common."""
    end = End()
    with ledger.asking() as sql, copy.open("rb") as lines:
        chains = sql.run("SELECT chain FROM event WHERE playbook_id = ? ORDER BY position")
        for position, ((recorded_chain,), line) in enumerate(zip(chains, lines, strict=False), 1):
            at = line.find(_CHAIN) + len(_CHAIN)
            if line[at : at + len(recorded_chain)] != recorded_chain.encode():
                break
            end = End(position, recorded_chain, end.size + len(line))
    return end


def _has_history(ledger: Ledger, end: End) -> bool:
    """Return whether a ledger has the same history up to that end."""
    return any(event.chain == end.chain for event in ledger.at([end.position]))


def _lacks_event(ledger: Ledger, root: Path, export: Path) -> bool:
    """Return whether a ledger lacks an event of an export. An event may have another position
    there, because a session that is recorded again has the same events.
    """
    end = notes.copy_end(root, export.name)
    if _has_history(ledger, end):
        return False
    if not ledger.having([end.event_id]):  # in most cases the last event shows it
        return True
    with export.open("rb") as lines:
        next(lines, None)  # the header
        while page := list(islice(lines, _PAGE)):
            identities = {(line["id"], line["datahash"]) for line in map(json.loads, page)}
            events = ledger.having([event_id for event_id, _ in identities])
            if not identities.issubset((event.event_id, event.data_hash) for event in events):
                return True
    return False


def chain_at(root: Path, position: int) -> str:
    """Return the chain at a position of a project's copy, "" if the copy ends before it."""
    try:
        with Path(own_folder(str(root)), COPY).open("rb") as lines:
            line = json.loads(next(islice(lines, position - 1, None), b""))
        return str(line["chain"]) if line["position"] == position else ""
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""


def keep_lost_copy(place: Place, end: End) -> None:
    """Keep a copy whose end the ledger lacks as an export, and report this.

    Raises: OSError.
    """
    entry = notes.entry_of(place.root)
    header = _header(entry.playbook if entry is not None else place.playbook, end)
    with Path(own_folder(str(place.root)), COPY).open("rb") as copy:
        sizes = (min(_CHUNK, end.size - at) for at in range(0, end.size, _CHUNK))
        _keep_export(
            place,
            Anchor(end.position, end.chain),
            chain([header], map(copy.read, sizes)),
        )


def set_aside(place: Place, origin: str) -> None:
    """Keep a project's copy as an export if it is not of the ledger with this origin, so that the
    copy of that ledger can begin.

    Raises: OSError.
    """
    end = notes.copy_end(place.root)
    if end.position and end.origin != origin:
        keep_lost_copy(place, end)
        Path(own_folder(str(place.root)), COPY).unlink()


def _header(playbook: str, end: End) -> bytes:
    """Return the first line of an export that ends there."""
    from reflector.exchange.transfer import Header, header_line

    header = Header(playbook, end.origin, end.position, end.chain)
    return f"{header_line(header)}\n".encode()


def _keep_export(place: Place, end: Anchor, content: Iterable[bytes]) -> None:
    """Keep an export of the events that the ledger lacks, and report this. It is written to the
    user's folder and beside the ledger, because a container's home is removed with the container.

    Raises: OSError.
    """
    own = Path(own_folder(str(place.root)))
    export = own / f"{LACKED[0]}{end.position}-{end.chain[-12:]}{LACKED[1]}"
    if export.exists():
        return
    target = export.with_name(f".{export.name}.tmp")
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as to:
        to.writelines(content)
        to.flush()
        os.fsync(to.fileno())
    target.rename(export)
    with suppress(OSError), folder_of(place.file) as folder:
        _copy_into(folder, export, free_name(place.file.with_name(export.name)).name)
    ledgers.tell("{0.message}; {0.remedy}".format(_missing_events(export, end.position)))


def _missing_events(export: Path, position: int) -> Finding:
    return Finding(
        "head",
        None,
        f"the ledger lacks events of an earlier ledger of this project, up to position {position}",
        f"to restore the missing events, run `reflector import --rename {quote(str(export))}`",
    )


def lost_exports(root: Path) -> list[Path]:
    """Return the exports of the events that a project's ledger had before an older state or another
    history replaced it.
    """
    return sorted(Path(own_folder(str(root))).glob("*".join(LACKED)))


def is_lost_export(root: Path, file: Path) -> bool:
    """Return whether a file has the same bytes as a kept export of a project's ledger.

    Raises: OSError.
    """
    return any(_is_same(file, export) for export in lost_exports(root))


def drop_imported(place: Place, file: Path) -> None:
    """Remove an export whose events were just imported, and its spare copy beside the ledger.

    Raises: OSError.
    """
    for export in lost_exports(place.root):
        # An export whose whole history is in the ledger now was already removed.
        if file.exists() and _is_same(file, export):
            _remove_export(place, export)


def _remove_export(place: Place, export: Path) -> None:
    _, suffix = LACKED
    for spare in place.file.parent.glob(f"{export.stem}*{suffix}"):
        if not spare.is_symlink() and _is_same(spare, export):
            spare.unlink()
    export.unlink()


def _is_same(first: Path, second: Path) -> bool:
    """Return whether two files have the same bytes."""
    from filecmp import cmp  # most questions do not need it

    return cmp(first, second, shallow=False)


def lost_history(root: Path, ledger: Ledger) -> Finding | None:
    """Return a finding if a project's ledger lacks events that this home had. Also write the header
    of an export that an early version kept without one.

    Raises: LedgerError.
    """
    origin = ledger.head().origin
    for export in lost_exports(root):
        end = notes.copy_end(root, export.name)
        with suppress(OSError):  # `import` needs the header, but this answer does not
            _give_header(root, export, end)
        if end.origin == origin and _lacks_event(ledger, root, export):
            return _missing_events(export, end.position)
    return None


def _give_header(root: Path, export: Path, end: End) -> None:
    """Write the missing header of an export. An early version of reflector kept events without a
    header, and no version imports such a file.

    Raises: OSError.
    """
    entry = notes.entry_of(root)
    with export.open("rb") as lines:
        is_event = b'"datahash":' in next(lines, b"")
    if not is_event or entry is None or not end.position:
        return
    content = _header(entry.playbook, end) + export.read_bytes()[: end.size]
    write_durably(str(export.parent), content, export.name)


def restore_from_copy(
    place: Place, entry: Entry, displaced_name: str | None = None, *, sure: bool = True
) -> bool:
    """Write a ledger from its copy: first in the user's own folder, then in its place. Return
    whether it is in its place: False if a file was created or removed there meanwhile.

    displaced_name  the new name of the file in the ledger's place; None if there is no such file
    sure            False if only playbook.json can confirm that the project is the same

    Raises: NotTheSame if nothing confirms the project, LedgerError, OSError.
    """
    from tempfile import TemporaryDirectory

    from reflector.exchange.transfer import load_ledger
    from reflector.ledger.store import Ledger

    end = notes.copy_end(place.root)
    folder_of_user = Path(own_folder(str(place.root)))
    mark = entry.mark or notes.new_mark()
    copy = folder_of_user / COPY
    with TemporaryDirectory(dir=folder_of_user) as folder:
        staged = Path(folder, "ledger.db")
        with Ledger.open_file(staged, entry.playbook) as ledger, copy.open("rb") as lines:
            header = _header(entry.playbook, end._replace(source=entry.origin))
            load_ledger(ledger, chain([header], islice(lines, end.position)), own=True)
            if not sure and not _has_written(ledger, place.root / ".claude" / "playbook.json"):
                raise NotTheSame(
                    "reflector cannot confirm that the copy of the ledger belongs to the project "
                    f"{place.root}"
                )
            ledger.set_checkpoint(notes.mark_name(mark), 0, mark)
        if not _put_in_place(staged, place.file, displaced_name):
            return False
    notes.write_note(place._replace(playbook=entry.playbook), entry.origin, mark)
    return True


def _put_in_place(staged: Path, file: Path, displaced_name: str | None) -> bool:
    """Put a file in a ledger's place, through its folder, so that no link below a `.claude` leads
    elsewhere. Return whether the file is in its place.

    It is not if a file was created or removed there since the caller checked. Another home, whose
    notes have their own lock, was faster then.
    """
    temporary_name = f".{file.name}.restored"
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with file_lock(url_of(sqlite_url(file))), folder_of(file) as folder:
            if os.path.lexists(file) is (displaced_name is None):
                return False
            folder.remove(temporary_name, missing_ok=True)
            _copy_into(folder, staged, temporary_name)
            for suffix in ("-wal", "") if displaced_name is not None else ():
                with suppress(FileNotFoundError):  # the log has changes that the file lacks
                    folder.replace(f"{file.name}{suffix}", f"{displaced_name}{suffix}")
            for suffix in ("-wal", "-shm"):
                folder.remove(f"{file.name}{suffix}", missing_ok=True)
            return _give_name(folder, temporary_name, file.name)
    except OSError as error:
        raise LedgerUnavailable(
            f"reflector cannot restore {file} ({error_words(error)}); check the folder of this file"
        ) from error


def _give_name(folder: Folder, temporary_name: str, name: str) -> bool:
    """Give a file its name, unless another file already has it."""
    try:
        os.link(
            temporary_name, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False
        )
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        folder.replace(temporary_name, name)
        return True
    folder.remove(temporary_name)
    folder.sync()
    return True


def _copy_into(folder: Folder, source: Path, name: str) -> None:
    """Copy a file into a folder under a new name, completely and on disk.

    Raises: OSError.
    """
    fd = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with source.open("rb") as content, os.fdopen(fd, "wb") as target:
        from shutil import copyfileobj

        copyfileobj(content, target)
        target.flush()
        os.fsync(target.fileno())


def free_name(path: Path) -> Path:
    """Return the path, or the path with a number if a file already has it."""
    names = chain(
        [path], (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    )
    return next(candidate for candidate in names if not os.path.lexists(candidate))


def _has_written(ledger: Ledger, file: Path) -> bool:
    """Return whether a playbook.json has the bytes that the ledger wrote at some time. This
    confirms that a folder without commits is the same project.
    """
    from reflector.ledger.as_of import Past
    from reflector.playbook.document import MAX_BYTES, dump, load

    try:
        raw = read_bounded(file, MAX_BYTES)
    except OSError:
        return False
    moment = load(raw).last_updated
    return moment is not None and raw == dump(
        Past(ledger, ledger.position_at(moment)).bullets(), moment
    )
