"""The table of statuses goes: an index on events answers the one question that read it."""

from reflector.ledger import revisions

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    with revisions.revision(revision) as step:
        step.run("DROP TABLE IF EXISTS bullet_status")
