"""The rights that a role of PostgreSQL needs to read a ledger, to append to it, or to own it.

Invariant: a reader writes nothing. A writer only appends: it cannot delete, truncate or erase
anything, drop a trigger or replace a function. Besides the head, it can change only tables that a
rebuild fills again from the events. For a bullet's text in such a table, a trigger requires an
event with that text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reflector.ledger.columns import LEDGER_TABLES
from reflector.ledger.counters import ENTRY_COLUMNS
from reflector.ledger.engines import Engine
from reflector.ledger.errors import LedgerUnavailable, translated
from reflector.ledger.migration import VIEWS, triggers

_TABLES = (*LEDGER_TABLES, "alembic_version")
_HEAD = ("origin", "position", "chain", "recorded_at")
#: The columns that an append changes, besides the rows that it adds.
_CHANGED = {
    "playbook": _HEAD,
    "bullet": (
        *(column for column in ENTRY_COLUMNS if column not in ("name", "ordinal", "position")),
        "helpful",
        "harmful",
    ),
    "tag": ("active",),
    "session_window": ("state", "attempts", "changed_at"),
    "retraction": ("active",),
    "projection": ("policy_id", "position", "state_hash", "updated_at"),
    "cached_usage": ("code_version", "position", "state"),
}
#: The schema and the role, quoted if necessary.
_NAMES = "SELECT quote_ident(current_schema()), quote_ident(%s)"
#: The reason why a SQLite ledger is refused; follows its path.
NO_ROLES = (
    "is a SQLite ledger, which does not have roles: the permissions of its folder decide "
    "who can read and write it. To use roles, move the playbook to a PostgreSQL server "
    "(`reflector ledger copy URL`)"
)


def grant_statements(engine: Engine, role: str, to: str) -> Iterator[str]:
    """Yield the statements that make a role of the server a ledger's reader, writer or owner.

    Raises: LedgerUnavailable for an engine without roles, LedgerError.
    """
    if engine.dialect == "sqlite":
        raise LedgerUnavailable(f"{engine.url.shown} {NO_ROLES}")
    with translated(engine.url.shown), engine.connection() as connection:
        schema, name = connection.execute(_NAMES, [to]).fetchone()
    tables = [f"{schema}.{table}" for table in _TABLES]
    readable = ", ".join([*tables, *(f"{schema}.{view}" for view in VIEWS)])
    if role == "owner":
        yield f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {name};"
        yield from (f"ALTER TABLE {table} OWNER TO {name};" for table in tables)
        yield from (f"ALTER VIEW {schema}.{view} OWNER TO {name};" for view in VIEWS)
        functions = re.findall(
            r"CREATE OR REPLACE FUNCTION (\w+)",
            "\n".join(triggers("postgresql").values()),
        )
        yield from (
            (f"ALTER FUNCTION {schema}.{function}() OWNER TO {name};") for function in functions
        )
        return
    yield f"REVOKE ALL ON {readable} FROM {name};"
    yield f"REVOKE ALL ON SCHEMA {schema} FROM {name};"
    yield f"GRANT USAGE ON SCHEMA {schema} TO {name};"
    yield f"GRANT SELECT ON {readable} TO {name};"
    if role == "writer":
        yield (
            f"GRANT INSERT ON {', '.join(f'{schema}.{table}' for table in LEDGER_TABLES[1:])} "
            f"TO {name};"
        )
        # The database gives the number. If a role could take future numbers, no user could create
        # a playbook.
        yield f"GRANT INSERT (name, {', '.join(_HEAD)}) ON {schema}.playbook TO {name};"
        for table, columns in _CHANGED.items():
            yield f"GRANT UPDATE ({', '.join(columns)}) ON {schema}.{table} TO {name};"
