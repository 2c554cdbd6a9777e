"""The contents of a file over time, the steps between them, and the author of each step."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from reflector.events.memory import COMMIT, MERGE, UNSEEN


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


def plain_digest(content: bytes | None) -> str:
    """Return the SHA-256 of the bytes of a file; "" for a missing file."""
    return "" if content is None else sha256(content).hexdigest()


class Author(NamedTuple):
    """The author of a change.

    by      one of `AUTHORS`
    agent   its name, for a change by a tool call
    call    the id of the tool call, or of its message
    author  the people of a commit
    """

    by: str
    agent: str = ""
    session: str = ""
    call: str = ""
    commit: str = ""
    author: str = ""


class Step(NamedTuple):
    """A change to a file by one author.

    time  in seconds since the epoch
    """

    file: str
    before: Content
    after: Content
    author: Author
    time: float

    @property
    def is_commit(self) -> bool:
        """Whether it is the change of a commit, which starts from the content of its parent."""
        return self.author.by in (COMMIT, MERGE)


class Difference(NamedTuple):
    """The contents of a file at two times.

    since, until  the times between which it was changed
    """

    file: str
    before: Content
    after: Content
    since: float
    until: float
