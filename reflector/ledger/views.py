"""The views that people ask with SQL: made by every migration, compared by `verify`.

Invariant: the views of a ledger are this code's, word for word, and hold nothing themselves: what they say is what the
tables and events say at that moment. Making them reads no event, however many there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from reflector.ledger.errors import LedgerCorrupt
from reflector.resources import resource_dir

#: In order of creation: the later ones read `repeated`, which is not documented for queries.
VIEWS = ("repeated", "bullets", "tags", "reflections", "sessions")

_DIFFERENT = re.compile(r"\{sqlite\}(?P<sqlite>.*?)\{postgresql\}(?P<postgresql>.*?)\{both\}", re.DOTALL)
_VALUE = re.compile(r"\{(?P<source>[\w.]+) (?P<arrow>->|=>) (?P<path>[\w.]+)(?: as (?P<kind>number|fraction))?\}")


def view_sql(dialect: str, name: str) -> str:
    """Return the statement that makes a view on an engine, from the one text of the view in migrations/views.

    In that text `{sqlite}…{postgresql}…{both}` holds what differs. `{COLUMN -> PATH}` is a value of the JSON text that
    a column holds, `{DOCUMENT => PATH}` one of JSON that was parsed before; `as number` and `as fraction` say its type.
    `{windows}` is what the registry says (`with_types`).
    """
    text = (resource_dir("migrations") / "views" / f"{name}.sql").read_text(encoding="utf-8")
    text = _DIFFERENT.sub(lambda parts: parts[dialect], with_types(text[text.index("CREATE VIEW") :].rstrip()))
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


def with_types(sql: str) -> str:
    """Return the SQL of a view, a trigger or an index with the types of events that it names, by what they do."""
    from reflector.events.registry import EVENT_TYPES, ONCE_PER_TARGET, WINDOW_TYPES, WORDING_TYPES

    prose = {name: one.all_prose for name, one in sorted(EVENT_TYPES.items()) if one.holds_prose}
    places = {
        "{whole}": [name for name, all_prose in prose.items() if all_prose],
        "{in_part}": [name for name, all_prose in prose.items() if not all_prose],
        "{once}": ONCE_PER_TARGET,
        "{windows}": WINDOW_TYPES,
        "{wordings}": WORDING_TYPES,
    }
    for place, names in places.items():
        sql = sql.replace(place, ", ".join(f"'{name}'" for name in names))
    return sql


def drop_views(driver: Any) -> None:
    """Drop the views: a view blocks every change to the tables that it reads. Revisions up to 0007 have `doubles`."""
    for name in ("doubles", *reversed(VIEWS)):
        driver.execute(f"DROP VIEW IF EXISTS {name}")


def create_views(driver: Any, dialect: str) -> None:
    """Drop and create every view, so that each is the one of this code."""
    drop_views(driver)
    for name in VIEWS:
        driver.execute(view_sql(dialect, name))


def refuse_taken_names(there: Iterable[Sequence[Any]], where: str) -> None:
    """Raise LedgerCorrupt where a name of `there` is a view's: on PostgreSQL another program may live beside the
    ledger. `where` names the database."""
    if taken := {row[0] for row in there} & set(VIEWS):
        raise LedgerCorrupt(
            f"{where} holds {', '.join(sorted(taken))}, and the ledger needs that name "
            "for a view; nothing was changed. Rename it, or name another database with REFLECTOR_LEDGER_URL"
        )
