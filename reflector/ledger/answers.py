"""Windows and answers: how many windows there are, what answers took, and the tags that were read
from them.

Invariant: each answer, each reflection and each tag is in one group. A reflection is in the group
of the last answer before its completion, and so are the tags behind it; a tag of none is in no
group. Which group something is in follows from what came before it, so a count goes on from an
earlier one. An answer that was erased is in its backend's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass, field, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from reflector.events.event import REFLECTION_COMPLETED, identity
from reflector.events.registry import ANSWER_TYPES, COMPLETION_TYPES, WINDOW_TYPES
from reflector.ledger.reader import AT_ONCE, between, events_where, of_types, whose
from reflector.prices import spent_on

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.statements import Statements

#: A group: model, template and day.
Key = tuple[str, str, str]
#: Where tags of no reflection are.
_STRAY: Final = ("", "", "")
_BETWEEN = "position > ? AND position <= ?"
_TAGS = f"FROM tag WHERE playbook_id = ? AND {_BETWEEN}"


@dataclass(slots=True)
class Group:
    """Answers, what they took, and the tags that were read from them; `undecided` are neutral or
    could not be used.

    key  what the answers have in common
    """

    key: str = ""
    answers: int = 0
    reflections: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    helpful: int = 0
    harmful: int = 0
    undecided: int = 0

    @property
    def helpful_rate(self) -> float | None:
        """Helpful ones of those that are helpful or harmful; None without any."""
        decided = self.helpful + self.harmful
        return self.helpful / decided if decided else None

    def add(self, more: Group) -> None:
        """Count what another group counts."""
        for one in fields(self)[1:]:
            setattr(self, one.name, getattr(self, one.name) + getattr(more, one.name))

    def read(self, tag: int, count: int) -> None:
        """Count tags."""
        name = ("undecided", "helpful", "harmful")[tag]
        setattr(self, name, getattr(self, name) + count)


@dataclass(slots=True)
class Answers:
    """Windows, their sessions, and answers by group."""

    windows: int = 0
    sessions: int = 0
    groups: dict[Key, Group] = field(default_factory=lambda: defaultdict(Group))

    def dump(self) -> list[Any]:
        """Return the counts as lists, as JSON holds them, but for costs."""
        groups = [
            [*key, *astuple(group)[1:]]
            for key, group in sorted(self.groups.items())
            if group != Group()
        ]
        return [self.windows, self.sessions, groups]

    @classmethod
    def load(cls, state: Any) -> Answers:
        """Return the counts that `dump` gave."""
        found = cls(*state[:2])
        for model, template, day, answers, reflections, tokens, cost, *more in state[2]:
            found.groups[model, template, day] = Group(
                "", answers, reflections, tokens, Decimal(cost), *more
            )
        return found


def answers(sql: Statements, upto: int, since: tuple[int, Answers] | None = None) -> Answers:
    """Return what the events up to a position say; `since` is an earlier position, and what the
    events said there.
    """
    after, known = since or (0, Answers())
    found = Answers.load(known.dump())
    for begin in range(after, upto, AT_ONCE):
        _count(sql, begin, min(begin + AT_ONCE, upto), found)
    return found


def _count(sql: Statements, after: int, upto: int, found: Answers) -> None:
    """Count what the events behind one position and up to another say besides."""
    _count_windows(sql, after, upto, found)
    steps = [
        step
        for step in between(sql, (*ANSWER_TYPES, *COMPLETION_TYPES), after, upto)
        if not step.fault
    ]
    tags = sql.run(
        (
            f"SELECT reflection_id, tag, count(*), min(position), max(position) {_TAGS} GROUP BY "
            "reflection_id, tag"
        ),
        *(after, upto),
    ).fetchall()
    homes = _homes(steps)
    if after:
        completed = {step.event_id for step in steps if step.type in COMPLETION_TYPES}
        completed |= {_completion(row[0]) for row in tags}
        homes |= _homes(_behind(sql, completed - _answered(steps), upto))
    for step in steps:
        if step.type in COMPLETION_TYPES:
            found.groups[homes[step.event_id][1]].reflections += 1
            continue
        group, took = found.groups[_key(step)], spent_on(step.meta, _said(step, "model") or "")
        group.answers += 1
        group.tokens += took.tokens
        group.cost += took.cost
        group.unpriced += took.unpriced
    for reflection, tag, count, first, last in tags:
        behind, home = homes.get(_completion(reflection), (last, _STRAY))
        stray = count if last <= behind else 0
        if first <= behind < last:
            query = f"SELECT count(*) {_TAGS} AND reflection_id = ? AND tag = ?"
            (stray,) = sql.run(query, after, behind, reflection, tag).fetchone()
        found.groups[_STRAY].read(tag, stray)
        found.groups[home].read(tag, count - stray)


def take_out(sql: Statements, upto: int, covered: Collection[int], found: Answers) -> None:
    """Count the tags at these positions out of what is counted up to a position: those that
    retractions cover.
    """
    query = "SELECT position, tag, reflection_id FROM tag WHERE playbook_id = ? AND position IN ?"
    tags = sql.run(query, covered).fetchall()
    homes = _homes(_behind(sql, {_completion(row[2]) for row in tags}, upto))
    for position, tag, reflection in tags:
        behind, home = homes.get(_completion(reflection), (position, _STRAY))
        found.groups[home if behind < position else _STRAY].read(tag, -1)


def _completion(reflection_id: str | None) -> str:
    return identity(REFLECTION_COMPLETED, reflection_id or "")


def _behind(sql: Statements, completions: Collection[str], upto: int) -> list[Event]:
    """Return these completions and the answers about their windows, in order."""
    completed = events_where(sql, "event_id IN ? AND position <= ?", completions, upto)
    where = f"{whose(ANSWER_TYPES)} AND target_id IN ? AND position <= ?"
    answered = events_where(sql, where, {one.target_id for one in completed}, upto)
    return sorted(
        (one for one in (*answered, *completed) if not one.fault), key=lambda one: one.position
    )


def _answered(steps: Iterable[Event]) -> set[str]:
    """Return the completions among steps in order whose answer is among them as well."""
    found: set[str] = set()
    answered: set[tuple[str | None, str | None]] = set()
    for step in steps:
        of = step.reflection_id, step.target_id
        if step.type in ANSWER_TYPES:
            answered.add(of)
        elif of in answered:
            found.add(step.event_id)
    return found


def _homes(steps: Iterable[Event]) -> dict[str, tuple[int, Key]]:
    """Return the position and the group of each completion among answers and completions in
    order, by its id.
    """
    last: dict[tuple[str | None, str | None], Event] = {}
    found = {}
    for step in steps:
        if step.type in COMPLETION_TYPES:
            found[step.event_id] = (
                step.position,
                _key(last.get((step.reflection_id, step.target_id), step)),
            )
        else:
            last[step.reflection_id, step.target_id] = step
    return found


def _count_windows(sql: Statements, after: int, upto: int, found: Answers) -> None:
    query = (
        "SELECT event_id, session_id FROM event WHERE playbook_id = ? AND "  # noqa: S608
        f"{of_types(WINDOW_TYPES)} AND {_BETWEEN}"
    )
    rows = sql.run(query, after, upto).fetchall()
    sessions = {session for _, session in rows if session}
    query = (
        "SELECT count(DISTINCT session_id) FROM event WHERE playbook_id = ? AND session_id IN "
        "? AND position <= ?"
    )
    (again,) = (
        sql.run((f"{query} AND {whose(WINDOW_TYPES)}"), sessions, after).fetchone()
        if after
        else (0,)
    )
    found.windows += len(rows)
    found.sessions += len(sessions) - again + sum(session is None for _, session in rows)


def _said(event: Event, what: str) -> str | None:
    said = (event.data or {}).get(what)
    return said if isinstance(said, str) else None


def _key(event: Event) -> Key:
    """Return the group of an answer, or of a completion without one."""
    return (
        _said(event, "model") or event.actor,
        (_said(event, "template_sha256") or "none")[:12],
        event.recorded_at[:10],
    )
