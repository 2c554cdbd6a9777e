"""The views that people ask with SQL: bullets, tags, reflections, sessions, doubles.

Nothing is done here: views, like triggers, are made anew after every run of migrations (env.py), so that those which
stand are this code's. This revision is what makes an older ledger run one.
"""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    pass
