"""The notes about each ledger in the user's own folder, and their lock.

Invariant: a note is in the user's home, so a project cannot bring one. A file is the noted one if
it has the noted inode and contains the mark that was drawn when it was noted. The inode alone is
not enough, because a file system reuses the inode of a deleted file.

Each project has a folder outside itself (`locate.own_folder`) with `entry.json` and
`events.ndjson`. The latter contains the lines of an export without their header.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from reflector.files import read_bounded, write_durably
from reflector.git import git_says
from reflector.handover import ENTRY, open_own
from reflector.ledger.errors import LedgerLocked
from reflector.locate import own_folder, person_folder
from reflector.waiting import holder_of, wait_for

COPY = "events.ndjson"
#: The (device, inode) of a missing file.
NOWHERE = (0, 0)
#: Seconds that a process waits for the notes if it needs them.
PATIENCE = 30.0
_MOST_ENTRY = 1 << 20


class Entry(NamedTuple):
    """A user's ledger: its place, the origin of its history, and the first commits of the project's
    repository.

    origin  "" while the ledger is being created
    file    (device, inode) of the ledger's file
    mark    a value that only this note and the noted file have; "" in a note of an earlier version
    """

    root: str
    playbook: str
    origin: str
    commits: tuple[str, ...]
    file: tuple[int, int]
    mark: str = ""


class Place(NamedTuple):
    """The place of a project's ledger."""

    root: Path
    file: Path
    playbook: str


class End(NamedTuple):
    """The last event of a copy, 0 and "" for none, and the size of its complete lines in bytes."""

    position: int = 0
    chain: str = ""
    size: int = 0
    event_id: str = ""
    source: str = ""

    @property
    def origin(self) -> str:
        """The origin of the copy's history."""
        return self.source.rpartition(":")[2]


def entry_of(root: Path) -> Entry | None:
    """Return the note about a project's ledger; None without a note or a home."""
    return _read_entry(Path(own_folder(str(root)), ENTRY))


def entries() -> list[Entry]:
    """Return every ledger of this user, ordered by the path of its project."""
    folder = person_folder()
    if not folder:
        return []
    notes = map(_read_entry, Path(folder).glob(f"*/{ENTRY}"))
    return sorted(filter(None, notes), key=lambda entry: entry.root)


def _read_entry(file: Path) -> Entry | None:
    try:
        values = json.loads(read_bounded(file, _MOST_ENTRY))
        return Entry(
            root=values["root"],
            playbook=values["playbook"],
            origin=values["origin"],
            commits=tuple(values["commits"]),
            file=tuple(values["file"]),
            mark=values.get("mark", ""),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def entry_in_force(place: Place) -> Entry | None:
    """Return the note about a project's ledger. If the note cannot be read, return an entry from
    the copy alone.
    """
    if (entry := entry_of(place.root)) is not None:
        return entry
    origin = copy_end(place.root).origin
    return Entry(str(place.root), place.playbook, origin, (), NOWHERE) if origin else None


def write_note(place: Place, origin: str, mark: str) -> None:
    """Note the file that is in a ledger's place.

    Raises: OSError.
    """
    entry = Entry(
        str(place.root),
        place.playbook,
        origin,
        commits_of(place.root),
        file_identity(place.file),
        mark,
    )
    if entry_of(place.root) != entry:
        write_durably(open_own(str(place.root)), json.dumps(entry._asdict()).encode(), ENTRY)


def new_mark() -> str:
    """Return a mark that cannot be guessed, in the form of a checkpoint's hash."""
    return os.urandom(32).hex()


def mark_name(mark: str) -> str:
    """Return the name of the checkpoint that contains a mark. Each home has its own."""
    return f"noted {mark[:16]}"


def file_identity(file: Path) -> tuple[int, int]:
    """Return the (device, inode) of a file, `NOWHERE` if it does not exist."""
    try:
        state = os.lstat(file)
    except OSError:
        return NOWHERE
    return state.st_dev, state.st_ino


def commits_of(root: Path) -> tuple[str, ...]:
    """Return the first commits of the history that a folder has checked out; () without such a
    history.
    """
    output = git_says(root, "rev-list", "--max-parents=0", "HEAD")
    return tuple((output or b"").decode("ascii", "replace").split())


def copy_end(root: Path, name: str = COPY) -> End:
    """Return the end of the last complete line of the copy of a project's ledger. The rest that a
    killed process left after it does not count.
    """
    tail = b""
    with suppress(OSError), Path(own_folder(str(root)), name).open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        while at:
            step = min(at, max(4096, len(tail)))
            at = file.seek(at - step)
            tail = file.read(step) + tail
            # Unless the file begins here, the first line begins before the part that was read.
            first_line = tail.find(b"\n") + 1 if at else 0
            stop = tail.rfind(b"\n") + 1
            while stop > first_line:
                begin = tail.rfind(b"\n", 0, stop - 1) + 1
                with suppress(ValueError, LookupError, TypeError, RecursionError):
                    line = json.loads(tail[begin:stop])
                    position = int(line["position"])
                    chain = str(line["chain"])
                    return End(position, chain, at + stop, line["id"], line["source"])
                stop = begin
    return End()


def way_back(root: Path, file: Path) -> str:
    """Return the text about restoring the events of a damaged ledger from their copy; "" without a
    copy.
    """
    position = copy_end(root).position
    if not position:
        return ""
    way_out = f"to restore these events, move {quote(str(file))}* away, then run any command"
    return f"a copy has the ledger's events up to position {position}; {way_out}"


def forget(root: Path) -> None:
    """Remove the notes about a project's ledger, including its copy.

    Raises: OSError.
    """
    from shutil import rmtree

    rmtree(own_folder(str(root)))


@contextmanager
def hold_notes(root: Path, seconds: float | None = None) -> Iterator[None]:
    """Keep other processes of this user from a project's notes. Without a home there are no notes,
    and nothing is locked.

    Raises: LedgerLocked if another process has them for longer than `seconds`, `PATIENCE` by
    default.
    """
    seconds = PATIENCE if seconds is None else seconds
    try:
        path = f"{open_own(str(root))}/lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        if not wait_for(fd, seconds):
            where = f"reflector's notes on the ledger of {root} have been locked for {seconds:g} s"
            raise LedgerLocked(f"{where} by {holder_of(fd, path)}")
        yield
    finally:
        os.close(fd)
