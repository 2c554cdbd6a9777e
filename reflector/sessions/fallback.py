"""The stand-ins for a project's state folder that cannot be written, or in which no file can be locked.

Invariant: each place is this user's alone, and laid out as a project's state folder; each record names its project,
so a later drain knows whose it is. Two places are tried in turn: the user's own state folder,
`${XDG_STATE_HOME:-~/.local/state}/reflector`, and one in the folder for temporary files, which the next start of the
system may empty: `${TMPDIR:-/tmp}/reflector-<user id>`.
"""

import os
from pathlib import Path

from reflector import files
from reflector.handover import keep
from reflector.locate import environment, user_state


def stand_ins() -> list[Path]:
    """Return the stand-in state folders that exist. Changes nothing."""
    kept = [user_state()] if user_state() else []
    if _is_ours(_temporary()):
        kept.append(_temporary())
    return [Path(state) for state in kept]


def is_of(project: Path, folder: str | None) -> bool:
    """Return whether a delivery that names a folder is a project's: its own folder, or one that is known by now as a
    worktree of it, which may have been gone when the hook ran."""
    from reflector.project import project_of  # the ledger's code, which hardly anybody needs here

    return folder == str(project) or (folder is not None and project_of(Path(folder)) == project)


def keep_elsewhere(payload: dict[str, object] | None, data: bytes) -> str:
    """File one delivery in the first place that takes it. Raises OSError with what each of them said."""
    errors = []
    for open_ in (open_own, open_temporary):
        try:
            return keep(open_(), payload, data)
        except (OSError, ValueError) as error:
            errors.append(str(error))
    raise OSError("; ".join(errors))


def open_own() -> str:
    """Return the user's own state folder, made where it is missing. Raises OSError where it cannot be."""
    state = user_state()
    if not state:
        raise FileNotFoundError(2, "neither XDG_STATE_HOME nor HOME names a folder")
    Path(state).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return files.private_folder(state)


def open_temporary() -> str:
    """The user's folder among the temporary files, made where it is missing. Raises OSError where it is not ours."""
    state = files.private_folder(_temporary())
    if not _is_ours(state):
        raise PermissionError(13, "belongs to another user", state)
    return state


def _temporary() -> str:
    base = environment("TMPDIR") or "/tmp"
    return f"{base.rstrip('/')}/reflector-{os.geteuid()}"


def _is_ours(folder: str) -> bool:
    """Return whether a folder, not a link, exists that is this user's alone: anybody may have created it first."""
    try:
        found = Path(folder).lstat()
    except OSError:
        return False
    return found.st_mode & 0o170077 == 0o040000 and found.st_uid == os.geteuid()
