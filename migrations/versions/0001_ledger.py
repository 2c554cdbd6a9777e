"""The ledger: playbook and event, and the tables that can be rebuilt from them.

Only ledgers that exist are brought from revision to revision; migrations/schema.sql makes a new one as the newest is.
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    pass
