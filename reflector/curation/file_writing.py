"""The playbook's file on disk, and the copies of it that are kept aside.

Invariant: a copy that is kept aside is readable by its owner alone.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from reflector.files import private_folder, read_ours, replace_file
from reflector.playbook.document import MAX_BYTES
from reflector.project import Project

#: How the copies of playbook files in the folder `kept` begin: an adopted one or one that a rebuild replaced, and one
#: that another ledger wrote.
ADOPTED = "playbook"
ANOTHERS = "another-ledger"
#: The copy of an edited file that a question read and left to be written; a later edit is compared with it.
_EDITED = "edited.json"


def read(path: Path) -> bytes | None:
    """Return a playbook file's bytes; None where there is none. Raises OSError."""
    try:
        return read_ours(path, MAX_BYTES)
    except FileNotFoundError:
        return None


def digest(content: bytes | str) -> str:
    """Return what a content is known by."""
    return sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def keep(project: Project, raw: bytes, kind: str = ADOPTED) -> Path:
    """Return a copy of a file's bytes in the state folder, named by their digest. Raises OSError, LedgerUnavailable."""
    path = private_folder(project.make_state_dir() / "kept") / f"{kind}-{digest(raw)[:12]}.json"
    replace_file(path, raw, 0o600)
    return path


def keep_edited(project: Project, raw: bytes) -> None:
    """Keep an edited file until it is written. Raises OSError, LedgerUnavailable."""
    replace_file(private_folder(project.make_state_dir() / "kept") / _EDITED, raw, 0o600)


def edited(project: Project) -> bytes | None:
    """Return the edited file that was kept last; None where none was. Raises OSError."""
    return read(project.state_dir / "kept" / _EDITED)


def kept_of_others(project: Project) -> list[Path]:
    """The copies of playbook.json that another ledger had written; they lie there until their owner removes them."""
    return sorted((project.state_dir / "kept").glob(f"{ANOTHERS}-*.json"))


def of_another(path: Path, kept: Path) -> str:
    """Return the note about a file that another ledger wrote."""
    return (
        f"{path} was written by another ledger, or by this one before an older copy of it came back. Nothing of it was "
        f"counted; it is kept as {kept}. Put the newest backup in place with `reflector restore`, or count the "
        "sessions again with `reflector import-history` or `reflector ingest`; after that, "
        f"`reflector import {kept}` adds the advice that only this file has. Remove it when you are done"
    )
