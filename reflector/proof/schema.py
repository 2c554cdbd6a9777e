"""Compares the schema of a database with the one that this code makes.

Invariant: a ledger that this code opened has no finding: every table, index, trigger and view of
the ledger is unchanged, and nothing else is attached to its tables. On SQLite each statement is
compared with migrations/schema.sqlite.sql, and on PostgreSQL the catalogue with that of
migrations/schema.postgresql.sql. Triggers and views are compared with their files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

from reflector.ledger import migration
from reflector.ledger.columns import LEDGER_TABLES
from reflector.ledger.migration import VIEWS, view_sql
from reflector.ledger.statements import Statements
from reflector.mistakes import Finding
from reflector.proof.reading import savepoint

#: The fault of an object that another program created.
_STRANGE = "does not belong to the ledger"
_MEND = "find out who changed the ledger, then run `reflector rebuild --fix`"


def schema_findings(sql: Statements) -> Iterator[Finding]:
    """Yield a finding for each part of the schema and its version that was changed."""
    for name, (what, table) in wrong_triggers(sql).items():
        if what == _STRANGE:
            which = name
            if sql.postgres:
                which = f"{sql.execute('SELECT quote_ident(?)', name).fetchone()[0]} ON {table}"
            remedy = f"find out who created this trigger, then drop it: DROP TRIGGER {which}"
            yield Finding("trigger", None, f"the trigger {name} {what}", remedy)
        else:
            refused = "so the database no longer refuses changes of events"
            yield Finding("trigger", None, f"the trigger {name} {what}, {refused}", _MEND)
    yield from _server_findings(sql) if sql.postgres else _sqlite_findings(sql)
    rows = sql.execute("SELECT version_num FROM alembic_version").fetchall()
    versions = [name for (name,) in rows]
    if migration.has_other_tables(sql):  # their program may keep its own revisions there
        versions = [name for name in versions if migration.IS_REVISION.fullmatch(name)]
    if versions != [migration.HEAD_REVISION]:
        yield _changed(
            "table",
            "alembic_version",
            f"contains the revisions {versions!r} instead of only {migration.HEAD_REVISION}",
        )


def _changed(kind: str, name: str, what: str) -> Finding:
    remedy = _MEND if kind == "view" else "find out who changed the ledger, then restore a backup"
    return Finding("schema", None, f"the {kind} {name} {what}", remedy)


class _Trigger(NamedTuple):
    """An enabled trigger as the catalogue shows it. The last two fields are those of PostgreSQL's
    function.
    """

    table: str
    statement: str
    body: str | None = None
    settings: list[str] | None = None


def wrong_triggers(sql: Statements) -> dict[str, tuple[str, str]]:
    """Return (fault, table) of each trigger that is missing, disabled, changed, or not the
    ledger's, by name. Only the schema is read, not the events.
    """

    schema = migration.current_schema(sql) if sql.postgres else ""
    ours = migration.triggers("postgresql" if sql.postgres else "sqlite", schema)
    return _differing_triggers(ours, _existing_triggers(sql), schema)


def _differing_triggers(
    ours: dict[str, str], existing: dict[str, _Trigger], schema: str
) -> dict[str, tuple[str, str]]:
    """Return the fault and the table of each missing, changed or strange trigger, by its name."""
    wrong = {}
    settings = [f"search_path={schema}, pg_temp"] if schema else None
    for name, text in ours.items():
        statement = text[text.index("CREATE TRIGGER") :]
        body = _BODY.search(text)
        one = existing.get(name)
        if one is None:
            wrong[name] = "is missing or disabled", ""
        elif one.statement != _squeezed(statement) or (body and one.body != _squeezed(body[1])):
            wrong[name] = "was changed", one.table
        elif one.settings != settings:
            # A table of the same name elsewhere on the search path would be used instead of the
            # ledger's.
            wrong[name] = f"also looks for its tables in schemas other than {schema}", one.table
    return wrong | {
        name: (_STRANGE, existing[name].table) for name in existing.keys() - ours.keys()
    }


#: The body of a trigger's function, which another trigger may define.
_BODY = re.compile(r"\$\$(.*)\$\$", re.DOTALL)
#: (name, statement, body, settings, table) of each enabled trigger in a schema.
_TRIGGERS = (
    "SELECT t.tgname, pg_get_triggerdef(t.oid, true) AS statement, p.prosrc, p.proconfig, c.relname"
    " FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid"
    " WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND c.relnamespace = "
    "current_schema()::regnamespace"
)


def _existing_triggers(sql: Statements) -> dict[str, _Trigger]:
    if not sql.postgres:
        rows = sql.execute(
            "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        return {name: _Trigger(table, _squeezed(statement)) for name, table, statement in rows}
    rows = sql.execute(_TRIGGERS).fetchall()
    return {
        name: _Trigger(table, _squeezed(statement), _squeezed(body), settings)
        for name, statement, body, settings, table in rows
        if table in LEDGER_TABLES
    }


def _squeezed(sql: str | None) -> str:
    return " ".join((sql or "").split()).removesuffix(";")


_OBJECTS = (
    "SELECT type, name, tbl_name, sql FROM sqlite_master"
    " WHERE type IN ('table', 'index', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
)


def _sqlite_findings(sql: Statements) -> Iterator[Finding]:
    """Compare the statements of tables, indexes and views with those of this code."""
    existing = {row[1]: row for row in sql.execute(_OBJECTS).fetchall()}
    made = migration.schema("sqlite") | {"alembic_version": migration.VERSION}
    made |= {name: view_sql("sqlite", name) for name in VIEWS}
    for name, statement in made.items():
        if name not in existing or _words(existing[name][3]) != _words(statement):
            kind = "view" if name in VIEWS else "table" if name in _TABLES else "index"
            yield _changed(kind, name, "was changed" if name in existing else "is missing")
    for name in existing.keys() - made.keys():
        type_, _, table, _ = existing[name]
        if type_ == "index" and table in _TABLES:
            yield _changed(type_, name, f"{_STRANGE} and is attached to the ledger's table {table}")


def _words(statement: str) -> list[str]:
    """Return the words of a statement, without spaces. A table that got a column from a revision
    has other spaces than a new table.
    """
    return re.findall(r"'[^']*'|[^\s(),]+|[(),]", statement)


_TABLES = frozenset((*LEDGER_TABLES, "alembic_version"))
#: The compared parts of the tables in a schema of PostgreSQL: (table, kind, name, description).
_PARTS = (
    "WITH ours AS (SELECT oid, relname FROM pg_class WHERE relkind IN ('r', 'p') AND relname = "
    "ANY(?)"
    " AND relnamespace = {schema}::regnamespace)"
    " SELECT relname, 'table', '', '' FROM ours UNION ALL"
    " SELECT relname, 'column', attname, format_type(atttypid, atttypmod) || CASE WHEN attnotnull "
    "THEN ' NOT NULL'"
    " ELSE '' END FROM ours JOIN pg_attribute ON attrelid = ours.oid WHERE attnum > 0 AND NOT "
    "attisdropped UNION ALL"
    " SELECT relname, 'constraint', conname, pg_get_constraintdef(pg_constraint.oid) FROM ours"
    " JOIN pg_constraint ON conrelid = ours.oid"
    " WHERE contype IN ('p', 'u', 'f', 'c', 'x') UNION ALL"
    " SELECT ours.relname, 'index', one.relname,"
    " regexp_replace(pg_get_indexdef(one.oid), ' ON (ONLY |)[^ ]+[.]', ' ON ')"
    " FROM ours JOIN pg_index ON indrelid = ours.oid JOIN pg_class AS one ON one.oid = indexrelid "
    "UNION ALL"
    " SELECT relname, 'view', '', pg_get_viewdef(oid) FROM pg_class WHERE relkind = 'v' AND "
    "relname = ANY(?)"
    " AND relnamespace = {schema}::regnamespace"
)


def _server_findings(sql: Statements) -> Iterator[Finding]:
    """Compare the catalogue with that of the same tables and views, created as temporary ones in a
    savepoint that is rolled back.

    PostgreSQL keeps no text of a view, and describes both in its own form. If the server refuses
    this (a standby, a role that may only read), existing tables and views pass.
    """
    from psycopg import Error

    existing = _parts(sql, "current_schema()")
    made = {(name, "table", ""): "" for name in LEDGER_TABLES}
    made |= {(name, "view", ""): existing.get((name, "view", ""), "") for name in VIEWS}
    known = len(made)
    with suppress(Error), savepoint(sql):
        run = sql.cursor.connection.execute
        views = [view_sql("postgresql", name) for name in VIEWS]
        for statement in (*migration.schema("postgresql").values(), *views):
            run(re.sub("CREATE (TABLE|VIEW)", r"CREATE TEMPORARY \1", statement, count=1))
        made = _parts(sql, "pg_my_temp_schema()")
    for part, description in made.items():
        if existing.get(part) != description:
            yield _part_changed(part, "was changed" if part in existing else "is missing")
    is_compared = len(made) > known  # the server did not refuse
    if is_compared:
        for part in existing.keys() - made.keys():
            yield _part_changed(part, _STRANGE)
    yield from _hidden(sql, LEDGER_TABLES)


def _parts(sql: Statements, schema: str) -> dict[tuple[str, str, str], str]:
    rows = sql.execute(_PARTS.format(schema=schema), list(LEDGER_TABLES), list(VIEWS)).fetchall()
    return {(table, kind, name): description for table, kind, name, description in rows}


def _part_changed(part: tuple[str, str, str], what: str) -> Finding:
    table, kind, name = part
    where = f"{table}.{name}" if kind == "column" else f"{name} of {table}"
    return _changed(kind, where if name else table, what)


def _hidden(sql: Statements, tables: Collection[str]) -> Iterator[Finding]:
    """Yield a finding for each rule, row security and invalid index. With these, PostgreSQL does or
    shows something other than the statement.
    """
    ours = "relnamespace = current_schema()::regnamespace"
    rules = "SELECT tablename, rulename FROM pg_rules WHERE schemaname = current_schema()"
    for table, rule in sql.execute(rules).fetchall():
        if table in tables:
            yield _changed(
                "rule", rule, f"{_STRANGE} and is attached to the ledger's table {table}"
            )
    secured = f"SELECT relname FROM pg_class WHERE {ours} AND relrowsecurity"  # noqa: S608
    for (table,) in sql.execute(secured).fetchall():
        if table in tables:
            yield _changed("table", table, "hides rows, because row level security is on")
    invalid = (
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"  # noqa: S608
        f" WHERE c.{ours} AND NOT (i.indisvalid AND i.indisready)"
    )
    for (index,) in sql.execute(invalid).fetchall():
        yield _changed("index", index, "is not valid")
