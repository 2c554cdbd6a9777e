"""Proof that a ledger is what was appended: nothing edited, removed, reordered or miscounted.

Invariant: findings are values, in order, and a sound ledger yields none. Verifying reads the events and the
tables in one snapshot and writes nothing. What a chain cannot see alone (a truncated tail) an anchor shows: a
head that was published earlier must still be a prefix. Damage is a finding when the ledger is
opened, read or closed; a ledger that cannot be reached (a lock, a missing driver, a server that is down) is an
error, for that says nothing about the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from reflector.ledger.canonical import digest, genesis, next_chain
from reflector.ledger.engines import Engine
from reflector.ledger.errors import LedgerCorrupt, LedgerGone
from reflector.ledger.rows import Anchor, Head, Stored
from reflector.ledger.statements import LEDGER_TABLES, OWNERLESS, Statements
from reflector.ledger.store import Ledger
from reflector.mistakes import Finding
from reflector.proof.reading import RESTORE, savepoint, unreadable
from reflector.proof.schema import schema_findings
from reflector.proof.walk import Walk

__all__ = ["LEFT_OUT", "Anchor", "Finding", "Verified", "verify", "verify_opening"]


#: What is not looked at where a known head is given, and how a person is told.
LEFT_OUT: Final = {
    "events": "the events up to it",
    "tables": "the tables, so the counters",
    "file": "SQLite's check of its file",
}


def verify(ledger: Ledger, *anchors: Anchor, since: Anchor | None = None) -> Iterator[Finding]:
    """Every finding of a ledger: its file, schema, chain and order, its tables, and each of the anchors that is not in
    its history. Where it is known to be good up to `since`, only what is new is read: `LEFT_OUT` is not looked at.

    SQLite checks its own file on a second connection meanwhile: that is a third of the work and needs no Python.
    A ledger that cannot be read is a finding; a LedgerError is raised for one that cannot be reached.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as beside, ledger.asking() as sql:
        damage = beside.submit(_damage, ledger.engine) if since is None else None
        yield from _readable(sql, schema_findings(sql), "the schema")
        walk = Walk(sql, anchors, since)
        yield from _readable(sql, walk.findings(), "the history", walk)
        if walk.rebuilt is not None:
            yield from _readable(sql, walk.rebuilt.findings(sql), "a table")
            walk.rebuilt.close()
        # This one as well behind a known head: its name and origin are those of the first event, which is not read.
        but = ledger.playbook_id if since is None else -1
        yield from _readable(sql, _other_playbooks(sql, but), "another playbook")
        yield from damage.result() if damage is not None else ()


_ENDS: Final = (
    "SELECT p.name, p.origin, p.position, p.chain, p.recorded_at, last.position, last.chain, last.recorded_at, "  # noqa: S608
    + ", ".join(f"first.{column}" for column in Stored._fields)
    + " FROM playbook AS p"
    " LEFT JOIN event AS first ON first.playbook_id = p.id AND first.position = 1"
    " LEFT JOIN event AS last ON last.playbook_id = p.id"
    " AND last.position = (SELECT max(position) FROM event WHERE playbook_id = p.id)"
    " WHERE p.id <> ? ORDER BY p.id"
)


def _other_playbooks(sql: Statements, but: int) -> Iterator[Finding]:
    """Playbooks whose name, origin and head are not those of their first and last event, and rows of none: one that was
    renamed, or whose rows were given to another one, is found from every playbook of the database."""
    for row in sql.execute(_ENDS, but).fetchall():
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


@dataclass(frozen=True, slots=True)
class Verified:
    """The findings, in order, and the head; None where it cannot be read."""

    findings: tuple[Finding, ...]
    head: Head | None


def verify_opening(
    open_ledger: Callable[[], Ledger],
    *anchors: Anchor,
    seen: Callable[[Ledger], Anchor | None] = lambda _: None,
    since: Anchor | None = None,
) -> Verified:
    """Open a ledger that may be too damaged for it, and verify it, or what came `since` a head. Raises a LedgerError
    for one out of reach.

    `seen` finds one more anchor, which only an open ledger tells.
    """
    findings: list[Finding] = []
    head = None
    try:
        with open_ledger() as ledger:
            named = (*anchors, *filter(None, [seen(ledger)]))
            findings += verify(ledger, *named, since=since)
            with suppress(LedgerCorrupt):  # a finding says the same
                head = ledger.head()
    except LedgerCorrupt as error:
        what, _, way_out = str(error).partition("; ")
        findings.append(Finding("database", None, what, way_out if isinstance(error, LedgerGone) else RESTORE))
    return Verified(tuple(findings), head)


def _readable(sql: Statements, findings: Iterator[Finding], what: str, walk: Walk | None = None) -> Iterator[Finding]:
    """Yield the findings, and one more where their source, which `what` names, cannot be read to its end."""
    with savepoint(sql):
        try:
            yield from findings
        except Exception as error:
            if not unreadable(error):
                raise
            position = walk.unreadable_from() if walk is not None else None
            what = f"{what} from position {position} on" if position is not None else what
            yield Finding("data", position, f"{what} cannot be read ({_first_line(error)})", RESTORE)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _damage(engine: Engine) -> list[Finding]:
    """Return what SQLite finds in its own file; a database in memory is this process's own."""
    if engine.dialect != "sqlite" or engine.url.in_memory:
        return []
    found = []
    with engine.connection() as connection:
        try:
            for (line,) in connection.execute("PRAGMA integrity_check(20)").fetchall():
                if line != "ok":
                    found.append(Finding("database", None, f"SQLite finds damage: {line}", _RESTORE_FILE))
            for row in connection.execute("PRAGMA foreign_key_check").fetchmany(20):
                what = f"a row of {row[0]} points to a {row[2]} that is gone"
                found.append(Finding("reference", None, what, _RESTORE_FILE))
        except Exception as error:
            if not unreadable(error):
                raise
            what = f"SQLite cannot read its file to the end ({_first_line(error)})"
            found.append(Finding("database", None, what, _RESTORE_FILE))
    return found


_RESTORE_FILE = "restore a backup of the ledger"
