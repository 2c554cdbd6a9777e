"""Tallies: what questions about all sessions are answered from, at any position.

Invariant: a tally at a position follows from the events up to it, and from nothing that a later event changes: a
retraction takes nothing out of it. The append that crosses a position which is a multiple of `INTERVAL` leaves a
checkpoint of each tally there, in its own transaction. Whoever asks takes the last checkpoint before a moment, and
reads what came since by the code that makes checkpoints; asking writes nothing. A rebuild leaves the same checkpoints,
byte for byte, after a redaction too.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

if TYPE_CHECKING:
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
            tally.load(json.loads(state))
        tally.advance(sql, upto)
        return tally

    @classmethod
    def checkpoint(cls, sql: Statements, last: int, position: int) -> str:
        """Return the text of the checkpoint at a position, where the one before it is at `last`."""
        tally = cls.after(last) if cls.is_part else cls.at(sql, last)
        tally.advance(sql, position)
        return tally.text()

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
        return position, int(found)

    def advance(self, sql: Statements, upto: int) -> None:
        """Count the events behind `position`, up to another one."""
        if upto > self.position:
            self.count(sql, self.position, upto)
            self.position = upto

    def text(self) -> str:
        """Return the checkpoint's text: the same for the same counts, however they were come by."""
        return json.dumps(self.state(), sort_keys=True, separators=(",", ":"))

    @abstractmethod
    def count(self, sql: Statements, after: int, upto: int) -> None:
        """Count the events between two positions."""

    @abstractmethod
    def state(self) -> Any:
        """Return all counts as JSON has them."""

    @abstractmethod
    def load(self, state: Any) -> None:
        """Take the counts of `state`."""


def boundaries(after: int, upto: int) -> range:
    """Return the positions between two others at which checkpoints may be."""
    return range((after // INTERVAL + 1) * INTERVAL, upto + 1, INTERVAL)


def is_due(position: int, last: int, size: int) -> bool:
    """Return whether a checkpoint is due, as large as it is likely to be: `size` is that of the one at `last`."""
    return position - last >= size // _BYTES


def keep(sql: Statements, kinds: Iterable[type[Tally]], after: int, upto: int) -> None:
    """Leave the checkpoints that are due between two positions, up to which all tables tell."""
    for position in boundaries(after, upto):
        for kind in kinds:
            last = "SELECT position, length(state) FROM tally WHERE playbook_id = ? AND name = ? ORDER BY position DESC"
            row = sql.run(f"{last} LIMIT 1", kind.name).fetchone()
            before, size = row or (0, 0)
            if is_due(position, before, size):
                made = (kind.name, position, kind.checkpoint(sql, before, position))
                sql.insert("tally", ("name", "position", "state"), [made])
