"""How many sessions were told, cited and judged each bullet, and what was last said of it.

Invariant: sessions are counted, not windows or texts, each once for a bullet however many events say the same. A bullet
is live in a session when it was live at one of its windows, or is cited by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, fields
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from reflector.dataclass import dataclass
from reflector.events.event import BULLET_TAGGED
from reflector.events.registry import TELLING_TYPES, WINDOW_TYPES
from reflector.ledger.tallies import Tally
from reflector.ledger.windows import told, told_where, whose, windows, windows_where

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

#: What lies between two positions.
Span = tuple[int, int]
_TREND = 8
_CITED = ("cited",)
_TAGS = (
    "SELECT position, name, tag, session_id FROM tag WHERE playbook_id = ? AND position > ? AND position <= ?"
    " ORDER BY position"
)


@dataclass(slots=True)
class Tallied:
    """A bullet's counts, in sessions.

    told, cited  were told it, cited it; told_cited, cited_judged: both of two
    judged       gave it a verdict, neutral included
    live         had a window at which it was live, or cite it; `unknown` of them have no record of what they were told
    last         the position of its last verdict
    helped       the position of its last helpful verdict, retracted or not; `told_then` had been told it by then
    trend        the last verdicts, oldest first: `+` helpful, `-` harmful, `.` neither
    """

    told: int = 0
    cited: int = 0
    told_cited: int = 0
    judged: int = 0
    cited_judged: int = 0
    live: int = 0
    unknown: int = 0
    last: int = 0
    helped: int = 0
    told_then: int = 0
    trend: str = ""


#: All counts of a bullet, in order.
_counts_of = attrgetter(*(one.name for one in fields(Tallied)))


@dataclass(slots=True)
class _Session:
    """What the events of a session say between two positions; `told` with the position at which it was first told."""

    windows: list[int] = field(default_factory=list)
    cited: set[str] = field(default_factory=set)
    told: dict[str, int] = field(default_factory=dict)
    judged: set[str] = field(default_factory=set)
    is_known: bool = False


class BulletTally(Tally):
    """The counts of every name that was told, cited or judged, and of every bullet that was live in a session.

    texts  how many texts were told; known: of how many sessions it is recorded what they were told
    """

    name: ClassVar[str] = "bullets"

    def __init__(self) -> None:
        super().__init__()
        self.texts = self.known = 0
        self.bullets: dict[str, Tallied] = {}

    def of(self, name: str) -> Tallied:
        """Return the counts of a bullet."""
        return self.bullets.get(name) or Tallied()

    def state(self) -> Any:
        bullets = {name: _counts_of(one) for name, one in self.bullets.items()}
        return {"bullets": bullets, "known": self.known, "texts": self.texts}

    def load(self, state: Any) -> None:
        self.texts, self.known = state["texts"], state["known"]
        self.bullets = {name: Tallied(*counts) for name, counts in state["bullets"].items()}

    def count(self, sql: Statements, after: int, upto: int) -> None:
        now: dict[str, _Session] = defaultdict(_Session)
        for position, session, names in windows(sql, _CITED, after, upto):
            now[session].windows.append(position)
            now[session].cited.update(names["cited"])
        alone: set[str] = set()
        for one in told(sql, after, upto):
            self.texts += 1
            if one.session is not None:
                _take(now[one.session], one.position, one.bullets, one.is_text)
                alone |= {one.session} if one.is_alone else set()
        tags = sql.run(_TAGS, after, upto).fetchall()
        for _, name, _, session in tags:
            if session is not None:
                now[session].judged.add(name)
        before = _earlier(sql, now, alone, after) if after and now else {}
        self._judge(tags, now, before)
        self._acquaint(now, before)
        self._live(sql, now, before, upto)

    def _named(self, name: str) -> Tallied:
        found = self.bullets.get(name)
        if found is None:
            found = self.bullets[name] = Tallied()
        return found

    def _judge(
        self,
        tags: Iterable[tuple[int, str, int, str | None]],
        now: Mapping[str, _Session],
        before: Mapping[str, _Session],
    ) -> None:
        """Note the last verdicts, and in how many sessions a bullet had been told when it helped."""
        first: dict[str, list[int]] = defaultdict(list)
        for session, one in now.items():
            known = before[session].told if session in before else ()
            for name, position in one.told.items():
                if name not in known:
                    first[name].append(position)
        given: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, name, tag, _ in tags:
            given[name].append((position, tag))
        for name, verdicts in given.items():
            of = self._named(name)
            of.last = verdicts[-1][0]
            of.trend = (of.trend + "".join(".+-"[tag] for _, tag in verdicts[-_TREND:]))[-_TREND:]
            helped = max((position for position, tag in verdicts if tag > 0), default=0)
            if helped:
                of.helped, of.told_then = helped, of.told + sum(at <= helped for at in first.get(name, ()))

    def _acquaint(self, now: Mapping[str, _Session], before: Mapping[str, _Session]) -> None:
        """Count the sessions that are told, cite or judge a bullet for the first time."""
        more: dict[str, Counter[str]] = defaultdict(Counter)
        nothing = _Session()
        for session, one in now.items():
            was = before.get(session, nothing)
            self.known += one.is_known and not was.is_known
            told, was_told = was.told.keys() | one.told.keys(), was.told.keys()
            cited, judged = was.cited | one.cited, was.judged | one.judged
            for kind, names in (
                ("told", told - was_told),
                ("cited", cited - was.cited),
                ("judged", judged - was.judged),
                ("told_cited", (told & cited) - (was_told & was.cited)),
                ("cited_judged", (cited & judged) - (was.cited & was.judged)),
            ):
                if names:
                    more[kind].update(names)
        for kind, counts in more.items():
            for name, count in counts.items():
                of = self._named(name)
                setattr(of, kind, getattr(of, kind) + count)

    def _live(self, sql: Statements, now: Mapping[str, _Session], before: Mapping[str, _Session], upto: int) -> None:
        """Count the sessions in which a bullet is live, of those that have a window, cite or are known since."""
        statuses = spans_of(sql, upto)
        changes = sorted({edge for spans in statuses.values() for of in spans.values() for span in of for edge in span})
        nothing = _Session()
        then, since = _Live(), _Live()
        for session, one in now.items():
            was = before.get(session, nothing)
            if not was.windows and not one.windows:
                continue
            had = _apart(was.windows, changes)
            has = _apart([*was.windows, *one.windows], changes)
            if had.keys() != has.keys() or not one.cited <= was.cited or (one.is_known and not was.is_known):
                then.take(session, had, was.cited, is_known=was.is_known)
                since.take(session, has, was.cited | one.cited, is_known=was.is_known or one.is_known)
        if not since.sessions:
            return
        for name in statuses.keys() | since.citing.keys():
            lives = statuses[name]["live"] if name in statuses else ()
            live, unknown = (
                one - other for one, other in zip(since.live(name, lives), then.live(name, lives), strict=True)
            )
            if live or unknown:
                of = self._named(name)
                of.live += live
                of.unknown += unknown


class _Live:
    """Sessions with their windows, those that are not known to be told anything, and who cites a bullet."""

    def __init__(self) -> None:
        self.sessions: dict[str, list[int]] = {}
        self.untold: dict[str, list[int]] = {}
        self.citing: dict[str, set[str]] = {}

    def take(self, session: str, apart: Mapping[int, int], cited: Iterable[str], *, is_known: bool) -> None:
        if apart:
            self.sessions[session] = list(apart.values())
            if not is_known:
                self.untold[session] = self.sessions[session]
        for name in cited:
            self.citing.setdefault(name, set()).add(session)

    def live(self, name: str, spans: Sequence[Span]) -> tuple[int, int]:
        """Return in how many of the sessions a bullet is live, and how many of those are not known to be told."""
        if not self.sessions:
            return 0, 0
        cited = self.citing.get(name, ())
        live = self._all.live(spans, cited)
        return live, live if len(self.untold) == len(self.sessions) else self._untold.live(spans, cited)

    @cached_property
    def _all(self) -> Spans:
        return Spans(self.sessions)

    @cached_property
    def _untold(self) -> Spans:
        return Spans(self.untold)


def _apart(positions: Iterable[int], changes: Sequence[int]) -> dict[int, int]:
    """Return one of the positions for each stretch in which no bullet's status changes."""
    return {bisect_right(changes, position): position for position in positions}


