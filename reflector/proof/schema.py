"""What stands in a database's schema, compared with what this code makes.

Invariant: a fault is a value, and a ledger that this code opened has none: every table, index, trigger and view of the
ledger's stands as it was made, and nothing else hangs on its tables. On SQLite each statement is compared with that of
a new database, made in memory; on PostgreSQL the catalogue with the tables' definitions. Triggers and views are
compared with their files. Reading only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from reflector.ledger import migration
from reflector.ledger.engines import open_engine
from reflector.ledger.migration import triggers
from reflector.ledger.tables import metadata
from reflector.ledger.views import wrong_views


@dataclass(frozen=True, slots=True)
class Fault:
    """Something of the schema that is not as it was made. `kind` is table, index, trigger, view, column, …"""

    kind: str
    name: str
    what: str


def schema_faults(connection: sa.Connection) -> Iterator[Fault]:
    """Every fault of the schema and of its version."""
    sqlite = connection.dialect.name == "sqlite"
    yield from wrong_triggers(connection)
    yield from _sqlite_faults(connection) if sqlite else _postgresql_faults(connection)
    for name, what in wrong_views(connection):
        yield Fault("view", name, what)
    versions = [row[0] for row in connection.exec_driver_sql("SELECT version_num FROM alembic_version").fetchall()]
    if versions != [migration.HEAD_REVISION]:
        yield Fault("table", "alembic_version", f"holds {versions!r}, not one row with {migration.HEAD_REVISION}")


def wrong_triggers(connection: sa.Connection) -> Iterator[Fault]:
    """Triggers that are missing, disabled, changed, or not the ledger's."""
    dialect = connection.dialect.name
    standing = _standing_triggers(connection)
    ours = triggers(dialect)
    for name, text in ours.items():
        wanted = _wanted(text, dialect)
        if name not in standing:
            yield Fault("trigger", name, "is missing or disabled")
        elif standing[name] != (wanted if wanted[1] is not None else (wanted[0], standing[name][1])):
            yield Fault("trigger", name, "was changed")
    for name in standing.keys() - ours.keys():
        yield Fault("trigger", name, "is none of the ledger's")


def _standing_triggers(connection: sa.Connection) -> dict[str, tuple[str, str | None]]:
    """(statement, function's body on PostgreSQL) of each trigger on the ledger's tables that is enabled, by name."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        return {name: (_squeezed(sql), None) for name, sql in rows}
    rows = connection.exec_driver_sql(
        "SELECT t.tgname, pg_get_triggerdef(t.oid, true), p.prosrc, c.relname"
        " FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND c.relnamespace = current_schema()::regnamespace"
    ).fetchall()
    return {
        name: (_squeezed(statement), _squeezed(body))
        for name, statement, body, table in rows
        if table in metadata.tables
    }


def _wanted(text: str, dialect: str) -> tuple[str, str | None]:
    """What the catalogue shows for a trigger's SQL; it may use a function that another one defines."""
    statement = text[text.index("CREATE TRIGGER") :]
    if dialect == "sqlite":
        return _squeezed(statement), None
    body = re.search(r"\$\$(.*)\$\$", text, re.DOTALL)
    return _squeezed(statement.rstrip().rstrip(";")), _squeezed(body[1]) if body else None


def _squeezed(sql: str | None) -> str:
    return " ".join((sql or "").split())


_OBJECTS = (
    "SELECT type, name, tbl_name, sql FROM sqlite_master"
    " WHERE type IN ('table', 'index') AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY type DESC, name"
)


@cache
def _made(revision: str) -> dict[str, tuple[str, str, str]]:
    """(type, table, statement) of every table and index of a new SQLite ledger at a revision, by name."""
    # The real migrations, for a later one may make a table anew, in words of its own.
    engine = open_engine("sqlite://")
    with engine.begin() as connection:
        migration.upgrade(connection, revision)
        rows = connection.exec_driver_sql(_OBJECTS).fetchall()
    engine.dispose()
    return {name: (type_, table, sql) for type_, name, table, sql in rows}


def _sqlite_faults(connection: sa.Connection) -> Iterator[Fault]:
    rows = connection.exec_driver_sql(_OBJECTS).fetchall()
    standing = {name: (type_, table, sql) for type_, name, table, sql in rows}
    made = _made(migration.HEAD_REVISION)
    for name, (type_, table, sql) in made.items():
        if name not in standing:
            yield Fault(type_, name, "is missing")
        elif standing[name] != (type_, table, sql):
            yield Fault(type_, name, "was changed")
    for name in standing.keys() - made.keys():
        type_, table, _ = standing[name]
        if type_ == "index" and table in metadata.tables:
            yield Fault(type_, name, f"is none of the ledger's and hangs on its table {table}")


