"""A ledger as Parquet, for analysts: its events and each view in a file of its own.

Invariant: all files are of one state of the ledger. A file is there whole or not at all, memory does not grow with the
number of rows, and a column has the same type for any content: 64-bit integers, times in UTC, strings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reflector.ledger.errors import LedgerUnavailable
from reflector.ledger.reader import Reader
from reflector.ledger.readonly_sql import Answer, asking
from reflector.ledger.views import FRACTIONS, NUMBERS, TIMES
from reflector.resources import install_command

#: Rows of a row group: what is held in memory.
_ROWS = 20_000
_NUMBERS = NUMBERS | {"schema_version"}
_TIMES = TIMES | {"occurred_at"}
_EVENTS = (
    "SELECT playbook.name AS playbook, event.position, event.event_id, event.type, event.schema_version,"
    " event.occurred_at, event.recorded_at, event.actor, event.session_id, event.reflection_id, event.target_id,"
    " event.data, event.data_hash, event.meta, event.chain"
    " FROM event JOIN playbook ON playbook.id = event.playbook_id WHERE {mine} ORDER BY event.position"
)
_VIEW = "SELECT * FROM {view} WHERE {mine} ORDER BY {order}"
_QUERIES = {
    "events": _EVENTS,
    **{
        view: _VIEW.replace("{view}", view).replace("{order}", order)
        for view, order in {
            "bullets": "ordinal",
            "tags": "position",
            "reflections": "position, answered_at",
            "sessions": "position",
            "doubles": "class, position",
        }.items()
    },
}


def write_parquet(ledger: Reader, folder: Path) -> dict[str, int]:
    """Write events.parquet and a file for each view into a folder, which is made; the number of rows of each.

    An existing file is replaced. An invalid timestamp becomes null. Raises LedgerUnavailable without pyarrow, OSError,
    LedgerError.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise LedgerUnavailable(
            f"Parquet needs the package pyarrow ({error}); install it with: {install_command('parquet')}"
        ) from error
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = ledger.name.replace("'", "''")
    written = {}
    with asking(ledger) as asker:
        for file, query in _QUERIES.items():
            mine = f"playbook.name = '{name}'" if file == "events" else f"playbook = '{name}'"
            answer = asker.ask(query.replace("{mine}", mine))
            written[file] = _write(folder / f"{file}.parquet", answer)
    return written


def _type(column: str) -> Any:
    import pyarrow

    if column in _TIMES:
        return pyarrow.timestamp("us", tz="UTC")
    return pyarrow.int64() if column in _NUMBERS else pyarrow.float64() if column in FRACTIONS else pyarrow.string()


def _write(path: Path, answer: Answer) -> int:
    from pyarrow import RecordBatch, array, schema
    from pyarrow.parquet import ParquetWriter

    of = schema([(column, _type(column)) for column in answer.columns])
    staged = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    count = 0
    try:
        with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            with ParquetWriter(file, of, compression="zstd") as writer:
                for rows in _batches(answer):
                    columns = zip(of.types, map(_fitted, answer.columns, zip(*rows, strict=True)), strict=True)
                    arrays = [array(values, kind) for kind, values in columns]
                    writer.write_batch(RecordBatch.from_arrays(arrays, schema=of))
                    count += len(rows)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
    return count


def _batches(answer: Answer) -> Iterator[list[tuple[Any, ...]]]:
    batch: list[tuple[Any, ...]] = []
    for page in answer.pages:
        batch += page
        if len(batch) >= _ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def _fitted(column: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return a column's values as its type has them; what an event says may be of another one."""
    if column in _TIMES:
        return [_time(value) for value in values]
    if column in _NUMBERS or column in FRACTIONS:
        return values
    return [str(value) if value is not None else None for value in values]


def _time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