def _take(session: _Session, position: int, bullets: Iterable[str], is_text: bool) -> None:
    for name in bullets:
        session.told.setdefault(name, position)
    session.is_known |= is_text


def _earlier(sql: Statements, sessions: Collection[str], alone: Collection[str], upto: int) -> dict[str, _Session]:
    """Return what the events of these sessions say up to a position; `alone` are windows without a session."""
    found: dict[str, _Session] = defaultdict(_Session)
    sessions = going_on(sql, sessions, upto)
    for ids, of, own, target in (
        (sessions, "", "session_id", "session_id"),
        (alone, "session_id IS NULL AND ", "event_id", "target_id"),
    ):
        if not ids:
            continue
        among, values = sql.among(own, ids)
        where = f"{of}{among} AND {whose(WINDOW_TYPES)} AND position <= ?"
        for position, session, names in windows_where(sql, _CITED, where, values, upto):
            found[session].windows.append(position)
            found[session].cited.update(names["cited"])
        among, values = sql.among(target, ids)
        where = f"{of}{among} AND {whose(TELLING_TYPES)} AND position <= ?"
        for one in told_where(sql, where, values, upto):
            if one.session is not None:
                _take(found[one.session], one.position, one.bullets, one.is_text)
    for session, judged in judged_before(sql, sessions, upto).items():
        found[session].judged = judged
    return found


