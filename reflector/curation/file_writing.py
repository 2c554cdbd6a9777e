"""The playbook's file on disk, and the copies of it that are kept aside.

Invariant: a copy that is kept aside is readable by its owner alone.
"""

from __future__ import annotations

import platform
from hashlib import sha256
from pathlib import Path

from reflector.files import private_folder, read_ours, replace_file
from reflector.playbook.document import MAX_BYTES
from reflector.project import Project

#: How the copies of playbook files in the folder `kept` begin: an adopted one or one that a rebuild replaced, and one
#: that another ledger wrote.
ADOPTED = "playbook"
ANOTHERS = "another-ledger"
#: The checkpoint of a ledger that knows the file as it was last written or adopted.
WRITTEN = "playbook.json"


def read(path: Path) -> bytes | None:
    """A playbook file's bytes; None where there is none. Raises OSError."""
    try:
        return read_ours(path, MAX_BYTES)
    except FileNotFoundError:
        return None


def digest(content: bytes | str) -> str:
    """What a content is known by."""
    return sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def keep(project: Project, raw: bytes, kind: str = ADOPTED) -> Path:
    """A copy of a file's bytes in the state folder, named by their digest. Raises OSError, LedgerUnavailable."""
    path = private_folder(project.make_state_dir() / "kept") / f"{kind}-{digest(raw)[:12]}.json"
    replace_file(path, raw, 0o600)
    return path


def kept_of_others(project: Project) -> list[Path]:
    """The copies of playbook.json that another ledger had written; they lie there until their owner removes them."""
    return sorted((project.state_dir / "kept").glob(f"{ANOTHERS}-*.json"))


def checkpoint_of(project: Project, what: str = WRITTEN) -> str:
    """The name under which a ledger remembers a project's file. One that is not the project's own may serve several
    projects and clones, on several machines, and what one of them wrote says nothing of another's file."""
    if not project.config.ledger_url:
        return what
    return f"{what} of {digest(f'{platform.node()}:{project.root.resolve()}')[:16]}"
