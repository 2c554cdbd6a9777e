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


class Versions:
    """The kept versions of a project's files."""

    def __init__(self, project: Project) -> None:
        self._folder = f"{own_folder(str(project.root))}/{_FOLDER}"

    def read(self, digest: str) -> bytes | None:
        """Return the version with a plain digest, None if it is not kept."""
        try:
            return read_file(f"{self._folder}/{digest}", MAX_BYTES)
        except (OSError, ValueError):
            return None
