"""Copies a SQLite ledger while it is used, and puts a copy back in its place.

Invariant: a backup is one state of the ledger, in one file that only its owner can read, and it is
verified after it was written. The file is complete or absent, and an existing file is never
overwritten. A ledger is replaced only by a verified copy and in one step, and the replaced file is
kept beside it.

VACUUM INTO makes each copy. It is a snapshot for which no writer waits, and it omits the free
pages, which could still contain an erased text. SQLite's backup interface restores a ledger, page
by page into the same file in one transaction. So processes that have the file open continue with
the restored ledger.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from reflector.files import absolute, named_folder, sync_folder
from reflector.ledger.errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from reflector.ledger.sqlite_copy import copy_database, looking, open_database, settle_database
from reflector.ledger.sqlite_file import file_lock
from reflector.ledger.store import Ledger
from reflector.ledger.url import Url, sqlite_url, url_of
from reflector.proof.verify import Anchor, verify

#: The end of the name of a folder for an unfinished copy, and the age from which its process is
#: assumed to be killed.
_UNFINISHED = ".reflector-unfinished"
_LEFT_BEHIND_SECONDS = 3600.0
_UNSOUND = "the backup {} is damaged and was not restored"
_NO_LEDGER = (
    "this file does not contain a ledger; name a file that `reflector ledger backup` created"
)
_SQLITE = b"SQLite format 3\0"
_PLAYBOOKS = "SELECT name, origin, position, chain FROM playbook ORDER BY id"
_CHAIN_AT = (
    "SELECT event.chain FROM event JOIN playbook ON playbook.id = event.playbook_id"
    " WHERE playbook.name = ? AND playbook.origin = ? AND event.position = ?"
)


def ledger_file(url: Url) -> Path:
    """Return the file of a SQLite ledger.

    Raises: LedgerUnavailable for any other ledger.
    """
    if url.dialect != "sqlite" or url.in_memory:
        raise LedgerUnavailable(
            f"the ledger {url.shown} is not a SQLite file; back up a server's ledger with "
            "the server's own tools (pg_dump), and check the copy with `reflector verify "
            "--anchor HEAD`"
        )
    return Path(url.database)


def backup_ledger(ledger: Ledger, to: Path) -> Anchor:
    """Copy a ledger into a new file, even while others append, and return the head at which the
    copy ends.

    Raises: LedgerUnavailable for an existing file or a ledger on a server, LedgerCorrupt, OSError,
    LedgerError.
    """
    source = ledger_file(ledger.engine.url)
    if to.exists() or to.is_symlink():
        raise LedgerUnavailable(f"{to} already exists, so nothing was written; name another file")
    head = ledger.head()
    with named_folder(to.parent), _staged(to) as staged:
        copy_database(source, staged)
        anchor = Anchor(head.position, head.chain)
        end = _proven(
            staged, f"the new copy of {source} is damaged and was not kept", ledger.name, anchor
        )
        settle_database(staged)
        # Another file of this name may have been created meanwhile. A link is refused then, but a
        # rename would replace it.
        os.link(staged, to)
    sync_folder(absolute(to.parent))
    return end


def check_is_backup(file: Path) -> None:
    """Raise LedgerUnavailable or LedgerCorrupt for a file that cannot be a backup."""
    if not file.is_file():
        raise LedgerUnavailable(
            f"{file} is not a file; name a backup that `reflector ledger backup` created"
        )
    with file.open("rb") as opened:
        if opened.read(len(_SQLITE)) != _SQLITE:
            raise LedgerCorrupt(f"{_UNSOUND.format(file)}: {_NO_LEDGER}")


def restore_ledger(
    backup_file: Path,
    present: Path,
    playbook: str,
    *,
    force: bool = False,
    own_file: tuple[str, str] | None = None,
) -> tuple[Anchor, Path | None]:
    """Replace a ledger by a verified copy of a backup. Return the head at which the copy ends, and
    the file with the replaced ledger. The caller must hold the project's locks.

    force     restore the backup even if it lacks events of the ledger
    own_file  the name and the digest of a projection's present file, such as playbook.json. The
              restored ledger then records the file as its own, at position 0. So the file is
              written again and not read as an edit.

    Raises: LedgerCorrupt, LedgerUnavailable, and LedgerError, such as for missing events. The
    ledger is unchanged then.
    """
    check_is_backup(backup_file)
    with _staged(present) as staged:
        copy_database(backup_file, staged, mode="ro")
        end = _proven(staged, _UNSOUND.format(backup_file), playbook)
        if own_file is not None:
            with Ledger.open_file(staged, playbook, keeps_copy=False) as ledger:
                ledger.set_checkpoint(own_file[0], 0, own_file[1])
        settle_database(staged)
        with file_lock(url_of(sqlite_url(present))):
            readable = _is_ledger(present)
            lost = "" if force else _lost_events(present, staged, readable=readable)
            if lost:
                raise LedgerError(
                    f"{backup_file} lacks events that the ledger {present} {lost}; to restore the "
                    "backup anyway, add --force. With --force, the old ledger stays next to the "
                    "restored ledger"
                )
            replaced = _keep(present, readable=readable)
            if readable:
                with open_database(staged) as source, open_database(present) as target:
                    source.backup(target)
            else:
                staged.replace(present)
    sync_folder(absolute(present.parent))
    return end, replaced


def _lost_events(present: Path, staged: Path, *, readable: bool) -> str:
    """Return a text about the events of a ledger that its backup lacks; "" for none."""
    if not readable:
        is_empty = not present.exists() or not present.stat().st_size
        return "" if is_empty else "may have, because this ledger cannot be read"
    with open_database(staged) as backup, open_database(present) as ledger:
        for name, origin, position, chain in ledger.execute(_PLAYBOOKS).fetchall():
            backup_chain = backup.execute(_CHAIN_AT, (name, origin, position)).fetchone()
            if position and backup_chain != (chain,):
                return f"has in the playbook {name!r}, up to position {position}"
    return ""


def _keep(present: Path, *, readable: bool) -> Path | None:
    """Keep the old ledger under another name: a copy if it is sound, otherwise its own files."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    replaced = present.with_name(f"{present.name}.before-{stamp}")
    if readable:
        copy_database(present, replaced)
        settle_database(replaced)
        return replaced
    for suffix in ("-wal", "-shm", "-journal", ""):
        with suppress(FileNotFoundError):
            Path(f"{present}{suffix}").rename(f"{replaced}{suffix}")
    return replaced if replaced.exists() else None


