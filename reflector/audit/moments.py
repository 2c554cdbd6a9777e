"""What a person names: a session, a reflection, an event, and the moments of a ledger's history.

Invariant: a name means one thing or is refused with what it could mean. An id that is written out
beats one that only begins so; a whole number is a position, as `log` shows it. A moment means one
position, always the same one unless it names the future or a session that continues. A time
includes the whole period that it names: `2026-11-21` means the end of that day. So a day or a time
as `log` shows it includes the events of that day or time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from reflector.events import event as ev
from reflector.events.event import written
from reflector.events.registry import WINDOW_TYPES
from reflector.ledger.reader import of_types
from reflector.mistakes import Mistake

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.store import Ledger

Kind = Literal["session", "reflection", "event"]
#: The most candidates that an error names.
_CANDIDATES: Final = 6


class UnknownReference(Mistake):
    """A text that names nothing of the ledger, or several things; its own text says which."""


class Target(NamedTuple):
    """What was named: its kind, its whole id, and its events in order (of a session: its
    windows).
    """

    kind: Kind
    id: str
    events: Sequence[Event]


def session_named(ledger: Ledger, session_id: str) -> str:
    """Return a session's whole id, from it or from the unique beginning of it. Raises
    UnknownReference.
    """
    candidates = _sessions_like(ledger, session_id)
    if len(candidates) != 1:
        could = f"; it could be {', '.join(candidates[:5])}" if candidates else ""
        raise UnknownReference(
            f"no session {session_id!r:.80} is recorded{could}. See 'reflector log'."
        )
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
        where, values = "session_id >= ? AND session_id < ?", [beginning, beginning + chr(0x10FFFF)]
        if sql.postgres:
            # Its index is in the order of the database's language, in which a beginning is not a
            # range.
            where, values = "starts_with(session_id, ?)", [beginning]
        rows = sql.run(f"{query}{where} ORDER BY 1 LIMIT ?", *values, _CANDIDATES).fetchall()
    return [row[0] for row in rows]


def target_named(ledger: Ledger, text: str) -> Target:
    """Return the session, reflection or event of an id, of the unique beginning of one, or of a
    position.

    A reflection is the event that completed it. Raises UnknownReference, LedgerError.
    """
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) < 16 and (at := ledger.at([int(text)])):
        return Target("event", at[0].event_id, at)
    found: list[tuple[Kind, str]] = [
        ("session", id) for id in _sessions_like(ledger, text)
    ] + _like(ledger, text)
    chosen = [one for one in found if one[1] == text] or found
    if not chosen:
        raise UnknownReference(
            f"{text[:80]!r} is not a session, reflection, event or position of this ledger, nor "
            "the beginning of one; "
            "see `reflector log`"
        )
    if len(chosen) > 1:
        could = ", ".join(f"{kind} {id}" for kind, id in chosen[:_CANDIDATES])
        raise UnknownReference(f"{text[:80]!r} could be {could}; write more of it")
    kind, id = chosen[0]
    if kind == "session":
        events = list(ledger.events(types=WINDOW_TYPES, session_id=id))
        if not events:
            raise UnknownReference(
                f"session {id} has no window, so nothing of it counts; see `reflector show {id}`"
            )
        return Target(kind, id, events)
    event = ledger.event(ev.identity(ev.REFLECTION_COMPLETED, id) if kind == "reflection" else id)
    return Target(kind, id, [event] if event is not None else [])


def _like(ledger: Ledger, beginning: str) -> list[tuple[Kind, str]]:
    """Return the first reflections and events whose id begins so."""
    if not 0 < len(beginning) <= 64 or not set(beginning) <= set("0123456789abcdef"):
        return []
    reflections = (
        "SELECT reflection_id FROM event WHERE playbook_id = ? AND "  # noqa: S608
        f"{of_types([ev.REFLECTION_COMPLETED])}"
        " AND substr(reflection_id, 1, ?) = ? ORDER BY position LIMIT ?"
    )
    # Ids are hex digits, so this is a range of their index in the order of every language.
    events = (
        "SELECT event_id FROM event WHERE playbook_id = ? AND event_id >= ? AND event_id < ? "
        "ORDER BY 1 LIMIT ?"
    )
    with ledger.asking() as sql:
        found = sql.run(reflections, len(beginning), beginning, _CANDIDATES).fetchall()
        others = sql.run(events, beginning, f"{beginning}g", _CANDIDATES).fetchall()
    return [*(("reflection", row[0]) for row in found), *(("event", row[0]) for row in others)]


_TIME: Final = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<minute>\d{2}:\d{2})(?P<second>:\d{2})?(?P<fraction>[.,]\d{1,6})?(?P<zone>Z"
    r"|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
#: A time of this year, as a narrow table prints it.
_OF_THIS_YEAR: Final = re.compile(r"\d\d-\d\d( \d\d:\d\d)?", re.ASCII)
_LIKE_A_TIME: Final = re.compile(r"\d{4}-\d{1,2}(-|\Z)", re.ASCII)
_INSTANT: Final = timedelta(microseconds=1)
_WAYS: Final = (
    "a moment is a position (42), a time (2026-11-21, 2026-11-21T09:14, "
    "2026-11-21T09:14Z) or a session's id"
)


def position_of(ledger: Ledger, moment: str) -> int:
    """Return the position of the last event that a moment includes; 0 before the first. Raises
    UnknownReference.

    A position; a time in ISO 8601, local where it says no zone; a session's id, or the beginning of
    one, which is its last event so far.
    """
    text = moment.strip()
    if text.isdecimal() and text.isascii():
        return _position(ledger, text)
    ends = _ends(text)
    return (
        ledger.position_at(written(ends[1]))
        if ends is not None
        else _in_session(ledger, text, "max")
    )


def span_of(ledger: Ledger, span: str) -> tuple[int, int]:
    """Return the positions of `A..B`; A left out is the beginning, B left out is now. A time as A
    is where it begins, so what happened in it is in the span. Raises UnknownReference.
    """
    begin, dots, end = span.partition("..")
    if not dots:
        raise UnknownReference(
            f"{span!r} is not A..B; {_WAYS}, and A..B is two of them, such as "
            "2026-11-01..2026-11-21"
        )
    starts = position_before if _LIKE_A_TIME.match(begin.strip()) else position_of
    first = starts(ledger, begin) if begin.strip() else 0
    last = position_of(ledger, end) if end.strip() else ledger.head().position
    if first > last:
        raise UnknownReference(
            f"{span!r} ends at position {last}, before it begins at {first}; write {end}..{begin}"
        )
    return first, last


def period(text: str) -> tuple[str, str] | None:
    """Return the first and the last microsecond of a time, in UTC as the ledger writes it; None for
    a text that names no time. Raises UnknownReference.
    """
    ends = _ends(text.strip())
    return (written(ends[0]), written(ends[1])) if ends is not None else None


def position_before(ledger: Ledger, moment: str) -> int:
    """Return the position of the last event in front of a moment: a day, a session or a position
    begins behind it. Raises UnknownReference.
    """
    text = moment.strip()
    if (ends := _ends(text)) is not None:
        return ledger.position_at(written(ends[0] - _INSTANT))
    position = position_of(ledger, text)
    if text.isdecimal() and position == int(text[:18]):
        return max(0, position - 1)
    return _in_session(ledger, text, "min") - 1


def _ends(text: str) -> tuple[datetime, datetime] | None:
    """Return the first and the last microsecond of a time, in UTC; None for a text that names no
    time.
    """
    if _OF_THIS_YEAR.fullmatch(text):
        text = f"{datetime.now().year}-{text}"
    if not _LIKE_A_TIME.match(text):
        return None
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError("no ISO 8601")
        begin = datetime.fromisoformat(text.replace(",", "."))
        # A local day has 23 or 25 hours twice a year, and an hour that is there twice ends with its
        # second time.
        return begin.astimezone(UTC), (begin + _unit(found) - _INSTANT).replace(fold=1).astimezone(
            UTC
        )
    except (ValueError, OverflowError) as error:
        raise UnknownReference(f"{text!r} is not a time ({error}); {_WAYS}") from error


def _unit(found: re.Match[str]) -> timedelta:
    if found["fraction"]:
        return timedelta(microseconds=10 ** (7 - len(found["fraction"])))
    if found["second"]:
        return timedelta(seconds=1)
    return timedelta(minutes=1) if found["minute"] else timedelta(days=1)


def _position(ledger: Ledger, text: str) -> int:
    head = ledger.head().position
    # Longer digits are not a position of any ledger, and int() refuses thousands of them.
    position = int(text) if len(text) < 19 else None
    if position is not None and position <= head:
        return position
    try:
        return _in_session(ledger, text, "max")
    except UnknownReference:
        raise UnknownReference(
            f"position {text[:40]} is not in the ledger, which ends at {head}; {_WAYS}"
        ) from None


def _in_session(ledger: Ledger, text: str, which: Literal["min", "max"]) -> int:
    """Return the first or the last position of a session."""
    try:
        session_id = session_named(ledger, text)
    except UnknownReference as error:
        raise UnknownReference(f"{error} Here, {_WAYS}") from error
    query = f"SELECT {which}(position) FROM event WHERE playbook_id = ? AND session_id = ?"  # noqa: S608
    with ledger.asking() as sql:
        (position,) = sql.run(query, session_id).fetchone()
    return int(position)
