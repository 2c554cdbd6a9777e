"""Told, cited, judged: the way of each bullet; and citations and tags without a bullet.

Invariant: sessions are counted, not windows, so a session that is compacted five times was told a bullet once. A bullet
is live in a session when it was live at one of its windows, told or not. A window cites only what was live on the
machine that recorded it; in a merged ledger the window may come after the bullet's removal, and its citation still says
that the bullet was live in the session. So no rate is ever above 1. Of a session without a record of what it was told,
nobody knows whether it was told a bullet: it counts as unknown.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reflector.events import event as ev
from reflector.events.fold import Playbook, apply
from reflector.events.registry import ADVICE, WINDOW_TYPES, names_in
from reflector.ledger.as_of import Past
from reflector.ledger.rows import BulletRow, WindowRow
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.ledger.tellings import tellings

_OPENING = ", ".join(map(repr, WINDOW_TYPES))
_KINDS = ("cited", "retired", "unknown")
#: What lies between two positions.
_Span = tuple[int, int]
#: A window: its position, whose it is, and the names that it cites by kind.
_Window = tuple[int, str, dict[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Cited:
    """How many sessions a bullet was live in, were told it, cited it, and were judged on it.

    told        None if nothing is known of any session that it was live in
    unknown     sessions that it was live in, without a record of what they were told
    told_cited  of those that were told it: it was cited
    judged      of those that cited it: a verdict was given, neutral included
    uncited     sessions with a verdict that did not cite it
    """

    name: str
    status: str
    live: int
    told: int | None
    unknown: int
    told_cited: int
    cited: int
    judged: int
    uncited: int
    helpful: int
    harmful: int

    @property
    def told_rate(self) -> float | None:
        """`told_cited` of `told`; None if it is not known that it was told."""
        return self.told_cited / self.told if self.told else None

    @property
    def citation_rate(self) -> float | None:
        """`cited` of `live`; None if no session knew it."""
        return self.cited / self.live if self.live else None

    @property
    def judged_rate(self) -> float | None:
        """`judged` of `cited`; None if it was never cited."""
        return self.judged / self.cited if self.cited else None


@dataclass(slots=True)
class UnknownName:
    """A cited name that means no live bullet: `unknown`, or `retired` for a tombstone; positions of its windows."""

    name: str
    kind: str
    sessions: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class StrayTags:
    """Tags that could not count: `unknown_bullet`, `retired_bullet`, or `malformed` where no name was given."""

    name: str
    disposition: str
    tags: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Orphans:
    """Citations and tags that match no bullet, windows without a verdict, live bullets never cited.

    told  the sessions that were told each of these bullets; None without a record of what any session was told
    """

    citations: tuple[UnknownName, ...]
    tags: tuple[StrayTags, ...]
    windows: tuple[WindowRow, ...]
    skipped: int
    bullets: tuple[BulletRow, ...]
    told: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """How a bullet was used, as far as it was judged.

    sessions  that gave it a verdict, neutral ones included
    last      when the last of these verdicts was recorded, ISO 8601 in UTC
    trend     the last eight verdicts, oldest first: `+` helpful, `-` harmful, `.` neither
    """

    sessions: int
    last: str
    trend: str


def use(ledger: Ledger, past: Past | None = None, name: str | None = None) -> dict[str, Use]:
    """Return the use of each bullet that was ever judged, or of one, by its name. Raises LedgerError."""
    upto = past.position if past is not None else ledger.head().position
    marks: dict[str, list[str]] = {}
    where = "playbook_id = ? AND position <= ?" + (" AND name = ?" if name is not None else "")
    values: tuple[object, ...] = (upto, name) if name is not None else (upto,)
    totals = f"SELECT name, count(DISTINCT session_id), max(position) FROM tag WHERE {where} GROUP BY name"  # noqa: S608
    aged = f"SELECT name, tag, position, row_number() OVER newest AS age FROM tag WHERE {where}"  # noqa: S608
    newest = "WINDOW newest AS (PARTITION BY name ORDER BY position DESC)"
    with ledger.asking() as sql:
        rows = sql.run(totals, *values).fetchall()
        recent = f"SELECT name, tag FROM ({aged} {newest}) AS aged WHERE age <= 8 ORDER BY position"  # noqa: S608
        for one, tag in sql.run(recent, *values).fetchall():
            marks.setdefault(one, []).append("+" if tag > 0 else "-" if tag < 0 else ".")
    times = {event.position: event.recorded_at for event in ledger.at([last for _, _, last in rows])}
    return {one: Use(sessions, times[last], "".join(marks[one])) for one, sessions, last in rows}


def citations(ledger: Ledger, past: Past | None = None) -> list[Cited]:
    """Each bullet's way from told to judged, in order of creation, tombstones included. Raises LedgerError."""
    then = past or Past(ledger)
    sessions: dict[str, list[int]] = {}
    citing: dict[str, set[str]] = {}
    for position, session, names in _windows(ledger, then.position):
        sessions.setdefault(session, []).append(position)
        for name in names["cited"]:
            citing.setdefault(name, set()).add(session)
    known = tellings(ledger, then.position)
    everywhere = _Spans(sessions)
    untold = _Spans({session: positions for session, positions in sessions.items() if session not in known.sessions})
    spans_of = _spans_of(ledger, then.position)
    judging = _judged(ledger, then.position)
    found = []
    for row in then.rows():
        cited = citing.get(row.name, set())
        lives = spans_of[row.name]["live"]
        judged = judging.get(row.name, set())
        told = known.told.get(row.name, {})
        live, unknown = (spans.live(lives, cited) for spans in (everywhere, untold))
        found.append(
            Cited(
                name=row.name,
                status=row.status,
                live=live,
                told=len(told) if told or unknown < live else None,
                unknown=unknown,
                told_cited=len(cited & told.keys()),
                cited=len(cited),
                judged=len(cited & judged),
                uncited=len(judged - cited),
                helpful=row.helpful,
                harmful=row.harmful,
            )
        )
    return found


