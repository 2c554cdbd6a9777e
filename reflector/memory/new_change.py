"""The event that records a change of a watched file.

Invariant: if two machines see one commit, they make one event of it. Any other change is an event
of its own, unless file, both digests, session and call are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from reflector.attribution.steps import Content, Step
from reflector.events.event import HUMAN, MEMORY_CHANGED, NewEvent, drawn, identity, written
from reflector.events.memory import GIT, UNDO
from reflector.memory.digests import digest_in_ledger
from reflector.memory.lines import LineChange, line_change
from reflector.project import Project

_ACTOR = "memory"
#: The last second that the ledger can write.
_LAST_S = 253_402_300_799.0


def event_of(
    project: Project,
    step: Step,
    source: str,
    *,
    is_tracked: bool,
    lines: LineChange | None = None,
    undid: Sequence[str] = (),
) -> NewEvent:
    """Return the event of a change in the ledger of a project.

    source      look, transcript or undo; a commit is always git's
    is_tracked  whether git tracks the file
    lines       the changed lines; None to compare the contents
    undid       the ids of the changes that this one undoes

    Raises: OSError if the secret cannot be written.
    """
    author = step.author
    before, after = (
        digest_in_ledger(project, content.digest, is_tracked=is_tracked)
        for content in (step.before, step.after)
    )
    data = {
        "file": step.file,
        "kind": _kind(step.before, step.after),
        "before": before,
        "after": after,
        **(lines or _lines_of(step)).facts,
        "source": GIT if step.is_commit else source,
        **author._asdict(),
    }
    if undid:
        data["undid"] = list(undid)
    key = [step.file, before, after, author.session, author.call or drawn()]
    if step.is_commit:
        key = [step.file, author.commit]
    return NewEvent(
        MEMORY_CHANGED,
        identity(MEMORY_CHANGED, *key),
        data,
        HUMAN if source == UNDO else _ACTOR,
        occurred_at=written(datetime.fromtimestamp(min(max(step.time, 0.0), _LAST_S), UTC)),
        session_id=author.session or None,
    )


def _kind(before: Content, after: Content) -> str:
    if not after.digest:
        return "deleted"
    return "edited" if before.digest else "created"


def _lines_of(step: Step) -> LineChange:
    """Return the changed lines; none if a content is unknown."""
    if step.before.is_known and step.after.is_known:
        return line_change(step.before.bytes, step.after.bytes)
    return LineChange()
