"""The table of statuses goes: an index on events answers the one question that read it."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.execute("DROP TABLE IF EXISTS bullet_status")
