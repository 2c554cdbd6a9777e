"""Figures over time: tokens, cost and tags of reflections by model, template and day, and sessions
by week.

Invariant: each answer and each tag is in one group of every kind, so the groups of a kind add up to
the whole. A tag belongs to the answer from which it was read. Days are in UTC, as in the ledger.

A session, with all its figures, is in one week: that of its last window by the session's own clock,
whenever it was recorded. Weeks begin on Monday, in UTC. Weeks without a session are listed if they
are between two weeks with sessions, unless years are between these. `stats` and the report use this
module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from reflector.audit.standing import Standing, Verdict, verdicts_in
from reflector.events.event import SESSION_OUTCOME
from reflector.events.folds import fold_ledger
from reflector.events.registry import WINDOW_TYPES
from reflector.events.sessions import tells_more
from reflector.events.windows import WindowFold
from reflector.ledger.answers import Group, take_out
from reflector.ledger.as_of import Past
from reflector.ledger.reader import of_types
from reflector.ledger.usage import answers_at

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

KINDS = ("model", "template", "day")
_WEEK = timedelta(days=7)
_MAX_GAP = timedelta(days=5 * 365)


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of a ledger.

    states  the number of windows in each state
    groups  by kind, each in order of its keys; days oldest first
    spent   the groups with an answer, by Monday and model
    """

    events: int
    sessions: int
    windows: int
    states: dict[str, int]
    whole: Group
    groups: dict[str, list[Group]]
    spent: dict[tuple[str, str], Group]


def ledger_stats(ledger: Ledger, past: Past | None = None) -> Stats:
    """Return the figures as of now or of a moment, without the tags that retractions cover.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    upto = (past or ledger.head()).position
    tally = answers_at(ledger, past.position if past else None)
    if covered := (past or Past(ledger)).covered:
        with ledger.asking() as sql:
            take_out(sql, upto, covered, tally)
    groups: dict[str, dict[str, Group]] = {kind: {} for kind in KINDS}
    whole = Group()
    spent: dict[tuple[str, str], Group] = {}
    for keys, counts in tally.groups.items():
        model, _, day = keys
        whole.add(counts)
        spent.setdefault((monday(day), model), Group(model)).add(counts)
        for kind, key in zip(KINDS, keys, strict=True):
            groups[kind].setdefault(key, Group(key)).add(counts)
    ordered = {kind: _used_groups(by_key) for kind, by_key in groups.items()}
    spent = {key: group for key, group in sorted(spent.items()) if group.answers}
    states = ledger.window_states()
    if past:
        windows = fold_ledger(WindowFold(), ledger, upto)
        states = dict(sorted(Counter(window.state for window in windows.values()).items()))
    return Stats(upto, tally.sessions, tally.windows, states, whole, ordered, spent)


def _used_groups(by_key: Mapping[str, Group]) -> list[Group]:
    """Return the groups that have an answer or a reflection, in order of their keys."""
    ordered = [group for _, group in sorted(by_key.items())]
    return [group for group in ordered if group.answers or group.reflections]


@dataclass(slots=True)
class OneSession:
    """A session with its verdicts that count.

    corrections  the number of times that the user corrected the agent; 0 without an outcome
    known        whether its recorded outcome shows more than its length
    """

    session_id: str | None
    helpful: int = 0
    harmful: int = 0
    corrections: int = 0
    known: bool = False


@dataclass(frozen=True, slots=True)
class Week:
    """The sessions of a week, the last to end first.

    begins  its Monday
    """

    begins: str
    sessions: list[OneSession]

    def sum(self, field: str) -> int:
        """Return the sum of a field over the sessions."""
        return sum(getattr(session, field) for session in self.sessions)


def monday(time: str) -> str:
    """Return the Monday of the week of a time (ISO 8601); "" if it is not a time."""
    try:
        day = date.fromisoformat(time[:10])
        return str(day - timedelta(days=day.weekday()))
    except (ValueError, OverflowError):  # a forged ledger, or a date before year 1
        return ""


def weeks(ledger: Ledger, then: Past) -> list[Week]:
    """Return the weeks from the first to the last one with a session, as of a moment. The empty
    weeks of a gap of years are omitted.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    by_monday: dict[str, Week] = {}
    sessions: dict[str | None, OneSession] = {}
    query = (
        "SELECT session_id, max(event_id), max(occurred_at) FROM event "  # noqa: S608
        f"WHERE playbook_id = ? AND position <= ? AND {of_types(WINDOW_TYPES)} "
        "GROUP BY coalesce(session_id, event_id), session_id ORDER BY 3 DESC"
    )
    with ledger.asking() as sql:
        for session_id, window_id, time in sql.rows(query, then.position):
            session = OneSession(session_id)
            sessions[session_id or window_id] = session
            week = by_monday.setdefault(monday(time), Week(monday(time), []))
            week.sessions.append(session)
        verdicts = verdicts_in(sql, then.position)
    _count_verdicts(Standing(then), verdicts, sessions)
    for event in ledger.events(types=[SESSION_OUTCOME], upto=then.position):
        counted = sessions.get(event.session_id or event.target_id)
        if counted:
            counted.corrections += event.fact("corrections", 0)
            counted.known |= tells_more(event.facts)
    return [by_monday.get(begins, Week(begins, [])) for begins in without_gaps(by_monday)]


def _count_verdicts(
    standing: Standing, verdicts: Sequence[Verdict], sessions: Mapping[str | None, OneSession]
) -> None:
    """Add each verdict that counts to its session."""
    for verdict in verdicts:
        if not verdict.tag or standing.why_uncounted(verdict) is not None:
            continue
        session = sessions.get(verdict.session_id)
        if session:
            session.helpful += verdict.tag > 0
            session.harmful += verdict.tag < 0


def without_gaps(mondays: Iterable[str]) -> Iterator[str]:
    """Yield the Mondays in order. Gaps are filled with the Mondays between, gaps of years are
    not.
    """
    previous: date | None = None
    for begins in sorted(filter(None, mondays)):  # "" is the week of events without a time
        day = date.fromisoformat(begins)
        while previous and _WEEK < day - previous < _MAX_GAP:
            previous += _WEEK
            yield str(previous)
        previous = day
        yield begins
