"""How many sessions were told, cited and judged each bullet, and what was last said of it.

Invariant: sessions are counted, not windows or texts, each once for a bullet however many events say the same. A bullet
is live in a session when it was live at one of its windows, or is cited by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reflector.ledger.windows import told, windows

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

#: What lies between two positions.
Span = tuple[int, int]
_TREND = 8
_TAGS = "SELECT position, name, tag, session_id FROM tag WHERE playbook_id = ? AND position <= ? ORDER BY position"


@dataclass(slots=True)
class Used:
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


@dataclass(slots=True)
class Usage:
    """The counts of every bullet; `texts` that were told; of how many sessions it is `known` what they were told."""

    texts: int = 0
    known: int = 0
    bullets: dict[str, Used] = field(default_factory=dict)
    #: By bullet, the positions at which sessions were first told it.
    first_told: dict[str, list[int]] = field(default_factory=dict)

    def of(self, name: str) -> Used:
        """Return the counts of a bullet."""
        return self.bullets.get(name) or Used()

    def told_by(self, name: str, position: int) -> int:
        """Return how many sessions had been told a bullet at a position."""
        return bisect_right(self.first_told.get(name, ()), position)


def usage(sql: Statements, upto: int) -> Usage:
    """Return what the events up to a position say."""
    cited: dict[str, set[str]] = defaultdict(set)
    judged: dict[str, set[str]] = defaultdict(set)
    told_to: dict[str, dict[str, int]] = defaultdict(dict)
    seen: dict[str, list[int]] = defaultdict(list)
    known: set[str] = set()
    found = Usage()
    for window in windows(sql, ("cited",), 0, upto):
        seen[window.session].append(window.position)
        for name in window.names["cited"]:
            cited[name].add(window.session)
    for one in told(sql, 0, upto):
        found.texts += 1
        if one.session is not None:
            known |= {one.session} if one.is_text else set()
            for name in one.bullets:
                told_to[name].setdefault(one.session, one.position)
    trends: dict[str, list[str]] = defaultdict(list)
    found.first_told = {name: sorted(sessions.values()) for name, sessions in told_to.items()}
    last: dict[str, int] = {}
    helped: dict[str, int] = {}
    for position, name, tag, session in sql.run(_TAGS, upto):
        trends[name].append(".+-"[tag])
        last[name] = position
        if tag > 0:
            helped[name] = position
        if session is not None:
            judged[name].add(session)
    live = _live(sql, upto, seen, cited, known)
    for name in told_to.keys() | cited.keys() | last.keys() | live.keys():
        of_told, of_cited, of_judged = told_to.get(name, {}).keys(), cited.get(name, set()), judged.get(name, set())
        found.bullets[name] = Used(
            *(len(of_told), len(of_cited), len(of_told & of_cited), len(of_judged), len(of_cited & of_judged)),
            *live.get(name, (0, 0)),
            *(last.get(name, 0), helped.get(name, 0), found.told_by(name, helped.get(name, 0))),
            "".join(trends.get(name, ())[-_TREND:]),
        )
    found.known = len(known)
    return found


def _live(
    sql: Statements, upto: int, seen: dict[str, list[int]], cited: dict[str, set[str]], known: Collection[str]
) -> dict[str, tuple[int, int]]:
    """Return in how many sessions each bullet was live, and how many of those are not known to be told anything."""
    statuses = spans_of(sql, upto)
    edges = sorted({edge for spans in statuses.values() for of in spans.values() for span in of for edge in span})
    #: Between two edges no status changes; sessions with windows in the same stretches are one group.
    stretches = {
        session: frozenset(bisect_right(edges, at - 1) for at in positions) for session, positions in seen.items()
    }
    groups = Counter((among, session in known) for session, among in stretches.items())
    found = {}
    for name in statuses.keys() | cited.keys():
        spans = statuses[name]["live"] if name in statuses else ()
        at = {n for first, end in spans for n in range(bisect_right(edges, first), bisect_right(edges, end - 1) + 1)}
        live = [(among, is_known, count) for (among, is_known), count in groups.items() if among & at]
        more = [session for session in cited.get(name, ()) if session in stretches and not stretches[session] & at]
        number = sum(count for *_, count in live) + len(more)
        if number:
            told = sum(count for _, is_known, count in live if is_known) + sum(one in known for one in more)
            found[name] = (number, number - told)
    return found


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
