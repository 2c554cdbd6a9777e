"""The schema of a database, compared with the one that this code makes.

Invariant: a ledger that this code opened has no finding: every table, index, trigger and view of the ledger is as it
was made, and nothing else hangs on its tables. On SQLite each statement is compared with that of a new database, which
the file `MADE` keeps; on PostgreSQL the catalogue with the tables' definitions. Alembic's comparison knows neither
primary keys nor checks nor partial indexes. Triggers and views are compared with their files. Reading only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from reflector.ledger import migration
from reflector.ledger.engines import Engine, open_engine
from reflector.ledger.errors import LedgerAway
from reflector.ledger.migration import triggers_of
from reflector.ledger.statements import Statements
from reflector.ledger.views import VIEWS, view_sql
from reflector.mistakes import Finding
from reflector.proof.reading import savepoint
from reflector.resources import resource_dir

if TYPE_CHECKING:
    import sqlalchemy as sa

#: Said of a thing that another program made.
_STRANGE = "is not the ledger's"
_MEND = "find out who changed it, then run `reflector verify --mend-triggers`"


def schema_findings(engine: Engine, sql: Statements) -> Iterator[Finding]:
    """Yield everything in the schema and in its version that is not as it was made."""
    for name, what in wrong_triggers(sql):
        if what == _STRANGE:
            remedy = f"find out who made it, then drop it: {_drop(sql, name)}"
            yield Finding("trigger", None, f"the trigger {name} {what}", remedy)
        else:
            refused = "so the database itself no longer refuses changes"
            yield Finding("trigger", None, f"the trigger {name} {what}, {refused}", _MEND)
    yield from _server_findings(engine, sql) if sql.postgres else _sqlite_findings(sql)
    for name, what in _wrong_views(sql):
        yield Finding("schema", None, f"the view {name} {what}", _MEND)
    versions = [row[0] for row in sql.execute("SELECT version_num FROM alembic_version").fetchall()]
    if versions != [migration.HEAD_REVISION]:
        yield _changed("table", "alembic_version", f"holds {versions!r}, not one row with {migration.HEAD_REVISION}")


def _drop(sql: Statements, name: str) -> str:
    """Return the statement that drops a trigger; PostgreSQL's names its table."""
    found = []
    if sql.postgres:
        query = (
            "SELECT 'DROP TRIGGER ' || quote_ident(t.tgname) || ' ON ' || t.tgrelid::regclass::text"
            " FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
            " WHERE NOT t.tgisinternal AND t.tgname = ? AND c.relnamespace = current_schema()::regnamespace"
        )
        found = [str(row[0]) for row in sql.execute(query, name).fetchall()]
    return "; ".join(found) or f"DROP TRIGGER {name}"


def _changed(kind: str, name: str, what: str) -> Finding:
    remedy = "find out who changed it, then restore a backup"
    return Finding("schema", None, f"the {kind} {name} {what}", remedy)


def wrong_triggers(sql: Statements) -> Iterator[tuple[str, str]]:
    """Yield (name, what is wrong) of each trigger that is missing, disabled, changed, or not the ledger's."""
    dialect = "postgresql" if sql.postgres else "sqlite"

    def ask(query: str) -> Any:
        return sql.execute(query).fetchone()

    ours, schema = triggers_of(dialect, ask)
    wrong = dict(_differing_triggers(ours, _standing_triggers(sql), dialect, schema))
    if sql.postgres and (event := migration.event_table(ask)) != "event":
        # Those of a worker fire. Citus puts a statement's there only when it moves the shard, and refuses TRUNCATE of
        # a shard itself.
        standing = _worker_triggers(sql, schema, event)
        there = {name: text for name, text in ours.items() if name in standing or "FOR EACH ROW" in text}
        found = _differing_triggers(there, standing, dialect, schema)
        wrong = {name: what if what == _STRANGE else f"{what} on its worker" for name, what in found} | wrong
    yield from wrong.items()


#: (statement, body and settings of PostgreSQL's function) of each enabled trigger of the ledger, by name.
_Standing = dict[str, tuple[str, str | None, list[str] | None]]


def _differing_triggers(
    ours: dict[str, str], standing: _Standing, dialect: str, schema: str
) -> Iterator[tuple[str, str]]:
    for name, text in ours.items():
        wanted = _wanted(text, dialect)
        if name not in standing:
            yield name, "is missing or disabled"
            continue
        statement, body, settings = standing[name]
        if (statement, body) != (wanted if wanted[1] is not None else (wanted[0], body)):
            yield name, "was changed"
        elif dialect == "postgresql" and settings != [f"search_path={schema}, pg_temp"]:
            # A table of the same name elsewhere on the search path would be looked at in the place of the ledger's.
            yield name, f"does not look for its tables in {schema} alone"
    for name in standing.keys() - ours.keys():
        yield name, _STRANGE


