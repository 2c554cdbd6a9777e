"""What git tracks below a folder, read from the repository's index without running git.

Invariant: what git would write into the folder on a checkout is found, and nothing is run or written. Our state folder
ignores itself, so a file in it that is tracked came with the repository. The whole index is searched for the folder's
path first, which takes a millisecond for 100,000 files; it is read entry by entry only where the path may be in it.

The index's format is git's `gitformat-index`: versions 2 and 3 hold each path in full, 4 what differs from the path
before, and a split index names a shared one, of which it replaces and deletes entries by bitmaps.
"""

from __future__ import annotations

import mmap
import os
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from reflector.files import open_regular, read_bounded

_MOST_BYTES = 1 << 20
_HEADER = 12
#: Bytes of an entry before its object's hash, and of the flags behind it.
_STAT, _FLAGS = 40, 2
_EXTENDED = 0x4000


def tracked_below(folder: Path) -> str | None:
    """One path that git tracks at or below a folder, None where there is none. Raises OSError for an unreadable index.

    The repository is the nearest one, from the folder itself upward.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - links are not followed
    for root in (folder, *folder.parents):
        if (git := git_folder(root)) is not None:
            found = _search(git, root, os.fsencode(folder.relative_to(root).as_posix()) if folder != root else b"")
            return None if found is None else os.fsdecode(found)
    return None


def git_folder(root: Path) -> Path | None:
    """Return where the repository of a working tree is: `.git`, or where a file of this name says."""
    git = root / ".git"
    if git.is_dir():
        return git
    try:
        text = os.fsdecode(read_bounded(git, _MOST_BYTES))
    except OSError:
        return None
    return root / text.removeprefix("gitdir:").strip() if text.startswith("gitdir:") else None


def _search(git: Path, root: Path, wanted: bytes) -> bytes | None:
    try:
        file = open_regular(git / "index")
    except FileNotFoundError:
        return None
    with file:
        if os.fstat(file.fileno()).st_size < _HEADER:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as index:
            version = int.from_bytes(index[4:8])
            # Where the file system takes `.Claude` for `.claude`, a checkout writes one as the other.
            if folded := (root / ".GIT").exists():
                wanted = _folded(wanted)
            is_split = any(git.glob("sharedindex.*"))
            if version in (2, 3) and not is_split and not folded and index.find(wanted) < 0:
                return None
            hash_bytes = 32 if _is_sha256(git) else 20
            found = chain(_entries(index, hash_bytes), _shared(index, git, hash_bytes) if is_split else ())
            for path in found:
                like = _folded(path) if folded else path
                if not wanted or like == wanted or like.startswith(wanted + b"/"):
                    return path
                if path > wanted + b"/" and not is_split and not folded:  # they are sorted
                    break
    return None


def _folded(path: bytes) -> bytes:
    """A path without what such a file system takes for the same: case, compositions, ligatures (`ﬂ` for `fl`)."""
    return os.fsencode(unicodedata.normalize("NFKC", os.fsdecode(path)).casefold())


def _is_sha256(git: Path) -> bool:
    common = git
    with suppress(OSError):  # a repository of its own
        common = git / os.fsdecode(read_bounded(git / "commondir", _MOST_BYTES)).strip()
    try:
        config = read_bounded(common / "config", _MOST_BYTES).lower()
    except OSError:
        return False
    return b"objectformat" in config and b"sha256" in config


def _entries(index: mmap.mmap | bytes, hash_bytes: int) -> Iterator[bytes]:
    """Yield the path of each entry; b"" for one that a split index replaces."""
    version, count = int.from_bytes(index[4:8]), int.from_bytes(index[8:12])
    at, path = _HEADER, b""
    for _ in range(count):
        begin = at
        at += _STAT + hash_bytes + _FLAGS
        if at > len(index):
            return
        if int.from_bytes(index[at - _FLAGS : at]) & _EXTENDED:
            at += 2
        keep = 0
        if version == 4 and at < len(index):
            strip, at = _number(index, at)
            keep = len(path) - strip
        end = index.find(b"\0", at)
        if end < 0:
            return
        path = path[:keep] + index[at:end]
        yield path
        at = end + 1 if version == 4 else begin + (end - begin + 8) // 8 * 8


def _number(index: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, as in a pack's offset deltas, and where it ends."""
    byte = index[at]
    value = byte & 127
    while byte & 128 and at + 1 < len(index):
        at += 1
        byte = index[at]
        value = ((value + 1) << 7) | (byte & 127)
    return value, at + 1


def _shared(index: mmap.mmap, git: Path, hash_bytes: int) -> list[bytes]:
    """Return the paths of the index that a split index shares and has not deleted; none for one that is not split."""
    at = index.find(b"link", _HEADER)
    while at >= 0:
        size = int.from_bytes(index[at + 4 : at + 8])
        if hash_bytes <= size <= len(index) - at:
            data = index[at + 8 : at + 8 + size]
            name = f"sharedindex.{data[:hash_bytes].hex()}"
            if (git / name).is_file():
                shared = _entries((git / name).read_bytes(), hash_bytes)
                deleted = _bits(data[hash_bytes:])
                return [path for number, path in enumerate(shared) if number not in deleted]
        at = index.find(b"link", at + 1)
    return []


def _bits(bitmap: bytes) -> set[int]:
    """Return the set bits of an EWAH bitmap: runs of equal words, and words as they are."""
    found: set[int] = set()
    words = int.from_bytes(bitmap[4:8])
    at, bit = 8, 0
    end = at + 8 * words
    while at < end:
        marker = int.from_bytes(bitmap[at : at + 8])
        run, literals = (marker >> 1) & 0xFFFFFFFF, marker >> 33
        if marker & 1:
            found.update(range(bit, bit + 64 * run))
        bit += 64 * run
        at += 8
        for _ in range(literals):
            word = int.from_bytes(bitmap[at : at + 8])
            found.update(bit + offset for offset in range(64) if word >> offset & 1)
            bit += 64
            at += 8
    return found
