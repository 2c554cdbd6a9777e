"""The database refuses what no event and no new playbook is, and a writer sets neither the number of a playbook nor the
version of the code that filled its tables. What is there already stays, and readers pass it by."""

from alembic import op

revision = "0009"
down_revision = "0008"

_WRITERS = (
    "SELECT CASE grantee WHEN 'PUBLIC' THEN grantee ELSE quote_ident(grantee) END FROM information_schema.role_table_grants"
    " WHERE table_schema = current_schema() AND table_name = 'playbook' AND privilege_type = 'INSERT'"
    " AND grantee <> grantor"
)


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for (role,) in op.get_bind().exec_driver_sql(_WRITERS).fetchall():
            op.execute(f"REVOKE INSERT ON playbook FROM {role}")
            op.execute(f"GRANT INSERT (name, origin, position, chain, recorded_at) ON playbook TO {role}")
            op.execute(f"REVOKE UPDATE (code_version) ON projection FROM {role}")
