"""Ledgers of the same playbook in other schemas of a PostgreSQL database.

Invariant: only what the user of the connection may read is found, and nothing is changed. Several ledgers in one
database are allowed; but one that begins where a `search_path` leads by mistake looks as if all counts were lost.
"""

from __future__ import annotations

from typing import Final

from reflector.ledger.reader import Reader

#: The schemas with tables like a ledger's, each also as a statement has to name it.
_SCHEMAS: Final = (
    "SELECT n.nspname::text, quote_ident(n.nspname) FROM pg_class p JOIN pg_namespace n ON n.oid = p.relnamespace"
    " JOIN pg_class e ON e.relnamespace = n.oid AND e.relname = 'event'"
    " WHERE p.relname = 'playbook' AND p.relkind IN ('r', 'p') AND n.nspname <> current_schema()"
    " AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(p.oid, 'SELECT')"
    " AND (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = p.oid AND NOT a.attisdropped"
    " AND a.attname IN ('name', 'origin', 'position', 'chain')) = 4 ORDER BY 1 LIMIT 100"
)


def elsewhere(ledger: Reader) -> list[str]:
    """Return the other schemas in which the database holds events of a playbook of this name. Raises LedgerError."""
    if ledger.engine.dialect != "postgresql":
        return []
    with ledger.asking() as sql:
        named = dict(sql.execute(_SCHEMAS).fetchall())
        found = []
        for schema, quoted in named.items():
            query = f"SELECT 1 FROM {quoted.replace('%', '%%')}.playbook WHERE name = %s AND position > 0"  # noqa: S608
            if sql.cursor.execute(query, (ledger.name,)).fetchone() is not None:
                found.append(schema)
        return found


def told_elsewhere(ledger: Reader, schemas: list[str]) -> str:
    """Return in words where this ledger is, and where the others of the playbook are."""
    others = f"schema{'s' if len(schemas) > 1 else ''} {', '.join(schemas)}"
    return (
        f"this ledger is in the schema {ledger.schema}; the same database holds a ledger of the playbook "
        f"{ledger.name!r} in the {others}"
    )


CORRECT: Final = "if that is the one you mean, correct the search_path of the URL or role"
