"""Resolves the names that a user types: sessions, reflections, events, and moments of a ledger's
history.

Invariant: a name means one thing, or it is refused with a list of the candidates. A complete id
wins over a longer id that begins with it. A whole number is a position, as in `log`. A moment
always means the same position, unless it names the future or a session that continues. A time
includes the whole period that it names, so `2026-11-21` means the end of that day, and includes
every event that `log` shows with that date.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from reflector.audit.dates import FORMS, NotATime, Period, period_of
from reflector.events.event import REFLECTION_COMPLETED, Event, completion_id, written
from reflector.events.registry import WINDOW_TYPES
from reflector.ledger.reader import of_types
from reflector.mistakes import Mistake

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

Kind = Literal["session", "reflection", "event"]
#: The most candidates that an error names.
_MAX_CANDIDATES = 6
#: The number of first characters of an id that screens show.
_ID_CHARACTERS = 8
#: The most digits of a position. A longer number is an id.
_POSITION_DIGITS = 15


class UnknownReference(Mistake):
    """A text that does not name a thing of the ledger, or names several things."""


class Target(NamedTuple):
    """A named thing: its kind, its whole id, and its events in order.

    events  of a session only its windows
    """

    kind: Kind
    id: str
    events: Sequence[Event]


def session_named(ledger: Ledger, session_id: str) -> str:
    """Return a session's whole id from the id or its unique beginning.

    Raises:
        UnknownReference: no session or several have an id that begins so.
        LedgerError: the ledger cannot be read.
    """
    candidates = _sessions_like(ledger, session_id)
    if not candidates:
        raise UnknownReference(f"session {session_id!r:.80} is not recorded; see `reflector log`")
    if len(candidates) > 1:
        raise _several(session_id, candidates)
    return candidates[0]


def _several(beginning: str, sessions: Sequence[str]) -> UnknownReference:
    return UnknownReference(
        f"{beginning!r:.80} matches several sessions: {', '.join(sessions[:5])}; write more "
        "characters of the id"
    )


def _sessions_like(ledger: Ledger, beginning: str) -> list[str]:
    """Return the first sessions, by id, whose id begins so; only the session of this id if it
    exists.
    """
    if not beginning or "\0" in beginning:
        return []
    query = "SELECT DISTINCT session_id FROM event WHERE playbook_id = ? AND "
    with ledger.asking() as sql:
        if sql.row(f"{query}session_id = ? LIMIT 1", beginning):
            return [beginning]
        if not beginning.isprintable():
            return []
        where = "session_id >= ? AND session_id < ?"
        values = [beginning, beginning + chr(0x10FFFF)]
        if sql.postgres:
            # The index is in the order of the database's language. In that order, ids with the same
            # beginning are not a range.
            where = "starts_with(session_id, ?)"
            values = [beginning]
        rows = sql.rows(f"{query}{where} ORDER BY 1 LIMIT ?", *values, _MAX_CANDIDATES)
    return [row[0] for row in rows]


def target_named(ledger: Ledger, text: str) -> Target:
    """Return the session, reflection or event that a text names.

    The text is an id, the unique beginning of one, or a position. A reflection is the event that
    completed it. A number with fewer digits than a shown id is only a position, so that a typing
    error does not name another event.

    Raises:
        UnknownReference: the text does not name a thing, or names several.
        LedgerError: the ledger cannot be read.
    """
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) <= _POSITION_DIGITS:
        events = ledger.at([int(text)])
        if events:
            return Target("event", events[0].event_id, events)
        if len(text) < _ID_CHARACTERS:
            raise UnknownReference(
                f"{text} is not a position in this ledger, which ends at position "
                f"{ledger.head().position}; see `reflector log`"
            )
    candidates = _candidates(ledger, text)
    if not candidates:
        raise UnknownReference(
            f"{text[:80]!r} is not a session, reflection, event or position in this ledger; see "
            f"`reflector log`"
        )
    if len(candidates) > 1:
        could = ", ".join(f"{kind} {id}" for kind, id in candidates[:_MAX_CANDIDATES])
        raise UnknownReference(f"{text[:80]!r} matches {could}; write more characters of the id")
    kind, id = candidates[0]
    if kind == "session":
        windows = list(ledger.events(types=WINDOW_TYPES, session_id=id))
        if not windows:
            raise UnknownReference(
                f"session {id} was not recorded, so it does not count; see `reflector show {id}`"
            )
        return Target(kind, id, windows)
    event = ledger.event(completion_id(id) if kind == "reflection" else id)
    return Target(kind, id, [event] if event else [])


def _candidates(ledger: Ledger, text: str) -> list[tuple[Kind, str]]:
    """Return the things with an id that begins so, or only the thing with exactly this id."""
    candidates: list[tuple[Kind, str]] = [("session", id) for id in _sessions_like(ledger, text)]
    candidates += _like(ledger, text)
    return [candidate for candidate in candidates if candidate[1] == text] or candidates


def _like(ledger: Ledger, beginning: str) -> list[tuple[Kind, str]]:
    """Return the first reflections and events whose id begins so."""
    if not 0 < len(beginning) <= 64 or not set(beginning) <= set("0123456789abcdef"):
        return []
    reflections = (
        "SELECT reflection_id FROM event WHERE playbook_id = ? AND "  # noqa: S608
        f"{of_types([REFLECTION_COMPLETED])}"
        " AND substr(reflection_id, 1, ?) = ? ORDER BY position LIMIT ?"
    )
    # Ids are hex digits, so ids with this beginning are a range of the index in every language.
    events = (
        "SELECT event_id FROM event WHERE playbook_id = ? AND event_id >= ? AND event_id < ? "
        "ORDER BY 1 LIMIT ?"
    )
    completed = ledger.query(reflections, len(beginning), beginning, _MAX_CANDIDATES)
    others = ledger.query(events, beginning, f"{beginning}g", _MAX_CANDIDATES)
    return [*(("reflection", row[0]) for row in completed), *(("event", row[0]) for row in others)]


_INSTANT = timedelta(microseconds=1)
#: The earliest time with a time before it.
_SECOND_INSTANT = datetime.min.replace(tzinfo=UTC) + _INSTANT
_WAYS = f"write a date or time ({FORMS}), a position (42) or the id of a session"


def position_of(ledger: Ledger, moment: str) -> int:
    """Return the position of the last event that a moment includes; 0 before the first.

    A moment is a position, a time or a session:

    - A position is a whole number. A number after the last position may be the beginning of a
      session's id.
    - A time is a date or a time in ISO 8601 or in words, and means the end of its period. It is
      local if it has no zone.
    - A session is an id or the beginning of one. It means the session's last event so far.

    Raises:
        UnknownReference: the text does not name a moment, or names several.
        LedgerError: the ledger cannot be read.
    """
    text = moment.strip()
    if text.isdecimal() and text.isascii():
        return _position(ledger, text)
    if named := _period_of(text):
        return ledger.position_at(written(named.last))
    return _in_session(ledger, text, "max")


def span_of(ledger: Ledger, span: str) -> tuple[int, int]:
    """Return the positions of `A..B`. Without A it starts at the beginning, without B it ends now.

    A time as A is included, and so is B. A position or a session as A is not included: the span
    starts after that position or after the session's last event.

    Raises:
        UnknownReference: the text is not a span, a side does not name a moment or names several, or
            the span ends before it begins.
        LedgerError: the ledger cannot be read.
    """
    begin, dots, end = span.partition("..")
    if not dots:
        raise UnknownReference(
            f"{span!r} is not a span such as 2026-11-01..yesterday; on each side, {_WAYS}"
        )
    starts = position_of if _period_of(begin) is None else position_before
    first = starts(ledger, begin) if begin.strip() else 0
    last = position_of(ledger, end) if end.strip() else ledger.head().position
    if first > last:
        raise UnknownReference(
            f"{span!r} begins at position {first}, but ends at the earlier position {last}; "
            f"write {end}..{begin}"
        )
    return first, last


class Bounds(NamedTuple):
    """The events between two moments.

    after, upto  positions; `after` is not included, `upto` is
    begin, end   times between which the events occurred; "" for no limit
    """

    after: int
    upto: int
    begin: str
    end: str


def bounds_of(ledger: Ledger, since: str | None, until: str | None) -> Bounds:
    """Return the bounds of a period. If a moment is missing, the period is open on that side.

    A time limits when events occurred, because an old session may be recorded today.

    Raises:
        UnknownReference: a text does not name a moment, or names several.
        LedgerError: the ledger cannot be read.
    """
    bounds = Bounds(after=0, upto=ledger.head().position, begin="", end="")
    if since is not None and (period := _period_of(since)):
        bounds = bounds._replace(begin=written(period.first))
    elif since is not None:
        bounds = bounds._replace(after=position_before(ledger, since))
    if until is not None and (period := _period_of(until)):
        bounds = bounds._replace(end=written(period.last))
    elif until is not None:
        bounds = bounds._replace(upto=position_of(ledger, until))
    return bounds


def position_before(ledger: Ledger, moment: str) -> int:
    """Return the position of the last event before a moment.

    A day, a session or a position begins after this position.

    Raises:
        UnknownReference: the text does not name a moment, or names several.
        LedgerError: the ledger cannot be read.
    """
    text = moment.strip()
    if named := _period_of(text):
        return ledger.position_at(written(max(named.first, _SECOND_INSTANT) - _INSTANT))
    position = position_of(ledger, text)
    if text.isdecimal() and len(text) <= _POSITION_DIGITS and position == int(text):
        return max(0, position - 1)  # it is a position, not the beginning of a session's id
    return _in_session(ledger, text, "min") - 1


def _period_of(text: str) -> Period | None:
    """Return the period that a time names; None if a text does not name a time."""
    try:
        return period_of(text)
    except NotATime as error:
        raise UnknownReference(f"{error}; {_WAYS}") from error


def _position(ledger: Ledger, text: str) -> int:
    """Return the position that a number names. A number after the head may be the beginning of a
    session's id.
    """
    head = ledger.head().position
    # int() refuses thousands of digits.
    position = int(text) if len(text) <= _POSITION_DIGITS else None
    if position is not None and position <= head:
        return position
    try:
        return _in_session(ledger, text, "max")
    except UnknownReference:
        raise UnknownReference(
            f"position {text[:40]} is not in the ledger, which ends at position {head}; {_WAYS}"
        ) from None


def _in_session(ledger: Ledger, text: str, which: Literal["min", "max"]) -> int:
    """Return the first or the last position of a session."""
    sessions = _sessions_like(ledger, text)
    if len(sessions) > 1:
        raise _several(text, sessions)
    if not sessions:
        raise UnknownReference(f"{text!r:.80} is not a date, a position or a session; {_WAYS}")
    where = "playbook_id = ? AND session_id = ?"
    query = f"SELECT {which}(position) FROM event WHERE {where}"  # noqa: S608
    [(position,)] = ledger.query(query, sessions[0])
    return int(position)
