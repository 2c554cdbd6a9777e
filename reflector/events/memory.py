"""Events about the files in which an agent finds its memory and rules.

Invariant: an event contains the changed lines of a file, without secrets, and no words of a
session. `session` and `call` lead to the words before a change. So a redaction erases the lines,
and the digests stay.
"""

from __future__ import annotations

from typing import Any

from reflector.events.effects import ChangesNothing
from reflector.events.event import MEMORY_CHANGED
from reflector.events.fields import (
    EVENT_ID,
    NUMBER,
    PROSE,
    TEXT,
    WORD,
    needed,
    one_of,
    several,
    within,
)
from reflector.events.kinds import EventType, Field

#: Replaces a digest that neither a look nor a transcript shows.
UNSEEN = "?"
KINDS = ("created", "edited", "deleted")
AGENT, YOU, COMMIT, CHECKOUT, MERGE, STASH, UNKNOWN = AUTHORS = (
    "agent",
    "you",
    "commit",
    "checkout",
    "merge",
    "stash",
    "unknown",
)
#: The record of a change: a comparison of two looks, a transcript, the history of git, or `undo`.
LOOK, TRANSCRIPT, GIT, UNDO = SOURCES = ("look", "transcript", "git", "undo")
_MOST_UNDONE = 1_000
_MAX_PATH = 4_096
_NOT_PARTS = {"", ".", ".."}
_LINES = within({"line": needed(NUMBER), "text": needed(PROSE)}, several=True)


def who(facts: Any, user: str = "by hand") -> str:
    """Return the author of a change in words, such as `Claude Code, session c04e2f91`.

    user  the words for the user of this change
    """
    session = str(facts.get("session") or "")[:8]
    by = facts.get("by")
    if by == AGENT:
        return f"{facts.get('agent') or 'an agent'}, session {session}"
    if by in (COMMIT, CHECKOUT, MERGE, STASH):
        author = facts.get("author")
        return f"{by} {str(facts.get('commit') or '')[:7]}" + (f", by {author}" if author else "")
    if by == YOU:
        return f"{user}, with undo" if facts.get("source") == UNDO else f"{user}, between sessions"
    return f"unknown, during session {session}" if session else "unknown"


def _path_fault(value: Any) -> str | None:
    is_short = isinstance(value, str) and len(value) <= _MAX_PATH
    if is_short and _NOT_PARTS.isdisjoint(value.removeprefix("/").split("/")):
        return None
    return "must be a path without empty parts, `.` or `..`"


def _summary(facts: Any) -> str:
    added, removed = (len(facts.get(key) or ()) for key in ("added", "removed"))
    change = "gone" if facts.get("kind") == "deleted" else f"+{added} -{removed}"
    return f"{facts.get('file')} {change}; {who(facts)}"


TYPES = (
    EventType(
        name=MEMORY_CHANGED,
        meaning="A memory file or a rules file of an agent was changed.",
        since=11,
        fields={
            # Below the project; of the user's ledger from the home folder, `~/.claude/CLAUDE.md`.
            "file": needed(Field(_path_fault)),
            "kind": needed(one_of(*KINDS)),
            # Digests of the bytes: "" for no file, "?" if they were not seen.
            "before": needed(WORD),
            "after": needed(WORD),
            # The changed lines, at most 200 of each.
            "added": needed(_LINES),
            "removed": needed(_LINES),
            # Numbers of all changed lines, if there are more.
            "more": NUMBER,
            "by": needed(one_of(*AUTHORS)),
            "agent": needed(WORD),
            "session": needed(TEXT),
            # The id of the tool call, or of its message.
            "call": needed(TEXT),
            "commit": needed(WORD),
            "author": needed(PROSE),
            "source": needed(one_of(*SOURCES)),
            # The ids of the changes that this one undid.
            "undid": several(EVENT_ID, _MOST_UNDONE, "ids"),
        },
        effect=ChangesNothing("`log --memory` and `blame` read these events"),
        summary=_summary,
        no_retraction="undo the change with `reflector undo`",
        checked=True,
    ),
)
