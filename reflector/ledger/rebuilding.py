"""The tables rebuilt from the events, beside the ones that are read meanwhile.

Invariant: readers see the old rows until the new ones are complete, and writers wait only while the events appended
meanwhile are projected and the rows are put in place. Rows wait in a staging place, page by page:
a rebuild that was killed goes on where it stopped, and two at once share the pages. Staged rows are used only for
the history that they were read from; a redaction since then throws them away, for they may hold the erased text.

Names that are not qualified mean the staged tables, and the ledger's where none is staged: on SQLite the staging
file is the main database and the ledger is attached, on PostgreSQL the staging schema comes first in the search path.
So the one projector fills both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from reflector.events.event import EVENT_REDACTED
from reflector.events.fields import MAX_INT
from reflector.events.fold import projects
from reflector.ledger import tables
from reflector.ledger.engines import BUSY_TIMEOUT_MS, file_lock, forget_staged, staging_file
from reflector.ledger.projection import CODE_VERSION, TABLES, Projector
from reflector.ledger.reader import history_page
from reflector.ledger.sqlite_file import open_file, sqlite_module
from reflector.ledger.statements import Statements
from reflector.playbook.counting import DEFAULT

#: Called with the position reached, page by page.
Progress = Callable[[int], None]

_INSERT_PROJECTION = (
    "INSERT INTO projection (playbook_id, name, code_version, policy_id, position, state_hash)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
_STAGED = (*tables.REBUILDABLE, tables.projection)
_SCHEMA = f"reflector_rebuild_{CODE_VERSION}"


def insert_checkpoint(sql: Statements, name: str, policy: str, position: int, state_hash: str) -> None:
    """Record that a named projection is at a position, with this hash."""
    sql.run(_INSERT_PROJECTION, name, CODE_VERSION, policy, position, state_hash)


def rebuild_within(sql: Statements) -> None:
    """Rebuild the tables within the caller's transaction."""
    _empty(sql)
    _fill(sql, 0)


def rebuild_beside(engine: sa.Engine, playbook_id: int, progress: Progress | None = None) -> bool:
    """Rebuild the tables beside the present ones, then put them in their place.

    False where there is no place beside them: a ledger in memory, a server where no schema may be created, a staging
    file that was damaged and is gone now. Raises the driver's errors and LedgerLocked.
    """
    if engine.dialect.name == "postgresql":
        return _rebuild(engine, _beside_postgresql(engine, playbook_id), progress)
    try:
        return _rebuild(engine, _beside_sqlite(engine.url, playbook_id), progress)
    except sqlite_module().DatabaseError as error:
        # Said of the staging file or of the ledger: if of the ledger, a rebuild within it says so.
        if type(error) is not sqlite_module().DatabaseError:
            raise
        with file_lock(engine.url):
            forget_staged(engine.url)
        return False


def _rebuild(engine: sa.Engine, opened: AbstractContextManager[_Staging | None], progress: Progress | None) -> bool:
    with opened as staging:
        if staging is None:
            return False
        while not staging.page(progress):
            pass
        with file_lock(engine.url):
            staging.put_in_place()
            forget_staged(engine.url)
    return True


@contextmanager
def _beside_sqlite(url: sa.URL, playbook_id: int) -> Iterator[_Staging | None]:
    path = staging_file(url)
    if path is None:
        yield None
        return
    with closing(_staging_connection(url, path)) as connection:
        yield _Staging(Statements(connection.cursor(), "sqlite", playbook_id), "ledger")


def _staging_connection(url: sa.URL, path: Path) -> Any:
    with file_lock(url):
        return open_file(
            path,
            lambda connection: _stage(connection.cursor(), url.database),
            isolation_level=None,
            timeout=BUSY_TIMEOUT_MS / 1000,
        )


