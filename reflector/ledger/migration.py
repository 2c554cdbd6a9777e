"""Bringing a ledger's schema to this code's revision, on first use and after an upgrade.

Invariant: a ledger that is current is found current without importing Alembic, one that is newer than the
code is refused untouched, and whatever a migration did, every trigger stands afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from reflector.ledger.engines import write_transaction
from reflector.ledger.errors import LedgerCorrupt, LedgerTooNew
from reflector.resources import resource_dir

#: The newest revision under migrations/versions; a test holds the two equal.
HEAD_REVISION = "0001"
_SQL = "SELECT version_num FROM alembic_version"


def ensure_current(engine: sa.Engine) -> None:
    """Create or upgrade the schema if it is not at `HEAD_REVISION`.

    Raises LedgerTooNew for a revision this code does not know, LedgerCorrupt for a database that holds
    something else.
    """
    if _revision(engine) == HEAD_REVISION:
        return
    with write_transaction(engine) as connection:
        if engine.dialect.name == "postgresql":
            # Two first uses at once would both create the tables; appends never take this lock.
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('reflector.migration'))")
        revision = _revision_on(connection)
        if revision == HEAD_REVISION:
            return
        if revision is not None and revision > HEAD_REVISION:
            raise LedgerTooNew(
                f"the ledger is at revision {revision}, this reflector knows {HEAD_REVISION}; "
                "upgrade reflector (the ledger was left as it is)"
            )
        if revision is None and _foreign(connection):
            raise LedgerCorrupt(
                "the database holds tables that are not a ledger's; nothing was changed. "
                "Point REFLECTOR_LEDGER_URL at another database"
            )
        upgrade(connection)


def upgrade(connection: sa.Connection, to: str = "head") -> None:
    """Run the migrations up to a revision on an open write transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(resource_dir("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def trigger_files(dialect: str) -> dict[str, Path]:
    """The SQL file of each trigger an engine must have, by trigger name, in order of creation."""
    return {path.stem: path for path in sorted((resource_dir("migrations") / "triggers" / dialect).glob("*.sql"))}


def create_triggers(connection: sa.Connection) -> None:
    """Drop and create every trigger, so that the ones that stand are this code's."""
    dialect = connection.dialect.name
    # On the driver's cursor: several statements in one text, and percent signs that are no placeholders.
    cursor = connection.connection.cursor()
    for name, path in trigger_files(dialect).items():
        if dialect == "sqlite":
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        cursor.execute(path.read_text(encoding="utf-8"))
    cursor.close()


def _revision(engine: sa.Engine) -> str | None:
    with engine.connect() as connection:
        return _revision_on(connection)


def _revision_on(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    row: Any = connection.exec_driver_sql(_SQL).first()
    return str(row[0]) if row else None


def _foreign(connection: sa.Connection) -> bool:
    tables = set(sa.inspect(connection).get_table_names())
    return bool(tables & {"event", "playbook", "bullet"})
