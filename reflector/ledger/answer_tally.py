"""Windows and answers: how far windows came, what answers took, and the tags that were read from them.

Invariant: each answer, each reflection and each tag is in one group. A reflection is in the group of the last answer
before its completion, and so are the tags behind it; a tag of none is in no group. An answer that was erased takes its
model and template from what else is known of the reflection.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from reflector.events.effects import MovesWindow
from reflector.events.event import HUMAN, REFLECTION_COMPLETED, identity
from reflector.events.registry import (
    ANSWER_TYPES,
    COMPLETION_TYPES,
    EVENT_TYPES,
    STEP_TYPES,
    WINDOW_TYPES,
    window_step,
)
from reflector.ledger.reader import Reader, kept_of
from reflector.ledger.statements import Statements
from reflector.ledger.tallies import Tally
from reflector.ledger.windows import one_of, whose

if TYPE_CHECKING:
    from decimal import Decimal

    from reflector.ledger.statements import Statements

#: A group: model, template and day.
Key = tuple[str, str, str]
_GIVEN = (*ANSWER_TYPES, *COMPLETION_TYPES)
_FINAL = tuple(name for name in STEP_TYPES if isinstance(step := EVENT_TYPES[name].effect, MovesWindow) and step.final)
_USD = "usd"
#: What meta says where an answer took anything.
_TOKENS, _COST = '_tokens"', '"cost_usd"'


class _Given(NamedTuple):
    """An answer or a completion."""

    position: int
    event_id: str
    reflection_id: str | None
    target_id: str | None
    session_id: str | None
    type: str
    recorded_at: str
    actor: str
    meta: str
    model: str | None
    template: str | None

    @property
    def is_completion(self) -> bool:
        """Whether it is what completed its reflection: tags behind it are the reflection's."""
        return self.type in COMPLETION_TYPES and self.event_id == identity(self.type, self.reflection_id or "")

    @property
    def by_a_person(self) -> bool:
        """Whether a person judged the window."""
        return self.actor == HUMAN and self.type in COMPLETION_TYPES

    @property
    def of(self) -> tuple[str, str]:
        """What its reflection is known by: one without an id or a window is by itself."""
        return (self.reflection_id, self.target_id) if self.reflection_id and self.target_id else ("", self.event_id)


class AnswerTally(Tally):
    """Counts of windows by state, of answers by group, and of tags of no group; sessions that a person judged.

    groups  counts by key: answers, reflections, tokens, unpriced, helpful, harmful, undecided, and what they cost, each
            power of ten by itself
    """

    name: ClassVar[str] = "answers"

    def __init__(self) -> None:
        super().__init__()
        self.windows = self.sessions = 0
        self.states: Counter[str] = Counter()
        self.people: set[str] = set()
        self.stray: Counter[str] = Counter()
        self.groups: dict[Key, Counter[str]] = defaultdict(Counter)

    def by_state(self) -> dict[str, int]:
        """Return how many windows are in each state, in the order of their names."""
        return dict(sorted(_counted(self.states).items()))

    def state(self) -> Any:
        groups = {key: _counted(counts) for key, counts in self.groups.items()}
        return {
            "groups": sorted([*key, counts] for key, counts in groups.items() if counts),
            "people": sorted(self.people),
            "sessions": self.sessions,
            "states": _counted(self.states),
            "stray": _counted(self.stray),
            "windows": self.windows,
        }

    def load(self, state: Any) -> None:
        self.windows, self.sessions = state["windows"], state["sessions"]
        self.states, self.stray = Counter(state["states"]), Counter(state["stray"])
        self.people = set(state["people"])
        for model, template, day, counts in state["groups"]:
            self.groups[model, template, day].update(counts)

    def count(self, sql: Statements, after: int, upto: int) -> None:
        self._count_windows(sql, after, upto)
        self._count_answers(sql, after, upto)

    def _count_windows(self, sql: Statements, after: int, upto: int) -> None:
        query = "SELECT event_id, session_id FROM event WHERE playbook_id = ? AND position > ? AND position <= ?"
        opened = dict(sql.run(f"{query} AND {one_of(WINDOW_TYPES)}", after, upto).fetchall())
        self.windows += len(opened)
        sessions = {session for session in opened.values() if session is not None}
        self.sessions += len(sessions) + sum(session is None for session in opened.values())
        if sessions and after:
            among, values = sql.among("session_id", sessions)
            query = f"SELECT count(DISTINCT session_id) FROM event WHERE playbook_id = ? AND {among} AND position <= ?"  # noqa: S608
            self.sessions -= sql.run(f"{query} AND {whose(WINDOW_TYPES)}", values, after).fetchone()[0]
        steps = _steps(sql, f"{one_of(STEP_TYPES)} AND position > ? AND position <= ?", after, upto)
        states = dict.fromkeys(opened, "pending")
        self.states["pending"] += len(opened)
        states |= _states(sql, {target for target, _ in steps} - opened.keys(), after)
        for target, state in steps:
            if states.get(target, "completed") != "completed":
                self.states[states[target]] -= 1
                self.states[state] += 1
                states[target] = state

    def _count_answers(self, sql: Statements, after: int, upto: int) -> None:
        given = _given(sql, f"{one_of(_GIVEN)} AND position > ? AND position <= ?", after, upto)
        done = {one.reflection_id: one for one in given if one.is_completion}
        self.people.update(one.session_id for one in given if one.by_a_person and one.session_id)
        query = "SELECT position, reflection_id, tag FROM tag WHERE playbook_id = ? AND position > ? AND position <= ?"
        tags = sql.run(query, after, upto).fetchall()
        earlier: list[_Given] = []
        if after:
            missing = {reflection for _, reflection, _ in tags if reflection} - done.keys()
            among, values = sql.among("event_id", [identity(REFLECTION_COMPLETED, one) for one in missing])
            found = _given(sql, f"{among} AND position <= ?", values, after) if missing else []
            done |= {one.reflection_id: one for one in found if one.is_completion}
            among, values = sql.among("target_id", {one.target_id for one in (*given, *found) if one.target_id})
            earlier = _given(sql, f"{among} AND {whose(_GIVEN)} AND position <= ?", values, after)
        of: dict[tuple[str, str], list[_Given]] = defaultdict(list)
        for one in (*earlier, *given):
            of[one.of].append(one)
        for reflection in {one.of for one in given}:
            if earlier:
                self._take([one for one in of[reflection] if one.position <= after], -1)
            self._take(of[reflection], 1)
        homes = {
            reflection: (last.position, _keys([one for one in of[last.of] if one.position <= last.position])[-1])
            for reflection, last in done.items()
        }
        never = (upto, ("", "", ""))
        read = Counter((id if position > homes.get(id, never)[0] else None, tag) for position, id, tag in tags)
        for (id, tag), count in read.items():
            counts = self.groups[homes[id][1]] if id else self.stray
            counts["helpful" if tag > 0 else "harmful" if tag < 0 else "undecided"] += count

    def _take(self, given: Sequence[_Given], times: int) -> None:
        """Count the answers and the completion of one reflection."""
        for one, key in zip(given, _keys(given), strict=True):
            counts = self.groups[key]
            if one.type in COMPLETION_TYPES:
                counts["reflections"] += times
                continue
            counts["answers"] += times
            if _TOKENS in one.meta or _COST in one.meta:  # loading decimals takes longer than the rest
                from reflector.events.spent import spent_on

                models = [one.model, *(other.model for other in reversed(given))]
                took = spent_on(json.loads(one.meta), next(filter(None, models), ""), asked=False)
                counts["tokens"] += times * took.tokens
                counts["unpriced"] += times * took.unpriced
                if took.cost:
                    _, digits, exponent = took.cost.as_tuple()
                    counts[f"{_USD}{exponent}"] += times * int("".join(map(str, digits)))


