"""The views are made from one text for both engines; their rows and columns stay what they were.

env.py creates the views again after every run of migrations.

Revision ID: 0004
Revises: 0003
"""

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    pass