def _stage(cursor: Any, ledger: str | None) -> None:
    """Attach the ledger, and make the staged tables where they are not there as the ledger has them."""
    cursor.execute("PRAGMA journal_mode=WAL")
    # A page that a power cut takes away is filled again.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("ATTACH DATABASE ? AS ledger", (ledger,))
    # Whole or not at all: a table that is missing here would mean the ledger's own.
    if _definitions(cursor, "main") != (wanted := _definitions(cursor, "ledger")):
        cursor.execute("BEGIN IMMEDIATE")
        for table in _STAGED:
            cursor.execute(f"DROP TABLE IF EXISTS main.{table.name}")
        for statement in wanted:
            cursor.execute(statement)
        cursor.execute("COMMIT")


def _definitions(cursor: Any, database: str) -> list[str]:
    """Return a database's definitions of the tables that are staged, and of their indexes."""
    rows = cursor.execute(
        f"SELECT sql FROM {database}.sqlite_master WHERE tbl_name IN (SELECT value FROM json_each(?))"  # noqa: S608
        " AND sql <> '' AND type IN ('table', 'index') ORDER BY type DESC, name",
        (json.dumps([table.name for table in _STAGED]),),
    ).fetchall()
    return [row[0] for row in rows]


@contextmanager
def _beside_postgresql(engine: sa.Engine, playbook_id: int) -> Iterator[_Staging | None]:
    pooled = engine.raw_connection()
    connection: Any = pooled.driver_connection
    pooled.detach()  # its search path is not for anybody else
    try:
        connection.autocommit = True
        sql = Statements(connection.cursor(), "postgresql", playbook_id)
        allowed = "SELECT has_database_privilege(current_database(), 'CREATE') OR to_regnamespace(?) IS NOT NULL"
        if not sql.execute(allowed, _SCHEMA).fetchone()[0]:
            yield None
            return
        home = sql.execute("SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass('playbook')")
        ledger = home.fetchone()[0]
        sql.execute("BEGIN")
        # IF NOT EXISTS does not hold against another process that creates the same in the same moment.
        sql.execute(f"LOCK TABLE {ledger}.projection IN SHARE UPDATE EXCLUSIVE MODE")
        sql.execute(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")
        for table in _STAGED:
            sql.execute(f"CREATE TABLE IF NOT EXISTS {_SCHEMA}.{table.name} (LIKE {ledger}.{table.name} INCLUDING ALL)")
        sql.execute("COMMIT")
        sql.execute(f"SET search_path TO {_SCHEMA}, {ledger}")
        # Between rebuilds the staged tables are empty, and once autovacuum has seen that, the planner reads a whole
        # table for each row that it changes: 104 million rows for 10,000 windows.
        sql.execute("SET enable_seqscan = off")
        yield _Staging(sql, ledger)
    finally:
        connection.close()


def clear_staged(sql: Statements) -> None:
    """Remove a PostgreSQL playbook's staged rows, in the caller's transaction; a running rebuild begins again."""
    if sql.postgres and sql.execute("SELECT to_regclass(?)", f"{_SCHEMA}.bullet").fetchone()[0] is not None:
        for table in _STAGED:
            sql.run(f"DELETE FROM {_SCHEMA}.{table.name} WHERE playbook_id = ?")  # noqa: S608


def _empty(sql: Statements) -> None:
    for table in tables.REBUILDABLE:
        sql.run(f"DELETE FROM {table.name} WHERE playbook_id = ?")  # noqa: S608
    sql.run("DELETE FROM projection WHERE playbook_id = ? AND name = ?", TABLES)
    begin_tables(sql)


def begin_tables(sql: Statements) -> None:
    """The checkpoint of tables into which nothing was projected yet."""
    insert_checkpoint(sql, TABLES, DEFAULT, 0, "")


def _fill(sql: Statements, position: int, pages: int = MAX_INT) -> int:
    """Project the events behind a position; the last one's."""
    projector = Projector(sql)
    while pages and (page := history_page(sql, position, MAX_INT, projects)):
        projector.project(page)
        position = page[-1].position
        pages -= 1
    return position


class _Staging:
    """Tables on one connection that hide the ledger's own.

    ledger    what the ledger's own tables are qualified with
    """

    def __init__(self, sql: Statements, ledger: str) -> None:
        self.sql = sql
        self.ledger = ledger

    def page(self, progress: Progress | None) -> bool:
        """Take the next page of events in; True when nothing is left."""
        with self._transaction("BEGIN"):
            position = self._reached()
            reached = _fill(self.sql, position, pages=1)
            if reached != position:
                self._reach(reached)
        if progress is not None:
            progress(reached)
        return reached == position

    def put_in_place(self) -> None:
        """Take in what was appended meanwhile, and put the rows where readers find them, in one transaction."""
        sql = self.sql
        with self._transaction("BEGIN" if sql.postgres else "BEGIN IMMEDIATE"):
            if sql.postgres:
                sql.run(f"SELECT 1 FROM {self.ledger}.playbook WHERE id = ? FOR UPDATE")  # noqa: S608
            if self._staged() is None:
                return  # another rebuild, with which the pages were shared, has put them in place
            _fill(sql, self._reached())
            for table in tables.REBUILDABLE:
                columns = ", ".join(f'"{column.name}"' for column in table.columns)
                sql.run(f"DELETE FROM {self.ledger}.{table.name} WHERE playbook_id = ?")  # noqa: S608
                sql.run(
                    f"INSERT INTO {self.ledger}.{table.name} ({columns})"  # noqa: S608
                    f" SELECT {columns} FROM {table.name} WHERE playbook_id = ?"
                )
            query = "SELECT policy_id, updated_at FROM projection WHERE playbook_id = ? AND name = ?"
            policy, updated_at = sql.run(query, TABLES).fetchone()
            sql.run(f"DELETE FROM {self.ledger}.projection WHERE playbook_id = ? AND name = ?", TABLES)  # noqa: S608
            sql.run(
                f"INSERT INTO {self.ledger}.projection (playbook_id, name, code_version, policy_id, position,"  # noqa: S608
                " state_hash, updated_at) VALUES (?, ?, ?, ?, 0, '', ?)",
                *(TABLES, CODE_VERSION, policy, updated_at),
            )
            for table in _STAGED:
                sql.run(f"DELETE FROM {table.name} WHERE playbook_id = ?")  # noqa: S608

    def _staged(self) -> tuple[int, int, str] | None:
        """Return the staged rows' (code version, position, history), held against another rebuild till the commit."""
        sql = self.sql
        if sql.postgres:
            sql.execute(f"LOCK TABLE {_SCHEMA}.projection IN SHARE ROW EXCLUSIVE MODE")
        else:  # the first statement that writes takes the lock, and of the staging file alone
            sql.run("DELETE FROM projection WHERE playbook_id = ? AND name = ''")
        query = "SELECT code_version, position, state_hash FROM projection WHERE playbook_id = ? AND name = ?"
        row = sql.run(query, TABLES).fetchone()
        return (row[0], row[1], row[2]) if row is not None else None

    def _reached(self) -> int:
        """Return the position of the staged rows; 0 if they were useless and were thrown away."""
        staged = self._staged()
        if staged is not None and staged[0] == CODE_VERSION and staged[2] == self._history(staged[1]):
            return staged[1]
        _empty(self.sql)
        self._reach(0)
        return 0

    def _reach(self, position: int) -> None:
        update = "UPDATE projection SET position = ?, state_hash = ? WHERE playbook_id = ? AND name = ?"
        self.sql.execute(update, position, self._history(position), self.sql.id, TABLES)

    def _history(self, position: int) -> str:
        """Return what names the history up to a position, and what of it was readable."""
        counted = "SELECT count(*) FROM event WHERE playbook_id = ? AND type = ? AND type <> 'bullet.tagged'"
        redactions = self.sql.run(counted, EVENT_REDACTED).fetchone()[0]
        row = self.sql.run("SELECT chain FROM event WHERE playbook_id = ? AND position = ?", position).fetchone()
        return f"{redactions} {row[0] if row else ''}"

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self.sql.cursor.execute(begin)
        try:
            yield
        except BaseException:
            with suppress(Exception):
                self.sql.cursor.execute("ROLLBACK")
            raise
        self.sql.cursor.execute("COMMIT")
