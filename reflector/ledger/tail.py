"""The tail of a history: what the events between two positions say to the tallies.

Invariant: each part is read at most once, however many tallies ask for it, and is the same whether it was read from the
tables or taken from the events as they passed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.events.effects import CompletesReflection, GivesAnswer, MovesWindow, OpensWindow, Tells
from reflector.events.event import BULLET_TAGGED, HUMAN, REFLECTION_COMPLETED, SESSION_RECORDED, identity
from reflector.events.registry import (
    ANSWER_TYPES,
    COMPLETION_TYPES,
    EVENT_TYPES,
    STEP_TYPES,
    WINDOW_TYPES,
    effect_of,
    window_step,
)
from reflector.ledger.reader import kept_of
from reflector.ledger.rows import data_of, names_of
from reflector.ledger.windows import Told, one_of, told, told_of, whose

if TYPE_CHECKING:
    from reflector.ledger.rows import Projected
    from reflector.ledger.statements import Statements

#: A row of the table of tags, as `TAG_COLUMNS` has it.
TagRow = tuple[int, str, int, str | None, str | None, int]
TAG_COLUMNS = ("position", "name", "tag", "session_id", "reflection_id", "active")
_TAGS = f"SELECT {', '.join(TAG_COLUMNS)} FROM tag WHERE playbook_id = ? AND position > ? AND position <= ?"  # noqa: S608
_GIVEN = (*ANSWER_TYPES, *COMPLETION_TYPES)
_FINAL = tuple(name for name in STEP_TYPES if isinstance(step := EVENT_TYPES[name].effect, MovesWindow) and step.final)
_NOTHING: Mapping[str, Any] = {}


class Window(NamedTuple):
    """A window: the names that it cites, and how many record keys it brought."""

    position: int
    event_id: str
    session_id: str | None
    cited: Sequence[str]
    keys: int

    @property
    def session(self) -> str:
        """The session; one without an id is known by its window."""
        return self.event_id if self.session_id is None else self.session_id


class Step(NamedTuple):
    """An event that brings its target window to a state: an answer, a completion, a failure.

    model, template  of an answer or a completion, where it says them
    """

    position: int
    event_id: str
    reflection_id: str | None
    target_id: str | None
    session_id: str | None
    type: str
    recorded_at: str
    actor: str
    meta: str
    state: str
    model: str | None
    template: str | None

    @property
    def is_completion(self) -> bool:
        """Whether it is what completed its reflection: tags behind it are the reflection's."""
        return self.type in COMPLETION_TYPES

    @property
    def is_given(self) -> bool:
        """Whether it is an answer or a completion."""
        return self.type in _GIVEN

    @property
    def by_a_person(self) -> bool:
        """Whether a person judged the window."""
        return self.actor == HUMAN and self.is_completion

    @property
    def of(self) -> tuple[str, str]:
        """What its reflection is known by: one without an id or a window is by itself."""
        return (self.reflection_id, self.target_id) if self.reflection_id and self.target_id else ("", self.event_id)


