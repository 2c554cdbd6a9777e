"""Bringing a ledger's schema to this code's revision, on first use and after an upgrade.

Invariant: a ledger that is current is found current without importing Alembic, one that is newer than the
code is refused untouched, and after every migration all triggers and views exist.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reflector.ledger.engines import Engine, migration_transaction
from reflector.ledger.errors import LedgerCorrupt, LedgerTooNew, LedgerUnavailable
from reflector.resources import resource_dir

if TYPE_CHECKING:
    import sqlalchemy as sa

#: The newest revision under migrations/versions; a test holds the two equal.
HEAD_REVISION = max(path.name[:4] for path in (resource_dir("migrations") / "versions").glob("[0-9]*.py"))
_SQL = "SELECT version_num FROM alembic_version"
_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgresql": "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'p', 'f')"
    " AND relnamespace = to_regnamespace(quote_ident(current_schema()))",
}


#: Alembic keeps the migration that runs in variables of the process.
_ALEMBIC = threading.Lock()

#: Asks a database for the first row of an answer, None where it has none.
Ask = Callable[[str], Any]


def ensure_current(engine: Engine) -> None:
    """Create or upgrade the schema if it is not at `HEAD_REVISION`.

    Raises LedgerTooNew for a newer revision, LedgerCorrupt for a database that holds something else; either is
    left untouched.
    """
    with engine.connection() as driver:
        if _is_current(engine, driver):
            return
    from reflector.ledger.views import refuse_taken_names

    with migration_transaction(engine) as connection:
        if engine.dialect == "postgresql":
            # Two first uses at once would both create the tables; appends never take this lock.
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('reflector.migration'))")
        if not _is_current(engine, connection.connection.driver_connection):
            refuse_taken_names(connection, engine.url.shown)
            upgrade(connection, where=engine.url.shown)


def _is_current(engine: Engine, driver: Any) -> bool:
    """False for an empty database or an older ledger; raises for what must be left alone."""
    where = engine.url.shown
    names = {row[0] for row in driver.execute(_TABLES[engine.dialect]).fetchall()}
    if engine.dialect == "sqlite":  # its own tables, of statistics and such
        names = {name for name in names if not name.startswith("sqlite_")}
    is_ledger = {"playbook", "event", "alembic_version"} <= names
    if names and not is_ledger:
        taken = names
        if engine.dialect == "postgresql":
            # A schema may be shared, as long as no name is taken; a SQLite file is a ledger or it is not.
            from reflector.ledger.tables import metadata

            taken = names & {*metadata.tables, "alembic_version"}
    else:
        taken = set()
    if taken:
        raise LedgerCorrupt(
            f"{where} holds tables that are not a ledger's ({', '.join(sorted(taken)[:3])}); nothing was changed. "
            "Name another database with REFLECTOR_LEDGER_URL"
        )
    if not is_ledger:
        return False
    row = driver.execute(_SQL).fetchone()
    revision = str(row[0] if row else None)
    if re.fullmatch(r"\d{4}", revision) is None:
        raise LedgerCorrupt(
            f"{where} is at revision {revision}, which is not reflector's; nothing was changed. "
            "Restore a backup, or name another database with REFLECTOR_LEDGER_URL"
        )
    if revision > HEAD_REVISION:
        raise LedgerTooNew(
            f"the ledger {where} is at revision {revision}, this reflector knows {HEAD_REVISION}; "
            "upgrade reflector (the ledger was left as it is)"
        )
    return revision == HEAD_REVISION


def upgrade(connection: sa.Connection, to: str = "head", *, where: str = "the ledger") -> None:
    """Run the migrations up to a revision on an open write transaction. Raises LedgerCorrupt for an unknown one, and
    says where it is."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(resource_dir("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        with _ALEMBIC:
            command.upgrade(config, to)
    except CommandError as error:
        raise LedgerCorrupt(
            f"{where} says that it is at a revision that reflector never had ({error}); "
            "nothing was changed. Restore a backup"
        ) from error


def triggers(dialect: str, schema: str = "public", event: str = "event") -> dict[str, str]:
    """Return the SQL of each trigger that an engine must have, by trigger name, in order of creation.

    A function of PostgreSQL's finds tables in `schema` (an identifier, quoted where it has to be) and in no other, and
    the events in the table `event`.
    """
    files = sorted((resource_dir("migrations") / "triggers" / dialect).glob("*.sql"))
    places = {"{schema}": schema, "{event}": event}
    return {path.stem: _filled(_with_types(path.read_text(encoding="utf-8")), places) for path in files}


