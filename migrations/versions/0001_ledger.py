"""The ledger: playbook and event, and the tables that can be rebuilt from them.

Revision ID: 0001
Revises:
"""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

_SQL = Path(__file__).parent.parent / "sql"
#: What the engines name otherwise: whole numbers of 64 bits, and tables that are kept in the order of their key.
_WORDS = {
    "postgresql": {"bigint": "BIGINT", "strict": "", "keyed": ""},
    "sqlite": {"bigint": "INTEGER", "strict": " STRICT", "keyed": " WITHOUT ROWID, STRICT"},
}


def upgrade() -> None:
    engine = op.get_bind().dialect.name
    _run((_SQL / "0001_ledger.sql").read_text(encoding="utf-8").format(**_WORDS[engine]))
    if engine == "sqlite":
        _run((_SQL / "0001_sizes.sqlite.sql").read_text(encoding="utf-8"))


def _run(script: str) -> None:
    for statement in script.split(";\n"):
        if statement.strip():
            op.execute(statement)
