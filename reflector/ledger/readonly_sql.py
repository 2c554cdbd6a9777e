"""Queries in SQL, run on a connection that cannot change the ledger.

Invariant: no query writes anything, neither to the ledger nor to another file, and all queries of
one connection see one state. Each engine is held to it twice. SQLite's file is opened read-only, and an authorizer
lets nothing pass but reading. PostgreSQL's transaction is READ ONLY, and the query is declared as a cursor by the
extended protocol, which takes one SELECT and no second statement: `COMMIT; DELETE …` is never run.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflector.ledger.errors import LedgerError, translated
from reflector.ledger.sqlite_file import sqlite_module

if TYPE_CHECKING:
    from reflector.ledger.reader import Reader

_PAGE = 1000
#: SQLite's virtual machine looks at the clock, and at Ctrl-C, each time it has done so many steps.
_STEPS = 20_000
#: What a query may begin with; EXPLAIN is SQLite's only.
_QUESTIONS = {"sqlite": ("SELECT", "WITH", "VALUES", "EXPLAIN"), "postgresql": ("SELECT", "WITH", "VALUES")}
_BLANK = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)+", re.DOTALL)
_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_LOOKS = frozenset({"table_info", "table_xinfo", "index_list", "index_info", "foreign_key_list"})


class NotAQuestion(LedgerError):
    """A query that is refused or not understood; its text says why."""


class TooLong(LedgerError):
    """A query that was not answered within its time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query found: the names of its columns, and its rows page by page, read as they are asked for."""

    columns: tuple[str, ...]
    pages: Iterator[list[tuple[Any, ...]]]


@contextmanager
def asking(ledger: Reader, seconds: float | None = None) -> Iterator[Asker]:
    """A connection that sees one state of the ledger; `seconds` is the longest that a query may take."""
    url = ledger.engine.url
    with translated(url.shown), ExitStack() as stack:
        if ledger.engine.dialect == "postgresql":
            driver = stack.enter_context(ledger.engine.connection())
            driver.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield _PostgreSQL(driver, seconds)
            return
        if url.in_memory:  # the ledger is its one connection, which is written with again later
            driver = stack.enter_context(ledger.engine.connection())
            stack.callback(driver.set_authorizer, lambda *_: sqlite3.SQLITE_OK)
            stack.callback(driver.set_progress_handler, None, 0)
        else:
            uri = f"{Path(url.database).absolute().as_uri()}?mode=ro"
            driver = sqlite_module().connect(uri, uri=True, isolation_level=None, timeout=30)
            stack.callback(driver.close)
            driver.execute("PRAGMA query_only=ON")
            driver.execute("BEGIN")
        driver.set_authorizer(_allows)
        yield _SQLite(driver, seconds)


def _allows(action: int, name: str | None, *_: str | None) -> int:
    """SQLite's authorizer. Attaching a file, settings and transactions are not reading either."""
    if action in _READS or (action == sqlite3.SQLITE_PRAGMA and name in _LOOKS):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


class _SQLite:
    def __init__(self, driver: Any, seconds: float | None) -> None:
        self.driver = driver
        self.module = sqlite_module()
        self.seconds = seconds
        self.end: float | None = None
        driver.text_factory = lambda text: text.decode("utf-8", "replace")
        driver.set_progress_handler(self._is_over, _STEPS)

    def _is_over(self) -> bool:
        # Ctrl-C is raised in here, for SQLite comes back to Python nowhere else; SQLite makes "interrupted" of it.
        return self.end is not None and time.monotonic() > self.end

    def ask(self, query: str) -> Answer:
        """Ask; the answer before is over then. Raises NotAQuestion, TooLong, LedgerError, KeyboardInterrupt; so does
        reading its pages."""
        question = _question(query, "sqlite")
        self.end = None if self.seconds is None else time.monotonic() + self.seconds
        cursor = self.driver.cursor()
        with self._translated():
            cursor.execute(question)
        return Answer(tuple(column[0] for column in cursor.description or ()), self._pages(cursor))

    def _pages(self, cursor: Any) -> Iterator[list[tuple[Any, ...]]]:
        while True:
            with self._translated():
                page = cursor.fetchmany(_PAGE)
            if not page:
                return
            yield page

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (self.module.Error, self.module.Warning) as error:
            text = str(error)
            if "interrupted" in text:
                raise _too_long(self.seconds) if self._is_over() else KeyboardInterrupt from error
            if "one statement at a time" in text:
                raise _refused(_SEVERAL) from error
            if "not authorized" in text or "prohibited" in text or "readonly database" in text:
                raise _refused(f"SQLite refused it ({text}). {_CHANGES_NOTHING}") from error
            if "locked" in text or "disk" in text:
                raise
            raise _misunderstood("SQLite", text) from error