def _proven(staged: Path, refusal: str, playbook: str, *anchors: Anchor) -> Anchor:
    """Verify all playbooks of a copy, and return the head of one.

    refusal  the beginning of an error message about the copy
    """
    if not _is_ledger(staged):
        raise LedgerCorrupt(f"{refusal}: {_NO_LEDGER}")
    with open_database(staged) as connection:
        ends = {
            name: Anchor(position, chain)
            for name, _, position, chain in connection.execute(_PLAYBOOKS)
        }
    for name in ends:
        with Ledger.open_file(staged, name, keeps_copy=False) as ledger:
            findings = list(verify(ledger, *(anchors if name == playbook else ())))
        if findings:
            first = findings[0]
            rest = f", and {len(findings) - 1} more faults" if len(findings) > 1 else ""
            raise LedgerCorrupt(f"{refusal}: {first.message} [{first.code}]{rest}; {first.remedy}")
    if playbook not in ends:
        names = ", ".join(ends) or "none"
        raise LedgerUnavailable(
            f"the backup does not contain the playbook {playbook!r}; set the setting `playbook` to "
            f"a playbook of the backup: {names}"
        )
    return ends[playbook]


def _is_ledger(path: Path) -> bool:
    """Return whether the whole file can be read as a ledger."""
    try:
        with looking(path) as connection:
            check = connection.execute("PRAGMA integrity_check(1)").fetchone()
            return bool(check == ("ok",))
    except LedgerError:
        return False


@contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """Yield the path for a copy beside its target, in a folder that only its owner can read. The
    folder is removed with its content, and so are old folders of killed processes.
    """
    for old_folder in target.parent.glob(f".*{_UNFINISHED}"):
        with suppress(FileNotFoundError):  # another backup removed it first
            if time.time() - old_folder.lstat().st_mtime > _LEFT_BEHIND_SECONDS:
                shutil.rmtree(old_folder, ignore_errors=True)
    with TemporaryDirectory(
        suffix=_UNFINISHED, prefix=f".{target.name}.", dir=target.parent
    ) as folder:
        yield Path(folder) / "ledger.db"
