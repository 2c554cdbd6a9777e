"""A ledger's schema: the current tables, triggers and views, and the upgrade of an older ledger.

Invariant: a current ledger is recognised without importing Alembic, and a ledger that is newer than
the code is refused and stays untouched. After every migration all triggers and views exist.
ledger/tables.py declares the tables. A new ledger is made from migrations/schema.*.sql, which is
generated from it, and migrations/versions upgrades an older one. Views contain no data, and
creating them reads no event.
"""

from __future__ import annotations

import re
import threading
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.ledger.columns import LEDGER_TABLES
from reflector.ledger.engines import Engine, migration_transaction, open_engine, write_transaction
from reflector.ledger.errors import LedgerCorrupt, LedgerTooNew, LedgerUnavailable, translated
from reflector.ledger.sqlite_file import can_be_written, copy_of
from reflector.ledger.statements import TABLES
from reflector.ledger.url import sqlite_url
from reflector.resources import resource_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa
    from alembic.config import Config

    from reflector.ledger.statements import Statements

#: The newest revision under migrations/versions.
HEAD_REVISION = max(
    path.name[:4] for path in (resource_dir("migrations") / "versions").glob("[0-9]*.py")
)
#: `made_digest` of each earlier released version, oldest first; "" for the versions without it.
EARLIER = (
    "",
    "480686d6f7ad7fd9febe91a2e02d50f76f0de02f6100d90168694b1203b1e8a8",
    "cc1521d166d6d3decf945e7d2690a8cde6ac2b95702e912a059af24221dfea59",
)
#: In order of creation, because the others read `repeated`. That view is not documented for
#: queries.
VIEWS = ("repeated", "bullets", "tags", "reflections", "sessions")

# Compiled only when a schema is created, because a current ledger needs none of them.
_DIFFERENT = r"(?s)\{sqlite\}(?P<sqlite>.*?)\{postgresql\}(?P<postgresql>.*?)\{both\}"
_VALUE = (
    r"\{(?P<source>[\w.]+) (?P<arrow>->|=>) (?P<path>[\w.]+)(?: as "
    r"(?P<kind>number|fraction))?\}"
)
_NAMES = {
    "sqlite": "SELECT name, type = 'table' FROM sqlite_master WHERE type IN ('table', 'view')"
    " AND name NOT LIKE 'sqlite!_%' ESCAPE '!'",
    "postgresql": "SELECT relname::text, relkind <> 'v' FROM pg_class WHERE relkind IN ('r', 'p', "
    "'f', 'v')"
    " AND relnamespace = to_regnamespace(quote_ident(current_schema()))",
}
#: The name of the table or index that a statement creates.
_CREATED = r"CREATE (?:UNIQUE )?\w+ (\w+)"

#: Alembic keeps the running migration in variables of the process.
_ALEMBIC = threading.Lock()


class Upgraded(NamedTuple):
    """An upgrade of a ledger's schema: the revision before it, and the copy of that ledger (or
    None).
    """

    revision: str
    kept: Path | None


def ensure_current(engine: Engine, *, keeps_copy: bool = False) -> Upgraded | None:
    """Create or upgrade the schema if it is not at `HEAD_REVISION`. Return the upgrade, None if
    there was none.

    With `keeps_copy` a SQLite ledger is first copied beside itself, and is not upgraded if the copy
    fails.

    Raises: LedgerTooNew for a newer revision, LedgerCorrupt for a database with other content,
    LedgerUnavailable. The ledger is unchanged then.
    """
    driver: Any
    with engine.connection() as driver:
        if revision_of(engine, driver) == HEAD_REVISION:
            return None
    with write_transaction(engine) as driver:
        if engine.dialect == "postgresql":
            # Two concurrent first uses would both create the tables. Appends never take this lock.
            driver.execute(_FIRST_USE)
        revision = revision_of(engine, driver)
        if revision is None:
            _refuse_taken_names(engine, driver, is_new=True)
            _create(driver, engine.dialect)
    upgraded = None
    if revision not in (None, HEAD_REVISION):
        with migration_transaction(engine) as connection:
            driver = connection.connection.driver_connection
            if engine.dialect == "postgresql":
                connection.exec_driver_sql(_FIRST_USE)
            revision = revision_of(engine, driver)
            if revision not in (None, HEAD_REVISION):
                _refuse_taken_names(engine, driver, is_new=False)
                kept = copy_before_upgrade(engine, revision) if keeps_copy else None
                upgrade(connection)
                upgraded = Upgraded(revision, kept)
    return upgraded


