"""Shared functions of the scripts in migrations/versions, which run on a connection or are printed
as SQL for a database administrator.

Invariant: triggers and views are dropped before a revision, because they prevent changes of the
tables that they read, and the last revision creates those of this code. So the scripts also run in
another program's Alembic environment. A step checks first, or can be repeated: the first script
makes a new ledger with the newest schema, and the others find nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from alembic import op

from reflector.ledger import migration


class Step:
    """A revision that runs, or whose SQL is printed."""

    def __init__(self) -> None:
        self._context = op.get_context()

    @property
    def dialect(self) -> str:
        """The engine's name: "sqlite" or "postgresql"."""
        return self._context.dialect.name

    @cached_property
    def _readable(self) -> sa.Connection | None:
        """The connection to the ledger; None if the SQL is printed for a ledger that is not
        available.
        """
        if not self._context.as_sql:
            return op.get_bind()
        config = self._context.config
        return config.attributes.get("connection") if config else None

    def begin(self) -> None:
        """Begin a transaction on SQLite if there is none. Its driver begins none for a change of
        the schema, and an interrupted change must not leave a part of it.
        """
        if self.dialect != "sqlite" or self._context.as_sql:
            return
        driver: Any = op.get_bind().connection.driver_connection
        if not driver.in_transaction:
            driver.execute("BEGIN IMMEDIATE")

    def run(self, *statements: str) -> None:
        """Run SQL texts unchanged, or print them."""
        for statement in statements:
            if self._context.as_sql:
                self._context.impl.static_output(f"{statement.rstrip().rstrip(';')};\n")
            else:
                driver: Any = op.get_bind().connection.driver_connection
                driver.execute(statement)

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; an empty set for a missing table."""
        if self._readable is None:
            return set()
        inspector = sa.inspect(self._readable)
        if not inspector.has_table(table):
            return set()
        return {column["name"] for column in inspector.get_columns(table)}

    def add_column(self, table: str, declaration: str) -> None:
        """Add a column to a table that lacks it, as the schema in migrations declares it."""
        columns = self.columns(table)
        if columns and declaration.split()[0] not in columns:
            self.run(f"ALTER TABLE {table} ADD COLUMN {declaration}")

    def create_ledger(self) -> None:
        """Create the tables and indexes of a new ledger."""
        self.run(*migration.creating_statements(self.dialect))

    def make(self) -> None:
        """Create the triggers and the views of this code."""
        self.run(*migration.making_statements(self.dialect, self._schema()))
        self.run(migration.noting_statement())

    def _schema(self) -> str:
        """Return the name of the schema in which a trigger of PostgreSQL finds its tables."""
        if self.dialect != "postgresql" or self._readable is None:
            return "public"
        return migration.current_schema(self._readable.connection.driver_connection)


@contextmanager
def revision(number: str) -> Iterator[Step]:
    """The step of a revision, without triggers and views, which the last revision creates."""
    step = Step()
    step.begin()
    step.run(*migration.dropping_statements(step.dialect))
    yield step
    if number == migration.HEAD_REVISION:
        step.make()
