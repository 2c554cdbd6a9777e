"""Where projections stand: the rows of the table `projection`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

#: Raised when the projector writes other rows for the same events; a ledger with an older one is rebuilt.
CODE_VERSION: Final = 2
#: The name of the tables' row.
TABLES: Final = "tables"


def set_checkpoint(sql: Statements, name: str, policy: str, position: int, state_hash: str) -> None:
    """Record that a named projection is at a position, with this hash."""
    columns = ("code_version", "policy_id", "position", "state_hash", "updated_at")
    values = ", ".join(f"{column} = excluded.{column}" for column in columns)
    sql.run(
        f"INSERT INTO projection (playbook_id, name, {', '.join(columns)}) VALUES (?, ?, ?, ?, ?, ?, NULL)"  # noqa: S608
        f" ON CONFLICT (playbook_id, name) DO UPDATE SET {values}",
        *(name, CODE_VERSION, policy, position, state_hash),
    )
