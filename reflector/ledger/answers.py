"""Windows and answers: how far windows came, what answers took, and the tags that were read from them.

Invariant: each answer, each reflection and each tag is in one group. A reflection is in the group of the last answer
before its completion, and so are the tags behind it; a tag of none is in no group. An answer that was erased takes its
model and template from what else is known of the reflection.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.events.event import BULLET_TAGGED, REFLECTION_COMPLETED, identity
from reflector.events.registry import ANSWER_TYPES, COMPLETION_TYPES, STEP_TYPES, WINDOW_TYPES, window_step
from reflector.events.spent import Spent, spent_on
from reflector.ledger.reader import kept_of

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

#: A group: model, template and day.
Key = tuple[str, str, str]
_TAGS = "SELECT position, reflection_id, tag FROM tag WHERE playbook_id = ? AND position <= ? ORDER BY position"


class _Step(NamedTuple):
    position: int
    event_id: str
    reflection_id: str | None
    target_id: str | None
    session_id: str | None
    type: str
    recorded_at: str
    actor: str
    meta: str
    final: str | None
    model: str | None
    template: str | None


@dataclass(slots=True)
class Group:
    """Answers, and the tags that were read from them; `undecided` are neutral or could not be used.

    key  what the answers have in common
    """

    key: str = ""
    answers: int = 0
    reflections: int = 0
    spent: Spent = field(default_factory=Spent)
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
        for name in ("answers", "reflections", "spent", "helpful", "harmful", "undecided"):
            setattr(self, name, getattr(self, name) + getattr(more, name))

    def read(self, tag: int) -> None:
        """Count a tag."""
        name = ("undecided", "helpful", "harmful")[tag]
        setattr(self, name, getattr(self, name) + 1)


@dataclass(slots=True)
class Answers:
    """Windows by state, answers by group, and the tags of no group."""

    windows: int = 0
    sessions: int = 0
    states: dict[str, int] = field(default_factory=dict)
    stray: Group = field(default_factory=Group)
    groups: dict[Key, Group] = field(default_factory=lambda: defaultdict(Group))


def answers(sql: Statements, upto: int) -> Answers:
    """Return what the events up to a position say."""
    found = Answers()
    rare = f"playbook_id = ? AND type <> '{BULLET_TAGGED}' AND type IN ({{}}) AND position <= ? ORDER BY position"
    query = f"SELECT event_id, session_id FROM event WHERE {rare.format(_list(WINDOW_TYPES))}"  # noqa: S608
    opened = dict(sql.run(query, upto).fetchall())
    found.windows, found.sessions = len(opened), len({session or event_id for event_id, session in opened.items()})
    states = dict.fromkeys(opened, "pending")
    given: dict[object, list[_Step]] = defaultdict(list)
    groups: dict[str | None, tuple[int, Group]] = {}
    for step in _steps(sql, rare, upto):
        state = window_step(step.type, {"final": step.final not in (None, 0, "0", "false")})
        if state is not None and states.get(step.target_id or "", "completed") != "completed":
            states[step.target_id or ""] = state[0]
        if step.type in (*ANSWER_TYPES, *COMPLETION_TYPES):
            is_whole = step.reflection_id and step.target_id
            given[(step.reflection_id, step.target_id) if is_whole else step.event_id].append(step)
    found.states = dict(sorted(Counter(states.values()).items()))
    for of in given.values():
        for number, (step, key) in enumerate(zip(of, _keys(of), strict=True)):
            group = found.groups[key]
            if step.type not in COMPLETION_TYPES:
                group.answers += 1
                models = [step.model, *(one.model for one in reversed(of))]
                group.spent += spent_on(json.loads(step.meta), next(filter(None, models), ""), asked=False)
                continue
            group.reflections += 1
            if step.event_id == identity(REFLECTION_COMPLETED, step.reflection_id or ""):
                groups[step.reflection_id] = (step.position, found.groups[_keys(of[: number + 1])[-1]])
    for position, reflection_id, tag in sql.run(_TAGS, upto):
        after, group = groups.get(reflection_id, (position, found.stray))
        (group if after < position else found.stray).read(tag)
    return found


def _steps(sql: Statements, rare: str, upto: int) -> list[_Step]:
    fields = ", ".join(sql.text_at("data", name) for name in ("final", "model", "template_sha256"))
    query = "SELECT position, event_id, reflection_id, target_id, session_id, type, recorded_at, actor, meta"
    rows = sql.run(
        f"{query}, {fields}, data IS NULL FROM event WHERE {rare.format(_list(STEP_TYPES))}", upto
    ).fetchall()
    kept = kept_of(sql, [row[1] for row in rows if row[-1]])
    return [_Step(*row[:9], *(_of(kept.get(row[1]), row[9:12]) if row[-1] else row[9:12])) for row in rows]


def _of(facts: Any, _: Sequence[Any]) -> tuple[Any, ...]:
    return tuple((facts or {}).get(name) for name in ("final", "model", "template_sha256"))


def _list(types: Sequence[str]) -> str:
    return ", ".join(map(repr, types))


def _keys(given: Sequence[_Step]) -> list[Key]:
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