def _postgresql_faults(connection: sa.Connection) -> Iterator[Fault]:
    inspector = sa.inspect(connection)
    there = set(inspector.get_table_names())
    for table in metadata.sorted_tables:
        if table.name not in there:
            yield Fault("table", table.name, "is missing")
            continue
        yield from _table_faults(inspector, table, connection)
    yield from _hidden(connection)


def _table_faults(inspector: sa.Inspector, table: sa.Table, connection: sa.Connection) -> Iterator[Fault]:
    dialect = connection.dialect
    columns = {c["name"]: (c["type"].compile(dialect), c["nullable"]) for c in inspector.get_columns(table.name)}
    wanted = {c.name: (c.type.compile(dialect), bool(c.nullable)) for c in table.columns}
    for name in [*wanted, *(columns.keys() - wanted.keys())]:
        if columns.get(name) != wanted.get(name):
            yield Fault("column", f"{table.name}.{name}", _difference(name in columns, name in wanted))
    keys = {"primary key": tuple(inspector.get_pk_constraint(table.name)["constrained_columns"])}
    keys |= {f"unique {tuple(u['column_names'])}": () for u in inspector.get_unique_constraints(table.name)}
    keys |= {
        f"reference {tuple(f['constrained_columns'])}": (f["referred_table"], *f["referred_columns"])
        for f in inspector.get_foreign_keys(table.name)
    }
    keys |= {f"check {c['name']}": _checked(c["sqltext"]) for c in inspector.get_check_constraints(table.name)}
    yield from _compared("constraint", table.name, keys, _constraints(table))
    indexes = {
        str(i["name"]): (
            tuple(i["column_names"]),
            bool(i["unique"]),
            bool(i["dialect_options"].get("postgresql_where")),
        )
        for i in inspector.get_indexes(table.name)
        if not i.get("duplicates_constraint")
    }
    made = {
        str(i.name): (
            tuple(c.name for c in i.columns),
            bool(i.unique),
            i.dialect_options["sqlite"]["where"] is not None,
        )
        for i in table.indexes
    }
    yield from _compared("index", table.name, indexes, made)


def _constraints(table: sa.Table) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for constraint in (*table.constraints, *(one for column in table.columns for one in column.constraints)):
        if isinstance(constraint, sa.PrimaryKeyConstraint):
            found["primary key"] = tuple(c.name for c in constraint.columns)
        elif isinstance(constraint, sa.UniqueConstraint):
            found[f"unique {tuple(c.name for c in constraint.columns)}"] = ()
        elif isinstance(constraint, sa.ForeignKeyConstraint):
            referred = tuple(element.column.name for element in constraint.elements)
            found[f"reference {tuple(constraint.column_keys)}"] = (constraint.referred_table.name, *referred)
        elif isinstance(constraint, sa.CheckConstraint):
            found[f"check {constraint.name}"] = _checked(str(constraint.sqltext))
    return found


def _checked(sql: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+|[<>=]+", sql))


def _compared(kind: str, table: str, standing: dict[str, Any], made: dict[str, Any]) -> Iterator[Fault]:
    for name in [*made, *(standing.keys() - made.keys())]:
        if standing.get(name) != made.get(name):
            yield Fault(kind, f"{name} of {table}", _difference(name in standing, name in made))


def _difference(stands: bool, was_made: bool) -> str:
    return "is missing" if not stands else "was changed" if was_made else "is none of the ledger's"


def _hidden(connection: sa.Connection) -> Iterator[Fault]:
    """Rules and row security: what makes PostgreSQL do or show something else than it is asked."""
    rules = connection.exec_driver_sql(
        "SELECT tablename, rulename FROM pg_rules WHERE schemaname = current_schema()"
    ).fetchall()
    for table, rule in rules:
        if table in metadata.tables:
            yield Fault("rule", rule, f"is none of the ledger's and hangs on its table {table}")
    secured = connection.exec_driver_sql(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relrowsecurity"
    ).fetchall()
    for (table,) in secured:
        if table in metadata.tables:
            yield Fault("table", table, "hides rows (row level security)")
    invalid = connection.exec_driver_sql(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE c.relnamespace = current_schema()::regnamespace AND NOT (i.indisvalid AND i.indisready)"
    ).fetchall()
    for (index,) in invalid:
        yield Fault("index", index, "is not valid")
