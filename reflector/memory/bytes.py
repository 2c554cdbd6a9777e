"""The exact bytes of watched files, so that `undo` can write an earlier version back.

Invariant: they are on this machine only, in the user's own folder, readable by the user alone. No
ledger, export or backup contains them. A version is a file whose name is its plain digest, and it
is whole or absent. The versions of all projects share one limit, and the oldest go first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from reflector.events.memory import UNSEEN
from reflector.files import private_folder, read_file, write_durably
from reflector.handover import open_own
from reflector.locate import own_folder, person_folder
from reflector.memory.files import MAX_BYTES
from reflector.memory.looks import kept_secret, keyed_digest, plain_digest
from reflector.project import Project

_FOLDER = "memory"
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def keep_bytes(project: Project, digest: str, content: bytes) -> bool:
    """Keep a version of a file under its plain digest, and return whether it is kept. A full disk
    or a user without a home only means that it is not.
    """
    return keep_versions(project, {digest: content}) == 1


def keep_versions(project: Project, versions: Mapping[str, bytes]) -> int:
    """Keep versions under their plain digests, the newest last, and return how many are kept."""
    limit = project.config.memory_keep * 1_000_000
    count = 0
    newest = None
    with suppress(OSError):
        for digest, content in versions.items():
            if len(content) <= min(limit, MAX_BYTES):
                folder = private_folder(f"{open_own(str(project.root))}/{_FOLDER}")
                newest = Path(write_durably(folder, content, digest))
                count += 1
    with suppress(OSError):
        if newest:
            _remove_oldest(limit, newest)
    return count


class Versions:
    """The kept versions of a project's files, by the digests that its ledger has."""

    def __init__(self, project: Project) -> None:
        self.folder = versions_folder(project)
        self._secret = kept_secret(project)

    @cached_property
    def _plain(self) -> dict[str, str]:
        """The plain digests by those of the ledger."""
        names = [name for name in _names_in(self.folder) if _DIGEST.fullmatch(name)]
        return {**{name: name for name in names}, **{self._keyed(name): name for name in names}}

    def _keyed(self, plain: str) -> str:
        return keyed_digest(self._secret, plain) if self._secret else plain

    def has(self, digest: str) -> bool:
        """Return whether a version is kept; no file needs no bytes."""
        return not digest or digest in self._plain

    def read(self, digest: str) -> bytes | None:
        """Return a version, None if it is not kept or was damaged."""
        plain = digest if _DIGEST.fullmatch(digest) else self._plain.get(digest, "")
        if plain:
            with suppress(OSError):
                content = read_file(f"{self.folder}/{plain}", MAX_BYTES + 1)
                return content if plain_digest(content) == plain else None
        return None

    def is_version(self, digest: str, content: bytes | None) -> bool:
        """Return whether a content has a digest of the ledger."""
        plain = plain_digest(content)
        return digest == plain or (bool(plain) and digest == self._keyed(plain))

    def is_same(self, first: str, second: str) -> bool:
        """Return whether two digests of the ledger, one of them perhaps keyed, are of one
        version.
        """
        if UNSEEN in (first, second):
            return False
        keyed = [self._keyed(digest) for digest in (first, second) if digest]
        return first == second or first in keyed or second in keyed

    def erase(self, digests: Collection[str]) -> list[Path]:
        """Remove versions, and return their files."""
        removed = [self.folder / self._plain[name] for name in digests if name in self._plain]
        for path in removed:
            path.unlink(missing_ok=True)
        return removed


def versions_folder(project: Project) -> Path:
    """Return the folder of the versions of a project's files, whether it exists or not."""
    return Path(own_folder(str(project.root)) or "/nonexistent", _FOLDER)


def _names_in(folder: Path) -> list[str]:
    with suppress(OSError):
        return [path.name for path in folder.iterdir()]
    return []


def _remove_oldest(limit: int, newest: Path) -> None:
    """Remove the oldest versions of all projects beyond the limit, but never the newest one."""
    versions = [(state.st_mtime_ns, state.st_size, path) for path, state in _all_versions()]
    excess = sum(size for _, size, _ in versions) - limit
    for _, size, path in sorted(versions):
        if excess <= 0:
            return
        if path != newest:
            path.unlink(missing_ok=True)
            excess -= size


def _all_versions() -> Iterator[tuple[Path, os.stat_result]]:
    for path in Path(person_folder()).glob(f"*/{_FOLDER}/*"):
        with suppress(FileNotFoundError):  # another process removed it
            yield path, path.lstat()
