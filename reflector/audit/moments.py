"""Moments: the ways to name a point of a ledger's history.

Invariant: a moment means one position, always the same one unless it names the future or a session that continues. A
time includes the whole period that it names: `2026-11-21` means the end of that day. So a day or a time as `log` shows
it includes the events of that day or time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from reflector.audit.targets import UnknownSession, session_named
from reflector.mistakes import Mistake

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

_TIME: Final = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<minute>\d{2}:\d{2})(?P<second>:\d{2})?(?P<fraction>[.,]\d{1,6})?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_LIKE_A_TIME: Final = re.compile(r"\d{4}-\d{1,2}(-|\Z)", re.ASCII)
_INSTANT: Final = timedelta(microseconds=1)
_WAYS: Final = "a moment is a position (42), a time (2026-11-21, 2026-11-21T09:14, 2026-11-21T09:14Z) or a session's id"


class UnknownMoment(Mistake):
    """A text that names no moment of the ledger; its own text says why and what would."""


def position_of(ledger: Ledger, moment: str) -> int:
    """Return the position of the last event that a moment includes; 0 before the first. Raises UnknownMoment.

    A position; a time in ISO 8601, local where it says no zone; a session's id, or the beginning of one, which is
    its last event so far.
    """
    text = moment.strip()
    if text.isdecimal() and text.isascii():
        return _position(ledger, text)
    ends = _ends(text)
    return ledger.position_at(_written(ends[1])) if ends is not None else _in_session(ledger, text, "max")


def span_of(ledger: Ledger, span: str) -> tuple[int, int]:
    """Return the positions of `A..B`; A left out is the beginning, B left out is now. A time as A is where it begins,
    so what happened in it is in the span. Raises UnknownMoment."""
    begin, dots, end = span.partition("..")
    if not dots:
        raise UnknownMoment(f"{span!r} is not A..B; {_WAYS}, and A..B is two of them, such as 2026-11-01..2026-11-21")
    starts = position_before if _LIKE_A_TIME.match(begin.strip()) else position_of
    first = starts(ledger, begin) if begin.strip() else 0
    last = position_of(ledger, end) if end.strip() else ledger.head().position
    if first > last:
        raise UnknownMoment(f"{span!r} ends at position {last}, before it begins at {first}; write {end}..{begin}")
    return first, last


def period(text: str) -> tuple[str, str] | None:
    """Return the first and the last microsecond of a time, in UTC as the ledger writes it; None for a text that names
    no time. Raises UnknownMoment."""
    ends = _ends(text.strip())
    return (_written(ends[0]), _written(ends[1])) if ends is not None else None


def _written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def position_before(ledger: Ledger, moment: str) -> int:
    """Return the position of the last event in front of a moment: a day, a session or a position begins behind it.

    Raises UnknownMoment.
    """
    text = moment.strip()
    if (ends := _ends(text)) is not None:
        return ledger.position_at(_written(ends[0] - _INSTANT))
    position = position_of(ledger, text)
    if text.isdecimal() and position == int(text[:18]):
        return max(0, position - 1)
    return _in_session(ledger, text, "min") - 1


def _ends(text: str) -> tuple[datetime, datetime] | None:
    """Return the first and the last microsecond of a time, in UTC; None for a text that names no time."""
    if not _LIKE_A_TIME.match(text):
        return None
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError("no ISO 8601")
        begin = datetime.fromisoformat(text.replace(",", "."))
        # A day without a zone is the local one, which has 23 or 25 hours twice a year: each end by itself.
        return begin.astimezone(UTC), (begin + _unit(found)).astimezone(UTC) - _INSTANT
    except (ValueError, OverflowError) as error:
        raise UnknownMoment(f"{text!r} is not a time ({error}); {_WAYS}") from error


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
    except UnknownMoment:
        raise UnknownMoment(f"position {text[:40]} is not in the ledger, which ends at {head}; {_WAYS}") from None


def _in_session(ledger: Ledger, text: str, which: Literal["min", "max"]) -> int:
    """Return the first or the last position of a session."""
    try:
        session_id = session_named(ledger, text)
    except UnknownSession as error:
        raise UnknownMoment(f"{error} Here, {_WAYS}") from error
    query = f"SELECT {which}(position) FROM event WHERE playbook_id = ? AND session_id = ?"  # noqa: S608
    with ledger.asking() as sql:
        (position,) = sql.run(query, session_id).fetchone()
    return int(position)
