"""Windows and answers: how far windows came, what answers took, and the tags that were read from them.

Invariant: each answer, each reflection and each tag is in one group. A reflection is in the group of the last answer
before its completion, and so are the tags behind it; a tag of none is in no group. An answer that was erased takes its
model and template from what else is known of the reflection.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from reflector.events.registry import WINDOW_TYPES
from reflector.ledger.reader import Reader
from reflector.ledger.tallies import Tally, texts, whole
from reflector.ledger.windows import whose

if TYPE_CHECKING:
    from decimal import Decimal

    from reflector.ledger.tail import Step, TagRow, Tail

#: A group: model, template and day.
Key = tuple[str, str, str]
_USD = "usd"
#: What meta says where an answer took anything.
_TOKENS, _COST = '_tokens"', '"cost_usd"'


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
        self.windows, self.sessions = whole([state["windows"], state["sessions"]])
        self.states, self.stray = (Counter(whole({**state[name]})) for name in ("states", "stray"))
        self.people = set(texts(state["people"]))
        for *key, counts in state["groups"]:
            model, template, day = texts(key)
            self.groups[model, template, day].update(whole({**counts}))

    def count(self, tail: Tail) -> None:
        self._count_windows(tail)
        self._count_answers(tail)

    def _count_windows(self, tail: Tail) -> None:
        sql, after = tail.sql, tail.after
        self.windows += len(tail.windows)
        sessions = {window.session for window in tail.windows}
        self.sessions += len(sessions)
        if known := sessions & tail.going_on:
            among, values = sql.among("session_id", known)
            query = f"SELECT count(DISTINCT session_id) FROM event WHERE playbook_id = ? AND {among} AND position <= ?"  # noqa: S608
            self.sessions -= sql.run(f"{query} AND {whose(WINDOW_TYPES)}", values, after).fetchone()[0]
        states = {window.event_id: "pending" for window in tail.windows}
        earlier: dict[str, str] = {}
        if targets := {one.target_id for one in tail.steps} - states.keys() if after else ():
            among, values = sql.among("event_id", targets)
            query = f"SELECT event_id FROM event WHERE playbook_id = ? AND {among} AND position <= ?"  # noqa: S608
            rows = sql.run(f"{query} AND {whose(WINDOW_TYPES)}", values, after).fetchall()
            earlier = _moved({row[0]: "pending" for row in rows}, tail.before)
        self.states.subtract(earlier.values())
        self.states.update(_moved(states | earlier, tail.steps).values())

    def _count_answers(self, tail: Tail) -> None:
        of: dict[tuple[str, str], list[Step]] = defaultdict(list)
        for one in tail.before:
            if one.is_given:
                of[one.of].append(one)
        earlier = {reflection: len(given) for reflection, given in of.items()}
        since = set()
        for one in tail.steps:
            if one.is_given:
                since.add(one.of)
                of[one.of].append(one)
                if one.by_a_person and one.session_id:
                    self.people.add(one.session_id)
        ends: dict[tuple[str, str], tuple[int, Key]] = {}
        for reflection in since:
            given = of[reflection]
            if reflection in earlier:
                self._take(given[: earlier[reflection]], -1)
            ends[reflection] = (given[-1].position, self._take(given, 1)[-1])
        never = (tail.upto, None)
        for _, id, rows in tail.runs:
            behind, home = never
            if (done := tail.completions.get(id)) is not None:
                behind, (end, home) = done.position, ends.get(done.of, (0, None))
                if end != behind:  # answers came after it, or it is not of this tail
                    home = _keys([one for one in of[done.of] if one.position <= behind])[-1]
            stray = next((number for number, row in enumerate(rows) if row[0] > behind), len(rows))
            if stray:
                self._read(self.stray, rows[:stray])
            if home is not None and stray < len(rows):
                self._read(self.groups[home], rows[stray:])

    def _read(self, counts: Counter[str], rows: Sequence[TagRow]) -> None:
        """Count tags that were read from answers of a group."""
        tags = [row[2] for row in rows]
        for name, count in (("helpful", tags.count(1)), ("harmful", tags.count(-1)), ("undecided", tags.count(0))):
            if count:
                counts[name] += count

    def _take(self, given: Sequence[Step], times: int) -> list[Key]:
        """Count the answers and the completion of one reflection; return the group of each."""
        keys = _keys(given)
        for one, key in zip(given, keys, strict=True):
            counts = self.groups[key]
            if one.is_completion:
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
        return keys


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


def _moved(states: dict[str, str], steps: Iterable[Step]) -> dict[str, str]:
    """Return the states of these windows after some steps. What was completed stays so."""
    for one in steps:
        if states.get(one.target_id or "", "completed") != "completed":
            states[one.target_id or ""] = one.state
    return states


def _keys(given: Sequence[Step]) -> list[Key]:
    """Return the group of each answer and of the completion of one reflection, in order."""
    model = template = None
    for one in given:
        model, template = one.model or model, one.template or template
    found: list[Key] = []
    for one in given:
        if found and one.is_completion:
            found.append(found[-1])
        else:
            of_template = one.template or template or "none"
            found.append((one.model or model or one.actor, of_template[:12], one.recorded_at[:10]))
    return found
