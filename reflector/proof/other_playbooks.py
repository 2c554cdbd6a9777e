"""The other playbooks of a database: whether they are who they say.

Invariant: a playbook that was renamed, or whose rows were given to another one, is found from every playbook of the
database, for a handful of look-ups each. Its events are proved when it is verified itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from reflector.ledger import tables
from reflector.ledger.canonical import digest, genesis, next_chain
from reflector.mistakes import Finding
from reflector.proof.remedies import RESTORE


def other_playbooks(connection: sa.Connection, playbook_id: int) -> Iterator[Finding]:
    """Playbooks whose name, origin and head are not those of their first and last event, and rows of none."""
    of, event = tables.playbook, tables.event
    for head in connection.execute(sa.select(of).where(of.c.id != playbook_id).order_by(of.c.id)).all():
        ends = sa.select(event).where(event.c.playbook_id == head.id)
        first = connection.execute(ends.where(event.c.position == 1)).one_or_none()
        last = connection.execute(ends.order_by(event.c.position.desc()).limit(1)).one_or_none()
        begins = chain = genesis(head.name, head.origin)
        if first is not None:
            begins = next_chain(chain, tuple(first[1:11]), first.data_hash, digest(first.meta))
        found = (0, chain, head.recorded_at) if last is None else (last.position, last.chain, last.recorded_at)
        if found != (head.position, head.chain, head.recorded_at) or (first is None) != (last is None):
            what = f"the playbook {head.name!r} has its head at {head.position}, its events end at {found[0]}"
            yield Finding("head", None, what, RESTORE)
        elif first is not None and begins != first.chain:
            what = f"the playbook {head.name!r} did not begin under this name and origin"
            yield Finding("head", None, f"{what}: it was renamed, or its first event was changed", RESTORE)
    # SQLite finds these with its references.
    for table in tables.metadata.sorted_tables if connection.dialect.name == "postgresql" else ():
        if table is of:
            continue
        owned = sa.exists().where(of.c.id == table.c.playbook_id)
        if connection.execute(sa.select(table.c.playbook_id).where(~owned).limit(1)).first() is not None:
            yield Finding("reference", None, f"a row of {table.name} belongs to no playbook", RESTORE)