def cited_by_session(ledger: Ledger, upto: int) -> dict[str, set[str]]:
    """Return the live bullets that each session cited, up to a position. Raises LedgerError."""
    found: dict[str, set[str]] = {}
    for _, session, names in _windows(ledger, upto):
        found.setdefault(session, set()).update(names["cited"])
    return found


def orphans(ledger: Ledger, past: Past | None = None) -> Orphans:
    """Return the orphans, as of now or of a moment. Raises LedgerError."""
    then = past or Past(ledger)
    names: dict[tuple[str, str], UnknownName] = {}
    seen: set[tuple[str, str, str]] = set()
    cited: set[str] = set()
    for position, session, by_kind in _windows(ledger, then.position):
        cited.update(by_kind["cited"])
        for kind in ("retired", "unknown"):
            for name in by_kind[kind]:
                one = names.setdefault((kind, name), UnknownName(name, kind, 0, position, position))
                one.last = position
                one.sessions += (kind, name, session) not in seen
                seen.add((kind, name, session))
    windows = [window for window in ledger.windows() if window.position <= then.position]
    uncited = tuple(row for row in then.rows() if row.status == "live" and row.name not in cited)
    known = tellings(ledger, then.position)
    return Orphans(
        tuple(names.values()),
        tuple(_strays(ledger, then)),
        tuple(window for window in windows if window.state not in ("completed", "skipped")),
        sum(window.state == "skipped" for window in windows),
        uncited,
        tuple(len(known.told.get(row.name, ())) if known.sessions else None for row in uncited),
    )


def _windows(ledger: Ledger, upto: int) -> Iterator[_Window]:
    """Yield every window with what it cites, oldest first; what a redaction kept of one included."""
    erased: list[int] = []
    with ledger.asking() as sql:
        fields = ", ".join(sql.text_at("data", kind) for kind in _KINDS)
        query = (
            f"SELECT position, session_id, event_id, data IS NULL, {fields} FROM event WHERE playbook_id = ?"  # noqa: S608
            f" AND type IN ({_OPENING}) AND type <> '{ev.BULLET_TAGGED}' AND position <= ? ORDER BY position"
        )
        rows = sql.run(query, upto).fetchall()
    erased = [row[0] for row in rows if row[3]]
    kept: dict[int, Any] = {event.position: event.data or {} for event in ledger.at(erased)}
    for position, session_id, event_id, is_erased, *texts in rows:
        if is_erased:
            names = {kind: list(kept[position].get(kind, ())) for kind in _KINDS}
        else:
            names = {k: json.loads(text) if text else [] for k, text in zip(_KINDS, texts, strict=True)}
        yield position, session_id or event_id, names


