"""No checkpoints of tallies: questions about all sessions are answered from the tables and events.

Revision ID: 0008
Revises: 0007
"""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.execute("DROP TABLE IF EXISTS tally")
