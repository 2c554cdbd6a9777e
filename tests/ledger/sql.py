"""Raw SQL against a ledger's database, as somebody with its password or its file would run it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import sqlalchemy as sa

from reflector.ledger.columns import LEDGER_TABLES
from reflector.ledger.migration import make_triggers_and_views
from reflector.ledger.store import Ledger


def run(ledger: Ledger, *statements: str) -> None:
    """Each statement, in one committed transaction. A `%` is doubled for PostgreSQL's driver."""
    with ledger.engine.alchemy().begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def rows(ledger: Ledger, query: str) -> list[tuple[object, ...]]:
    with ledger.engine.alchemy().connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def content(ledger: Ledger) -> list[tuple[object, ...]]:
    """All that must never change: every playbook and every event."""
    return [
        *rows(ledger, "SELECT * FROM playbook ORDER BY id"),
        *rows(ledger, "SELECT * FROM event ORDER BY playbook_id, position"),
    ]


@cache
def tables() -> dict[str, tuple[list[str], list[str]]]:
    """(columns, those of the key) of each table of a ledger."""
    with Ledger.open("sqlite://") as ledger:
        inspector = sa.inspect(ledger.engine.alchemy())
        return {
            name: (
                [str(column["name"]) for column in inspector.get_columns(name)],
                inspector.get_pk_constraint(name)["constrained_columns"],
            )
            for name in LEDGER_TABLES
        }


def schema(ledger: Ledger) -> str:
    """The schema that holds a ledger on PostgreSQL, where several may share a database."""
    return str(rows(ledger, "SELECT current_schema()")[0][0])


def is_postgres(ledger: Ledger) -> bool:
    return ledger.engine.dialect == "postgresql"


@contextmanager
def triggers_off(ledger: Ledger) -> Iterator[sa.Connection]:
    """A committed transaction in which the triggers are down and after which they stand: a
    clever forger's.
    """
    with ledger.engine.alchemy().begin() as connection:
        for name, table in _standing(connection):
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql(f"DROP TRIGGER {name}")
            else:
                connection.exec_driver_sql(f"ALTER TABLE {table} DISABLE TRIGGER {name}")
        yield connection
        make_triggers_and_views(connection.connection.driver_connection, connection.dialect.name)


def forge(ledger: Ledger, *statements: str) -> None:
    """Each statement, in one transaction without triggers."""
    with triggers_off(ledger) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def _standing(connection: sa.Connection) -> list[tuple[str, str]]:
    if connection.dialect.name == "sqlite":
        query = "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'"
    else:
        query = (
            "SELECT tgname, tgrelid::regclass::text FROM pg_trigger JOIN pg_class ON pg_class.oid "
            "= tgrelid"
            " WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace"
        )
    return [(row[0], row[1]) for row in connection.exec_driver_sql(query)]
