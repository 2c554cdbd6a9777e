"""Windows and answers: how many windows there are, what answers took, and the tags that were read from them.

Invariant: each answer, each reflection and each tag is in one group. A reflection is in the group of the last answer
before its completion, and so are the tags behind it; a tag of none is in no group. An answer that was erased takes its
model and template from what else is known of the reflection. A count goes on from an earlier one: the reflections that
have events since are counted out as they were and in as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from reflector.events.event import REFLECTION_COMPLETED, identity
from reflector.events.registry import ANSWER_TYPES, COMPLETION_TYPES, STEP_TYPES, WINDOW_TYPES
from reflector.ledger.reader import between, events_where, one_of, whose
from reflector.prices import spent_on

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.statements import Statements

#: A group: model, template and day.
Key = tuple[str, str, str]
_BETWEEN = "position > ? AND position <= ?"


@dataclass(slots=True)
class Group:
    """Answers, what they took, and the tags that were read from them; `undecided` are neutral or could not be used.

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
    """Windows, their sessions, answers by group, and tags of no group."""

    windows: int = 0
    sessions: int = 0
    stray: Group = field(default_factory=Group)
    groups: dict[Key, Group] = field(default_factory=lambda: defaultdict(Group))

    def dump(self) -> list[Any]:
        """Return the counts as lists, as JSON holds them, but for costs."""
        groups = [[*key, *astuple(group)[1:]] for key, group in sorted(self.groups.items()) if group != Group()]
        return [self.windows, self.sessions, [*astuple(self.stray)[1:]], groups]

    @classmethod
    def load(cls, state: Any) -> Answers:
        """Return the counts that `dump` gave."""
        windows, sessions, stray, groups = state
        found = cls(windows, sessions, _loaded(stray))
        found.groups.update({(model, template, day): _loaded(counts) for model, template, day, *counts in groups})
        return found


def _loaded(counts: Sequence[Any]) -> Group:
    answers, reflections, tokens, cost, *more = counts
    return Group("", answers, reflections, tokens, Decimal(cost), *more)


def answers(sql: Statements, upto: int, since: tuple[int, Answers] | None = None) -> Answers:
    """Return what the events up to a position say; `since` is an earlier position, and what the events said there."""
    after, known = since or (0, Answers())
    found = Answers.load(known.dump())
    _count_windows(sql, after, upto, found)
    steps = [step for step in between(sql, STEP_TYPES, after, upto) if not step.fault]
    tags = sql.run(
        "SELECT reflection_id, tag, count(*), min(position), max(position) FROM tag"  # noqa: S608
        f" WHERE playbook_id = ? AND {_BETWEEN} GROUP BY reflection_id, tag",
        *(after, upto),
    ).fetchall()
    ids = {identity(REFLECTION_COMPLETED, row[0]): row[0] for row in tags if row[0] is not None}
    targets = {step.target_id for step in steps} | _targets(sql, ids, after)
    if after:  # those that were not looked at as a whole
        among, values = sql.among("target_id", {target for target in targets if target})
        whole = events_where(sql, f"{whose(STEP_TYPES)} AND {among} AND position <= ?", values, upto)
        by_position = {step.position: step for step in (*steps, *whole) if not step.fault}
        steps = [step for _, step in sorted(by_position.items())]
    reflections = _by_reflection(steps)
    for given in reflections:
        _take(found, [step for step in given if step.position <= after], -1)
        _take(found, given, 1)
    homes = _homes(reflections, ids)
    for reflection, tag, count, first, last in tags:
        behind, home = homes.get(reflection, (last, None))
        stray = count if last <= behind else 0
        if first <= behind < last:
            query = f"SELECT count(*) FROM tag WHERE playbook_id = ? AND {_BETWEEN} AND reflection_id = ? AND tag = ?"  # noqa: S608
            (stray,) = sql.run(query, after, behind, reflection, tag).fetchone()
        found.stray.read(tag, stray)
        if home is not None and stray < count:
            found.groups[home].read(tag, count - stray)
    return found


