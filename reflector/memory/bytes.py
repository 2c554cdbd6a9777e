"""The exact bytes of watched files, so that `undo` can write an earlier version back.

Invariant: they are on this machine only, in the user's own folder, readable by the user alone. No
ledger, export or backup contains them. A version is a file whose name is its digest, and it is
whole or absent. The versions of all projects share one limit, and the oldest go first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from reflector.files import private_folder, read_file, write_durably
from reflector.handover import open_own
from reflector.locate import own_folder, person_folder
from reflector.memory.files import MAX_BYTES
from reflector.project import Project

#: The folder of the kept versions, in the user's own folder of a project.
FOLDER = "memory"
_DIGEST = re.compile(r"[0-9a-z]{8,128}", re.ASCII)


def keep_bytes(project: Project, digest: str, content: bytes) -> bool:
    """Keep a version of a file, and return whether it is kept. A full disk or a user without a home
    only means that it is not.
    """
    limit = project.config.memory_keep * 1_000_000
    if len(content) > min(limit, MAX_BYTES) or not _DIGEST.fullmatch(digest):
        return False
    try:
        folder = private_folder(f"{open_own(str(project.root))}/{FOLDER}")
        kept = Path(write_durably(folder, content, digest))
        _remove_oldest(limit, kept)
    except OSError:
        return False
    return True


def bytes_of(project: Project, digest: str) -> bytes | None:
    """Return the version with a digest, None if it is not kept."""
    if _DIGEST.fullmatch(digest):
        with suppress(OSError):
            return read_file(f"{kept_folder(project)}/{digest}", MAX_BYTES + 1)
    return None


def is_kept(project: Project, digest: str) -> bool:
    """Return whether the version with a digest is kept; an absent file needs no bytes."""
    return not digest or (kept_folder(project) / digest).is_file()


def erase_bytes(project: Project, digests: Collection[str]) -> list[Path]:
    """Remove the versions with these digests, and return their files."""
    kept = [kept_folder(project) / digest for digest in digests if _DIGEST.fullmatch(digest)]
    removed = [path for path in kept if path.is_file()]
    for path in removed:
        path.unlink(missing_ok=True)
    return removed


def kept_folder(project: Project) -> Path:
    """Return the folder of the versions of a project's files, whether it exists or not."""
    return Path(own_folder(str(project.root)) or "/nonexistent", FOLDER)


def _remove_oldest(limit: int, newest: Path) -> None:
    """Remove the oldest versions of all projects beyond the limit, but never the newest one."""
    versions = [(state.st_mtime_ns, state.st_size, path) for path, state in _versions()]
    excess = sum(size for _, size, _ in versions) - limit
    for _, size, path in sorted(versions):
        if excess <= 0:
            return
        if path != newest:
            path.unlink(missing_ok=True)
            excess -= size


def _versions() -> Iterator[tuple[Path, os.stat_result]]:
    for path in Path(person_folder()).glob(f"*/{FOLDER}/*"):
        with suppress(FileNotFoundError):  # another process removed it
            yield path, path.lstat()
