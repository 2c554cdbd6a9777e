"""Shown, cited, judged: the way of each bullet; and citations and tags without a bullet.

Invariant: sessions are counted, not windows, so a session that is compacted five times was shown a bullet once. A
bullet is live in a session when it was live at one of its windows, shown or not. A window cites only what was live on
the machine that recorded it; in a merged ledger the window may come after the bullet's removal, and its citation still
says that the bullet was live in the session. So no rate is ever above 1. Of a session without a record of what it was
shown, nobody knows whether it was shown a bullet: it counts as unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from reflector.ledger.cached import usage_at
from reflector.ledger.errors import LedgerCorrupt
from reflector.ledger.usage import Usage, spans_of
from reflector.ledger.windows import windows

if TYPE_CHECKING:
    from reflector.ledger.as_of import Past
    from reflector.ledger.rows import BulletRow, WindowRow
    from reflector.ledger.statements import Statements
    from reflector.ledger.store import Ledger

#: What a window may cite besides live bullets.
_KINDS = ("retired", "unknown")


@dataclass(frozen=True, slots=True)
class Cited:
    """How many sessions a bullet was live in, were shown it, cited it, and were judged on it.

    told        sessions that were shown it, None if nothing is known of any session that it was live in
    unknown     sessions that it was live in, without a record of what they were shown
    told_cited  of those that were shown it: it was cited
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
        """`told_cited` of `told`; None if it is not known that it was shown."""
        return self.told_cited / self.told if self.told else None

    @property
    def citation_rate(self) -> float | None:
        """`cited` of `live`; None if no session knew it."""
        return self.cited / self.live if self.live else None

    @property
    def judged_rate(self) -> float | None:
        """`judged` of `cited`; None if it was never cited."""
        return self.judged / self.cited if self.cited else None


class Use(NamedTuple):
    """How a bullet was used, as far as it was judged.

    sessions  that gave it a verdict, neutral ones included
    last      when the last of these verdicts was recorded, ISO 8601 in UTC
    trend     the last eight verdicts, oldest first: `+` helpful, `-` harmful, `.` neither
    """

    sessions: int
    last: str
    trend: str


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

    told  the sessions that were shown each of these bullets; None without a record of what any session was shown
    """

    citations: tuple[UnknownName, ...]
    tags: tuple[StrayTags, ...]
    windows: tuple[WindowRow, ...]
    skipped: int
    bullets: tuple[BulletRow, ...]
    told: tuple[int | None, ...]


def use(ledger: Ledger, past: Past | None = None, name: str | None = None) -> dict[str, Use]:
    """Return the use of each bullet that was ever judged, or of one, by its name. Raises LedgerError."""
    tally = tally_of(ledger, past)
    found = {one: of for one, of in tally.bullets.items() if of.last and name in (None, one)}
    events = ledger.all_at([of.last for of in found.values()])
    return {one: Use(of.judged, events[of.last].recorded_at, of.trend) for one, of in found.items()}


def tally_of(ledger: Ledger, past: Past | None) -> Usage:
    """Return the counts of a moment, None for now. Raises LedgerError."""
    return usage_at(ledger, past.position if past is not None else None)


def citations(ledger: Ledger, past: Past | None = None) -> list[Cited]:
    """Each bullet's way from shown to judged, in order of creation, tombstones included. Raises LedgerError."""
    tally = tally_of(ledger, past)
    found = []
    for row in (past or ledger).rows():
        of = tally.of(row.name)
        found.append(
            Cited(
                name=row.name,
                status=row.status,
                live=of.live,
                told=of.told if of.told or of.unknown < of.live else None,
                unknown=of.unknown,
                told_cited=of.told_cited,
                cited=of.cited,
                judged=of.cited_judged,
                uncited=of.judged - of.cited_judged,
                helpful=row.helpful,
                harmful=row.harmful,
            )
        )
    return found


def cited_by_session(ledger: Ledger, upto: int) -> dict[str, set[str]]:
    """Return the live bullets that each session cited, up to a position. Raises LedgerError."""
    found: dict[str, set[str]] = {}
    with ledger.asking() as sql:
        for _, session, names in windows(sql, ("cited",), 0, upto):
            found.setdefault(session, set()).update(names["cited"])
    return found


def orphans(ledger: Ledger, past: Past | None = None) -> Orphans:
    """Return the orphans, as of now or of a moment. Raises LedgerError."""
    from reflector.ledger.as_of import Past

    then = past or Past(ledger)
    names: dict[tuple[str, str], UnknownName] = {}
    seen: set[tuple[str, str, str]] = set()
    tally = tally_of(ledger, past)
    with ledger.asking() as sql:
        for position, session, by_kind in windows(sql, _KINDS, 0, then.position):
            for kind in _KINDS:
                for name in by_kind[kind]:
                    one = names.setdefault((kind, name), UnknownName(name, kind, 0, position, position))
                    one.last = position
                    one.sessions += (kind, name, session) not in seen
                    seen.add((kind, name, session))
    uncited = tuple(row for row in then.rows() if row.status == "live" and not tally.of(row.name).cited)
    return Orphans(
        tuple(names.values()),
        tuple(_strays(ledger, then)),
        tuple(ledger.windows_in("pending", "answered", "failed", "given_up", upto=then.position)),
        len(ledger.windows_in("skipped", upto=then.position)),
        uncited,
        tuple(tally.of(row.name).told if tally.known else None for row in uncited),
    )


def _strays(ledger: Ledger, then: Past) -> Iterator[StrayTags]:
    with ledger.asking() as sql:
        statuses = spans_of(sql, then.position)
        for name, *counts in _unknown(sql, then.entries, then.position):
            yield StrayTags(name, "unknown_bullet" if name else "malformed", *counts)
        for entry in then.entries.values():
            early = _between(sql, entry.name, 0, entry.position - 1)
            if early is not None:
                yield StrayTags(entry.name, "unknown_bullet", *early)
            if entry.name not in statuses:
                raise LedgerCorrupt(
                    f"the table of statuses lacks the bullet {entry.name!r}; run `reflector verify`, then "
                    "`reflector rebuild`"
                )
            spans = statuses[entry.name]["removed"]
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
