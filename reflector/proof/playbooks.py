"""The playbooks of a database: whether they are who they say.

Invariant: a playbook that was renamed, or whose rows were given to another one, is found from every playbook of the
database, by one statement for all of them. Its events are proved when it is verified itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reflector.ledger.canonical import digest, genesis, next_chain
from reflector.ledger.rows import Stored
from reflector.ledger.statements import LEDGER_TABLES, OWNERLESS, Statements
from reflector.mistakes import Finding
from reflector.proof.reading import RESTORE

_ENDS: Final = (
    "SELECT p.name, p.origin, p.position, p.chain, p.recorded_at, last.position, last.chain, last.recorded_at, "  # noqa: S608
    + ", ".join(f"first.{column}" for column in Stored._fields)
    + " FROM playbook AS p"
    " LEFT JOIN event AS first ON first.playbook_id = p.id AND first.position = 1"
    " LEFT JOIN event AS last ON last.playbook_id = p.id"
    " AND last.position = (SELECT max(position) FROM event WHERE playbook_id = p.id)"
    " WHERE p.id <> ? ORDER BY p.id"
)


def other_playbooks(sql: Statements, but: int | None = None) -> Iterator[Finding]:
    """Playbooks whose name, origin and head are not those of their first and last event, and rows of none. `but` is
    left out."""
    for row in sql.execute(_ENDS, -1 if but is None else but).fetchall():
        (name, origin, *head), last, first = row[:5], tuple(row[5:8]), Stored(*row[8:])
        begins = chain = genesis(name, origin)
        is_empty, has_first = last[0] is None, first.position is not None
        if has_first:
            begins = next_chain(chain, first[:10], first.data_hash, digest(first.meta))
        found = (0, chain, head[2]) if is_empty else last
        if found != tuple(head) or has_first is is_empty:
            what = f"the playbook {name!r} has its head at {head[0]}, its events end at {found[0]}"
            yield Finding("head", None, what, RESTORE)
        elif has_first and begins != first.chain:
            what = f"the playbook {name!r} did not begin under this name and origin"
            yield Finding("head", None, f"{what}: it was renamed, or its first event was changed", RESTORE)
    if not sql.postgres:  # SQLite finds the rest with its references
        return
    for table in LEDGER_TABLES:
        if table != "playbook" and sql.execute(OWNERLESS.format(table=table)).fetchone() is not None:
            yield Finding("reference", None, f"a row of {table} belongs to no playbook", RESTORE)
