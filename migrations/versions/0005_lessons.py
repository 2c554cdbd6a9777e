"""Lessons, what came of them, and trajectories: events of their own, which the triggers know and `sessions` lists.

env.py creates triggers and views again after every run of migrations.

Revision ID: 0005
Revises: 0004
"""

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    pass
