"""The last look at each watched file, and the digests of its bytes.

Invariant: looks are kept in the user's own folder, together with the events that lead to them. The
events are written there before the ledger gets them, and removed after the ledger has them. So if a
recording is killed at any point, the next one finishes it with the same events.

In the user's own folder a digest is plain (SHA-256). In a ledger it is plain only for a file that
git tracks. Other digests are keyed, so that a copy of the ledger cannot confirm a guess of the
content.
"""

from __future__ import annotations

import hmac
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import NamedTuple

from reflector.events.event import NewEvent
from reflector.events.memory import UNSEEN
from reflector.handover import read_own, state_of, write_own
from reflector.memory.files import Table, Watched
from reflector.memory.places import settled_state
from reflector.project import Project

_LOOKS = "memory-looks.json"
_SECRET = "memory-secret"
_MAX_SECRET = 64


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file at one time, as far as it is known.

    digest  plain; "" for a missing file, "?" if it is unknown
    bytes   None for a missing file, or if they are unknown
    """

    digest: str
    bytes: bytes | None = field(default=None, compare=False)

    @property
    def is_known(self) -> bool:
        return self.bytes is not None or not self.digest


NO_FILE = Content("")
UNSEEN_CONTENT = Content(UNSEEN)


def content_of(content: bytes | None) -> Content:
    """Return a known content; None is a missing file."""
    return Content(plain_digest(content), content)


class Look(NamedTuple):
    """A watched file at one time.

    digest  plain, of its bytes; "" if the file was missing, "?" if it was not read
    at      the time of the look, in seconds since the epoch
    state   as `settled_state` returns it; "" if it is unknown
    """

    digest: str
    at: float
    state: str = ""


class Seen(NamedTuple):
    """The times of the first and the last look at the files of a project.

    reflog  the size of the reflog at the last look
    """

    first: float
    last: float
    reflog: int = 0


class Looks:
    """The last looks of one store. A file in another format counts as no looks.

    files   the look at each file, by its name in the ledger
    seen    the looks at the files of each project, by its folder
    events  those that the ledger may not have yet
    filled  the folders of the projects whose past changes the ledger has
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self.files: dict[str, Look] = {}
        self.seen: dict[str, Seen] = {}
        self.events: list[NewEvent] = []
        self.filled: list[str] = []
        kept = project.read_kept(_LOOKS)
        with suppress(TypeError, KeyError, AttributeError):
            files = {name: Look(*look) for name, look in kept["files"].items()}
            seen = {root: Seen(*times) for root, times in kept["seen"].items()}
            events = [NewEvent(**event) for event in kept["events"]]
            self.filled += kept["filled"]
            self.files = files
            self.seen = seen
            self.events = events

    def before(self, file: str, seen_at: float) -> Look:
        """Return the earlier look at a new file: a missing file, or unknown if its folder was
        unreadable.
        """
        looks = (self.files.get(str(folder)) for folder in Path(file).parents)
        is_unread = any(look and look.digest == UNSEEN for look in looks)
        return Look(UNSEEN if is_unread else "", seen_at)

    def save(self) -> None:
        """Keep the looks and the events.

        Raises: OSError, and nothing has changed.
        """
        kept = {
            "files": self.files,
            "seen": self.seen,
            "events": list(map(asdict, self.events)),
            "filled": self.filled,
        }
        write_own(str(self._project.root), _LOOKS, json.dumps(kept).encode())


class Difference(NamedTuple):
    """The contents of a watched file at the last look and now.

    They are equal if this is the first look at the file.

    since, until  the times between which it was changed
    """

    watched: Watched
    before: Content
    after: Content
    since: float
    until: float


def plain_digest(content: bytes | None) -> str:
    """Return the SHA-256 of the bytes of a file; "" for a missing file."""
    return "" if content is None else sha256(content).hexdigest()


def digest_in_ledger(project: Project, plain: str, *, is_tracked: bool) -> str:
    """Return the digest in the ledger for a plain one.

    Raises: OSError if the secret cannot be written.
    """
    if is_tracked or plain in ("", UNSEEN):
        return plain
    return keyed_digest(_secret(project), plain)


def keyed_digest(secret: bytes, plain: str) -> str:
    """Return the digest that only the owner of the secret can check."""
    return "k" + hmac.new(secret, plain.encode(), sha256).hexdigest()


def kept_secret(project: Project) -> bytes:
    """Return the secret of a store; b"" if there is none."""
    return read_own(str(project.root), _SECRET, _MAX_SECRET)


def _secret(project: Project) -> bytes:
    """Return the secret of a store, created if there is none.

    Raises: OSError if it cannot be written.
    """
    secret = kept_secret(project)
    if not secret:
        secret = os.urandom(32).hex().encode()
        write_own(str(project.root), _SECRET, secret)
    return secret


def compare(table: Table, looks: Looks, checked_at: float = 0.0) -> list[Difference]:
    """Return the files of a project that are new or changed since the last looks, and update the
    looks.

    At the first look there is nothing to compare. The same is true of a new file that is older than
    the last look. A file that cannot be read keeps its last look.

    checked_at  the last time at which the files were as in these looks
    """
    differences: list[Difference] = []
    seen = looks.seen.get(str(table.root))
    seen_at = max(seen.last, checked_at) if seen else inf
    for watched in (*table.files.values(), *_gone(table, looks)):
        last = looks.files.get(watched.file)
        try:
            look, content, until = _look_at(watched, last)
        except OSError as error:
            table.unwatched[watched.file] = f"cannot be read ({error.strerror})"
            continue
        looks.files[watched.file] = look
        if last is None:
            last = looks.before(watched.file, seen_at) if until > seen_at else look
        if last.digest != look.digest or last is look:
            since = max(last.at, checked_at)
            differences.append(Difference(watched, Content(last.digest), content, since, until))
    for file in table.unwatched:  # they are not new when they become readable
        if file not in looks.files or not looks.files[file].digest:
            looks.files[file] = Look(UNSEEN, time.time())
    return differences


def _look_at(watched: Watched, last: Look | None) -> tuple[Look, Content, float]:
    """Return a look at a file, its content, and the time of its last change.

    A file with the state of the last look is not read.

    Raises: OSError if it cannot be read.
    """
    now = time.time()
    try:
        status = watched.path.stat()
        if last is not None and last.state == state_of(status):
            return last._replace(at=now), Content(last.digest), now
        content = content_of(watched.read())
    except FileNotFoundError:
        return Look("", now), NO_FILE, now
    look = Look(content.digest, now, settled_state(status, now))
    return look, content, min(now, status.st_ctime)


def _gone(table: Table, looks: Looks) -> list[Watched]:
    """Return the watched files of the last look that were not found and may be deleted."""
    missing = [
        file
        for file in looks.files
        if file not in table.files and not any(map(Path(file).is_relative_to, table.unwatched))
    ]
    return list(filter(None, map(table.watch_of, missing)))
