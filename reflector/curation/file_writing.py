"""Files of the playbook on disk: read within bounds, replaced whole, kept aside.

Invariant: a file is at every moment the whole old one or the whole new one, and a copy that is kept aside is
readable by its owner alone.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from reflector.bounded_file import read_bounded
from reflector.ledger.engines import sync_folder
from reflector.playbook.document import MAX_BYTES
from reflector.project import Project

#: How the copies of playbook files in the folder `kept` begin: an adopted one or one that a rebuild replaced, and one
#: that another ledger wrote.
ADOPTED = "playbook"
ANOTHERS = "another-ledger"


def read(path: Path) -> bytes | None:
    """A playbook file's bytes; None where there is none. Raises OSError."""
    try:
        return read_bounded(path, MAX_BYTES)
    except FileNotFoundError:
        return None


def digest(content: bytes | str) -> str:
    """What a content is known by."""
    return sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def keep(project: Project, raw: bytes, kind: str = ADOPTED) -> Path:
    """A copy of a file's bytes in the state folder, named by their digest. Raises OSError, LedgerUnavailable."""
    folder = project.make_state_dir() / "kept"
    folder.mkdir(exist_ok=True, mode=0o700)
    path = folder / f"{kind}-{digest(raw)[:12]}.json"
    if not path.exists():
        replace_file(path, raw)
        path.chmod(0o600)
    return path


def kept_of_others(project: Project) -> list[Path]:
    """The copies of playbook.json that another ledger had written; they lie there until their owner removes them."""
    return sorted((project.state_dir / "kept").glob(f"{ANOTHERS}-*.json"))


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, surviving a crash: temporary file, fsync, rename, fsync of the folder.

    The temporary file has one name, so that what a killed writer left behind goes with the next write; the
    project's lock keeps writers apart.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.tmp"
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