#: (name, statement, body, settings, table) of each enabled trigger in a schema.
_TRIGGERS = (
    "SELECT t.tgname, pg_get_triggerdef(t.oid, true) AS statement, p.prosrc, p.proconfig, c.relname"
    " FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid"
    " WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND c.relnamespace = {schema}::regnamespace"
)


def _standing_triggers(sql: Statements) -> _Standing:
    if not sql.postgres:
        rows = sql.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        return {name: (_squeezed(statement), None, None) for name, statement in rows}
    from reflector.ledger.tables import metadata

    rows = sql.execute(_TRIGGERS.format(schema="current_schema()")).fetchall()
    return {
        name: (_squeezed(statement), _squeezed(body), settings)
        for name, statement, body, settings, table in rows
        if table in metadata.tables
    }


def _worker_triggers(sql: Statements, schema: str, event: str) -> _Standing:
    """Return the triggers of a ledger's shards, which have the shard's number in their names, under those of ours.

    Raises LedgerAway if the worker does not answer.
    """
    quoted = "'" + schema.replace("'", "''") + "'"
    command = f"SELECT json_agg(found) FROM ({_TRIGGERS.format(schema=quoted)}) AS found"  # noqa: S608  quoted above
    query = "SELECT success, result FROM run_command_on_placements('event', ?)"
    answers, told = sql.execute(query, command).fetchone()
    if not answers:
        raise LedgerAway(f"the worker that holds the table {event} does not answer ({told}); start it, then try again")
    standing: _Standing = {}
    for one in json.loads(told or "[]") or ():
        _, _, number = one["relname"].rpartition("_")
        if number.isdigit():
            statement = one["statement"].replace(f"{schema}.", "").replace(f"_{number} ", " ")
            name = one["tgname"].removesuffix(f"_{number}")
            standing[name] = (_squeezed(statement), _squeezed(one["prosrc"]), one["proconfig"])
    return standing


def _wanted(text: str, dialect: str) -> tuple[str, str | None]:
    """Return what the catalogue shows for a trigger's SQL; it may use a function that another one defines."""
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


#: The file that keeps what the migrations make on SQLite, so that `verify` need not run them.
MADE: Final = "made.sqlite.json"


def made() -> dict[str, Any]:
    """Return what `MADE` has to hold: each (type, name, table, statement), and the digest of the migrations."""
    # The real migrations, for a later one may create a table again, in other words.
    engine = open_engine("sqlite://")
    with engine.alchemy().begin() as connection:
        migration.upgrade(connection)
        rows = connection.exec_driver_sql(_OBJECTS).fetchall()
    engine.close()
    return {"by": _digest_of_migrations(), "objects": [list(row) for row in rows]}


def _digest_of_migrations() -> str:
    folder = resource_dir("migrations")
    files = sorted([*folder.glob("versions/*.py"), *folder.glob("sql/*.sql")])
    return sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


@cache
def made_objects() -> dict[str, tuple[str, str, str]]:
    """Return (type, table, statement) of every table and index of a new SQLite ledger, by name."""
    file = resource_dir("migrations") / MADE
    kept = json.loads(file.read_text("utf-8")) if file.exists() else {}
    if kept.get("by") != _digest_of_migrations():  # somebody works on a migration
        kept = made()
    return {name: (type_, table, statement) for type_, name, table, statement in kept["objects"]}


def _sqlite_findings(sql: Statements) -> Iterator[Finding]:
    rows = sql.execute(_OBJECTS).fetchall()
    standing = {name: (type_, table, statement) for type_, name, table, statement in rows}
    made = made_objects()
    for name, statement in made.items():
        if standing.get(name) != statement:
            yield _changed(statement[0], name, "was changed" if name in standing else "is missing")
    for name in standing.keys() - made.keys():
        type_, table, _ = standing[name]
        if type_ == "index" and made.get(table, ("",))[0] == "table":
            yield _changed(type_, name, f"{_STRANGE} and hangs on its table {table}")


#: What is compared of a table on PostgreSQL, by kind and name.
_Parts = dict[tuple[str, str], tuple[Any, ...]]


def _server_findings(engine: Engine, sql: Statements) -> Iterator[Finding]:
    from reflector.ledger.tables import metadata

    with engine.alchemy().connect() as connection:
        yield from _differing_parts(connection, metadata)
    yield from _hidden(sql, metadata.tables)


def _differing_parts(connection: sa.Connection, metadata: sa.MetaData) -> Iterator[Finding]:
    import sqlalchemy as sa

    found = sa.MetaData()
    found.reflect(connection, only=lambda name, _: name in metadata.tables)
    for table in metadata.sorted_tables:
        if table.name not in found.tables:
            yield _changed("table", table.name, "is missing")
            continue
        made, standing = _parts(table, connection), _parts(found.tables[table.name], connection)
        for part in [*made, *(standing.keys() - made.keys())]:
            if part not in standing:
                yield _changed(*part, "is missing")
            elif standing[part] != made.get(part):
                yield _changed(*part, "was changed" if part in made else _STRANGE)


