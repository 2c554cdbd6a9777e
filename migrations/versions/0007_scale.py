"""Ledgers of teams: a playbook that moved to another ledger takes no event until it moves back. Checkpoints of the
tallies that questions about all sessions are answered from, and since when a bullet has its status: the rebuild at the
first opening fills both.

env.py creates triggers and views again after every run of migrations.

Revision ID: 0007
Revises: 0006
"""

from alembic import op

revision = "0007"
down_revision = "0006"

#: What the engines name otherwise, as in 0001.
_WORDS = {"postgresql": ("BIGINT", ""), "sqlite": ("INTEGER", " WITHOUT ROWID, STRICT")}


def upgrade() -> None:
    bigint, keyed = _WORDS[op.get_bind().dialect.name]
    for table, column in (("bullet_status", "status"), ("tally", "state")):
        op.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (playbook_id INTEGER NOT NULL, name TEXT NOT NULL,"
            f" position {bigint} NOT NULL, {column} TEXT NOT NULL, PRIMARY KEY (playbook_id, name, position),"
            f" FOREIGN KEY(playbook_id) REFERENCES playbook (id)){keyed}"
        )