class Tail:
    """The events behind `after`, up to `upto`. What no tally asks for is not read."""

    def __init__(self, sql: Statements, after: int, upto: int) -> None:
        self.sql = sql
        self.after = after
        self.upto = upto

    @classmethod
    def fed(cls, sql: Statements, after: int) -> Tail:
        """Return a tail that reads nothing of its own events: `take` them, and append the rows of tags to `tags`."""
        tail = cls(sql, after, after)
        tail.tags, tail.windows, tail.told, tail.steps = [], [], [], []
        return tail

    def take(self, event: Projected) -> None:
        """Take an event that is not a tag."""
        effect = effect_of(event.type)
        data = event.data if event.data is not None else _NOTHING
        if isinstance(effect, MovesWindow):
            model = template = None
            if isinstance(effect, GivesAnswer | CompletesReflection):
                model, template = _text(data.get("model")), _text(data.get("template_sha256"))
            position, event_id, type_, recorded_at, session_id, reflection_id, target_id, _, actor, meta = event
            state = effect.state_by(data)
            self.steps.append(
                Step(
                    *(position, event_id, reflection_id, target_id, session_id, type_, recorded_at),
                    *(actor, meta, state, model, template),
                )
            )
        elif isinstance(effect, OpensWindow):
            keys = _keys(data.get("window", _NOTHING).get("keys")) if event.type == SESSION_RECORDED else 0
            self.windows.append(Window(event.position, event.event_id, event.session_id, data.get("cited") or (), keys))
        elif isinstance(effect, Tells) and event.data is not None:
            self.told.append(told_of(event.position, event.session_id, event.target_id, event.data))

    @cached_property
    def tags(self) -> list[TagRow]:
        """The tags, in order."""
        rows: list[TagRow] = self.sql.run(f"{_TAGS} ORDER BY position", self.after, self.upto).fetchall()
        return rows

    @cached_property
    def windows(self) -> list[Window]:
        """The windows, in order."""
        return windows_where(
            self.sql, f"{one_of(WINDOW_TYPES)} AND position > ? AND position <= ?", self.after, self.upto
        )

    @cached_property
    def told(self) -> list[Told]:
        """What was told, in order."""
        return list(told(self.sql, self.after, self.upto))

    @cached_property
    def steps(self) -> list[Step]:
        """The steps of windows, in order."""
        return steps_where(self.sql, f"{one_of(STEP_TYPES)} AND position > ? AND position <= ?", self.after, self.upto)

    @cached_property
    def runs(self) -> list[tuple[str | None, str | None, list[TagRow]]]:
        """The tags, those together that follow each other and are of one session and one reflection."""
        return [(*of, list(rows)) for of, rows in groupby(self.tags, itemgetter(3, 4))]

    @cached_property
    def judged(self) -> dict[str, set[str]]:
        """The names that the tags of each session have."""
        found: dict[str, set[str]] = {}
        for session, _, rows in self.runs:
            if session is not None:
                names = {row[1] for row in rows}
                found[session] = found[session] | names if session in found else names
        return found

    @cached_property
    def going_on(self) -> set[str]:
        """The sessions that have events before, too."""
        if not self.after:
            return set()
        sessions = {window.session for window in self.windows}
        sessions |= self.judged.keys()
        sessions |= {one.session for one in self.told if one.session is not None}
        among, values = self.sql.among("session_id", sessions)
        query = f"SELECT DISTINCT session_id FROM event WHERE playbook_id = ? AND {among} AND position <= ?"  # noqa: S608
        return {row[0] for row in self.sql.run(query, values, self.after).fetchall()} if sessions else set()

    @cached_property
    def judged_before(self) -> dict[str, set[str]]:
        """The names that the tags of those sessions had before."""
        among, values = self.sql.among("event.session_id", self.going_on)
        query = (
            "SELECT DISTINCT event.session_id, tag.name FROM event"  # noqa: S608
            " JOIN tag ON tag.playbook_id = event.playbook_id AND tag.position = event.position"
            f" WHERE event.playbook_id = ? AND {among} AND event.position <= ? AND {whose((BULLET_TAGGED,))}"
        )
        found: dict[str, set[str]] = defaultdict(set)
        for session, name in self.sql.run(query, values, self.after).fetchall() if self.going_on else ():
            found[session].add(name)
        return found

    @cached_property
    def completions(self) -> dict[str | None, Step]:
        """The completion of each reflection that was completed, or has tags, where it has one."""
        found: dict[str | None, Step] = {one.reflection_id: one for one in self.steps if one.is_completion}
        missing = {reflection for _, reflection, _ in self.runs if reflection} - found.keys()
        if missing and self.after:
            among, values = self.sql.among("event_id", [identity(REFLECTION_COMPLETED, one) for one in missing])
            before = steps_where(self.sql, f"{among} AND position <= ?", values, self.after)
            found |= {one.reflection_id: one for one in before if one.is_completion}
        return found

    @cached_property
    def before(self) -> list[Step]:
        """The earlier steps of windows that steps of the tail have as their target, or the reflections of its tags."""
        targets = {one.target_id for one in (*self.steps, *self.completions.values()) if one.target_id}
        targets -= {window.event_id for window in self.windows}
        if not targets or not self.after:
            return []
        among, values = self.sql.among("target_id", targets)
        return steps_where(self.sql, f"{among} AND {whose(STEP_TYPES)} AND position <= ?", values, self.after)


def windows_where(sql: Statements, where: str, *values: object) -> list[Window]:
    """Return the windows of a condition, in order."""
    cited, keys = sql.text_at("data", "cited"), sql.text_at("data", "window", "keys")
    query = (
        f"SELECT position, event_id, session_id, type, data IS NULL, {cited}, {keys} FROM event"  # noqa: S608
        f" WHERE playbook_id = ? AND {where} ORDER BY position"
    )
    rows = sql.run(query, *values).fetchall()
    facts = _kept(sql, (row[1] for row in rows if row[4]))
    found = []
    for position, event_id, session_id, type_, is_erased, names, text in rows:
        if is_erased:
            names = facts[event_id].get("cited", ())
            text = facts[event_id].get("window", _NOTHING).get("keys") if type_ == SESSION_RECORDED else None
        else:
            names = names_of(position, type_, names)
        count = _keys(text) if type_ == SESSION_RECORDED else 0
        found.append(Window(position, event_id, session_id, names, count))
    return found


def steps_where(sql: Statements, where: str, *values: object) -> list[Step]:
    """Return the steps of a condition, in order."""
    given = (
        f"CASE WHEN {whose(_GIVEN)} THEN {sql.text_at('data', field)} END" for field in ("model", "template_sha256")
    )
    query = (
        "SELECT position, event_id, reflection_id, target_id, session_id, type, recorded_at, actor, meta,"  # noqa: S608
        f" CASE WHEN {whose(_FINAL)} THEN data END, {', '.join(given)} FROM event"
        f" WHERE playbook_id = ? AND {where} ORDER BY position"
    )
    rows = sql.run(query, *values).fetchall()
    facts = _kept(sql, (row[1] for row in rows if row[5] in _FINAL and row[9] is None))
    found = []
    for row in rows:
        data = data_of(row[0], row[5], row[9]) if row[9] else facts.get(row[1], _NOTHING)
        if (step := window_step(row[5], data)) is not None:
            found.append(Step._make((*row[:9], step[0], _text(row[10]), _text(row[11]))))
    return found


def _kept(sql: Statements, erased: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
    return {one: facts or _NOTHING for one, facts in kept_of(sql, list(erased)).items()}


def _keys(text: object) -> int:
    """Return how many record keys a text holds: eight bytes each, in base64."""
    return len(text.rstrip("=")) * 6 // 64 if isinstance(text, str) else 0


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