def answers(ledger: Reader, upto: int | None = None) -> AnswerTally:
    """Return the tally as of a position; None for now. Raises LedgerError."""
    last = ledger.head().position if upto is None else upto
    with ledger.asking() as sql:
        return AnswerTally.at(sql, last)


def cost_of(counts: Mapping[str, int]) -> Decimal:
    """Return what the answers of a group cost, in USD."""
    from decimal import Decimal

    units = ((name.removeprefix(_USD), count) for name, count in counts.items() if name.startswith(_USD))
    return sum((Decimal(f"{count}E{exponent}") for exponent, count in units), Decimal(0))


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _keys(given: Sequence[_Given]) -> list[Key]:
    """Return the group of each answer and of the completion of one reflection, in order."""
    model = template = None
    for one in given:
        model, template = one.model or model, one.template or template
    found: list[Key] = []
    for one in given:
        if found and one.type in COMPLETION_TYPES:
            found.append(found[-1])
        else:
            of_template = one.template or template or "none"
            found.append((one.model or model or one.actor, of_template[:12], one.recorded_at[:10]))
    return found


def _given(sql: Statements, where: str, *values: object) -> list[_Given]:
    model, template = sql.text_at("data", "model"), sql.text_at("data", "template_sha256")
    query = (
        "SELECT position, event_id, reflection_id, target_id, session_id, type, recorded_at, actor, meta,"  # noqa: S608
        f" {model}, {template} FROM event WHERE playbook_id = ? AND {where} ORDER BY position"
    )
    return [_Given(*row) for row in sql.run(query, *values).fetchall()]


def _steps(sql: Statements, where: str, *values: object) -> list[tuple[str, str]]:
    """Return (target, the state that it comes to) of the events of a condition, in order."""
    data = f"CASE WHEN {whose(_FINAL)} THEN data END"
    query = f"SELECT event_id, target_id, type, {data} FROM event WHERE playbook_id = ? AND {where} ORDER BY position"  # noqa: S608
    rows = sql.run(query, *values).fetchall()
    erased = [row[0] for row in rows if row[2] in _FINAL and row[3] is None]
    kept = kept_of(sql, erased) if erased else {}
    found = []
    for event_id, target, type_, text in rows:
        step = window_step(type_, json.loads(text) if text else kept.get(event_id) or {})
        if step is not None and target is not None:
            found.append((target, step[0]))
    return found


def _states(sql: Statements, windows: Collection[str], upto: int) -> dict[str, str]:
    """Return the state of those of these events that are windows, at a position."""
    if not windows or not upto:
        return {}
    among, values = sql.among("event_id", windows)
    query = f"SELECT event_id FROM event WHERE playbook_id = ? AND {among} AND position <= ? AND {whose(WINDOW_TYPES)}"  # noqa: S608
    states = {row[0]: "pending" for row in sql.run(query, values, upto).fetchall()}
    among, values = sql.among("target_id", windows)
    for target, state in _steps(sql, f"{among} AND position <= ? AND {whose(STEP_TYPES)}", values, upto):
        if states.get(target, "completed") != "completed":
            states[target] = state
    return states