class _Spans:
    """The positions of sessions' windows, for counting the sessions that have one within some spans of positions."""

    def __init__(self, sessions: Mapping[str, Sequence[int]]) -> None:
        self._of = sessions
        self._once = [positions[0] for positions in sessions.values() if len(positions) == 1]
        self._more = [positions for positions in sessions.values() if len(positions) > 1]

    def live(self, spans: Sequence[_Span], cited: Collection[str]) -> int:
        """Return how many sessions have a window within the spans, or cite the bullet outside of them."""
        alone = sum(bisect_left(self._once, last) - bisect_right(self._once, first) for first, last in spans)
        within = alone + sum(_within(positions, spans) for positions in self._more)
        return within + sum(one in self._of and not _within(self._of[one], spans) for one in cited)


def _within(positions: Sequence[int], spans: Sequence[_Span]) -> bool:
    return any(bisect_right(positions, first) < bisect_left(positions, last) for first, last in spans)


def _spans_of(ledger: Ledger, upto: int) -> dict[str, dict[str, list[_Span]]]:
    """Return between which positions each bullet had which status: spans by status, by name."""
    book = Playbook()
    since: dict[str, tuple[int, str]] = {}
    found: dict[str, dict[str, list[_Span]]] = {}
    for event in ledger.events(types=ADVICE, upto=upto):
        names = names_in(event.type, event.data or {})
        names |= {source for name in names for source in book.sources(name)}
        apply(book, event)
        for name in names & book.entries.keys():
            start, status = since.get(name, (event.position, ""))
            if status != book.entries[name].status:
                if status:
                    found[name].setdefault(status, []).append((start, event.position))
                found.setdefault(name, {"live": [], "removed": []})
                since[name] = (event.position, book.entries[name].status)
    for name, (start, status) in since.items():
        found[name].setdefault(status, []).append((start, upto + 1))
    return found


def _judged(ledger: Ledger, upto: int) -> dict[str, set[str]]:
    """Return the sessions in which each bullet was given a tag, counted or not."""
    query = "SELECT name, session_id FROM tag WHERE playbook_id = ? AND position <= ? AND session_id IS NOT NULL"
    found: dict[str, set[str]] = {}
    with ledger.asking() as sql:
        rows = sql.run(query, upto)
        while page := rows.fetchmany(10_000):
            for name, session_id in page:
                found.setdefault(name, set()).add(session_id)
    return found


def _strays(ledger: Ledger, then: Past) -> Iterator[StrayTags]:
    spans_of = _spans_of(ledger, then.position)
    with ledger.asking() as sql:
        for name, *counts in _unknown(sql, then.entries, then.position):
            yield StrayTags(name, "unknown_bullet" if name else "malformed", *counts)
        for entry in then.entries.values():
            early = _between(sql, entry.name, 0, entry.position - 1)
            if early is not None:
                yield StrayTags(entry.name, "unknown_bullet", *early)
            spans = spans_of[entry.name]["removed"]
            late = [found for first, last in spans if (found := _between(sql, entry.name, first, last - 1))]
            if late:
                yield StrayTags(entry.name, "retired_bullet", sum(of[0] for of in late), late[0][1], late[-1][2])


def _unknown(sql: Statements, known: Collection[str], upto: int) -> list[tuple[str, int, int, int]]:
    """Return (name, tags, first, last) of the names that no bullet has: over the index alone, in its order."""
    query = (
        "SELECT name, count(*), min(position), max(position) FROM tag WHERE playbook_id = ? AND position <= ?"
        " GROUP BY name ORDER BY name"
    )
    return [tuple(row) for row in sql.run(query, upto).fetchall() if row[0] not in known]


def _between(sql: Statements, name: str, after: int, upto: int) -> tuple[int, int, int] | None:
    query = (
        "SELECT count(*), min(position), max(position) FROM tag WHERE playbook_id = ? AND name = ?"
        " AND active IN (0, 1) AND tag IN (-1, 0, 1) AND position > ? AND position <= ?"
    )
    count, first, last = sql.run(query, name, after, upto).fetchone()
    return (count, first, last) if count else None
