"""What was recorded of tellings: whom the ranking has told what, and how often in vain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.events.event import MAX_INT
from reflector.events.registry import TELLING_TYPES
from reflector.ledger.usage import usage
from reflector.ledger.windows import Told, one_of, told

if TYPE_CHECKING:
    from reflector.ledger.reader import Reader

_HELPED = (
    "SELECT name, max(position) FROM tag WHERE playbook_id = ? AND active = 1 AND tag = 1 AND position <= ?"
    " GROUP BY name"
)


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
        used = usage(sql, last)
        helped = dict(sql.run(_HELPED, last).fetchall())
    told = {name: one.told for name, one in used.bullets.items() if one.told}
    idle = {name: count - used.told_by(name, helped.get(name, 0)) for name, count in told.items()}
    return Tellings(told, idle, used.texts)


def told_since(ledger: Reader, after: int) -> list[Told]:
    """Return what was told behind a position, oldest first. Raises LedgerError."""
    with ledger.asking() as sql:
        return list(told(sql, after, MAX_INT))


def told_texts(ledger: Reader) -> int:
    """Return `texts` of `tellings`, for now. Raises LedgerError."""
    with ledger.asking() as sql:
        query = f"SELECT count(*) FROM event WHERE playbook_id = ? AND {one_of(TELLING_TYPES)}"  # noqa: S608
        return int(sql.run(query).fetchone()[0])
