"""Run by Alembic, always on a connection that `reflector.ledger.migration` opened and locked.

Triggers and views are re-created after every run, not in the revisions: a batch migration that
recreates a table drops its triggers without a word, and an append-only ledger without triggers is
just a table. A view stands in the way of every change to the tables it reads.
"""

from alembic import context

from reflector.ledger.migration import create_triggers, create_views, drop_triggers, drop_views

connection = context.config.attributes["connection"]
driver, dialect = connection.connection.driver_connection, connection.dialect.name
drop_views(driver)
drop_triggers(driver, dialect)
context.configure(connection=connection, target_metadata=None, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
if context.get_context().get_current_revision() == context.script.get_current_head():
    create_triggers(driver, dialect)  # an older revision may lack what they read
    create_views(driver, dialect)
