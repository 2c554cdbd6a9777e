"""How many sessions were told each bullet, and for how many it was told since it last helped.

Invariant: a session is told a bullet at most once, however often it was resumed or compacted, and a session without a
record of what it was told is unknown, never untold.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.events.event import MAX_INT
from reflector.events.registry import TELLING_TYPES
from reflector.ledger.bullet_tally import BulletTally
from reflector.ledger.windows import Told, one_of, told

if TYPE_CHECKING:
    from reflector.ledger.reader import Reader
    from reflector.ledger.statements import Statements


@dataclass(frozen=True, slots=True)
class Tellings:
    """What was recorded of tellings up to a position.

    told   how many sessions were told each bullet, by its name
    idle   how many of them were told it since a verdict last said that it helped, or ever
    texts  how many texts were told, each resume and compaction with its own
    """

    told: Mapping[str, int]
    idle: Mapping[str, int]
    texts: int


def tellings(ledger: Reader, upto: int | None = None) -> Tellings:
    """Return what was told up to a position; None for now. Raises LedgerError."""
    last = ledger.head().position if upto is None else upto
    with ledger.asking() as sql:
        tally = BulletTally.at(sql, last)
        counts = {name: one for name, one in tally.bullets.items() if one.told}
        taken_out = _inactive(sql, [one.helped for one in counts.values() if one.helped])
        idle = {
            name: one.told - (_told_when_helped(sql, name, last) if one.helped in taken_out else one.told_then)
            for name, one in counts.items()
        }
    return Tellings({name: one.told for name, one in counts.items()}, idle, tally.texts)


def _inactive(sql: Statements, positions: Collection[int]) -> set[int]:
    """Return those of the tags at these positions that do not count."""
    among, values = sql.among("position", positions)
    query = f"SELECT position FROM tag WHERE playbook_id = ? AND {among} AND active = 0"  # noqa: S608
    return {row[0] for row in sql.run(query, values).fetchall()}


def _told_when_helped(sql: Statements, name: str, upto: int) -> int:
    """Return how many sessions had been told a bullet at its last helpful verdict that counts."""
    query = "SELECT max(position) FROM tag WHERE playbook_id = ? AND name = ? AND active = 1 AND tag = 1"
    (helped,) = sql.run(f"{query} AND position <= ?", name, upto).fetchone()
    return BulletTally.at(sql, helped).of(name).told if helped else 0


def told_since(ledger: Reader, after: int) -> list[Told]:
    """Return what was told behind a position, oldest first. Raises LedgerError."""
    with ledger.asking() as sql:
        return list(told(sql, after, MAX_INT))


def told_texts(ledger: Reader) -> int:
    """Return `texts` of `tellings`, for now. Raises LedgerError."""
    with ledger.asking() as sql:
        position, texts = BulletTally.kept(sql, "texts")
        query = f"SELECT count(*) FROM event WHERE playbook_id = ? AND {one_of(TELLING_TYPES)} AND position > ?"  # noqa: S608
        return texts + int(sql.run(query, position).fetchone()[0])
