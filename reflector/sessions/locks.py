"""The locks of a project, and the replacements of its state folder if that cannot be written or has
no locks.

Invariant: a lock belongs to the kernel, so a process releases it when it dies, and a stopped
process blocks others for a bounded time. On a file system without locks (for example some network
file systems), a temporary file of this machine is locked instead. It does not exclude processes of
other machines. A delivery can then be read twice, and is still recorded once.

Each replacement belongs to this user alone and has the layout of a project's state folder. Each
record names its project, so a later drain can assign it. Two places are tried in turn: the user's
own state folder, `${XDG_STATE_HOME:-~/.local/state}/reflector`, and one in the folder for temporary
files, which the next start of the system may empty: `${TMPDIR:-/tmp}/reflector-<user id>`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import reflector.ledger as ledgers
from reflector import files
from reflector.files import lock
from reflector.handover import keep
from reflector.ledger.errors import LedgerLocked
from reflector.ledger.sqlite_file import NO_LOCKS
from reflector.locate import environment, user_state
from reflector.waiting import holder, holder_of, wait_for

#: Seconds that a process waits for a lock if its holder is stopped or cannot be seen.
PATIENCE = 30.0
#: Seconds that it waits if the holder is at work.
MOST_PATIENCE = 600.0


@contextmanager
def held(state_dir: Path, name: str, *, wait: bool) -> Iterator[bool]:
    """Hold one of the project's locks; yield whether it is held.

    Under `drain.lock` the spool is processed and playbook.json is written. Under `model.lock` a
    model is asked.

    A caller that does not wait may return at once if the lock is taken. A delivery is on disk
    before its drain asks for the lock, and the holder looks for work once more after it released
    the lock.

    Raises: LedgerLocked if a waiting caller does not get the lock in time.
    """
    state_dir.parent.mkdir(parents=True, exist_ok=True)
    fd = _open(files.private_folder(str(state_dir)), name)
    try:
        try:
            is_held = _take(fd, f"{state_dir}/{name}", wait=wait)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            from hashlib import sha256

            os.close(fd)
            project = sha256(os.fsencode(state_dir.resolve())).hexdigest()[:24]
            fd = _open(open_temporary(), f"{project}.{name}")
            is_held = _take(fd, f"{_temporary()}/{project}.{name}", wait=wait)
        yield is_held
    finally:
        os.close(fd)


def _take(fd: int, path: str, *, wait: bool) -> bool:
    """Lock an open file. Return False if it is locked and the caller does not wait.

    Raises: LedgerLocked if the holder is unknown, suspended or too slow.
    """
    if not wait:
        return lock(fd, wait=False)
    waited = 0.0
    while not wait_for(fd, PATIENCE):
        waited += PATIENCE
        other = holder(fd)
        if other is None or other.is_stopped or waited >= MOST_PATIENCE:
            raise LedgerLocked(f"{path} has been locked for {waited:g} s by {holder_of(fd, path)}")
        ledgers.tell(
            f"waiting for process {other.process} ({other.command}), which is using this playbook"
        )
    return True


def why_none(folder: Path) -> str:
    """Return the reason why no file can be locked in a folder; "" if one can, or if that is
    unknown.
    """
    try:
        fd = os.open(folder, os.O_RDONLY)
        try:
            lock(fd, wait=False, shared=True)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return (
                f"the file system cannot lock files in {folder} ({os.strerror(error.errno)}), so "
                "reflector cannot write a ledger in this folder"
            )
    return ""


def _open(folder: str, name: str) -> int:
    with files.Folder(folder) as opened:
        return opened.open(name, os.O_RDWR | os.O_CREAT)


def stand_ins() -> list[Path]:
    """Return the folders that replace a state folder: the user's own, and the temporary one if it
    exists. Changes nothing.
    """
    states = [Path(user_state())] if user_state() else []
    return [*states, Path(_temporary())] if _is_ours(_temporary()) else states


def is_of(project: Path, folder: str | None) -> bool:
    """Return whether a delivery that names a folder belongs to a project. The folder is the
    project's own or a worktree of it, which may have been gone when the hook ran.
    """
    from reflector.project import project_of  # imports the ledger's code, which is rarely needed

    return folder == str(project) or (folder is not None and project_of(Path(folder)) == project)


def keep_elsewhere(payload: dict[str, object] | None, data: bytes) -> str:
    """Store one delivery in the first place that accepts it.

    Raises: OSError with the error of each place.
    """
    errors = []
    for open_ in (open_user_state, open_temporary):
        try:
            return keep(open_(), payload, data)
        except (OSError, ValueError) as error:
            errors.append(str(error))
    raise OSError("; ".join(errors))


def open_user_state() -> str:
    """Return the user's own state folder, created if it is missing.

    Raises: OSError if it cannot be created.
    """
    state = user_state()
    if not state:
        raise FileNotFoundError(
            2, "the home folder is unknown; set HOME or XDG_STATE_HOME to a folder"
        )
    Path(state).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return files.private_folder(state)


def open_temporary() -> str:
    """Return the user's folder among the temporary files, created if it is missing.

    Raises: OSError if it is not ours.
    """
    state = files.private_folder(_temporary())
    if not _is_ours(state):
        raise PermissionError(13, "belongs to another user", state)
    return state


def _temporary() -> str:
    base = environment("TMPDIR") or "/tmp"
    return f"{base.rstrip('/')}/reflector-{os.geteuid()}"


def _is_ours(folder: str) -> bool:
    """Return whether a folder, not a link, exists that is only this user's. Another user could have
    created it first.
    """
    try:
        state = Path(folder).lstat()
    except OSError:
        return False
    # The type is folder, and others have no permission.
    return state.st_mode & 0o170077 == 0o040000 and state.st_uid == os.geteuid()
