"""Runs SQL in the engine's own parameter style on the driver's cursor of an open transaction.

Invariant: the same call writes the same rows on both engines, each in its cheapest way. SQLite runs
a statement for each row, PostgreSQL one statement over arrays, or COPY. SQLAlchemy's handling of a
statement costs as much as the inserts themselves, so the path of every session uses this module.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from reflector.ledger.columns import NUMBER_COLUMNS


def _arrays(columns: Sequence[str]) -> str:
    """Return the placeholders, one array for each column."""
    types = ("bigint" if column in NUMBER_COLUMNS else "text" for column in columns)
    return ", ".join(f"%b::{type_}[]" for type_ in types)


#: Returns a row if a table has rows of a playbook whose own row is missing. It needs one look-up
#: for each playbook.
OWNERLESS = (
    "WITH RECURSIVE owner(id) AS (SELECT min(playbook_id) FROM {table} UNION ALL"
    " SELECT (SELECT min(playbook_id) FROM {table} WHERE playbook_id > owner.id) FROM owner WHERE "
    "owner.id IS NOT NULL)"
    " SELECT 1 FROM owner WHERE NOT EXISTS (SELECT 1 FROM playbook WHERE playbook.id = owner.id)"
    " AND owner.id IS NOT NULL LIMIT 1"
)
#: Increased when the projector writes other rows for the same events. The tables of a ledger with
#: an older version are rebuilt.
CODE_VERSION = 2
#: The name of the row of `projection` that contains the position of the tables.
TABLES = "tables"
#: The number of rows from which PostgreSQL gets them by COPY.
COPIED = 500


class Statements:
    """Statements on one playbook's rows."""

    def __init__(self, cursor: Any, dialect: str, playbook_id: int) -> None:
        self.cursor = cursor
        self.postgres = dialect == "postgresql"
        self.id = playbook_id

    def run(self, sql: str, *values: object) -> Any:
        """Execute with `?` placeholders; the first value is always the playbook's id."""
        return self.execute(sql, self.id, *values)

    def rows(self, sql: str, *values: object) -> list[Any]:
        """Return all rows of a query, which is run like `run`."""
        rows: list[Any] = self.run(sql, *values).fetchall()
        return rows

    def row(self, sql: str, *values: object) -> Any:
        """Return the first row of a query, which is run like `run`; None without a row."""
        return self.run(sql, *values).fetchone()

    def execute(self, sql: str, *values: object) -> Any:
        """Execute with `?` placeholders, one for each value, and return the cursor with the answer.
        The value of `IN ?` is a collection of any size.
        """
        if " IN ?" in sql:
            sql = sql.replace(
                " IN ?", " = ANY(?)" if self.postgres else " IN (SELECT value FROM json_each(?))"
            )
            values = tuple(
                one if one is None or isinstance(one, str | int) else self._many(one)
                for one in values
            )
        if not self.postgres:
            self.cursor.execute(sql, values)
            return self.cursor
        # In a pipeline a cursor takes the first answer that arrives, which may be that of the
        # previous statement. So each question gets its own cursor there.
        cursor = self.cursor.connection.cursor()
        cursor.execute(sql.replace("?", "%s"), values)
        return cursor

    def _many(self, values: Any) -> object:
        return list(values) if self.postgres else json.dumps(list(values))

    def data_field(self, name: str) -> str:
        """Return the expression for a field of an event's data: a text, a number in the engine's
        form, a list or an object as JSON text; NULL for no value.
        """
        if self.postgres:
            # PostgreSQL refuses to read any field beside a NUL, which an answer may contain.
            return f"(replace(data, '\\u0000', '\\ufffd')::json ->> '{name}')"
        return f"json_extract(data, '$.{name}')"

    def change(
        self,
        table: str,
        sets: str,
        where: str,
        columns: tuple[str, ...],
        rows: Sequence[tuple[object, ...]],
    ) -> None:
        """Run one UPDATE of the playbook's rows in `table` for each of `rows`.

        For example, `change("tag", "active = 0", "name = {name}", ("name",), [("pat-001",)])`.

        sets, where  SQL of an UPDATE in which `{name}` is the row's value of the column `name`, and
                     `{playbook}` is the playbook's id for a subquery. The condition that a row
                     belongs to the playbook is added.
        columns      the names of the values in each of `rows`, numbers or texts; `sets` or `where`
                     uses the last one
        rows         No two of them may change the same row of the table, because PostgreSQL gets
                     all of them in one statement.
        """
        if not rows:
            return
        marks = [
            f"new_{column}" if self.postgres else f"?{number}"
            for number, column in enumerate(columns, 1)
        ]
        places = dict(zip(columns, marks, strict=True), playbook=str(self.id))
        source = (
            f" FROM unnest({_arrays(columns)}) AS more ({', '.join(marks)})"
            if self.postgres
            else ""
        )
        where = f"{table}.playbook_id = {self.id:d} AND ({where.format_map(places)})"
        sql = f"UPDATE {table} SET {sets.format_map(places)}{source} WHERE {where}"  # noqa: S608
        self._run_for(sql, rows)

    def insert(
        self,
        table: str,
        columns: tuple[str, ...],
        rows: Sequence[tuple[object, ...]],
    ) -> None:
        """Insert rows of these columns into the playbook."""
        if not rows:
            return
        names = ", ".join(f'"{column}"' for column in columns)
        into = f"{table} (playbook_id, {names})"
        # A pipeline, which sends statements without waiting for answers, refuses COPY.
        if (
            self.postgres
            and len(rows) >= COPIED
            and not self.cursor.connection.info.pipeline_status
        ):
            with self.cursor.copy(f"COPY {into} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row((self.id, *row))
            return
        if self.postgres:
            values = f"SELECT {self.id:d}, * FROM unnest({_arrays(columns)})"  # noqa: S608
        else:
            values = f"VALUES ({self.id:d}{', ?' * len(columns)})"
        self._run_for(f"INSERT INTO {into} {values}", rows)

    def insert_new_records(self, keys: Sequence[int]) -> None:
        """Insert each of these keys into `record` that the playbook does not have yet."""
        if not keys:
            return
        if self.postgres:
            source = "SELECT %s, unnest(%b::bigint[])"
        else:
            # With `true`, ON CONFLICT is not read as the condition of a join.
            source = "SELECT ?, value FROM json_each(?) WHERE true"
        self.cursor.execute(
            f'INSERT INTO record (playbook_id, "key") {source} ON CONFLICT DO NOTHING',
            (self.id, self._many(keys)),
        )

    def _run_for(self, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Execute for all rows: on PostgreSQL once, with an array for each column."""
        if self.postgres:
            self.cursor.execute(sql, [list(column) for column in zip(*rows, strict=True)])
        else:
            self.cursor.executemany(sql, rows)


def set_checkpoint(sql: Statements, name: str, policy: str, position: int, state_hash: str) -> None:
    """Record that a named projection is at a position, with this hash.

    An existing row keeps its code version. It names the version that filled the tables, and a
    writer on a server may not set it.
    """
    columns = ("policy_id", "position", "state_hash", "updated_at")
    values = ", ".join(f"{column} = excluded.{column}" for column in columns)
    sql.run(
        "INSERT INTO projection (playbook_id, name, code_version, "  # noqa: S608
        f"{', '.join(columns)})"
        " VALUES (?, ?, ?, ?, ?, ?, NULL)"
        f" ON CONFLICT (playbook_id, name) DO UPDATE SET {values}",
        *(name, CODE_VERSION, policy, position, state_hash),
    )
