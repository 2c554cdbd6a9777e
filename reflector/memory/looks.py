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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import NamedTuple

from reflector.events.event import NewEvent
from reflector.events.memory import UNSEEN
from reflector.files import write_durably
from reflector.handover import open_own, read_own, state_of
from reflector.memory.files import Found, Watched
from reflector.memory.places import settled_state
from reflector.project import Project

_LOOKS = "memory-looks.json"
_SECRET = "memory-secret"
_MAX_SECRET = 64


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file at one time, as far as it is known.

    digest  plain, "" for no file, "?" if it is not known
    bytes   None for no file, or if they are not known
    """

    digest: str
    bytes: bytes | None = field(default=None, compare=False)

    @property
    def is_known(self) -> bool:
        return self.bytes is not None or not self.digest


NO_FILE = Content("")
UNSEEN_CONTENT = Content(UNSEEN)


def content_of(content: bytes | None) -> Content:
    """Return a known content, None for no file."""
    return Content(plain_digest(content), content)


class Look(NamedTuple):
    """A watched file at one time.

    digest  plain, of its bytes; "" if there was no file, "?" if it was not read
    at      the time of the look, in seconds since the epoch
    state   as `settled_state` returns it, "" if it is not known
    """

    digest: str
    at: float
    state: str = ""


class Seen(NamedTuple):
    """The times of the first and the last look at the files of a project, and the size of the
    reflog at the last one.
    """

    first: float
    last: float
    reflog: int = 0


@dataclass(slots=True)
class Looks:
    """The last looks of one store.

    files   the look at each file, by its name in the ledger
    seen    the looks at the files of each project, by its folder
    events  those that the ledger may not have yet
    filled  the folders of the projects whose past the ledger has
    """

    files: dict[str, Look] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    events: list[NewEvent] = field(default_factory=list)
    filled: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, project: Project) -> Looks:
        """Return the looks that are kept of a store; a file of another form counts as none."""
        kept = project.read_kept(_LOOKS)
        try:
            files = {name: Look(*look) for name, look in kept["files"].items()}
            seen = {root: Seen(*times) for root, times in kept["seen"].items()}
            events = [NewEvent(**event) for event in kept["events"]]
            return cls(files, seen, events, kept["filled"])
        except (TypeError, KeyError, AttributeError):
            return cls()

    def unread(self, file: str) -> Look | None:
        """Return the look at a folder of a file that could not be read, None if there is none."""
        looks = (self.files.get(str(folder)) for folder in Path(file).parents)
        return next((look for look in looks if look and look.digest == UNSEEN), None)

    def keep_unread(self, found: Found, now: float) -> None:
        """Keep a look at each file or folder that cannot be read, so that it does not count as new
        when it can.
        """
        for file in found.unwatched:
            last = self.files.get(file)
            if last is None or not last.digest:
                self.files[file] = Look(UNSEEN, now)

    def save(self, project: Project) -> None:
        """Keep the looks and the events. Raises OSError, and nothing has changed."""
        write_durably(open_own(str(project.root)), json.dumps(asdict(self)).encode(), _LOOKS)


class Difference(NamedTuple):
    """A watched file with another content than at the last look, or one that is looked at for the
    first time: then `before` is its look of now.

    latest  the time before which the file was changed
    """

    watched: Watched
    before: Look
    content: Content
    latest: float


def plain_digest(content: bytes | None) -> str:
    """Return the SHA-256 of the bytes of a file, "" for no file."""
    return "" if content is None else sha256(content).hexdigest()


def digest_in_ledger(project: Project, plain: str, *, is_tracked: bool) -> str:
    """Return the digest that the ledger has for a plain one. Raises OSError."""
    if is_tracked or plain in ("", UNSEEN):
        return plain
    return keyed_digest(_secret(project), plain)


def keyed_digest(secret: bytes, plain: str) -> str:
    """Return the digest that only the owner of the secret can check."""
    return "k" + hmac.new(secret, plain.encode(), sha256).hexdigest()


def kept_secret(project: Project) -> bytes:
    """Return the secret of a store, b"" if there is none."""
    return read_own(str(project.root), _SECRET, _MAX_SECRET)


def _secret(project: Project) -> bytes:
    secret = kept_secret(project)
    if not secret:
        secret = os.urandom(32).hex().encode()
        write_durably(open_own(str(project.root)), secret, _SECRET)
    return secret


class Compared(NamedTuple):
    """The result of a comparison: changed and new files, and looks at all files of the table."""

    differences: Sequence[Difference]
    looks: Mapping[str, Look]


def compare(
    found: Found, gone: Sequence[Watched], before: Looks, root: str, checked_at: float = 0.0
) -> Compared:
    """Compare the files of a project that exist, and those that are gone, with the last looks. At
    the first look, and for a file that is older than the last one, there is nothing to compare. A
    file that cannot be read keeps its last look.

    checked_at  when the files were last as in these looks
    """
    looks: dict[str, Look] = {}
    differences: list[Difference] = []
    seen = before.seen.get(root)
    seen_at = max(seen.last, checked_at) if seen else inf
    for watched in (*found.files.values(), *gone):
        last = before.files.get(watched.file)
        last = last and last._replace(at=max(last.at, checked_at))
        now = time.time()
        try:
            status = watched.path.stat()
            if last is not None and last.state == state_of(status):
                looks[watched.file] = last._replace(at=now)
                continue
            content = content_of(watched.read())
            look = Look(content.digest, now, settled_state(status, now))
            latest = min(now, status.st_ctime)
        except FileNotFoundError:
            content = NO_FILE
            look = Look("", now)
            latest = now
        except OSError as error:
            found.unwatched[watched.file] = f"cannot be read ({error.strerror})"
            continue
        looks[watched.file] = look
        if last is None and latest > seen_at:
            last = before.unread(watched.file) or Look("", seen_at)
        if last is None or last.digest != look.digest:
            differences.append(Difference(watched, last or look, content, latest))
    return Compared(differences, looks)
