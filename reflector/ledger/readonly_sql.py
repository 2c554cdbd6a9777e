"""Runs SQL queries on a connection that cannot change the ledger.

Invariant: no query writes to the ledger or to another file, and all queries of one connection see
one state. Each engine has two barriers. SQLite's file is opened read-only, and an authorizer
permits only reading. PostgreSQL's transaction is READ ONLY, and the query runs in a server-side
cursor, which psycopg declares by the extended protocol. This accepts only one SELECT, so `COMMIT;
DELETE …` never runs.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.ledger.errors import LedgerError, translated
from reflector.ledger.sqlite_file import sqlite_module

if TYPE_CHECKING:
    from reflector.ledger.reader import Reader

_PAGE = 1000
#: SQLite's virtual machine checks for Ctrl-C after each N steps.
_STEPS = 20_000
_BLANK = re.compile(r"(?:[\s;]|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_LOOKS = frozenset({"table_info", "table_xinfo", "index_list", "index_info", "foreign_key_list"})


class NotAQuestion(LedgerError):
    """A query that is refused or not understood; the text contains the reason."""


class Answer(NamedTuple):
    """The result of a query: the names of its columns, and its rows, read on demand."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


class Asker:
    """A connection that only reads."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def ask(self, query: str) -> Answer:
        """Run a query, which ends the previous answer.

        Raises: NotAQuestion, KeyboardInterrupt, and LedgerError, for example if a query takes too
        long. Reading the rows of the answer raises the same errors.
        """
        if _BLANK.fullmatch(query):
            raise NotAQuestion("the query is empty; try: reflector sql 'SELECT * FROM bullets'")
        with self._translated():
            self._cursor.execute(query.rstrip("; \n\t"))
            first = self._cursor.fetchmany(_PAGE)
        return Answer(
            tuple(column[0] for column in self._cursor.description or ()), self._rows(first)
        )

    def _rows(self, page: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        while page:
            yield from page
            with self._translated():
                page = self._cursor.fetchmany(_PAGE)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Refuse a query that the database refuses. Errors of the connection, the disk or a lock
        are raised unchanged.
        """
        sqlite = sqlite_module()
        try:
            yield
        except (sqlite.Error, sqlite.Warning) as error:
            text = str(error)
            if "interrupted" in text:
                raise KeyboardInterrupt from error
            if "locked" in text or "disk" in text:
                raise
            raise _refused("SQLite", text) from error
        except Exception as error:
            code = getattr(error, "sqlstate", None)
            if code == "57014":
                raise LedgerError(
                    "the query took too long, so the server stopped it (statement_timeout); select "
                    "fewer rows"
                ) from error
            if code is None or code[:2] in {"08", "53", "57", "58", "XX"}:
                raise
            raise _refused("PostgreSQL", str(error).splitlines()[0].strip()) from error


@contextmanager
def asking(ledger: Reader) -> Iterator[Asker]:
    """A connection that sees one state of the ledger."""
    url = ledger.engine.url
    with translated(url.shown), ExitStack() as stack:
        if ledger.engine.dialect == "postgresql":
            driver = stack.enter_context(ledger.engine.connection())
            driver.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield Asker(stack.enter_context(driver.cursor("question", scrollable=False)))
            return
        if url.in_memory:  # this one connection writes again later
            driver = stack.enter_context(ledger.engine.connection())
            stack.callback(driver.set_authorizer, lambda *_: sqlite3.SQLITE_OK)
            stack.callback(driver.set_progress_handler, None, 0)
        else:
            uri = f"{Path(url.database).absolute().as_uri()}?mode=ro"
            driver = sqlite_module().connect(uri, uri=True, isolation_level=None, timeout=30)
            stack.callback(driver.close)
            driver.execute("PRAGMA query_only=ON")
            driver.execute("BEGIN")
        driver.text_factory = lambda text: text.decode("utf-8", "replace")
        # Ctrl-C is raised inside this handler, because SQLite calls Python nowhere else. SQLite
        # reports it as "interrupted".
        driver.set_progress_handler(lambda: False, _STEPS)
        driver.set_authorizer(_allows)
        yield Asker(driver.cursor())


def _allows(action: int, name: str | None, *_: str | None) -> int:
    """SQLite's authorizer. It also denies attaching a file, settings and transactions, which are
    not reading.
    """
    if action in _READS or (action == sqlite3.SQLITE_PRAGMA and name in _LOOKS):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _refused(engine: str, text: str) -> NotAQuestion:
    """Return the ledger's error for an engine's error about a query."""
    return NotAQuestion(
        f"{engine} refuses the query: {text}. `reflector sql` runs one statement that only reads. "
        "To list the views, run `reflector sql` without a query. To change the ledger, use "
        "`reflector add`, `undo`, `redact` or `ledger policy`"
    )