class _PostgreSQL:
    def __init__(self, driver: Any, seconds: float | None) -> None:
        self.driver = driver
        self.seconds = seconds
        self.is_open = False

    def ask(self, query: str) -> Answer:
        question = _question(query, "postgresql")
        cursor = self.driver.cursor()
        if self.is_open:
            cursor.execute("CLOSE question")
        if self.seconds is not None:
            cursor.execute(f"SET LOCAL statement_timeout = {max(1, round(self.seconds * 1000)):d}")
        with self._translated():
            # In the binary form, which is what takes one statement only; without parameters no percent sign is a
            # placeholder.
            cursor.execute(f"DECLARE question NO SCROLL CURSOR FOR {question}", binary=True)
            self.is_open = True
            first = self._fetch(cursor)
        return Answer(tuple(column.name for column in cursor.description), self._pages(cursor, first))

    def _pages(self, cursor: Any, page: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
        while page:
            yield page
            with self._translated():
                page = self._fetch(cursor)

    def _fetch(self, cursor: Any) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = cursor.execute(f"FETCH FORWARD {_PAGE} FROM question").fetchall()
        return rows

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.errors.QueryCanceled as error:
            raise _too_long(self.seconds) from error
        except psycopg.Error as error:
            text = str(error.diag.message_primary or error).strip()
            if "multiple commands" in text:
                raise _refused(_SEVERAL) from error
            if "data-modifying" in text or isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                raise _refused(f"PostgreSQL refused it ({text}). {_CHANGES_NOTHING}") from error
            if error.sqlstate is None or error.sqlstate[:2] in {"08", "53", "57", "58", "XX"}:
                raise
            raise _misunderstood("PostgreSQL", text) from error


#: A connection that only reads.
Asker = _SQLite | _PostgreSQL


def _question(query: str, dialect: str) -> str:
    """Return the query without what is around it. Raises NotAQuestion if it does not begin like a question."""
    begin = _BLANK.match(query)
    text = query[begin.end() if begin else 0 :].rstrip().rstrip(";").rstrip()
    word = re.match(r"\w*", text)
    first = word[0].upper() if word else ""
    if not text:
        raise NotAQuestion("the query is empty; try: reflector sql 'SELECT * FROM bullets'")
    if first not in _QUESTIONS[dialect] and not text.startswith("("):
        *others, last = _QUESTIONS[dialect]
        begins = f"it begins with {(first or text[:1])!r}, a question with {', '.join(others)} or {last}"
        raise _refused(f"{begins}. {_CHANGES_NOTHING}")
    return text


_CHANGES_NOTHING = (
    "`reflector sql` changes nothing; to change the ledger, use `reflector add`, `undo`, `redact` or `ledger policy`"
)
_SEVERAL = "it holds more than one statement; ask them one by one"


def _refused(why: str) -> NotAQuestion:
    return NotAQuestion(f"the query was refused: {why}")


def _misunderstood(engine: str, text: str) -> NotAQuestion:
    views = "`reflector sql` without a query lists the views"
    return NotAQuestion(f"{engine} does not understand the query: {text}. {views}")


def _too_long(seconds: float | None) -> TooLong:
    bound = "" if seconds is None else f" within {seconds:g} s"
    return TooLong(f"the query was not answered{bound}; give it longer with --timeout, or ask for less")