def copy_before_upgrade(engine: Engine, revision: str = HEAD_REVISION) -> Path | None:
    """Copy a SQLite ledger beside itself before its upgrade, and return the copy; None for any
    other ledger. The caller must hold the writers' lock.

    Raises: LedgerUnavailable.
    """
    # reflector's SQLite library makes the copy, and its close would drop the locks of a host's.
    if not engine.url.is_file or engine.is_guest:
        return None
    from reflector.ledger.sqlite_copy import keep_before_upgrade

    return keep_before_upgrade(Path(engine.url.database), revision)


def _refuse_taken_names(engine: Engine, driver: Any, *, is_new: bool) -> None:
    """Raise LedgerCorrupt if another program already uses the name of a view. On a server, such a
    program may share the database.
    """
    there = driver.execute(_NAMES[engine.dialect]).fetchall()
    if taken := {name for name, is_table in there if is_table or is_new} & {*VIEWS}:
        raise LedgerCorrupt(
            f"{engine.url.shown} already uses names that the ledger needs for its views "
            f"({', '.join(sorted(taken))}), so nothing was changed; rename your table or view, or "
            "set REFLECTOR_LEDGER_URL to another database"
        )


#: The form of the name of reflector's revisions.
IS_REVISION = re.compile(r"\d{4}")
#: The table as Alembic creates it.
VERSION = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
    " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_NO_LEDGER = (
    "{where} does not contain a ledger yet; the first command that uses the ledger creates the "
    "ledger"
)
_MAKES_VERSION = re.compile(r"CREATE TABLE alembic_version .*?;", re.DOTALL)
#: The first script upgrades a ledger of any earlier revision to this one.
_FIRST_SCRIPT = "0009"
_FORGET_EARLIER = "DELETE FROM alembic_version WHERE version_num IN ('{}')".format(  # noqa: S608
    "', '".join(f"000{number}" for number in range(1, 9))
)
_FIRST_USE = "SELECT pg_advisory_xact_lock(hashtext('reflector.migration'))"


def revision_of(engine: Engine, driver: Any) -> str | None:
    """Return a ledger's revision, None for an empty database.

    Raises: LedgerTooNew, or LedgerCorrupt for a damaged ledger or the tables of another program.
    """
    where = engine.url.shown
    found = driver.execute(_NAMES[engine.dialect]).fetchall()
    names = {name for name, is_table in found if is_table}
    if views := {name for name, is_table in found if not is_table} & {*LEDGER_TABLES}:
        # A query on the view instead of the table may never end.
        raise LedgerCorrupt(
            f"in {where}, {min(views)} is a view instead of a table; restore a backup"
        )
    if not {"playbook", "event", "alembic_version"} <= names:
        _refuse_other_tables(engine, names)
        return None
    revision = _noted_revision(driver, where)
    if revision > HEAD_REVISION:
        raise LedgerTooNew(
            f"the ledger {where} is at revision {revision}, but this reflector only knows "
            f"revisions up to {HEAD_REVISION}; upgrade reflector (the ledger was not changed)"
        )
    if revision == HEAD_REVISION and (missing := {*LEDGER_TABLES} - names):
        raise LedgerCorrupt(
            f"{where} is at revision {revision} but lacks the table {min(missing)}, because an "
            "unreleased version of reflector wrote the ledger. Export the ledger with the "
            "unreleased version (`reflector export --format ndjson`), move the file away, and "
            "import the export"
        )
    return revision


