"""One row for each playbook in the place of the checkpoints of tallies, for the same roles; the view `doubles` goes."""

from alembic import op

revision = "0008"
down_revision = "0007"

_BIGINT = {"postgresql": ("BIGINT", ""), "sqlite": ("INTEGER", " WITHOUT ROWID, STRICT")}
_ROLES = (
    "SELECT CASE grantee WHEN 'PUBLIC' THEN grantee ELSE quote_ident(grantee) END, bool_or(privilege_type = 'INSERT') FROM information_schema.role_table_grants"
    " WHERE table_schema = current_schema() AND table_name = 'tally' AND grantee <> grantor GROUP BY grantee"
)


def upgrade() -> None:
    bigint, keyed = _BIGINT[op.get_bind().dialect.name]
    op.execute(
        "CREATE TABLE IF NOT EXISTS cached_usage (playbook_id INTEGER NOT NULL, code_version INTEGER NOT NULL,"
        f" position {bigint} NOT NULL, state TEXT NOT NULL, PRIMARY KEY (playbook_id),"
        f" FOREIGN KEY(playbook_id) REFERENCES playbook (id)){keyed}"
    )
    if op.get_bind().dialect.name == "postgresql":
        for role, appends in op.get_bind().exec_driver_sql(_ROLES).fetchall():
            rights = "SELECT, INSERT, UPDATE (code_version, position, state)" if appends else "SELECT"
            op.execute(f"GRANT {rights} ON cached_usage TO {role}")
    op.execute("DROP TABLE IF EXISTS tally")
