"""Proposed changes of the playbook: a proposal is approved once, rejected once and measured once. Merged bullets, found
by the bullet that has their evidence."""

from alembic import op

revision = "0006"
down_revision = "0005"

_ONCE = "'evidence.retracted', 'event.redacted', 'change.approved', 'change.rejected', 'change.measured'"


def upgrade() -> None:
    op.execute("DROP INDEX IF EXISTS event_target_once")
    op.execute(
        "CREATE UNIQUE INDEX event_target_once ON event (playbook_id, type, target_id)"
        f" WHERE type IN ({_ONCE})"
    )
    op.execute("CREATE INDEX IF NOT EXISTS bullet_merged ON bullet (playbook_id, removed_into) WHERE status = 'merged'")
