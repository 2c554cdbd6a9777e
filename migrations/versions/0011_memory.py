"""The words of memory files can be erased, so the trigger that admits a redaction names their
events.
"""

from reflector.ledger import revisions

revision = "0011"
down_revision = "0010"
#: The digest of the triggers and views that it makes.
made = "06bb33ad5ab562372ecb8720aef8529a162b7c519736c21814163afd617b4a53"


def upgrade() -> None:
    with revisions.revision(revision):
        pass
