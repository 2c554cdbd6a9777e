"""Proof that nothing was appended to a playbook that had moved to another ledger."""

from __future__ import annotations

from collections.abc import Iterator

from reflector.events.event import LEDGER_ARRIVED, LEDGER_MOVED
from reflector.ledger.statements import Statements

_STRAYS = (
    "SELECT stray.position, stray.type FROM event AS seal JOIN event AS stray"
    " ON stray.playbook_id = seal.playbook_id AND stray.position = seal.position + 1"
    " WHERE seal.playbook_id = ? AND seal.type = ? AND seal.type <> 'bullet.tagged'"
    " AND NOT (stray.type = ? AND stray.target_id = seal.event_id) ORDER BY stray.position"
)


def strays(sql: Statements) -> Iterator[tuple[int, str]]:
    """Yield the position of each event that stands behind a `ledger.moved` and does not say that the playbook arrived,
    with what is wrong."""
    for position, type_ in sql.run(_STRAYS, LEDGER_MOVED, LEDGER_ARRIVED).fetchall():
        yield position, f"this {type_} was appended after the playbook had moved to another ledger"