def _refuse_other_tables(engine: Engine, names: set[str]) -> None:
    """Raise LedgerCorrupt for a database that is not a ledger and cannot become one."""
    # A server's schema and a program's database can be shared if no name is taken. Any other SQLite
    # file must contain only a ledger.
    is_shared = engine.dialect == "postgresql" or engine.is_guest
    taken = names & {*LEDGER_TABLES, "alembic_version"} if is_shared else names
    if taken:
        raise LedgerCorrupt(
            f"{engine.url.shown} has tables of another program "
            f"({', '.join(sorted(taken)[:3])}); nothing was changed. "
            "Set REFLECTOR_LEDGER_URL to another database"
        )


def has_other_tables(sql: Statements) -> bool:
    """Return whether the database also contains tables of another program."""
    names = sql.execute(_NAMES["postgresql" if sql.postgres else "sqlite"]).fetchall()
    return bool(
        {name for name, is_table in names if is_table} - {*LEDGER_TABLES, "alembic_version"}
    )


def _noted_revision(driver: Any, where: str) -> str:
    """Return the revision that the database notes. Another program may note its own revision beside
    it.

    Raises: LedgerCorrupt unless there is exactly one revision of reflector.
    """
    rows = driver.execute("SELECT version_num FROM alembic_version").fetchall()
    names = [name for (name,) in rows]
    ours = [name for name in names if IS_REVISION.fullmatch(name)]
    if len(ours) != 1:
        raise LedgerCorrupt(
            f"{where} is at revision {', '.join(names) or None}, which is not a revision of "
            "reflector, so nothing was changed. Restore a backup, or name another database "
            "with REFLECTOR_LEDGER_URL"
        )
    return str(ours[0])


def _create(driver: Any, dialect: str) -> None:
    """Create a new ledger in an open write transaction."""
    for statement in creating_statements(dialect):
        driver.execute(statement)
    driver.execute(VERSION)
    driver.execute(f"INSERT INTO alembic_version VALUES ('{HEAD_REVISION}')")  # noqa: S608
    make_triggers_and_views(driver, dialect)


def creating_statements(dialect: str) -> Iterator[str]:
    """Yield the statements that create the tables and indexes of a new ledger."""
    yield from schema(dialect).values()
    if dialect == "sqlite":
        sizes = (resource_dir("migrations") / "sizes.sqlite.sql").read_text(encoding="utf-8")
        yield from sizes.split(";\n")


def schema(dialect: str) -> dict[str, str]:
    """Return the statement that creates each table and index of a new ledger, by name, in order of
    creation.
    """
    text = (resource_dir("migrations") / f"schema.{dialect}.sql").read_text(encoding="utf-8")
    text = re.sub(r"^--.*\n", "", text, flags=re.MULTILINE)
    statements = [part.strip() for part in text.split(";\n") if part.strip()]
    return {re.findall(_CREATED, statement)[0]: statement for statement in statements}


@cache
def made_digest() -> str:
    """Return the digest of the triggers and views that this code creates."""
    from hashlib import sha256

    texts = (
        text
        for dialect in ("sqlite", "postgresql")
        for text in (*triggers(dialect).values(), *(view_sql(dialect, name) for name in VIEWS))
    )
    return sha256(" ".join("\n".join(texts).split()).encode()).hexdigest()


def upgrade(connection: sa.Connection) -> None:
    """Run the migrations in an open write transaction."""
    from alembic import command

    connection.exec_driver_sql(_FORGET_EARLIER)
    with _ALEMBIC:
        command.upgrade(alembic_config(connection), "head")


