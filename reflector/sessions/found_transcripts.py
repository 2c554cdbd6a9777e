"""Finds the transcripts that agents still keep, by their heads.

Invariant: the project of a transcript is the folder that its records name. The name of its own
folder is not enough: it is the path with every other character than letters and digits replaced, so
several projects share one name, and a session can be moved to another folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from reflector.events.event import time_of
from reflector.project import project_of
from reflector.transcripts.heads import last_time, read_head
from reflector.transcripts.readers import is_subagents, kept_files, stores

_COMPRESSED = frozenset((".zst", ".gz", ".xz", ".bz2", ".zip", ".lz4", ".br"))
#: Other files in the folders of the transcripts.
_OTHER_FILES = frozenset({"journal.jsonl", "history.jsonl"})


class FoundTranscript(NamedTuple):
    """A transcript by the first records of its file.

    cwd         the folder that the agent worked in, "" if no record names it
    started_at  the first time in the file, ISO 8601 as written, else the time of the file
    bytes       the size of the file
    """

    path: Path
    cwd: str
    started_at: str
    bytes: int


def find_transcripts(
    folder: Path,
    pattern: str = "*.jsonl",
    known: Mapping[tuple[str, int], str] = MappingProxyType({}),
) -> Iterator[FoundTranscript]:
    """Yield the transcripts below a folder, including those of subagents, by path. A file that
    cannot be read is skipped.

    known  the folder that the agent worked in, by the path and the bytes of a file; such a file is
           not opened
    """
    for path in sorted(folder.rglob(pattern)):
        if path.name in _OTHER_FILES or not path.is_file():
            continue
        with suppress(OSError):
            size = path.stat().st_size
            cwd = known.get((str(path), size))
            yield look_at(path) if cwd is None else FoundTranscript(path, cwd, "", size)


def every_transcript() -> Iterator[FoundTranscript]:
    """Yield the transcripts of every project on this machine, without those of subagents."""
    for store in stores():
        for file in find_transcripts(store.kept.folder, store.kept.pattern):
            if Path(file.cwd).is_absolute() and not is_subagents(file.path):
                yield file


def compressed(folders: Iterable[Path]) -> list[Path]:
    """Return the compressed transcripts of any project below some folders; they are not read."""
    files: list[Path] = []
    for folder in folders:
        named = (path for path in folder.rglob("*.json*") if path.suffix in _COMPRESSED)
        files += filter(Path.is_file, named)
    return sorted(files)


def compressed_by_agent() -> dict[str, list[Path]]:
    """Return the compressed transcripts of any project, by the name of their agent."""
    files: dict[str, list[Path]] = {}
    for store in stores():
        if paths := compressed([store.kept.folder]):
            files.setdefault(store.reader.name, []).extend(paths)
    return files


def look_at(path: Path) -> FoundTranscript:
    """Return a transcript by the first records of its file.

    Raises: OSError.
    """
    stat = path.stat()
    written_at = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat()
    head = read_head(path)
    return FoundTranscript(path, head.folder, head.started_at or written_at, stat.st_size)


def ended_at(path: Path) -> float:
    """Return the time at which a session ended, from its last record. The time of the file is newer
    in a copied home.

    Raises: OSError.
    """
    ended = time_of(last_time(path))
    return path.stat().st_mtime if ended is None else ended.timestamp()


def project_hash(root: Path) -> str:
    """Return the name of a project in the chats of Gemini CLI."""
    return sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()


def is_in_project(root: Path, transcript: FoundTranscript) -> bool:
    """Return whether a session worked in a project. False for a path of another system, such as
    `D:\\shop` in a copied home.
    """
    return transcript.cwd == project_hash(root) or _is_folder_of(transcript.cwd, root)


@lru_cache(maxsize=4096)
def _is_folder_of(folder: str, root: Path) -> bool:
    """Return whether a folder is in a project, and not in another project within it."""
    cwd = Path(folder)
    try:
        if not cwd.is_absolute():
            return False
        cwd = cwd.resolve()
    except (OSError, ValueError):  # it contains a NUL or half a surrogate pair
        return False
    owner = project_of(cwd)
    own = root.resolve()
    # The user may have named this project although the rule finds another one further up.
    return owner == own or (cwd.is_relative_to(own) and not owner.is_relative_to(own))


def written_since(time: float) -> Iterator[Path]:
    """Yield the transcripts that were written at or after a time, in seconds since the epoch."""
    for path in kept_files():
        with suppress(OSError):
            if path.name not in _OTHER_FILES and path.stat().st_mtime >= time:
                yield path