def _parts(table: sa.Table, connection: sa.Connection) -> _Parts:
    """Return what is compared of a table, as this code defines it or as the database describes it."""
    import sqlalchemy as sa

    name = table.name
    parts: _Parts = {
        ("column", f"{name}.{c.name}"): (c.type.compile(connection.dialect), bool(c.nullable)) for c in table.columns
    }
    for constraint in (*table.constraints, *(one for column in table.columns for one in column.constraints)):
        if isinstance(constraint, sa.PrimaryKeyConstraint):
            parts["constraint", f"primary key of {name}"] = tuple(c.name for c in constraint.columns)
        elif isinstance(constraint, sa.UniqueConstraint):
            parts["constraint", f"unique {tuple(c.name for c in constraint.columns)} of {name}"] = ()
        elif isinstance(constraint, sa.ForeignKeyConstraint):
            referred = (constraint.referred_table.name, *(element.column.name for element in constraint.elements))
            parts["constraint", f"reference {tuple(constraint.column_keys)} of {name}"] = referred
        elif isinstance(constraint, sa.CheckConstraint):
            parts["constraint", f"check {constraint.name} of {name}"] = _words(str(constraint.sqltext))
    for index in table.indexes:
        is_partial = any(index.dialect_options[engine]["where"] is not None for engine in ("sqlite", "postgresql"))
        columns = tuple(getattr(c, "name", str(c)) for c in index.expressions)
        parts["index", f"{index.name} of {name}"] = (columns, bool(index.unique), is_partial)
    return parts


def _words(sql: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+|[<>=]+", sql))


def _hidden(sql: Statements, tables: Collection[str]) -> Iterator[Finding]:
    """Rules, row security and invalid indexes: with these PostgreSQL does or shows something else."""
    ours = "relnamespace = current_schema()::regnamespace"
    rules = "SELECT tablename, rulename FROM pg_rules WHERE schemaname = current_schema()"
    for table, rule in sql.execute(rules).fetchall():
        if table in tables:
            yield _changed("rule", rule, f"{_STRANGE} and hangs on its table {table}")
    secured = f"SELECT relname FROM pg_class WHERE {ours} AND relrowsecurity"  # noqa: S608
    from reflector.ledger.grants import is_by_playbook

    policies = (
        "SELECT policyname, permissive, roles::text[], cmd, qual, with_check FROM pg_policies"
        " WHERE schemaname = current_schema() AND tablename = ?"
    )
    for (table,) in sql.execute(secured).fetchall():
        if table in tables and not is_by_playbook(table, sql.execute(policies, table).fetchall()):
            yield _changed("table", table, "hides rows (row level security)")
    invalid = (
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"  # noqa: S608
        f" WHERE c.{ours} AND NOT (i.indisvalid AND i.indisready)"
    )
    for (index,) in sql.execute(invalid).fetchall():
        yield _changed("index", index, "is not valid")


def _wrong_views(sql: Statements) -> Iterator[tuple[str, str]]:
    """Yield (name, what is wrong with it) of each view that is missing or another than this code's.

    PostgreSQL keeps no text of a view: this code's is made as a temporary one, in a savepoint that is rolled back, and
    the server's own description of the two is compared. Where it refuses that (a standby, a role that may only read),
    a view that is there passes.
    """
    compare = _changed_on_server if sql.postgres else _changed_in_file
    for name in VIEWS:
        what = compare(sql, name)
        if what is not None:
            yield name, what


def _changed_in_file(sql: Statements, name: str) -> str | None:
    row = sql.execute("SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?", name).fetchone()
    if row is None:
        return "is missing"
    return None if str(row[0]).split() == view_sql("sqlite", name).split() else "was changed"


def _changed_on_server(sql: Statements, name: str) -> str | None:
    from psycopg import Error

    standing = _described(sql, "current_schema()", name)
    if standing is None:
        return "is missing"
    copy = f"reflector_{name}"
    wanted = view_sql("postgresql", name).replace(f"CREATE VIEW {name}", f"CREATE TEMPORARY VIEW {copy}", 1)
    with suppress(Error), savepoint(sql):
        sql.cursor.connection.execute(wanted)
        return None if standing == _described(sql, "pg_my_temp_schema()", copy) else "was changed"
    return None


def _described(sql: Statements, schema: str, name: str) -> str | None:
    query = (
        "SELECT pg_get_viewdef(oid) FROM pg_class"  # noqa: S608  names are the code's own
        f" WHERE relkind = 'v' AND relname = '{name}' AND relnamespace = {schema}::regnamespace"
    )
    row = sql.execute(query).fetchone()
    return row[0] if row is not None else None
