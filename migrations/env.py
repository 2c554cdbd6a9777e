"""Run by Alembic, always on a connection that `reflector.ledger.migration` opened and locked.

Triggers are re-created after every run, not in the revisions: a batch migration that recreates a
table drops its triggers without a word, and an append-only ledger without triggers is just a table.
"""

from alembic import context

from reflector.ledger.migration import create_triggers, drop_triggers

connection = context.config.attributes["connection"]
drop_triggers(connection)
context.configure(connection=connection, target_metadata=None, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
create_triggers(connection)
