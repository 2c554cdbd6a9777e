"""The `sql` command: a question in SQL, answered as a table, JSON or CSV."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.output import note, print_csv, print_json, print_lines, table

if TYPE_CHECKING:
    from reflector.ledger.readonly_sql import Answer, Asker

#: Rows of a table for people; CSV and JSON have all.
_MOST = 1000
_MOST_BYTES = 2**20
_rows = chain.from_iterable


@click.command()
@click.argument("query", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values, every row.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, every row.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Stop after this time.")
@click.pass_obj
def sql(place: Place, query: str | None, as_csv: bool, as_json: bool, timeout: float | None) -> None:
    """Query the ledger with SQL, read-only.

    Without QUERY, reads the query from stdin; where nothing comes, lists the views (bullets, tags, reflections,
    sessions) and their columns, which docs/machines.md describes.
    """
    from reflector.ledger.readonly_sql import NotAQuestion, asking

    if as_csv and as_json:
        raise click.UsageError("--csv and --json are two forms of one answer; leave one of them out")
    if query is None:
        query = _from_stdin()
    with place.reading() as ledger, asking(ledger, timeout) as asker:
        try:
            if query is None:
                _list_views(asker, as_json)
                return
            answer = asker.ask(query)
            if as_json:
                print_lines(_json(answer))
            elif as_csv:
                print_csv(answer.columns, ([_cell(value) for value in row] for row in _rows(answer.pages)))
            else:
                _table(answer)
        except NotAQuestion as error:
            raise click.UsageError(str(error)) from error


def _from_stdin() -> str | None:
    """Return the query on stdin; None on a terminal, and where stdin is empty."""
    if sys.stdin is None or sys.stdin.isatty():
        return None
    text = sys.stdin.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise click.UsageError(f"the query on stdin has more than {_MOST_BYTES:,} characters; make it smaller")
    return text if text.strip() else None


def _list_views(asker: Asker, as_json: bool) -> None:
    from reflector.ledger.migration import VIEWS

    columns = {
        view: asker.ask(f"SELECT * FROM {view} LIMIT 0").columns  # noqa: S608
        for view in VIEWS[1:]
    }
    if as_json:
        print_json([{"view": view, "columns": list(names)} for view, names in columns.items()])
        return
    table(("view", "columns"), [(view, ", ".join(names)) for view, names in columns.items()], whole=True)
    note("Such as: reflector sql 'SELECT name, helpful, harmful FROM bullets ORDER BY helpful DESC'")


def _table(answer: Answer) -> None:
    rows = list(islice(_rows(answer.pages), _MOST + 1))
    shown = [[_cell(value) for value in row] for row in rows[:_MOST]]
    numbers = [
        name
        for index, name in enumerate(answer.columns)
        if all(row[index] is None or isinstance(row[index], int | float | Decimal) for row in shown)
    ]
    if answer.columns:
        table(answer.columns, shown, numbers=numbers, prose=answer.columns)
    if len(rows) > _MOST:
        note(f"These are the first {_MOST:,} rows; --csv and --json have all of them.")


def _json(answer: Answer) -> Iterator[str]:
    """Yield a list with one object a row, line by line, in the form of every other document."""
    names = _unique(answer.columns)
    last: str | None = None
    for row in _rows(answer.pages):
        yield "[" if last is None else f"{last},"
        value = dict(zip(names, map(_plain, row), strict=True))
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
        last = "\n".join(f"  {line}" for line in text.split("\n"))
    yield "[]" if last is None else f"{last}\n]"


def _unique(columns: Sequence[str]) -> list[str]:
    """Return the names of columns, each once: two of one name would be one key."""
    names: list[str] = []
    for name in columns:
        forms = chain([name], (f"{name}_{number}" for number in count(2)))
        names.append(next(one for one in forms if one not in names))
    return names


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes as hexadecimal digits, a whole number whatever its type, no infinity."""
    if isinstance(value, Decimal):
        value = int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, list | dict) else _cell(value)


def _cell(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, int | float | Decimal | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
