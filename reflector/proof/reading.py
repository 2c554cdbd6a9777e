"""Reads the rows of a ledger that may be damaged, and describes the damage and its repair.

Invariant: memory use does not grow with the number of rows, on either engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from reflector.ledger.statements import Statements

#: The remedies of findings.
RESTORE = "restore a backup, or compare the ledger with an export that is older than the change"
REBUILD = "run `reflector rebuild`"
MEND_HEAD = "find out who moved the head, then run `reflector rebuild --fix`"
SET_ASIDE = (
    "find out who appended the event, then exclude the event with `reflector rebuild --fix --why "
    "REASON`"
)
_BATCH = 1000
_numbers = count()
#: Words of errors about damaged content of a database. The drivers' errors have no common class,
#: and "no such column" of a changed table is an error of the statement. PostgreSQL also has a class
#: of codes for values.
_UNREADABLE = (
    "malformed",
    "not a database",
    "corrupt",
    "could not decode",
    "no such",
    "does not exist",
    "unsupported",
)
_VALUES = "22"
#: Python's errors for values that no event or row has.
MALFORMED = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    RecursionError,
    OverflowError,
)


def stream(
    sql: Statements, table: str, columns: str, where: str = "", order: str = "position"
) -> Iterator[Any]:
    """Yield a playbook's rows of a table in order, as the driver returns them."""
    query = (
        f"SELECT {columns} FROM {table}"  # noqa: S608
        f" WHERE playbook_id = {sql.id:d}{where} ORDER BY {order}"
    )
    connection = sql.cursor.connection
    # On PostgreSQL only a named cursor leaves the remaining rows on the server.
    cursor = connection.cursor(f"{table}_{next(_numbers)}") if sql.postgres else connection.cursor()
    try:
        cursor.execute(query)
        while batch := cursor.fetchmany(_BATCH):
            yield from batch
    finally:
        cursor.close()


@contextmanager
def savepoint(sql: Statements) -> Iterator[None]:
    """Run a block in a savepoint of PostgreSQL's transaction, which is rolled back at its end. So a
    failed statement inside does not end the transaction.
    """
    if not sql.postgres:
        yield
        return
    name = f"proof_{next(_numbers)}"
    sql.execute(f"SAVEPOINT {name}")
    try:
        yield
    finally:
        sql.execute(f"ROLLBACK TO SAVEPOINT {name}")


def unreadable(error: Exception) -> bool:
    """Return whether an error means that the content of a database is damaged, and not that the
    database cannot be reached.
    """
    if isinstance(error, MALFORMED):
        return True
    words = str(error).lower()
    code = getattr(error, "sqlstate", None) or ""
    return code.startswith(_VALUES) or any(word in words for word in _UNREADABLE)
