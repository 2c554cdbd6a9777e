"""The session, reflection or event that a person names to retract or erase it.

Invariant: a name means one thing or is refused with what it could mean. An id that is written out beats one that only
begins so; a whole number is a position, as `log` shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from reflector.events import event as ev
from reflector.events.registry import WINDOW_TYPES
from reflector.ledger.reader import one_of
from reflector.mistakes import Mistake

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.store import Ledger

Kind = Literal["session", "reflection", "event"]
#: The most candidates that an error names.
_CANDIDATES: Final = 6


class UnknownTarget(Mistake):
    """A text that names nothing, or several things; its own text says which."""


class Target(NamedTuple):
    """What was named: its kind, its whole id, and its events in order (of a session: its windows)."""

    kind: Kind
    id: str
    events: Sequence[Event]


class UnknownSession(Mistake):
    """The beginning of no session's id that was ever recorded, or of several."""


def session_named(ledger: Ledger, session_id: str) -> str:
    """Return a session's whole id, from it or from the unique beginning of it. Raises UnknownSession."""
    candidates = _sessions_like(ledger, session_id)
    if session_id in candidates:
        return session_id
    if len(candidates) != 1:
        could = f"; it could be {', '.join(candidates[:5])}" if candidates else ""
        raise UnknownSession(f"no session {session_id!r:.80} is recorded{could}. See 'reflector log'.")
    return candidates[0]


def _sessions_like(ledger: Ledger, beginning: str) -> list[str]:
    """Return the first sessions, by id, whose id begins so; itself first, if it is one."""
    if not beginning or "\0" in beginning:
        return []
    query = "SELECT DISTINCT session_id FROM event WHERE playbook_id = ? AND "
    with ledger.asking() as sql:
        if sql.run(f"{query}session_id = ? LIMIT 1", beginning).fetchone():
            return [beginning]
        if not beginning.isprintable():
            return []
        if sql.postgres:
            # Its index is in the order of the database's language, in which a beginning is not a range.
            rows = sql.run(f"{query}starts_with(session_id, ?) ORDER BY 1 LIMIT ?", beginning, _CANDIDATES).fetchall()
        else:
            last = beginning + chr(0x10FFFF)
            rows = sql.run(
                f"{query}session_id >= ? AND session_id < ? ORDER BY 1 LIMIT ?", beginning, last, _CANDIDATES
            ).fetchall()
    return [row[0] for row in rows]


def target_named(ledger: Ledger, text: str) -> Target:
    """Return the session, reflection or event of an id, of the unique beginning of one, or of a position.

    A reflection is the event that completed it. Raises UnknownTarget, LedgerError.
    """
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) < 16 and (at := ledger.at([int(text)])):
        return Target("event", at[0].event_id, at)
    found = [*(("session", id) for id in _sessions_like(ledger, text)), *_like(ledger, text)]
    chosen = [one for one in found if one[1] == text] or found
    if not chosen:
        raise UnknownTarget(
            f"{text[:80]!r} is not a session, reflection, event or position of this ledger, nor the beginning of one; "
            "see `reflector log`"
        )
    if len(chosen) > 1:
        could = ", ".join(f"{kind} {id}" for kind, id in chosen[:_CANDIDATES])
        raise UnknownTarget(f"{text[:80]!r} could be {could}; write more of it")
    return _target(ledger, *chosen[0])


def _target(ledger: Ledger, kind: Kind, id: str) -> Target:
    if kind == "session":
        events = list(ledger.events(types=WINDOW_TYPES, session_id=id))
        if not events:
            raise UnknownTarget(f"session {id} has no window, so nothing of it counts; see `reflector show {id}`")
        return Target(kind, id, events)
    found = ledger.event(ev.identity(ev.REFLECTION_COMPLETED, id) if kind == "reflection" else id)
    return Target(kind, id, [found] if found is not None else [])


def _like(ledger: Ledger, beginning: str) -> list[tuple[Kind, str]]:
    """Return the first reflections and events whose id begins so."""
    if not 0 < len(beginning) <= 64 or not set(beginning) <= set("0123456789abcdef"):
        return []
    reflections = (
        f"SELECT reflection_id FROM event WHERE playbook_id = ? AND {one_of([ev.REFLECTION_COMPLETED])}"  # noqa: S608
        " AND substr(reflection_id, 1, ?) = ? ORDER BY position LIMIT ?"
    )
    # Ids are hex digits, so this is a range of their index in the order of every language.
    events = "SELECT event_id FROM event WHERE playbook_id = ? AND event_id >= ? AND event_id < ? ORDER BY 1 LIMIT ?"
    with ledger.asking() as sql:
        found = sql.run(reflections, len(beginning), beginning, _CANDIDATES).fetchall()
        others = sql.run(events, beginning, f"{beginning}g", _CANDIDATES).fetchall()
    return [*(("reflection", row[0]) for row in found), *(("event", row[0]) for row in others)]
