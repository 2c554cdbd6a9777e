"""The playbook as it would be under another policy or without some evidence.

Invariant: nothing is written. The result equals the fold over the same events without the tags that are left out,
under the chosen policy; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reflector.events.event import BULLET_TAGGED, REFLECTION_ANSWERED, REFLECTION_COMPLETED
from reflector.reflection.rules.weighing import SIDES, shipped

if TYPE_CHECKING:
    from reflector.ledger.as_of import Past
    from reflector.ledger.rows import BulletRow
    from reflector.ledger.store import Ledger
    from reflector.playbook.condition import Condition
    from reflector.playbook.counting import Counting


@dataclass(frozen=True, slots=True)
class Replayed:
    """A bullet as it is and as it would be; `pruned` says that it would be removed."""

    row: BulletRow
    helpful: int
    harmful: int
    pruned: bool

    @property
    def differs(self) -> bool:
        """Whether it would be another than it is."""
        return self.pruned or (self.helpful, self.harmful) != (self.row.helpful, self.row.harmful)


@dataclass(frozen=True, slots=True)
class Replay:
    """The bullets, in order of creation, tombstones included; policies in force and asked for."""

    position: int
    counting: tuple[Counting, Counting]
    left_out: int
    bullets: tuple[Replayed, ...]


def replay(
    ledger: Ledger,
    past: Past,
    *,
    counting: Counting | None = None,
    sessions: Collection[str] = (),
    backends: Collection[str] = (),
    precision: int | None = None,
    prune: Condition | None = None,
) -> Replay:
    """The playbook of a moment, as if these sessions or judges had given no tag, under another policy, and with the
    live bullets pruned for which a condition holds.

    `precision` leaves out the verdicts of `rules` that are not sure enough for so many of 100 to be right; those that
    were recorded without their estimates stay. Raises LedgerError.
    """
    out = _tags_of(ledger, past.position, sessions, backends)
    for name, positions in _unsure(ledger, past.position, precision).items() if precision is not None else ():
        out.setdefault(name, set()).update(positions)
    asked = counting or past.counting
    other = past.excluding(out) if out else past
    counters = other.counters(other.entries, asked)
    found = []
    for row in past.rows():
        helpful, harmful = counters[row.name]
        pruned = prune is not None and row.status == "live" and prune.holds(helpful, harmful)
        found.append(Replayed(row, helpful, harmful, pruned))
    return Replay(past.position, (past.counting, asked), sum(map(len, out.values())), tuple(found))


def judges(ledger: Ledger, upto: int) -> list[str]:
    """Return who judged a window up to a position, by name."""
    # The literal condition is that of an index which leaves tags out.
    among = f"playbook_id = ? AND type = ? AND type <> '{BULLET_TAGGED}' AND position <= ?"
    query = f"SELECT DISTINCT actor FROM event WHERE {among}"  # noqa: S608
    with ledger.asking() as sql:
        return sorted(row[0] for row in sql.run(query, REFLECTION_COMPLETED, upto))


def _unsure(ledger: Ledger, upto: int, precision: int) -> dict[str, set[int]]:
    """Return the positions of the tags by `rules` whose estimate is below the cutoff, by the bullet's name."""
    weights = shipped()
    unsure: dict[str | None, set[str]] = {}
    for event in ledger.events(types=[REFLECTION_ANSWERED], upto=upto):
        judgement: Any = event.meta.get("judgement")
        if event.actor == "rules" and isinstance(judgement, dict):
            unsure[event.reflection_id] = {
                name
                for name, one in judgement.get("bullets", {}).items()
                if all(float(one[side]) < weights.cutoff(side, precision) for side in SIDES)
            }
    found: dict[str, set[int]] = {}
    query = "SELECT position, name, reflection_id FROM tag WHERE playbook_id = ? AND tag <> 0 AND position <= ?"
    with ledger.asking() as sql:
        for position, name, reflection_id in sql.run(query, upto):
            if name in unsure.get(reflection_id, ()):
                found.setdefault(name, set()).add(position)
    return found


def _tags_of(ledger: Ledger, upto: int, sessions: Collection[str], backends: Collection[str]) -> dict[str, set[int]]:
    """Positions of the tags that these sessions and judges gave, by the bullet's name."""
    found: dict[str, set[int]] = {}
    joined = (
        "SELECT tag.position, tag.name FROM event JOIN tag ON tag.playbook_id = event.playbook_id"
        " AND tag.position = event.position WHERE event.playbook_id = ? AND tag.tag <> 0 AND event.position <= ?"
    )
    with ledger.asking() as sql:
        rows: list[tuple[int, str]] = []
        for session_id in sessions:
            rows += sql.run(f"{joined} AND event.session_id = ?", upto, session_id).fetchall()
        if backends:
            among, values = sql.among("event.actor", backends)
            rows += sql.run(f"{joined} AND {among}", upto, values).fetchall()
    for position, name in rows:
        found.setdefault(name, set()).add(position)
    return found
