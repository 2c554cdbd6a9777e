"""The table of statuses goes: an index on events answers the one question that read it."""

from reflector.ledger import revisions

revision = "0010"
down_revision = "0009"
#: The digest of the triggers and views that it makes.
made = "7edaf699a04777344ddcd22091a9117e722452d3333387108e41785c83f459f2"


def upgrade() -> None:
    with revisions.revision(revision) as step:
        step.run("DROP TABLE IF EXISTS bullet_status")
