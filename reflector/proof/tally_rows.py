"""The tallies and the bullets' statuses, compared with the events.

Invariant: each checkpoint is made again from the events before it, one behind the other, so that the memory does not
grow with the ledger. Each difference is one sentence; nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from reflector.events.fold import Playbook, apply, reads
from reflector.events.registry import RARE_TYPES
from reflector.ledger.projection import KEPT
from reflector.ledger.reader import kept_of
from reflector.ledger.rows import PROJECTED, projected_of
from reflector.ledger.statements import Statements
from reflector.ledger.tallies import Tally, boundaries, is_due
from reflector.ledger.windows import one_of


def tally_drift(sql: Statements, head: int) -> Iterator[str]:
    """Differences between these tables and the events up to the head."""
    query = "SELECT name, position, status FROM bullet_status WHERE playbook_id = ?"
    stored = set(map(tuple, sql.run(query).fetchall()))
    for name, position, status in sorted(stored ^ set(_statuses(sql)), key=repr):
        by = "table" if (name, position, status) in stored else "events"
        yield f"{name} is {status} since {position} by the {by} alone"
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


def _statuses(sql: Statements) -> Iterator[tuple[str, int, str]]:
    """Yield (name, position, status) of each change of a bullet's status."""
    query = f"SELECT {PROJECTED} FROM event WHERE playbook_id = ? AND {one_of(RARE_TYPES)} ORDER BY position"  # noqa: S608
    rows = sql.run(query).fetchall()
    erased = [row[1] for row in rows if row[7] is None]
    kept = kept_of(sql, erased) if erased else {}
    book = Playbook()
    known: dict[str, str] = {}
    for row in rows:
        apply(book, projected_of(row, kept, reads))
        for name, entry in book.entries.items():
            if known.get(name) != entry.status:
                known[name] = entry.status
                yield name, row[0], entry.status
