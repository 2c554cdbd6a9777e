"""Tallies: what questions about all sessions are answered from, at any position.

Invariant: a tally at a position follows from the events up to it, and from nothing that a later event changes: a
retraction takes nothing out of it. The append that crosses a position which is a multiple of `INTERVAL` leaves a
checkpoint of each tally there, in its own transaction. Whoever asks takes the last checkpoint before a moment, and
reads what came since by the code that makes checkpoints; asking writes nothing. A rebuild leaves the same checkpoints,
byte for byte, after a redaction too. Whoever has the events at hand feeds them to `Kept`, so that none is read again.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

from reflector.ledger.errors import LedgerCorrupt
from reflector.ledger.tail import TagRow, Tail

if TYPE_CHECKING:
    from reflector.ledger.rows import Projected
    from reflector.ledger.statements import Statements

#: How far checkpoints are apart, in positions; few enough events to be read whenever somebody asks.
INTERVAL = 2048
#: Of a large tally there are fewer: each takes a fiftieth of what the events before it take, at most.
_BYTES: Final = 10


class Tally(ABC):
    """Something that is counted over all events up to `position`."""

    name: ClassVar[str]
    #: Whether a checkpoint holds what came since the one before it alone, and whoever asks reads them all.
    is_part: ClassVar[bool] = False

    def __init__(self) -> None:
        self.position = 0

    @classmethod
    def at(cls, sql: Statements, upto: int) -> Self:
        """Return the tally as of a position."""
        query = "SELECT position, state FROM tally WHERE playbook_id = ? AND name = ? AND position <= ?"
        order = "ORDER BY position" if cls.is_part else "ORDER BY position DESC LIMIT 1"
        tally = cls()
        for position, state in sql.run(f"{query} {order}", cls.name, upto).fetchall():
            tally.position = position
            try:
                tally.load(json.loads(state))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise _not_a_tally(cls.name, position) from error
        tally.advance(sql, upto)
        return tally

    @classmethod
    def after(cls, position: int) -> Self:
        """Return a tally that counts what comes behind a position alone."""
        tally = cls()
        tally.position = position
        return tally

    @classmethod
    def kept(cls, sql: Statements, count: str) -> tuple[int, int]:
        """Return the position of the last checkpoint and one of its counts; 0 and 0 before the first."""
        query = f"SELECT position, {sql.text_at('state', count)} FROM tally WHERE playbook_id = ? AND name = ?"  # noqa: S608
        position, found = sql.run(f"{query} ORDER BY position DESC LIMIT 1", cls.name).fetchone() or (0, 0)
        try:
            return position, int(found)
        except (ValueError, TypeError) as error:
            raise _not_a_tally(cls.name, position) from error

    def advance(self, sql: Statements, upto: int) -> None:
        """Count the events behind `position`, up to another one."""
        if upto > self.position:
            self.take(Tail(sql, self.position, upto))

    def take(self, tail: Tail) -> None:
        """Count the events of a tail that begins at `position`."""
        self.count(tail)
        self.position = tail.upto

    def text(self) -> str:
        """Return the checkpoint's text: the same for the same counts, however they were come by."""
        return json.dumps(self.state(), sort_keys=True, separators=(",", ":"))

    @abstractmethod
    def count(self, tail: Tail) -> None:
        """Count the events between two positions."""

    @abstractmethod
    def state(self) -> Any:
        """Return all counts as JSON has them."""

    @abstractmethod
    def load(self, state: Any) -> None:
        """Take the counts of `state`; whatever error anything else raises is the damage of a checkpoint."""


def whole(counts: Any) -> Any:
    """Return a count, or an object or list of counts. Raises ValueError for anything else."""
    several = counts.values() if isinstance(counts, dict) else counts if isinstance(counts, list) else (counts,)
    if not all(type(count) is int for count in several):
        raise ValueError(f"{counts!r:.40} has what is not a count")
    return counts


def texts(values: Any) -> Any:
    """Return a list of texts. Raises ValueError for anything else."""
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{values!r:.40} is not a list of texts")
    return values


def _not_a_tally(name: str, position: int) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"the tally of {name} at position {position} holds what none can hold; run `reflector rebuild`, then "
        "`reflector verify`"
    )


class Checkpoint(NamedTuple):
    """A tally as it is kept."""

    name: str
    position: int
    state: str


class Kept:
    """The tallies of some kinds, kept up while events pass: `take` each in order, of a tag its row.

    Of what it has seen nothing is read again but what earlier events say of the same sessions. What came before it
    began is read when the first checkpoint is due.
    """

    def __init__(self, sql: Statements, kinds: Iterable[type[Tally]], position: int) -> None:
        self.sql = sql
        #: Up to where events were taken, as far as whoever feeds it says.
        self.position = position
        self._tallies: dict[type[Tally], Tally | None] = {kind: None if position else kind() for kind in kinds}
        #: (position, size) of the last checkpoint of each.
        self._last: dict[type[Tally], tuple[int, int]] = {} if position else dict.fromkeys(self._tallies, (0, 0))
        #: Tails that have come to an end, at positions where checkpoints may be.
        self.full: list[Tail] = []
        self._begin(position)

    def take_tag(self, row: TagRow) -> None:
        """Take the row of a tag."""
        self._tail.tags.append(row)
        if row[0] >= self._end:
            self._cut(row[0])

    def take(self, event: Projected) -> None:
        """Take an event that is not a tag."""
        self._tail.take(event)
        if event.position >= self._end:
            self._cut(event.position)

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Yield the checkpoints that are due, once the tables tell up to the last of them."""
        full, self.full = self.full, []
        for tail in full:
            tails = {tail.after: tail}
            for kind, tally in self._tallies.items():
                position, size = self._last.get(kind) or self._found(kind)
                # As large as it is likely to be.
                is_due = tail.upto - position >= size // _BYTES
                if tally is None:
                    if not is_due:
                        continue
                    tally = kind.after(position) if kind.is_part else kind.at(self.sql, position)
                if tally.position not in tails:
                    tails[tally.position] = Tail(self.sql, tally.position, tail.upto)
                tally.take(tails[tally.position])
                if is_due:
                    yield (made := Checkpoint(kind.name, tail.upto, tally.text()))
                    self._last[kind] = (tail.upto, len(made.state))
                self._tallies[kind] = kind.after(tail.upto) if is_due and kind.is_part else tally

    def _found(self, kind: type[Tally]) -> tuple[int, int]:
        query = "SELECT position, length(state) FROM tally WHERE playbook_id = ? AND name = ? ORDER BY position DESC"
        found: tuple[int, int] = self.sql.run(f"{query} LIMIT 1", kind.name).fetchone() or (0, 0)
        return self._last.setdefault(kind, found)

    def _begin(self, position: int) -> None:
        self._tail = Tail.fed(self.sql, position)
        self._end = (position // INTERVAL + 1) * INTERVAL

    def _cut(self, position: int) -> None:
        self._tail.upto = self._end
        self.full.append(self._tail)
        self._begin(position - position % INTERVAL)
