"""The tallies, compared with the events.

Invariant: each checkpoint is made again from the events before it, one behind the other, so that the memory does not
grow with the ledger. Each difference is one sentence; nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from reflector.ledger.projection import KEPT
from reflector.ledger.statements import Statements
from reflector.ledger.tallies import Tally, boundaries, is_due


def tally_drift(sql: Statements, head: int) -> Iterator[str]:
    """Differences between the checkpoints of tallies and the events up to the head."""
    kinds = {kind.name for kind in KEPT}
    for (name,) in sql.run("SELECT DISTINCT name FROM tally WHERE playbook_id = ?").fetchall():
        if name not in kinds:
            yield f"no tally is called {str(name)[:60]!r}"
    for kind in KEPT:
        yield from _checkpoints(sql, kind, head)


def _checkpoints(sql: Statements, kind: type[Tally], head: int) -> Iterator[str]:
    query = "SELECT position FROM tally WHERE playbook_id = ? AND name = ? ORDER BY position"
    left = {row[0] for row in sql.run(query, kind.name).fetchall()}
    state = "SELECT state FROM tally WHERE playbook_id = ? AND name = ? AND position = ?"
    tally, last, size = kind(), 0, 0
    for position in boundaries(0, head):
        if is_due(position, last, size):
            tally.advance(sql, position)
            text = tally.text()
            row = sql.run(state, kind.name, position).fetchone()
            if row is None or row[0] != text:
                yield f"the tally {kind.name} at {position} is not what the events say"
            left.discard(position)
            tally = kind.after(position) if kind.is_part else tally
            last, size = position, len(text)
    for position in sorted(left):
        yield f"the table holds a tally {kind.name} at {position}, where none is kept"
