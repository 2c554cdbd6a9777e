"""The ledger: playbook and event, and the tables that can be rebuilt from them.

Revision ID: 0001
Revises:
"""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    engine = op.get_bind().dialect.name
    script = Path(__file__).parent.parent / "sql" / f"0001_ledger.{engine}.sql"
    statements = script.read_text(encoding="utf-8").split(";\n")
    for statement in statements:
        if statement.strip():
            op.execute(statement)
