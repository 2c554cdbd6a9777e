"""Every type of event that holds prose can be erased; a bullet of a section that is not one stands under OTHERS.

Triggers and views are made anew after every run of migrations (env.py). An older version took a bullet of such a
section in with a file, and every command that showed it then failed.
"""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute("UPDATE bullet SET section = 'oth' WHERE section NOT IN ('pat', 'mis', 'pref', 'ctx', 'oth')")
