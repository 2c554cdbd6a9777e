"""Ledgers of teams: a playbook that moved to another ledger takes no event until it moves back.

env.py creates triggers and views again after every run of migrations.

Revision ID: 0007
Revises: 0006
"""

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    pass