def upgrade_sql(url: str) -> str:
    """Return the statements that upgrade a ledger to `HEAD_REVISION`, for its database's own
    client; "" for a current ledger.

    Raises:
        LedgerUnavailable: There is no ledger.
        LedgerError: As `ensure_current`.
    """
    from io import StringIO

    from alembic import command

    revision = _revision_in_force(url)
    if revision == HEAD_REVISION:
        return ""
    is_known = revision >= _FIRST_SCRIPT
    output = StringIO()
    with _looking_at(url) as engine, engine.alchemy().connect() as connection, _ALEMBIC:
        config = alembic_config(connection)
        config.output_buffer = output
        command.upgrade(config, f"{revision if is_known else 'base'}:head", sql=True)
    text = output.getvalue()
    if is_known:
        return text
    # The table exists, and its rows name revisions whose scripts were removed.
    return _MAKES_VERSION.sub(f"{_FORGET_EARLIER};", text)


class Revision(NamedTuple):
    """A revision of the schema, its purpose, and whether the ledger is at this revision."""

    number: str
    purpose: str
    is_in_force: bool


def revisions_of(url: str) -> list[Revision]:
    """Return the revisions that this program supports and the ledger's own, oldest first.

    Raises:
        LedgerUnavailable: There is no ledger.
        LedgerError: As `ensure_current`.
    """
    from alembic.script import ScriptDirectory

    present = _revision_in_force(url)
    scripts = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    found = [
        Revision(script.revision, " ".join(script.doc.split()), script.revision == present)
        for script in scripts
    ]
    if not any(revision.is_in_force for revision in found):
        found.append(Revision(present, "An earlier schema.", True))
    return found[::-1]


def _revision_in_force(url: str) -> str:
    with _looking_at(url) as engine, engine.connection() as driver:
        revision = revision_of(engine, driver)
        if revision is None:
            raise LedgerUnavailable(_NO_LEDGER.format(where=engine.url.shown))
        return revision


@contextmanager
def _looking_at(url: str) -> Iterator[Engine]:
    """The engine of a ledger that is neither created nor changed, and keeps its journal mode. If a
    file cannot be written, it is the engine of a copy.
    """
    from tempfile import TemporaryDirectory

    with ExitStack() as stack:
        engine = stack.enter_context(closing(open_engine(url)))
        stack.enter_context(translated(engine.url.shown))
        file = Path(engine.url.database) if engine.url.is_file else None
        if file and not file.is_file():
            raise LedgerUnavailable(_NO_LEDGER.format(where=engine.url.shown))
        if file and not can_be_written(file):
            folder = stack.enter_context(TemporaryDirectory(prefix="reflector-ledger-"))
            copy = sqlite_url(copy_of(file, Path(folder)))
            engine = stack.enter_context(closing(open_engine(copy)))
        engine.is_guest = True
        yield engine


def alembic_config(connection: sa.Connection | None = None) -> Config:
    """Return Alembic's settings for the scripts in migrations/, on an open connection if given."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(resource_dir("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def triggers(dialect: str, schema: str = "public") -> dict[str, str]:
    """Return the SQL of each trigger that an engine must have, by trigger name, in order of
    creation. A function of PostgreSQL searches for tables only in `schema` (an identifier, quoted
    if necessary).
    """
    files = sorted((resource_dir("migrations") / "triggers" / dialect).glob("*.sql"))
    texts = {path.stem: with_types(path.read_text(encoding="utf-8")) for path in files}
    return {name: text.replace("{schema}", schema) for name, text in texts.items()}


def current_schema(connection: Any) -> str:
    """Return the schema of a connection to PostgreSQL, quoted if necessary."""
    return str(connection.execute("SELECT quote_ident(current_schema())").fetchone()[0])


def dropping_statements(dialect: str) -> Iterator[str]:
    """Yield the statements that drop the views and SQLite's triggers.

    A view blocks every change of the tables that it reads. SQLite checks each trigger when a table
    is renamed. PostgreSQL's triggers replace themselves.
    """
    # Revisions up to 0007 have `doubles`.
    for name in ("doubles", *reversed(VIEWS)):
        yield f"DROP VIEW IF EXISTS {name}"
    if dialect == "sqlite":
        for name in triggers("sqlite"):
            yield f"DROP TRIGGER IF EXISTS {name}"


def making_statements(dialect: str, schema: str) -> Iterator[str]:
    """Yield the statements that create the triggers and views of this code. A trigger of PostgreSQL
    finds its tables in `schema`.
    """
    yield from triggers(dialect, schema).values()
    for name in VIEWS:
        yield view_sql(dialect, name)


def noting_statement() -> str:
    """Return the statement that notes in a ledger that its triggers and views are this code's."""
    digest = made_digest()
    return f"UPDATE projection SET state_hash = '{digest}' WHERE name = '{TABLES}'"  # noqa: S608