def triggers_of(dialect: str, ask: Ask) -> tuple[dict[str, str], str]:
    """Return the SQL of each trigger of a ledger, and its schema on PostgreSQL, quoted where it has to be."""
    if dialect == "sqlite":
        return triggers("sqlite"), ""
    schema = str(ask("SELECT quote_ident(current_schema())")[0])
    return triggers("postgresql", schema, event_table(ask)), schema


def is_citus(ask: Ask) -> bool:
    """Return whether a PostgreSQL distributes tables among workers."""
    return ask("SELECT 1 FROM pg_extension WHERE extname = 'citus'") is not None


def on_citus(ask: Ask) -> list[str]:
    """Return the server (host:port) of each part of the events' table on Citus: one for a schema that is on a worker,
    none for tables that are the coordinator's own."""
    return list(ask(_PLACES)[0] or ())


def event_table(ask: Ask) -> str:
    """Return the events' table as a trigger has to name it. On Citus triggers run where the rows are, and the table has
    the number of its shard in its name there, on whichever worker it is. A schema's tables have one shard each.

    So one text of a trigger serves both: a text for Citus alone would have to ask for the name at every row, by dynamic
    SQL, and would be one more to keep equal.
    """
    shards = "SELECT min(shardid) FROM pg_dist_shard WHERE logicalrelid = to_regclass('event') HAVING count(*) = 1"
    found = ask(shards) if is_citus(ask) else None
    return f"event_{found[0]}" if found else "event"


_PLACES = (
    "SELECT array_agg(nodename || ':' || nodeport ORDER BY shardid) FROM pg_dist_shard"
    " JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)"
    " WHERE logicalrelid = to_regclass('event') AND noderole = 'primary'"
)
#: The servers of a Citus that answer and take no triggers, beginning with the one that is asked.
_REFUSING = (
    "SELECT concat_ws(', ', CASE WHEN current_setting('citus.enable_unsafe_triggers') <> 'on' THEN 'this server' END,"
    " (SELECT string_agg(nodename || ':' || nodeport, ', ' ORDER BY nodeid) FROM pg_dist_node"
    " JOIN run_command_on_all_nodes('SHOW citus.enable_unsafe_triggers') USING (nodeid)"
    " WHERE success AND result <> 'on'))"
)


def refused_by_citus(ask: Ask) -> str:
    """Return why a Citus would refuse a ledger's triggers, with the way out; "" where nothing does."""
    if is_citus(ask) and (servers := ask(_REFUSING)[0]):
        return (
            f"Citus refuses triggers on tables of its workers, for citus.enable_unsafe_triggers is off on {servers}; "
            "set it to on in the configuration of the coordinator and of each worker"
        )
    return ""


def _filled(sql: str, places: dict[str, str]) -> str:
    for place, text in places.items():
        sql = sql.replace(place, text)
    return sql


def _with_types(sql: str) -> str:
    """Return a trigger's SQL with the types that may be erased, wholly or in part, or take a target once."""
    from reflector.events.registry import EVENT_TYPES, ONCE_PER_TARGET

    prose = {name: one.all_prose for name, one in sorted(EVENT_TYPES.items()) if one.holds_prose}
    places = {
        "{whole}": [name for name, all_prose in prose.items() if all_prose],
        "{in_part}": [name for name, all_prose in prose.items() if not all_prose],
        "{once}": ONCE_PER_TARGET,
    }
    return _filled(sql, {place: ", ".join(f"'{name}'" for name in names) for place, names in places.items()})


def drop_triggers(connection: sa.Connection) -> None:
    """Drop SQLite's triggers for a migration: it checks each of them when a table is renamed."""
    if connection.dialect.name == "sqlite":
        for name in triggers("sqlite"):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")


def create_triggers(connection: sa.Connection) -> None:
    """Drop and create every trigger, so that each is the one of this code."""
    sqlite = connection.dialect.name == "sqlite"

    def ask(query: str) -> Any:
        return connection.exec_driver_sql(query).first()

    if not sqlite and (reason := refused_by_citus(ask)):
        raise LedgerUnavailable(reason)
    # On the driver's cursor: percent signs that are not placeholders.
    cursor = connection.connection.cursor()
    ours, _ = triggers_of(connection.dialect.name, ask)
    for name, sql in ours.items():
        if sqlite:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        # One by one, for Citus passes each on to its workers.
        for statement in [sql] if sqlite else re.split(r"(?<=;)\n(?=DROP|CREATE)", sql):
            cursor.execute(statement)
    cursor.close()
