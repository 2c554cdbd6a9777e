"""Figures over time: tokens, cost and tags of reflections by model, by template and by day, and
sessions by week.

Invariant: each answer and each tag is in one group of every kind, so the groups of a kind add up to
the whole. A tag belongs to the answer that it was read from; days are those of UTC, as the ledger
writes time.

A session is in one week, that of its last window by the session's own clock, and so is all that is
said of it, whenever that was recorded. Weeks begin on Monday, in UTC, and none is left out between
two with a session but where years are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from reflector.audit.standing import Standing, verdicts_in
from reflector.events import event as ev
from reflector.events.folds import fold_ledger
from reflector.events.registry import WINDOW_TYPES
from reflector.events.windows import WindowFold
from reflector.ledger.answers import Group, take_out
from reflector.ledger.as_of import Past
from reflector.ledger.reader import one_of
from reflector.ledger.usage import answers_at
from reflector.prices import spent_on

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

KINDS = ("model", "template", "day")
_STEP, _MOST_GAP = timedelta(days=7), timedelta(days=5 * 365)


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of a ledger, its windows by `states`; `groups` by kind, each in order of its keys,
    days oldest first; `spent` the same by Monday and model.
    """

    events: int
    sessions: int
    windows: int
    states: dict[str, int]
    whole: Group
    groups: dict[str, list[Group]]
    spent: dict[tuple[str, str], Group]


def stats(ledger: Ledger, past: Past | None = None) -> Stats:
    """The figures as of now or of a moment, without the tags that retractions cover. Raises
    LedgerError.
    """
    upto = (past or ledger.head()).position
    tally = answers_at(ledger, past.position if past is not None else None)
    if covered := (past or Past(ledger)).covered():
        with ledger.asking() as sql:
            take_out(sql, upto, covered, tally)
    groups: dict[str, dict[str, Group]] = {kind: {} for kind in KINDS}
    whole, spent = Group(), dict[tuple[str, str], Group]()
    for keys, counts in tally.groups.items():
        whole.add(counts)
        spent.setdefault((monday(keys[2]), keys[0]), Group(keys[0])).add(counts)
        for kind, key in zip(KINDS, keys, strict=True):
            groups[kind].setdefault(key, Group(key)).add(counts)
    ordered = {
        kind: [group for _, group in sorted(found.items()) if group.answers or group.reflections]
        for kind, found in groups.items()
    }
    spent = {key: group for key, group in sorted(spent.items()) if group.answers}
    states = ledger.window_states() if past is None else _states(ledger, upto)
    return Stats(upto, tally.sessions, tally.windows, states, whole, ordered, spent)


def _states(ledger: Ledger, upto: int) -> dict[str, int]:
    """Return how many windows were in each state."""
    windows = fold_ledger(WindowFold(), ledger, upto)
    return dict(sorted(Counter(window.state for window in windows.values()).items()))


@dataclass(slots=True)
class OneSession:
    """A session: the verdicts of it that count, how often a person corrected the agent, the tokens
    of its judges; `known` says whether its outcome is recorded, without which corrections are 0.
    """

    session_id: str | None
    helpful: int = 0
    harmful: int = 0
    corrections: int = 0
    known: bool = False
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Week:
    """The sessions of a week, the last to end first; `begins` is its Monday."""

    begins: str
    sessions: list[OneSession]

    def sum(self, of: str) -> int:
        """Return the sum of a field over the sessions."""
        return sum(getattr(one, of) for one in self.sessions)


def monday(time: str) -> str:
    """Return the Monday of the week of a time (ISO 8601); "" of what is not a time."""
    try:
        day = date.fromisoformat(time[:10])
        return str(day - timedelta(days=day.weekday()))
    except (ValueError, OverflowError):  # of a forged ledger, or of the first week of all
        return ""


def weeks(ledger: Ledger, then: Past) -> list[Week]:
    """Return the weeks from the first to the last with a session, as of a moment. Raises
    LedgerError.
    """
    of: dict[str, Week] = {}
    sessions: dict[str | None, OneSession] = {}
    query = (
        "SELECT session_id, max(event_id), max(occurred_at) FROM event WHERE playbook_id = ? AND "  # noqa: S608
        "position <= ?"
        f" AND {one_of(WINDOW_TYPES)} GROUP BY coalesce(session_id, event_id), session_id ORDER "
        "BY 3 DESC"
    )
    with ledger.asking() as sql:
        for session, window, time in sql.run(query, then.position).fetchall():
            sessions[session or window] = one = OneSession(session)
            of.setdefault(monday(time), Week(monday(time), [])).sessions.append(one)
        verdicts = verdicts_in(sql, then.position)
    standing = Standing(then)
    for verdict in verdicts:
        found = (
            sessions.get(verdict.session_id)
            if verdict.tag and standing.stands(verdict) is None
            else None
        )
        if found is not None:
            found.helpful += verdict.tag > 0
            found.harmful += verdict.tag < 0
    for event in ledger.events(
        types=(ev.REFLECTION_ANSWERED, ev.SESSION_OUTCOME), upto=then.position
    ):
        data, found = event.facts, sessions.get(event.session_id or event.target_id)
        if found is not None and event.type == ev.SESSION_OUTCOME:
            found.corrections, found.known = found.corrections + data.get("corrections", 0), True
        elif found is not None:
            found.tokens += spent_on(event.meta, str(data.get("model") or "")).tokens
    return list(_without_gaps(of))


def _without_gaps(of: dict[str, Week]) -> Iterator[Week]:
    last = ""
    for begins in sorted(filter(None, of)):
        day = date.fromisoformat(begins)
        while last and _MOST_GAP > day - (before := date.fromisoformat(last)) > _STEP:
            last = str(before + _STEP)
            yield Week(last, [])
        last = begins
        yield of[begins]
