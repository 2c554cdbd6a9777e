"""What recorded windows cite, and what sessions were told: rows of events, read for counting.

Invariant: an event whose text was redacted says what its redaction kept. A session without an id is known by the id of
its only window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reflector.events.event import BULLET_TAGGED, SESSION_RECORDED
from reflector.events.fields import unpack_keys
from reflector.events.registry import TELLING_TYPES, WINDOW_TYPES, fields_of
from reflector.ledger.reader import Reader, kept_of
from reflector.ledger.rows import read

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

#: Positions that are read at once.
_PAGE = 20_000


class Cites(NamedTuple):
    """A window: the names that it cites, by kind."""

    position: int
    session: str
    names: dict[str, list[str]]


class Told(NamedTuple):
    """What a session was told at a position; `session` is None for a task of an embedder.

    is_text   it was the text at the session's start, so that it is known what the session was told
    """

    position: int
    session: str | None
    bullets: Sequence[str]
    lessons: Sequence[str]
    is_text: bool


def one_of(types: Sequence[str]) -> str:
    """Return the condition that an event is of one of these types, by the index of the types that are rare."""
    return f"type <> '{BULLET_TAGGED}' AND type IN ({', '.join(map(repr, types))})"


def whose(types: Sequence[str]) -> str:
    """Return the same condition where the events of some session or target are looked for by their own index."""
    return f"(type || '') IN ({', '.join(map(repr, types))})"


def _windows_where(sql: Statements, kinds: Sequence[str], where: str, *values: object) -> Iterator[Cites]:
    """Yield the windows of a condition with the names that they cite, oldest first."""
    query = (
        "SELECT position, coalesce(session_id, event_id), event_id, type, data, recorded_at FROM event"  # noqa: S608
        f" WHERE playbook_id = ? AND {where} ORDER BY position"
    )
    rows = sql.run(query, *values).fetchall()
    kept = kept_of(sql, [row[2] for row in rows if row[4] is None])
    for position, session, event_id, type_, text, at in rows:
        data, fault = read(type_, at, text, kept.get(event_id))
        if not fault:
            # What a type does not name may be of any shape.
            named = fields_of(type_)
            facts = data or {}
            yield Cites(position, session, {kind: (facts.get(kind) or []) if kind in named else [] for kind in kinds})


def windows(sql: Statements, kinds: Sequence[str], after: int, upto: int) -> Iterator[Cites]:
    """Yield the windows between two positions with the names that they cite, oldest first."""
    where = f"{one_of(WINDOW_TYPES)} AND position > ? AND position <= ?"
    for begin in range(after, upto, _PAGE):
        yield from _windows_where(sql, kinds, where, begin, min(begin + _PAGE, upto))


def windows_of_sessions(sql: Statements, sessions: Collection[str], upto: int) -> Iterator[Cites]:
    """Yield the windows of some sessions up to a position with the names that they cite."""
    for column, more in (("session_id", ""), ("event_id", " AND session_id IS NULL")):
        among, ids = sql.among(column, sessions)
        yield from _windows_where(
            sql, ("cited",), f"{whose(WINDOW_TYPES)} AND {among} AND position <= ?{more}", ids, upto
        )


def told_of_sessions(sql: Statements, sessions: Collection[str], upto: int) -> Iterator[Told]:
    """Yield what some sessions were told up to a position."""
    for column, more in (("session_id", ""), ("target_id", " AND session_id IS NULL")):
        among, ids = sql.among(column, sessions)
        yield from told_where(sql, f"{whose(TELLING_TYPES)} AND {among} AND position <= ?{more}", ids, upto)


def told_where(sql: Statements, where: str, *values: object) -> Iterator[Told]:
    """Yield what was told by the events of a condition, oldest first."""
    query = (
        "SELECT position, event_id, session_id, target_id, data, type, recorded_at FROM event"  # noqa: S608
        f" WHERE playbook_id = ? AND {where} ORDER BY position"
    )
    rows = sql.run(query, *values).fetchall()
    kept = kept_of(sql, [row[1] for row in rows if row[4] is None])
    for position, event_id, session, target, text, type_, at in rows:
        data, _ = read(type_, at, text, kept.get(event_id))
        if data is not None:
            by = target if session is None else session
            is_text = by is not None and "digest" in data
            yield Told(position, by, data.get("bullets", ()), data.get("lessons", ()), is_text)


def told(sql: Statements, after: int, upto: int) -> Iterator[Told]:
    """Yield what was told between two positions, oldest first."""
    return told_where(sql, f"{one_of(TELLING_TYPES)} AND position > ? AND position <= ?", after, upto)


def record_keys(sql: Statements, upto: int) -> Iterator[tuple[str, str, Sequence[int]]]:
    """Yield (event id, session, keys of its records) of each window of a transcript, up to a position."""
    query = (
        "SELECT event_id, coalesce(session_id, ''), data, recorded_at FROM event"  # noqa: S608
        f" WHERE playbook_id = ? AND {one_of((SESSION_RECORDED,))} AND position <= ? ORDER BY position"
    )
    rows = sql.run(query, upto).fetchall()
    kept = kept_of(sql, [row[0] for row in rows if row[2] is None])
    for event_id, session, text, at in rows:
        data, _ = read(SESSION_RECORDED, at, text, kept.get(event_id))
        keys = (data or {}).get("window", {}).get("keys")
        yield event_id, session, unpack_keys(keys) if keys else ()


def told_texts(ledger: Reader) -> int:
    """Return how many texts were told, each resume and compaction with its own. Raises LedgerError."""
    with ledger.asking() as sql:
        query = f"SELECT count(*) FROM event WHERE playbook_id = ? AND {one_of(TELLING_TYPES)}"  # noqa: S608
        return int(sql.run(query).fetchone()[0])
