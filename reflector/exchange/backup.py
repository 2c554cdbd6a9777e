"""A SQLite ledger copied while it is used, and a copy put back in its place.

Invariant: a backup is one state of the ledger, in one file that only its owner may read, and it was
verified after it was written; a file under its name is there whole or not at all, and none is ever
overwritten. A ledger is replaced by a verified copy only, at once, and the replaced file is kept
beside it.

Each copy is made by VACUUM INTO: a snapshot that no writer waits for, and without the free pages,
which could still hold an erased text. A ledger is put back by SQLite's backup interface, page by
page into the same file in one transaction, so that processes which have it open go on with what was
restored and not with a file that is gone.
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
from reflector.ledger.sqlite_copy import copy, opened, settle
from reflector.ledger.sqlite_file import file_lock
from reflector.ledger.store import Ledger
from reflector.ledger.url import Url, sqlite_url, url_of
from reflector.proof.verify import Anchor, verify

#: How the name of a folder ends in which a copy is made, and the age at which its process was
#: killed.
_UNFINISHED = ".reflector-unfinished"
_LEFT_BEHIND_SECONDS = 3600.0
_PLAYBOOKS = "SELECT name, origin, position, chain FROM playbook ORDER BY id"
_CHAIN_AT = (
    "SELECT event.chain FROM event JOIN playbook ON playbook.id = event.playbook_id"
    " WHERE playbook.name = ? AND playbook.origin = ? AND event.position = ?"
)


def ledger_file(url: Url) -> Path:
    """Return the file of a SQLite ledger. Raises LedgerUnavailable for any other ledger."""
    if url.dialect != "sqlite" or url.in_memory:
        raise LedgerUnavailable(
            f"the ledger {url.shown} is not a SQLite file; back a server's ledger up with its own "
            "tools (pg_dump), "
            "and prove the copy with `reflector verify --anchor`"
        )
    return Path(url.database)


def backup_ledger(ledger: Ledger, to: Path) -> Anchor:
    """Copy a ledger into a new file, also while others append; return the head at which the copy
    ends. Raises LedgerUnavailable for an existing file or a ledger on a server, LedgerCorrupt,
    OSError, LedgerError.
    """
    source = ledger_file(ledger.engine.url)
    if to.exists() or to.is_symlink():
        raise LedgerUnavailable(f"{to} is there already and is not overwritten; name another file")
    before = ledger.head()
    with named_folder(to.parent), _staged(to) as staged:
        copy(source, staged)
        anchor = Anchor(before.position, before.chain)
        end = _proven(staged, f"the copy of {source} is not sound", ledger.name, anchor)
        settle(staged)
        # Another file of this name may have come meanwhile: a link is refused then, a rename would
        # replace it.
        os.link(staged, to)
    sync_folder(absolute(to.parent))
    return end


def restore_ledger(
    backup_file: Path,
    present: Path,
    playbook: str,
    *,
    force: bool = False,
    written: tuple[str, str] | None = None,
) -> tuple[Anchor, Path | None]:
    """Put a verified copy of a backup in a ledger's place; return where it ends, and where the
    replaced one is kept.

    `written` is (name, digest) of a projection's present file, such as playbook.json: the restored
    ledger then knows it as its own, from before every event, so the file is written again and not
    read as an edit. The project's locks must be held. Raises LedgerCorrupt, LedgerUnavailable, and
    LedgerError, such as for events that the backup lacks unless `force`; the ledger is as it was
    then.
    """
    if not backup_file.is_file():
        raise LedgerUnavailable(
            f"{backup_file} is not a file; name a backup that `reflector ledger backup` made"
        )
    with _staged(present) as staged:
        copy(backup_file, staged, mode="ro")
        end = _proven(
            staged, (f"the backup {backup_file} is not sound and was not restored"), playbook
        )
        if written is not None:
            with Ledger.open_file(staged, playbook, keeps_copy=False) as ledger:
                ledger.set_checkpoint(written[0], 0, written[1])
        settle(staged)
        with file_lock(url_of(sqlite_url(present))):
            readable = _is_ledger(present)
            if not force and (lost := _lost(present, staged, readable=readable)):
                what = (
                    f"{lost} {backup_file} lacks; restore it anyway with --force; the ledger "
                    "is kept beside it"
                )
                raise LedgerError(f"the ledger {present} {what}")
            kept = _keep(present, readable=readable)
            if readable:
                with opened(staged) as source, opened(present) as target:
                    source.backup(target)
            else:
                staged.replace(present)
    sync_folder(absolute(present.parent))
    return end, kept


def _lost(present: Path, staged: Path, *, readable: bool) -> str:
    """Return which events of a ledger its backup lacks, in words; "" for none."""
    if not readable:
        return "cannot be read, so it is unknown which events" if _holds_anything(present) else ""
    with opened(staged) as then, opened(present) as now:
        for name, origin, position, chain in now.execute(_PLAYBOOKS).fetchall():
            if position and then.execute(_CHAIN_AT, (name, origin, position)).fetchone() != (
                chain,
            ):
                return f"has events of the playbook {name!r} up to position {position} that"
    return ""


def _keep(present: Path, *, readable: bool) -> Path | None:
    """Keep a ledger aside: a copy of a sound one, the very files of one that cannot be read."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    kept = present.with_name(f"{present.name}.before-{stamp}")
    if readable:
        copy(present, kept)
        settle(kept)
        return kept
    for suffix in ("-wal", "-shm", "-journal", ""):
        with suppress(FileNotFoundError):
            Path(f"{present}{suffix}").rename(f"{kept}{suffix}")
    return kept if kept.exists() else None


