"""The exact bytes of watched files, kept in the user's own folder by their digest.

Invariant: only the owner may read the files (mode 0600), and each is written whole.
"""

from __future__ import annotations

from reflector.files import private_folder, read_file, write_durably
from reflector.handover import open_own
from reflector.locate import own_folder
from reflector.memory.files import MAX_BYTES
from reflector.project import Project

_FOLDER = "memory"


def keep_bytes(project: Project, digest: str, content: bytes) -> None:
    """Keep the bytes of a file under their plain digest (SHA-256). Raises OSError."""
    write_durably(private_folder(f"{open_own(str(project.root))}/{_FOLDER}"), content, digest)


def bytes_of(project: Project, digest: str) -> bytes | None:
    """Return the bytes with a plain digest, None if they are not kept."""
    try:
        return read_file(f"{own_folder(str(project.root))}/{_FOLDER}/{digest}", MAX_BYTES)
    except (OSError, ValueError):
        return None