def make_triggers_and_views(driver: Any, dialect: str) -> None:
    """Drop and create every trigger and view, so that all come from this code."""
    schema = current_schema(driver) if dialect == "postgresql" else ""
    for statement in (*dropping_statements(dialect), *making_statements(dialect, schema)):
        driver.execute(statement)


def view_sql(dialect: str, name: str) -> str:
    """Return the statement that creates a view on an engine, from the one text of the view in
    migrations/views.

    In that text `{sqlite}…{postgresql}…{both}` contains the differing parts. `{COLUMN -> PATH}` is
    a value of the JSON text in a column, and `{DOCUMENT => PATH}` a value of parsed JSON. `as
    number` and `as fraction` give its type. `{windows}` comes from the registry (`with_types`). A
    comment about a column is not part of the statement.
    """
    text = (resource_dir("migrations") / "views" / f"{name}.sql").read_text(encoding="utf-8")
    text = re.sub(r"  -- .*", "", text)
    text = with_types(text[text.index("CREATE VIEW") :].rstrip())
    text = re.sub(_DIFFERENT, lambda parts: parts[dialect], text)
    return re.sub(_VALUE, lambda value: _value(dialect, **value.groupdict()), text)


def _value(dialect: str, source: str, arrow: str, path: str, kind: str | None) -> str:
    """Return the SQL for a value in the text of a view, as `view_sql` describes it."""
    if dialect == "sqlite":
        # As a function, because SQLite before 3.38 lacks the operator, and cannot read a file whose
        # schema contains it.
        found = f"\"->>\"({source}, '$.{path}')"
        return (
            found
            if kind is None
            else f"CAST({found} AS {'BIGINT' if kind == 'number' else 'DOUBLE'})"
        )
    # PostgreSQL refuses a text with a NUL, which JSON can contain.
    document = source if arrow == "=>" else f"replace({source}, '\\u0000', '\\ufffd')::json"
    found = f"({document} #>> '{{{path.replace('.', ',')}}}')"
    if kind == "number":
        return f"CAST(substring({found} FROM '^[0-9]{{1,15}}$') AS bigint)"
    if kind == "fraction":
        return f"CAST(substring({found} FROM '^[0-9]+[.]?[0-9]*$') AS double precision)"
    return found


def with_types(sql: str) -> str:
    """Return the SQL of a view, a trigger or an index with the event types in place of the
    placeholders.
    """
    for place, names in _types().items():
        sql = sql.replace(place, names)
    return sql


@cache
def _types() -> dict[str, str]:
    from reflector.events.registry import EVENT_TYPES, ONCE_PER_TARGET, WINDOW_TYPES, WORDING_TYPES

    prose = {name: one.all_prose for name, one in sorted(EVENT_TYPES.items()) if one.holds_prose}
    places = {
        "{whole}": [name for name, all_prose in prose.items() if all_prose],
        "{in_part}": [name for name, all_prose in prose.items() if not all_prose],
        "{once}": ONCE_PER_TARGET,
        "{windows}": WINDOW_TYPES,
        "{wordings}": WORDING_TYPES,
    }
    return {place: ", ".join(f"'{name}'" for name in names) for place, names in places.items()}
