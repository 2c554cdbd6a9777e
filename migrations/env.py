"""Run by Alembic: by `reflector.ledger.migration` on a connection that it opened and locked, or by
the command `alembic` on the ledger that `-x ledger=URL` or REFLECTOR_LEDGER_URL names.

The scripts drop and make triggers and views (reflector/ledger/revisions.py). `alembic check`
compares the tables with reflector/ledger/tables.py; `reflector verify` compares the rest.
"""

import os
from contextlib import contextmanager

from alembic import context

from reflector.ledger.engines import migration_transaction, open_engine
from reflector.ledger.tables import metadata


def is_ours(thing, *_):
    """Return whether a table, or a part of one, is the ledger's. A program may have its own tables
    beside them.
    """
    return getattr(thing, "table", thing).name in metadata.tables


@contextmanager
def connection():
    given = context.config.attributes.get("connection")
    if given is not None:
        yield given
        return
    named = context.get_x_argument(as_dictionary=True).get("ledger")
    url = named or os.environ.get("REFLECTOR_LEDGER_URL")
    if not url:
        raise SystemExit("name the ledger: alembic -x ledger=sqlite:///ledger.db check")
    engine = open_engine(url)
    try:
        with migration_transaction(engine) as opened:
            yield opened
    finally:
        engine.close()


with connection() as ledger:
    context.config.attributes["connection"] = ledger
    options = {"target_metadata": metadata, "transactional_ddl": True, "include_object": is_ours}
    if context.is_offline_mode():
        context.configure(dialect_name=ledger.dialect.name, **options)
    else:
        context.configure(connection=ledger, **options)
    with context.begin_transaction():
        context.run_migrations()