def going_on(sql: Statements, sessions: Collection[str], upto: int) -> list[str]:
    """Return those of these sessions that have events up to a position."""
    among, values = sql.among("session_id", sessions)
    query = f"SELECT DISTINCT session_id FROM event WHERE playbook_id = ? AND {among} AND position <= ?"  # noqa: S608
    return [row[0] for row in sql.run(query, values, upto).fetchall()]


def judged_before(sql: Statements, sessions: Collection[str], upto: int) -> dict[str, set[str]]:
    """Return the names that the tags of these sessions have up to a position."""
    among, values = sql.among("event.session_id", sessions)
    query = (
        "SELECT DISTINCT event.session_id, tag.name FROM event"  # noqa: S608
        " JOIN tag ON tag.playbook_id = event.playbook_id AND tag.position = event.position"
        f" WHERE event.playbook_id = ? AND {among} AND event.position <= ? AND (event.type || '') = '{BULLET_TAGGED}'"
    )
    found: dict[str, set[str]] = defaultdict(set)
    for session, name in sql.run(query, values, upto).fetchall() if sessions else ():
        found[session].add(name)
    return found


class Spans:
    """The positions of sessions' windows, for counting the sessions that have one within some spans of positions."""

    def __init__(self, sessions: Mapping[str, Sequence[int]]) -> None:
        self._of = sessions
        self._once = sorted(positions[0] for positions in sessions.values() if len(positions) == 1)
        self._more = [positions for positions in sessions.values() if len(positions) > 1]

    def live(self, spans: Sequence[Span], cited: Collection[str]) -> int:
        """Return how many sessions have a window within the spans, or cite the bullet outside of them."""
        alone = sum(bisect_left(self._once, last) - bisect_right(self._once, first) for first, last in spans)
        within = alone + sum(_within(positions, spans) for positions in self._more)
        return within + sum(one in self._of and not _within(self._of[one], spans) for one in cited)


def _within(positions: Sequence[int], spans: Sequence[Span]) -> bool:
    return any(bisect_right(positions, first) < bisect_left(positions, last) for first, last in spans)


def spans_of(sql: Statements, upto: int) -> dict[str, dict[str, list[Span]]]:
    """Return between which positions each bullet had which status: spans by status, by name."""
    query = "SELECT name, position, status FROM bullet_status WHERE playbook_id = ? AND position <= ?"
    since: dict[str, tuple[int, str]] = {}
    found: dict[str, dict[str, list[Span]]] = {}
    for name, position, status in sql.run(f"{query} ORDER BY position", upto).fetchall():
        spans = found.setdefault(name, {"live": [], "removed": []})
        if name in since:
            start, before = since[name]
            spans.setdefault(before, []).append((start, position))
        since[name] = (position, status)
    for name, (start, status) in since.items():
        found[name].setdefault(status, []).append((start, upto + 1))
    return found