def _proven(staged: Path, what: str, playbook: str, *anchors: Anchor) -> Anchor:
    """Return where a playbook of a copy ends, all of whose playbooks were verified."""
    if not _is_ledger(staged):
        raise LedgerCorrupt(
            f"{what}: it holds no ledger; name a file that `reflector ledger backup` made"
        )
    with opened(staged) as connection:
        ends = {
            name: Anchor(position, chain)
            for name, _, position, chain in connection.execute(_PLAYBOOKS)
        }
    for name in ends:
        with Ledger.open_file(staged, name, keeps_copy=False) as ledger:
            findings = list(verify(ledger, *(anchors if name == playbook else ())))
        if findings:
            first, *others = findings
            more = f", and {len(others)} more" if others else ""
            raise LedgerCorrupt(f"{what}: {first.message} [{first.code}]{more}; {first.remedy}")
    if playbook not in ends:
        held = ", ".join(ends) or "none"
        raise LedgerUnavailable(
            f"it holds no playbook {playbook!r}, but {held}; set `playbook` to one of these"
        )
    return ends[playbook]


def _holds_anything(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _is_ledger(path: Path) -> bool:
    """Return whether a file can be read as a ledger from end to end."""
    if not _holds_anything(path):
        return False
    try:
        with opened(path) as connection:
            found = connection.execute(
                "SELECT name FROM sqlite_master WHERE name IN ('playbook', 'event')"
            ).fetchall()
            return len(found) == 2 and connection.execute(
                "PRAGMA integrity_check(1)"
            ).fetchone() == ("ok",)
    except LedgerError:
        return False


@contextmanager
def _staged(beside: Path) -> Iterator[Path]:
    """The path for a copy, in a folder of the owner's that goes with all in it; so do those that
    were left behind.
    """
    for left in beside.parent.glob(f".*{_UNFINISHED}"):
        with suppress(FileNotFoundError):  # another backup was faster
            if time.time() - left.lstat().st_mtime > _LEFT_BEHIND_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(
        suffix=_UNFINISHED, prefix=f".{beside.name}.", dir=beside.parent
    ) as folder:
        yield Path(folder) / "ledger.db"
