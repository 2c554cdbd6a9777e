"""How many sessions were told, cited and judged each bullet, and what was last said of it.

Invariant: sessions are counted, not windows or texts, each once for a bullet however many events say the same. A bullet
is live in a session when it was live at one of its windows, or is cited by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from reflector.events.registry import TELLING_TYPES, WINDOW_TYPES
from reflector.ledger.tail import windows_where
from reflector.ledger.tallies import Tally, texts, whole
from reflector.ledger.windows import told_where, whose

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements
    from reflector.ledger.tail import TagRow, Tail, Window
    from reflector.ledger.windows import Told

#: What lies between two positions.
Span = tuple[int, int]
_TREND = 8


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
    judged: Collection[str] = ()
    is_known: bool = False

    def open(self, window: Window) -> None:
        """Take a window."""
        self.windows.append(window.position)
        self.cited.update(window.cited)

    def hear(self, one: Told) -> None:
        """Take what was told."""
        for name in one.bullets:
            self.told.setdefault(name, one.position)
        self.is_known |= one.is_text


_NOTHING = _Session()


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
        self.texts, self.known = whole([state["texts"], state["known"]])
        for name, kept in state["bullets"].items():
            *counts, trend = kept if isinstance(kept, list) else [kept]
            self.bullets[name] = Tallied(*[*whole(counts), *texts([trend])])
            if len(kept) != len(fields(Tallied)):
                raise ValueError(f"{name} has {len(kept)} counts")

    def count(self, tail: Tail) -> None:
        now: dict[str, _Session] = defaultdict(_Session)
        for window in tail.windows:
            now[window.session].open(window)
        alone: set[str] = set()
        self.texts += len(tail.told)
        for one in tail.told:
            if one.session is not None:
                now[one.session].hear(one)
                alone |= {one.session} if one.is_alone else set()
        for session, names in tail.judged.items():
            now[session].judged = names
        before = _earlier(tail, alone) if tail.after and now else {}
        self._judge(tail.tags, now, before)
        self._acquaint(now, before)
        self._live(tail, now, before)

    def _named(self, name: str) -> Tallied:
        found = self.bullets.get(name)
        if found is None:
            found = self.bullets[name] = Tallied()
        return found

    def _judge(self, tags: Iterable[TagRow], now: Mapping[str, _Session], before: Mapping[str, _Session]) -> None:
        """Note the last verdicts, and in how many sessions a bullet had been told when it helped."""
        first: dict[str, list[int]] = defaultdict(list)
        for session, one in now.items():
            if one.told:
                known = before.get(session, _NOTHING).told
                for name, position in one.told.items():
                    if name not in known:
                        first[name].append(position)
        given: dict[str, list[TagRow]] = defaultdict(list)
        for row in tags:
            given[row[1]].append(row)
        for name, verdicts in given.items():
            of = self._named(name)
            of.last = verdicts[-1][0]
            of.trend = (of.trend + "".join([".+-"[row[2]] for row in verdicts[-_TREND:]]))[-_TREND:]
            for row in reversed(verdicts):
                if row[2] > 0:
                    of.helped, of.told_then = row[0], of.told + sum(at <= row[0] for at in first.get(name, ()))
                    break

    def _acquaint(self, now: Mapping[str, _Session], before: Mapping[str, _Session]) -> None:
        """Count the sessions that are told, cite or judge a bullet for the first time."""
        told, cited, told_cited, judged, cited_judged = more = tuple[list[str], ...]([] for _ in range(5))
        for session, one in now.items():
            was = before.get(session)
            if was is None:
                self.known += one.is_known
                told += one.told
                cited += one.cited
                judged += one.judged
                if one.cited:
                    told_cited += one.cited & one.told.keys()
                    cited_judged += one.cited.intersection(one.judged)
                continue
            self.known += one.is_known and not was.is_known
            all_told, all_cited = was.told.keys() | one.told.keys(), was.cited | one.cited
            all_judged, was_judged = {*was.judged, *one.judged}, set(was.judged)
            told += all_told - was.told.keys()
            cited += all_cited - was.cited
            judged += all_judged - was_judged
            told_cited += (all_told & all_cited) - (was.told.keys() & was.cited)
            cited_judged += (all_cited & all_judged) - (was.cited & was_judged)
        for kind, names in zip(("told", "cited", "told_cited", "judged", "cited_judged"), more, strict=True):
            for name, count in Counter(names).items():
                of = self._named(name)
                setattr(of, kind, getattr(of, kind) + count)

    def _live(self, tail: Tail, now: Mapping[str, _Session], before: Mapping[str, _Session]) -> None:
        """Count the sessions in which a bullet is live, of those that have a window, cite or are known since."""
        statuses = spans_of(tail.sql, tail.upto)
        changes = sorted({edge for spans in statuses.values() for of in spans.values() for span in of for edge in span})
        then, since = _Live(), _Live()
        for session, one in now.items():
            was = before.get(session)
            if was is None:
                since.take(session, _apart(one.windows, changes), one.cited, is_known=one.is_known)
            elif was.windows or one.windows:
                had = _apart(was.windows, changes)
                has = _apart([*was.windows, *one.windows], changes)
                if had.keys() != has.keys() or not one.cited <= was.cited or (one.is_known and not was.is_known):
                    then.take(session, had, was.cited, is_known=was.is_known)
                    since.take(session, has, was.cited | one.cited, is_known=was.is_known or one.is_known)
        if not since.sessions:
            return
        for name in statuses.keys() | since.citing.keys():
            lives = statuses[name]["live"] if name in statuses else ()
            live, unknown = since.live(name, lives)
            if then.sessions:
                had_live, had_unknown = then.live(name, lives)
                live, unknown = live - had_live, unknown - had_unknown
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


def _earlier(tail: Tail, alone: Collection[str]) -> dict[str, _Session]:
    """Return what events before say of the tail's sessions; `alone` are windows without a session."""
    sql, upto = tail.sql, tail.after
    found: dict[str, _Session] = defaultdict(_Session)
    for ids, of, own, target in (
        (tail.going_on, "", "session_id", "session_id"),
        (alone, "session_id IS NULL AND ", "event_id", "target_id"),
    ):
        if not ids:
            continue
        among, values = sql.among(own, ids)
        for window in windows_where(sql, f"{of}{among} AND {whose(WINDOW_TYPES)} AND position <= ?", values, upto):
            found[window.session].open(window)
        among, values = sql.among(target, ids)
        for one in told_where(sql, f"{of}{among} AND {whose(TELLING_TYPES)} AND position <= ?", values, upto):
            if one.session is not None:
                found[one.session].hear(one)
    for session, judged in tail.judged_before.items():
        found[session].judged = judged
    return found


class Spans:
    """The positions of sessions' windows, for counting the sessions that have one within some spans of positions."""

    def __init__(self, sessions: Mapping[str, Sequence[int]]) -> None:
        self._of = sessions
        self._once = sorted(positions[0] for positions in sessions.values() if len(positions) == 1)
        self._more = [positions for positions in sessions.values() if len(positions) > 1]
        #: Most bullets are live between the same positions.
        self._counted: dict[tuple[Span, ...], int] = {}

    def live(self, spans: Sequence[Span], cited: Collection[str]) -> int:
        """Return how many sessions have a window within the spans, or cite the bullet outside of them."""
        within = self._counted.get(key := tuple(spans))
        if within is None:
            alone = sum(bisect_left(self._once, last) - bisect_right(self._once, first) for first, last in spans)
            within = self._counted[key] = alone + sum(_within(positions, spans) for positions in self._more)
        if not cited:
            return within
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
