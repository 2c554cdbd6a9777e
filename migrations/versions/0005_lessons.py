"""Lessons, what came of them, and trajectories: events of their own, which the triggers know and `sessions` lists."""

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    pass
