"""Counts of windows and answers: the number of windows, the tokens and cost of answers, and the
tags read from them.

Invariant: each answer, each reflection and each tag is in one group. A reflection is in the group
of the last answer before its completion, and so are the tags after it. A tag without a reflection
is in the group `_STRAY`. The group depends only on earlier events, so a count can continue from an
earlier one. An erased answer is in the group of its backend.

`usage` caches these counts beside its own. `stats` and the report print them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.events.event import completion_id
from reflector.events.registry import ANSWER_TYPES, COMPLETION_TYPES, WINDOW_TYPES
from reflector.ledger.reader import AT_ONCE, events_where, of_types, rare_events_between, whose
from reflector.prices import spent_on

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.statements import Statements


class GroupKey(NamedTuple):
    """The common properties of a group's answers; the day is ISO 8601, in UTC."""

    model: str
    template: str
    day: str


#: The group of tags without a reflection.
_STRAY = GroupKey("", "", "")
_BETWEEN = "position > ? AND position <= ?"
_TAGS = f"FROM tag WHERE playbook_id = ? AND {_BETWEEN}"
_TAGS_BY_REFLECTION = (
    "SELECT reflection_id, tag, count(*), min(position), max(position)"
    f" {_TAGS} GROUP BY reflection_id, tag"
)
_TAGS_OF_REFLECTION = f"SELECT count(*) {_TAGS} AND reflection_id = ? AND tag = ?"
_WINDOWS = (
    "SELECT event_id, session_id FROM event"  # noqa: S608
    f" WHERE playbook_id = ? AND {of_types(WINDOW_TYPES)} AND {_BETWEEN}"
)
_SESSIONS = (
    "SELECT count(DISTINCT session_id) FROM event"  # noqa: S608
    f" WHERE playbook_id = ? AND session_id IN ? AND position <= ? AND {whose(WINDOW_TYPES)}"
)


class _Home(NamedTuple):
    """The group of a reflection's tags after the position of its completion.

    is_answered  whether an answer gave it its key
    """

    position: int
    key: GroupKey
    is_answered: bool = False


@dataclass(slots=True)
class Group:
    """Answers, their tokens and cost in dollars, and the tags that were read from them.

    key        the common properties of the answers, for a screen; "" if it is not shown
    unpriced   answers of a model without a known price
    neither    tags that are neutral or could not be used
    """

    key: str = ""
    answers: int = 0
    reflections: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    helpful: int = 0
    harmful: int = 0
    neither: int = 0

    @property
    def helpful_rate(self) -> float | None:
        """The share of helpful tags among the helpful and harmful ones; None without any."""
        decided = self.helpful + self.harmful
        return self.helpful / decided if decided else None

    def add(self, other: Group) -> None:
        """Add the counts of another group."""
        _, *counts = fields(self)
        for count in counts:
            setattr(self, count.name, getattr(self, count.name) + getattr(other, count.name))

    def add_answer(self, meta: Mapping[str, Any]) -> None:
        """Add an answer, from the meta of its event."""
        spent = spent_on(meta)
        self.answers += 1
        self.tokens += spent.tokens
        self.cost += spent.cost
        self.unpriced += spent.unpriced

    def read(self, tag: int, count: int) -> None:
        """Add tags: 1 is helpful, -1 harmful, 0 neither."""
        name = ("neither", "helpful", "harmful")[tag]
        setattr(self, name, getattr(self, name) + count)


@dataclass(slots=True)
class Answers:
    """The numbers of windows and of their sessions, and the answers by group."""

    windows: int = 0
    sessions: int = 0
    groups: dict[GroupKey, Group] = field(default_factory=lambda: defaultdict(Group))

    def dump(self) -> list[Any]:
        """Return the counts as JSON values, except the costs, which are decimals."""
        groups = [
            [*key, *astuple(group)[1:]]
            for key, group in sorted(self.groups.items())
            if group != Group()
        ]
        return [self.windows, self.sessions, groups]

    @classmethod
    def load(cls, state: Any) -> Answers:
        """Return the counts from a result of `dump`."""
        windows, sessions, groups = state
        answers = cls(windows, sessions)
        for row in groups:
            group = Group("", *row[3:])
            group.cost = Decimal(group.cost)  # JSON has it as text
            answers.groups[GroupKey(*row[:3])] = group
        return answers