def take_out(sql: Statements, upto: int, covered: Collection[int], found: Answers) -> None:
    """Count the tags at these positions out of what is counted up to a position: those that retractions cover."""
    among, values = sql.among("position", covered)
    query = f"SELECT position, tag, reflection_id FROM tag WHERE playbook_id = ? AND {among}"  # noqa: S608
    tags = sql.run(query, values).fetchall()
    ids = {identity(REFLECTION_COMPLETED, row[2]): row[2] for row in tags if row[2] is not None}
    among, values = sql.among("target_id", {target for target in _targets(sql, ids, upto) if target})
    steps = events_where(sql, f"{whose(STEP_TYPES)} AND {among} AND position <= ? ORDER BY position", values, upto)
    homes = _homes(_by_reflection(step for step in steps if not step.fault), ids)
    for position, tag, reflection in tags:
        behind, home = homes.get(reflection, (position, None))
        (found.stray if home is None or position <= behind else found.groups[home]).read(tag, -1)


def _by_reflection(steps: Iterable[Event]) -> Collection[list[Event]]:
    """Return the answers and the completion of each reflection."""
    of: dict[object, list[Event]] = defaultdict(list)
    for step in steps:
        if step.type in (*ANSWER_TYPES, *COMPLETION_TYPES):
            is_whole = step.reflection_id and step.target_id
            of[(step.reflection_id, step.target_id) if is_whole else step.event_id].append(step)
    return of.values()


def _homes(reflections: Iterable[list[Event]], ids: Mapping[str, str]) -> dict[str, tuple[int, Key]]:
    """Return the position of each completion and its group, by the reflection; `ids` has these by the completion's."""
    return {
        ids[step.event_id]: (step.position, _keys(given[: number + 1])[-1])
        for given in reflections
        for number, step in enumerate(given)
        if step.type in COMPLETION_TYPES and step.event_id in ids
    }


def _count_windows(sql: Statements, after: int, upto: int, found: Answers) -> None:
    query = f"SELECT event_id, session_id FROM event WHERE playbook_id = ? AND {one_of(WINDOW_TYPES)} AND {_BETWEEN}"  # noqa: S608
    rows = sql.run(query, after, upto).fetchall()
    sessions = {session for _, session in rows if session}
    among, values = sql.among("session_id", sessions)
    query = f"SELECT count(DISTINCT session_id) FROM event WHERE playbook_id = ? AND {among} AND position <= ?"  # noqa: S608
    (again,) = sql.run(f"{query} AND {whose(WINDOW_TYPES)}", values, after).fetchone() if after else (0,)
    found.windows += len(rows)
    found.sessions += len(sessions) - again + sum(session is None for _, session in rows)


def _take(found: Answers, given: Sequence[Event], times: int) -> None:
    """Count the answers and the completion of one reflection, or count them out again."""
    for step, key in zip(given, _keys(given), strict=True):
        group = found.groups[key]
        if step.type in COMPLETION_TYPES:
            group.reflections += times
            continue
        models = (_said(one, "model") for one in (step, *reversed(given)))
        took = spent_on(step.meta, next(filter(None, models), ""))
        group.answers += times
        group.tokens += times * took.tokens
        group.cost += times * took.cost
        group.unpriced += times * took.unpriced


def _targets(sql: Statements, completions: Collection[str], upto: int) -> set[str | None]:
    """Return the windows of the completions up to a position that are among these events."""
    if not upto:
        return set()
    among, ids = sql.among("event_id", completions)
    query = f"SELECT target_id FROM event WHERE playbook_id = ? AND {among} AND position <= ?"  # noqa: S608
    return {row[0] for row in sql.run(query, ids, upto).fetchall()}


def _said(event: Event, what: str) -> str | None:
    said = (event.data or {}).get(what)
    return said if isinstance(said, str) else None


def _keys(given: Sequence[Event]) -> list[Key]:
    """Return the group of each answer and of the completion of one reflection, in order."""
    model = template = None
    for one in given:
        model, template = _said(one, "model") or model, _said(one, "template_sha256") or template
    found: list[Key] = []
    for one in given:
        if found and one.type in COMPLETION_TYPES:
            found.append(found[-1])
        else:
            of_template = _said(one, "template_sha256") or template or "none"
            found.append((_said(one, "model") or model or one.actor, of_template[:12], one.recorded_at[:10]))
    return found
