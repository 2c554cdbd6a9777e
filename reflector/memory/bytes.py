"""The exact bytes of watched files, so that `undo` can restore an earlier version.

Invariant: they are only on this machine, in the user's own folder, and readable by the user alone.
No ledger, export or backup contains them. A version is a file whose name is its plain digest, and
it is complete or absent. The versions of all projects share one limit, and the oldest are removed
first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from reflector.attribution.files import MAX_BYTES
from reflector.attribution.steps import Content, plain_digest
from reflector.files import private_folder, read_file, write_durably
from reflector.handover import open_own
from reflector.locate import own_folder, person_folder
from reflector.memory.digests import kept_secret, keyed_digest
from reflector.project import Project

_FOLDER = "memory"


def keep_versions(project: Project, contents: Iterable[Content]) -> None:
    """Keep the known versions of files as far as there is room. The newest version comes last.

    If the disk is full or the user has no home folder, they are not kept.
    """
    limit = project.config.memory_keep * 1_000_000
    newest = None
    with suppress(OSError):
        for content in contents:
            if content.bytes is not None and len(content.bytes) <= min(limit, MAX_BYTES):
                folder = private_folder(f"{open_own(str(project.root))}/{_FOLDER}")
                newest = Path(write_durably(folder, content.bytes, content.digest))
    with suppress(OSError):
        if newest:
            _remove_oldest(limit, newest)


class Versions:
    """The kept versions of a project's files, by their digests in the ledger."""

    def __init__(self, project: Project) -> None:
        self.folder = versions_folder(project)
        self._secret = kept_secret(project)

    @cached_property
    def _plain(self) -> dict[str, str]:
        """The plain digests, by their digests in the ledger."""
        names: list[str] = []
        with suppress(OSError):
            names = [path.name for path in self.folder.iterdir()]
        return {digest: name for name in names for digest in (name, self._keyed(name))}

    def _keyed(self, plain: str) -> str:
        return keyed_digest(self._secret, plain) if self._secret and plain else plain

    def has(self, digest: str) -> bool:
        """Return whether a version is kept. The version of a missing file needs no bytes."""
        return not digest or digest in self._plain

    def read(self, digest: str) -> bytes | None:
        """Return a version; None if it is not kept or was damaged."""
        if plain := self._plain.get(digest):
            with suppress(OSError):
                content = read_file(f"{self.folder}/{plain}", MAX_BYTES + 1)
                return content if plain_digest(content) == plain else None
        return None

    def content(self, digest: str) -> Content:
        """Return a version with its digest; without bytes if it is not kept."""
        return Content(digest, self.read(digest))

    def is_version(self, digest: str, content: bytes | None) -> bool:
        """Return whether a content has a digest of the ledger."""
        return digest in self.digests(content)

    def digests(self, content: bytes | None) -> list[str]:
        """Return the digests that a content may have in the ledger."""
        plain = plain_digest(content)
        return [plain, self._keyed(plain)]

    def erase(self, digests: Collection[str]) -> list[Path]:
        """Remove versions, and return their files."""
        removed = [self.folder / self._plain[name] for name in digests if name in self._plain]
        for path in removed:
            path.unlink(missing_ok=True)
        return removed


def versions_folder(project: Project) -> Path:
    """Return the folder for the versions of a project's files, even if it does not exist."""
    return Path(own_folder(str(project.root)) or "/nonexistent", _FOLDER)


def _remove_oldest(limit: int, newest: Path) -> None:
    """Remove the oldest versions of all projects above the limit, but never the newest one."""
    versions = []
    for path in Path(person_folder()).glob(f"*/{_FOLDER}/*"):
        with suppress(FileNotFoundError):  # another process removed it
            state = path.lstat()
            versions.append((state.st_mtime_ns, state.st_size, path))
    excess = sum(size for _, size, _ in versions) - limit
    for _, size, path in sorted(versions):
        if excess <= 0:
            return
        if path != newest:
            path.unlink(missing_ok=True)
            excess -= size
