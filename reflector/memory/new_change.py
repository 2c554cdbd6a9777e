"""A change of a watched file, and the event that records it.

Invariant: if two machines see one commit, they make one event of it. Any other change is an event
of its own, unless file, both digests, session and call are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from reflector.events.event import HUMAN, MEMORY_CHANGED, NewEvent, drawn, identity, written
from reflector.events.memory import COMMIT, GIT, MERGE, UNDO
from reflector.memory.lines import LineChange, line_change
from reflector.memory.looks import Content, digest_in_ledger
from reflector.project import Project

_ACTOR = "memory"
#: The last second that the ledger can write.
_LAST_S = 253_402_300_799.0


class Author(NamedTuple):
    """The author of a change, as an event has it."""

    by: str
    agent: str = ""
    session: str = ""
    call: str = ""
    commit: str = ""
    author: str = ""


class NewChange(NamedTuple):
    """A change of a watched file in the form of an event.

    time    in seconds since the epoch
    source  look, transcript, git or undo
    lines   the changed lines; None to compare the contents
    undid   the ids of the changes that this one undoes
    """

    file: str
    before: Content
    after: Content
    author: Author
    time: float
    source: str
    lines: LineChange | None = None
    undid: Sequence[str] = ()

    @property
    def is_gits(self) -> bool:
        """Whether it is the change of a commit, which starts from the content of its parent."""
        return self.author.by in (COMMIT, MERGE)

    @property
    def kind(self) -> str:
        if not self.after.digest:
            return "deleted"
        return "edited" if self.before.digest else "created"


def event_of(project: Project, change: NewChange, *, is_tracked: bool) -> NewEvent:
    """Return the event of a change in the ledger of a project.

    is_tracked  whether git tracks the file

    Raises: OSError if the secret cannot be written.
    """
    author = change.author
    before, after = (
        digest_in_ledger(project, content.digest, is_tracked=is_tracked)
        for content in (change.before, change.after)
    )
    lines = change.lines
    if lines is None and change.before.is_known and change.after.is_known:
        lines = line_change(change.before.bytes, change.after.bytes)
    data = {
        "file": change.file,
        "kind": change.kind,
        "before": before,
        "after": after,
        **(lines or LineChange()).facts,
        "source": GIT if change.is_gits else change.source,
        **author._asdict(),
    }
    if change.undid:
        data["undid"] = list(change.undid)
    key = [change.file, author.commit]
    if not change.is_gits:
        key = [change.file, before, after, author.session, author.call or drawn()]
    return NewEvent(
        MEMORY_CHANGED,
        identity(MEMORY_CHANGED, *key),
        data,
        HUMAN if change.source == UNDO else _ACTOR,
        occurred_at=written(datetime.fromtimestamp(min(max(change.time, 0.0), _LAST_S), UTC)),
        session_id=author.session or None,
    )
