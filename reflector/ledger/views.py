"""The views that people ask with SQL: made by every migration, compared by `verify`.

Invariant: the views of a ledger are this code's, word for word, and hold nothing themselves: what they say is what the
tables and events say at that moment. Making them reads no event, however many there are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reflector.ledger.errors import LedgerCorrupt
from reflector.resources import resource_dir

if TYPE_CHECKING:
    import sqlalchemy as sa

#: In order of creation: the later ones read `repeated`, which is not documented for queries.
VIEWS = ("repeated", "bullets", "tags", "reflections", "sessions", "doubles")

_DIFFERENT = re.compile(r"\{sqlite\}(?P<sqlite>.*?)\{postgresql\}(?P<postgresql>.*?)\{both\}", re.DOTALL)
_VALUE = re.compile(r"\{(?P<source>[\w.]+) (?P<arrow>->|=>) (?P<path>[\w.]+)(?: as (?P<kind>number|fraction))?\}")


def view_sql(dialect: str, name: str) -> str:
    """Return the statement that makes a view on an engine, from the one text of the view in migrations/views.

    In that text `{sqlite}…{postgresql}…{both}` holds what differs. `{COLUMN -> PATH}` is a value of the JSON text that
    a column holds, `{DOCUMENT => PATH}` one of JSON that was parsed before; `as number` and `as fraction` say its type.
    """
    text = (resource_dir("migrations") / "views" / f"{name}.sql").read_text(encoding="utf-8")
    text = _DIFFERENT.sub(lambda parts: parts[dialect], text[text.index("CREATE VIEW") :].rstrip())
    return _VALUE.sub(lambda value: _value(dialect, **value.groupdict()), text)


def _value(dialect: str, source: str, arrow: str, path: str, kind: str | None) -> str:
    if dialect == "sqlite":
        # As a function: SQLite before 3.38 does not know the operator, and reads nothing of a file whose schema has it.
        found = f"\"->>\"({source}, '$.{path}')"
        return found if kind is None else f"CAST({found} AS {'BIGINT' if kind == 'number' else 'DOUBLE'})"
    # PostgreSQL refuses a text with a NUL, which JSON can hold.
    document = source if arrow == "=>" else f"replace({source}, '\\u0000', '\\ufffd')::json"
    found = f"({document} #>> '{{{path.replace('.', ',')}}}')"
    if kind == "number":
        return f"CAST(substring({found} FROM '^[0-9]{{1,15}}$') AS bigint)"
    if kind == "fraction":
        return f"CAST(substring({found} FROM '^[0-9]+[.]?[0-9]*$') AS double precision)"
    return found


def drop_views(connection: sa.Connection) -> None:
    """Drop the views: a view blocks every change to the tables that it reads."""
    for name in reversed(VIEWS):
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")


def create_views(connection: sa.Connection) -> None:
    """Drop and create every view, so that each is the one of this code."""
    drop_views(connection)
    # On the driver's cursor: percent signs that are not placeholders.
    cursor = connection.connection.cursor()
    for name in VIEWS:
        cursor.execute(view_sql(connection.dialect.name, name))
    cursor.close()


def refuse_taken_names(connection: sa.Connection, where: str) -> None:
    """Raise LedgerCorrupt where another program has a table or a view under a view's name: on PostgreSQL it may live
    beside the ledger. `where` names the database."""
    import sqlalchemy as sa

    inspector = sa.inspect(connection)
    tables = set(inspector.get_table_names())
    taken = tables & set(VIEWS)
    if "event" not in tables:  # the views of a ledger are its own
        taken |= set(inspector.get_view_names()) & set(VIEWS)
    if taken:
        raise LedgerCorrupt(
            f"{where} holds {', '.join(sorted(taken))}, and the ledger needs that name "
            "for a view; nothing was changed. Rename it, or name another database with REFLECTOR_LEDGER_URL"
        )
