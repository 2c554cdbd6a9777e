"""Proof that a ledger is what was appended: nothing edited, removed, reordered or miscounted.

Invariant: findings are values, in order, and a sound ledger yields none. Verifying reads the events and the
tables in one snapshot and writes nothing. What a chain cannot see alone (a truncated tail) an anchor shows: a
head that was published earlier must still be a prefix. Damage is a finding when the ledger is
opened, read or closed; a ledger that cannot be reached (a lock, a missing driver, a server that is down) is an
error, for that says nothing about the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import sqlalchemy as sa

from reflector.ledger.engines import Engine
from reflector.ledger.errors import LedgerCorrupt, LedgerGone, translated
from reflector.ledger.rows import Anchor, Head
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.mistakes import Finding
from reflector.proof.drift import drift
from reflector.proof.event_check import Walk
from reflector.proof.merge_proof import faults
from reflector.proof.moves import strays
from reflector.proof.other_playbooks import other_playbooks
from reflector.proof.remedies import REBUILD, RESTORE
from reflector.proof.schema import schema_findings
from reflector.proof.schema import wrong_triggers as _wrong_triggers
from reflector.proof.tally_rows import tally_drift

__all__ = ["Anchor", "Finding", "Verified", "verify", "verify_opening", "wrong_triggers"]


def verify(ledger: Ledger, *anchors: Anchor) -> Iterator[Finding]:
    """Every finding of a ledger: its file, schema, chain and order, the ledgers that were merged into it, counters and
    other projections, and each of the anchors that is not in its history.

    SQLite checks its own file on a second connection meanwhile: that is a third of the work and needs no Python.
    A ledger that cannot be read is a finding; a LedgerError is raised for one that cannot be reached.
    """
    with (
        translated(ledger.engine.url.shown),
        ThreadPoolExecutor(1) as beside,
        ledger.engine.alchemy().connect() as connection,
    ):
        if connection.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        damage = beside.submit(_damage, ledger.engine)
        with connection.begin():
            yield from _readable(connection, schema_findings(connection), "the schema")
            walk = Walk(connection, ledger.playbook_id, anchors)
            yield from _readable(connection, walk.findings(), "the history", walk)
            sql = Statements(connection.connection.cursor(), connection.dialect.name, ledger.playbook_id)
            merges = (Finding("merge", position, what, RESTORE) for position, what in faults(sql))
            yield from _readable(connection, merges, "a merge")
            moves = (Finding("move", position, what, RESTORE) for position, what in strays(sql))
            yield from _readable(connection, moves, "a move")
            if walk.foldable:
                differences = chain(drift(connection, walk.id, walk.folded), tally_drift(sql, walk.position))
                drifts = (Finding("projection", None, what, REBUILD) for what in differences)
                yield from _readable(connection, drifts, "a table")
            yield from _readable(connection, other_playbooks(connection, ledger.playbook_id), "another playbook")
        yield from damage.result()


@dataclass(frozen=True, slots=True)
class Verified:
    """The findings, in order, and the head; None where it cannot be read."""

    findings: tuple[Finding, ...]
    head: Head | None


def verify_opening(
    open_ledger: Callable[[], Ledger], *anchors: Anchor, seen: Callable[[Ledger], Anchor | None] = lambda _: None
) -> Verified:
    """Open a ledger that may be too damaged for it, and verify it. Raises a LedgerError for one out of reach.

    `seen` finds one more anchor, which only an open ledger tells.
    """
    findings: list[Finding] = []
    head = None
    try:
        with open_ledger() as ledger:
            findings += verify(ledger, *anchors, *filter(None, [seen(ledger)]))
            with suppress(LedgerCorrupt):  # a finding says the same
                head = ledger.head()
    except LedgerCorrupt as error:
        what, _, way_out = str(error).partition("; ")
        findings.append(Finding("database", None, what, way_out if isinstance(error, LedgerGone) else RESTORE))
    return Verified(tuple(findings), head)


def _readable(
    connection: sa.Connection, findings: Iterator[Finding], what: str, walk: Walk | None = None
) -> Iterator[Finding]:
    """Yield the findings, and one more where what they are looked for in cannot be read to its end."""
    # A statement that fails ends PostgreSQL's transaction, but not what was before a savepoint.
    savepoint = connection.begin_nested() if connection.dialect.name == "postgresql" else None
    try:
        yield from findings
    except Exception as error:
        if not unreadable(error):
            raise
        position = None
        if walk is not None:
            walk.foldable = False
            position = walk.unreadable_from()
            what = f"{what} from position {position} on" if position is not None else what
        yield Finding("data", position, f"{what} cannot be read ({_first_line(error)})", RESTORE)
    finally:
        if savepoint is not None:
            savepoint.rollback()


def unreadable(error: Exception) -> bool:
    """Return whether an error says that a database holds what no ledger does, and not that it cannot be reached."""
    if isinstance(error, TypeError | ValueError | LookupError | AttributeError | RecursionError | OverflowError):
        return True
    # The drivers' errors have no class in common, and "no such column" of a changed table is an error of the statement.
    words = str(error).lower()
    return any(word in words for word in _UNREADABLE)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _damage(engine: Engine) -> list[Finding]:
    """Return what SQLite finds in its own file; a database in memory is this process's own."""
    if engine.dialect != "sqlite" or engine.url.in_memory:
        return []
    found = []
    with engine.alchemy().connect() as connection:
        try:
            for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)").fetchall():
                if line != "ok":
                    found.append(Finding("database", None, f"SQLite finds damage: {line}", _RESTORE_FILE))
            for row in connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(20):
                what = f"a row of {row[0]} points to a {row[2]} that is gone"
                found.append(Finding("reference", None, what, _RESTORE_FILE))
        except Exception as error:
            if not unreadable(error):
                raise
            what = f"SQLite cannot read its file to the end ({_first_line(error)})"
            found.append(Finding("database", None, what, _RESTORE_FILE))
    return found


def wrong_triggers(ledger: Ledger) -> list[str]:
    """Return the names of triggers that are missing, disabled or changed: a look at the schema, no event is read."""
    with translated(ledger.engine.url.shown), ledger.engine.alchemy().connect() as connection:
        return [name for name, _ in _wrong_triggers(connection)]


_RESTORE_FILE = "restore a backup of the ledger"
_UNREADABLE = ("malformed", "not a database", "corrupt", "could not decode", "no such", "does not exist", "unsupported")