def count_answers(sql: Statements, upto: int, after: int = 0, state: Any = (0, 0, ())) -> Answers:
    """Return the answers by the events up to a position.

    state  the dump of the answers up to the position `after`, from which the count continues
    """
    answers = Answers.load(state)
    for begin in range(after, upto, AT_ONCE):
        _count_page(sql, begin, min(begin + AT_ONCE, upto), answers)
    return answers


def _count_page(sql: Statements, after: int, upto: int, answers: Answers) -> None:
    """Count the events after one position and up to another, and add them to the answers up to the
    first position.
    """
    _count_windows(sql, after, upto, answers)
    types = (*ANSWER_TYPES, *COMPLETION_TYPES)
    steps = [step for step in rare_events_between(sql, types, after, upto) if not step.fault]
    tags = sql.rows(_TAGS_BY_REFLECTION, after, upto)
    homes = _homes(steps)
    if after:
        completions = {step.event_id for step in steps if step.type in COMPLETION_TYPES}
        completions |= {completion_id(reflection) for reflection, *_ in tags}
        answered = {completion for completion, home in homes.items() if home.is_answered}
        homes |= _homes(_earlier_steps(sql, completions - answered, upto))
    for step in steps:
        if step.type in COMPLETION_TYPES:
            answers.groups[homes[step.event_id].key].reflections += 1
            continue
        answers.groups[_key(step)].add_answer(step.meta)
    for reflection, tag, count, first, last in tags:
        home = homes.get(completion_id(reflection), _Home(last, _STRAY))
        stray = count if last <= home.position else 0
        if first <= home.position < last:
            values = (after, home.position, reflection, tag)
            (stray,) = sql.row(_TAGS_OF_REFLECTION, *values)
        answers.groups[_STRAY].read(tag, stray)
        answers.groups[home.key].read(tag, count - stray)


def take_out(sql: Statements, upto: int, covered: Collection[int], answers: Answers) -> None:
    """Subtract the tags at these positions from the answers up to a position, because retractions
    cover the tags.
    """
    query = "SELECT position, tag, reflection_id FROM tag WHERE playbook_id = ? AND position IN ?"
    tags = sql.rows(query, covered)
    completions = {completion_id(reflection) for _, _, reflection in tags}
    homes = _homes(_earlier_steps(sql, completions, upto))
    for position, tag, reflection in tags:
        home = homes.get(completion_id(reflection), _Home(position, _STRAY))
        key = home.key if home.position < position else _STRAY
        answers.groups[key].read(tag, -1)


def _earlier_steps(sql: Statements, completions: Collection[str], upto: int) -> list[Event]:
    """Return these completions and the answers about their windows, in order."""
    completed = events_where(sql, "event_id IN ? AND position <= ?", completions, upto)
    windows = {step.target_id for step in completed}
    where = f"{whose(ANSWER_TYPES)} AND target_id IN ? AND position <= ?"
    steps = [*completed, *events_where(sql, where, windows, upto)]
    return sorted((step for step in steps if not step.fault), key=lambda step: step.position)


def _asked(step: Event) -> tuple[str | None, str | None]:
    """Return the common keys of an answer and its completion: reflection and window."""
    return step.reflection_id, step.target_id


def _homes(steps: Iterable[Event]) -> dict[str, _Home]:
    """Return the home of each completion among answers and completions in order, by its id."""
    last_answers: dict[tuple[str | None, str | None], Event] = {}
    homes = {}
    for step in steps:
        if step.type in ANSWER_TYPES:
            last_answers[_asked(step)] = step
        else:
            answer = last_answers.get(_asked(step))
            homes[step.event_id] = _Home(step.position, _key(answer or step), bool(answer))
    return homes


def _count_windows(sql: Statements, after: int, upto: int, answers: Answers) -> None:
    rows = sql.rows(_WINDOWS, after, upto)
    sessions = {session for _, session in rows if session}
    known_sessions = 0
    if after:
        (known_sessions,) = sql.row(_SESSIONS, sessions, after)
    answers.windows += len(rows)
    answers.sessions += len(sessions) - known_sessions
    answers.sessions += sum(session is None for _, session in rows)


def _text(event: Event, key: str) -> str | None:
    text = event.fact(key)
    return text if isinstance(text, str) else None


def _key(event: Event) -> GroupKey:
    """Return the group of an answer, or of a completion without one."""
    return GroupKey(
        model=_text(event, "model") or event.actor,
        template=(_text(event, "template_sha256") or "none")[:12],
        day=event.recorded_at[:10],
    )
