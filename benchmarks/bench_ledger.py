"""The ledger on SQLite: appending, rebuilding, proving and asking, each against what the machine itself needs."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import sqlalchemy as sa

from benchmarks import bench_verify, made
from benchmarks.harness import Row, Side, paired_ratio, timed
from benchmarks.process import Asked
from reflector.audit.blame import blame
from reflector.audit.changes import crossings, difference
from reflector.curation.playbook_file import render
from reflector.events.fold import fold
from reflector.ledger import tables
from reflector.ledger.as_of import Past
from reflector.ledger.rows import event_of
from reflector.ledger.store import Ledger
from reflector.playbook.condition import condition

#: Transactions a measured side makes at a time.
_BURST = 100
_WRITERS = 8
_WRITE_SECONDS = 1.5
#: Longest wait of one append among `_WRITERS` writers, in seconds.
_LONGEST_WAIT = 0.1


def rows(quick: bool, big: bool = False) -> list[Row]:
    """Appends, many writers, rebuilds, verify, questions and refresh; ledgers of up to 10^5 events when quick, else
    10^6, 10^7 when big."""
    sizes = [10**4, 10**5] if quick else [10**4, 10**5, 10**6, 10**7] if big else [10**4, 10**5, 10**6]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        files = made.ledgers(Path(folder), sizes)
        took = time.perf_counter() - begun
        found = [
            *_append(Path(folder)),
            *_bulk(Path(folder)),
            *_writers(Path(folder)),
            *_recount(files),
            *_folds(files),
            *bench_verify.rows(files, Path(folder)),
            *_questions(files),
            *_whole_ledger(files),
        ]
        print(f"made {sizes[-1]:,} events in {took:.0f} s,", end=" ", file=sys.stderr)
    return found


def _append(folder: Path) -> list[Row]:
    numbers = count()
    with Ledger.open_file(folder / "append.db") as ledger:
        ledger.append([made.playbook()])
        for _ in range(5):
            _append_sessions(ledger, [next(numbers) for _ in range(100)])
        _checkpoint(ledger)
        _append_reflections(ledger, numbers, _BURST)
        size = (folder / "append.db-wal").stat().st_size // _BURST
        ratio = paired_ratio(
            _synced_write(folder / "floor", size, _BURST),
            lambda: _append_reflections(ledger, numbers, _BURST) / _BURST,
            15,
        )
    note = f"chain, triggers, counters, synchronous=FULL; floor: pwrite + fdatasync of {size // 1024} KiB"
    return [Row("append, 10 events per transaction", *ratio, 4.0, note)]


def _append_sessions(ledger: Ledger, numbers: list[int]) -> None:
    ledger.append([event for number in numbers for event in made.session(number)])


def _append_reflections(ledger: Ledger, numbers: Iterator[int], times: int) -> float:
    """Seconds of `times` appends of ten events; their windows are appended before and not counted."""
    chosen = [next(numbers) for _ in range(times)]
    ledger.append([made.window(number) for number in chosen])
    batches = [made.reflection(number, 9) for number in chosen]
    begun = time.perf_counter()
    for batch in batches:
        ledger.append(batch)
    return time.perf_counter() - begun


def _checkpoint(ledger: Ledger) -> None:
    with ledger.engine.alchemy().connect() as connection:
        connection.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _synced_write(path: Path, size: int, times: int) -> Side:
    """Writes of `size` bytes into a file that is long enough, as SQLite reuses its log, each made durable."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    block = os.urandom(size)
    os.pwrite(file, bytes(size * times), 0)
    os.fsync(file)

    def work() -> float:
        begun = time.perf_counter()
        for number in range(times):
            os.pwrite(file, block, number * size)
            os.fdatasync(file)
        return (time.perf_counter() - begun) / times

    return work


def _bulk(folder: Path) -> list[Row]:
    """A thousand events a transaction against the same rows, ready made, through the bare driver."""
    numbers = count()
    with Ledger.open_file(folder / "bulk.db") as ledger, Ledger.open_file(folder / "twin.db") as twin:

        def ours() -> float:
            events = [event for _ in range(100) for event in made.session(next(numbers))]
            begun = time.perf_counter()
            ledger.append(events)
            return (time.perf_counter() - begun) / len(events)

        for _ in range(3):
            ours()
        copy = Copy(ledger, twin)
        floor, mine, ratio = paired_ratio(lambda: copy.work(1000), ours, 15)
    note = "floor: the driver's INSERTs of the same rows, ready made, into the same indexes and triggers"
    return [Row("bulk append, 1,000 per transaction", 1 / floor, 1 / mine, ratio, 2.0, note, "events/s")]


class Copy:
    """Rows of one ledger inserted into another's tables by the driver, in order: what the database itself needs."""

    def __init__(self, source: Ledger, target: Ledger) -> None:
        self._source, self._target = source, target
        self._position = 0

    def work(self, size: int) -> float:
        """Copy the next rows in one transaction; seconds an event."""
        chosen = (self._position, self._position + size)
        self._position += size
        with self._source.engine.alchemy().connect() as connection:
            rows = {
                table: connection.execute(
                    sa.select(table)
                    .where(table.c.position > chosen[0], table.c.position <= chosen[1])
                    .order_by(table.c.position)
                ).all()
                for table in (tables.event, tables.tag)
            }
        assert len(rows[tables.event]) == size
        with self._target.engine.alchemy().connect() as connection:
            cursor = connection.connection.cursor()
            begun = time.perf_counter()
            if connection.dialect.name == "sqlite":
                cursor.execute("BEGIN IMMEDIATE")
            for table, found in rows.items():
                mark = "?" if connection.dialect.name == "sqlite" else "%s"
                marks = ", ".join([mark] * len(table.columns))
                into = f"INSERT INTO {table.name} VALUES ({marks})"  # noqa: S608
                cursor.executemany(into, [tuple(row) for row in found])
            connection.connection.commit()
            return (time.perf_counter() - begun) / size


def _writers(folder: Path) -> list[Row]:
    """Eight processes that append to one playbook for a while, against one."""
    alone, together, waits = [], [], []
    for turn in range(3):
        path = folder / f"writers-{turn}.db"
        with Ledger.open_file(path) as ledger:
            ledger.append([made.playbook()])
        for writers, rates in ((1, alone), (_WRITERS, together)):
            counted = run_writers(f"sqlite:///{path}", writers, base=10**6 * writers)
            rates.append(sum(appends for appends, _ in counted) * 10 / _WRITE_SECONDS)
            if writers > 1:
                waits.append(max(longest for _, longest in counted))
    ratio = statistics.median(one / many for one, many in zip(alone, together, strict=True))
    rate = (statistics.median(alone), statistics.median(together))
    wait = statistics.median(waits)
    return [
        Row("8 writer processes, one playbook", *rate, ratio, 1 / 0.65, "no lock error; floor: 1 writer", "events/s"),
        Row(
            "longest wait of 8 writers", _LONGEST_WAIT, wait, wait / _LONGEST_WAIT, 1.0, "floor: the limit that was set"
        ),
    ]


def run_writers(url: str, writers: int, base: int) -> list[tuple[int, float]]:
    """(appends, longest wait in seconds) of each of some processes that append at once. A lock error raises."""
    begin = time.time() + 1.0 + 0.3 * writers
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.writer", url, str(begin), str(_WRITE_SECONDS), str(base + number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    found = []
    for process in processes:
        answer = process.communicate()[0]
        if process.returncode:
            raise RuntimeError(f"a writer failed: exit code {process.returncode}")
        appends, longest = answer.split()
        found.append((int(appends), float(longest)))
    return found


def _recount(files: dict[int, Path]) -> list[Row]:
    """All counters anew by SQL, against reading the file once."""
    found = []
    times: dict[int, float] = {}
    for size, path in files.items():
        with Ledger.open_file(path) as ledger:
            floor = timed(lambda path=path: subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True))
            ratio = paired_ratio(floor, timed(ledger.recount), 7 if size >= 10**6 else 15)
        times[size] = ratio[1]
        goal = 1.5 if size >= 10**5 else None
        note = f"floor: `cat` of the file, {path.stat().st_size // 2**20} MiB, warm"
        found.append(Row(f"rebuild of every counter, {size:,} events", *ratio, goal, note))
    found.append(_growth("rebuild of every counter", times, 1.0))
    return found


def _growth(part: str, times: dict[int, float], goal: float | None) -> Row:
    """How the time goes with the number of events: 1 where it is in proportion, less where it grows less."""
    smaller, larger = sorted(times)[-2:]
    slope = math.log(times[larger] / times[smaller]) / math.log(larger / smaller)
    note = f"log-log slope; floor: the time at {smaller:,} events"
    return Row(f"{part}, growth to {larger:,} events", times[smaller], times[larger], slope, goal, note)


def _folds(files: dict[int, Path]) -> list[Row]:
    """Everything from the events alone."""
    size = 10**5
    with Ledger.open_file(files[size]) as ledger:
        core = timed(lambda: _core_fold(ledger))
        return [
            Row(
                f"playbook from {size:,} events by fold",
                *paired_ratio(core, timed(lambda: fold(ledger.history()).bullets()), 9),
                1.5,
                "floor: tags counted over rows of the few columns needed, by SQLAlchemy Core",
            ),
            Row(
                f"rebuild of all tables from {size:,} events",
                *paired_ratio(core, timed(ledger.rebuild), 5),
                None,
                "same floor; also writes every projected row anew",
            ),
        ]


def _core_fold(ledger: Ledger) -> dict[tuple[str, str], set[str]]:
    """The counters and nothing else, from no more columns and no more JSON than they need, by SQLAlchemy Core."""
    table = tables.event
    query = sa.select(table.c.event_id, table.c.type, table.c.session_id, table.c.reflection_id, table.c.data)
    counted: dict[tuple[str, str], set[str]] = {}
    with ledger.engine.alchemy().connect() as connection:
        ordered = query.where(table.c.playbook_id == ledger.playbook_id).order_by(table.c.position)
        for row in connection.execution_options(yield_per=2000).execute(ordered):
            if row.type == "bullet.tagged":
                data = json.loads(row.data)
                if data["disposition"] == "counted":
                    counted.setdefault((data["name"], data["tag"]), set()).add(row.event_id)
    return counted


def _questions(files: dict[int, Path]) -> list[Row]:
    """Why a bullet stands where it does, and the refresh of playbook.json after a session."""
    smaller, larger = sorted(files)[-2:]
    numbers = count(2 * 10**6)
    found = []
    with Ledger.open_file(files[smaller]) as small, Ledger.open_file(files[larger]) as large:
        with Ledger.open_file(files[10**4]) as least:
            assert len(blame(least, made.MARKED)) == made.MARKS
        for size, ledger in ((smaller, small), (larger, large)):
            ratio = paired_ratio(timed(lambda ledger=ledger: _look_up(ledger)), _blame(ledger), 15)
            note = f"{made.MARKS} tags explained; floor: look-up of one event by its key"
            found.append(Row(f"blame of a bullet, {size:,} events", *ratio, 20.0, note))
        growth = paired_ratio(_blame(small), _blame(large), 15)
        found.append(Row(f"blame at {larger:,} events", *growth, 1.5, f"floor: at {smaller:,} events"))
        for what, ask in _GROWS_NOT.items():
            ratio = paired_ratio(_asked(small, ask), _asked(large, ask), 15)
            found.append(Row(f"{what} at {larger:,} events", *ratio, 1.5, f"floor: at {smaller:,} events"))
        refreshed = paired_ratio(_refresh(small, numbers), _refresh(large, numbers), 15)
        note = f"a session appended, playbook.json rendered; floor: at {smaller:,} events"
        found.append(Row(f"refresh at {larger:,} events", *refreshed, 1.3, note))
    return found


def _whole_ledger(files: dict[int, Path]) -> list[Row]:
    """Questions that look at every session, each a whole process, on the longest ledger against the shortest."""
    least, most = min(files), max(files)
    found = []
    with tempfile.TemporaryDirectory() as name:
        small, large = Asked(Path(name), files[least]), Asked(Path(name), files[most])
        for command in _WHOLE:
            ratio = paired_ratio(small.cpu(*command), large.cpu(*command), 7)
            note = f"whole process, CPU; floor: at {least:,} events"
            found.append(Row(f"`{' '.join(command)}` at {most:,} events", *ratio, 3.0, note))
    return found


def _look_up(ledger: Ledger) -> None:
    table = tables.event
    query = sa.select(table).where(table.c.playbook_id == ledger.playbook_id, table.c.position == 5000)
    with ledger.engine.alchemy().connect() as connection:
        event_of(connection.execute(query).one()[1:])


def _blame(ledger: Ledger) -> Side:
    return timed(lambda: blame(ledger, made.MARKED))


#: Questions about all of a ledger.
_WHOLE: tuple[tuple[str, ...], ...] = (
    ("stats", "--json"),
    ("citations", "--json"),
    ("double-counts", "--json"),
    ("double-counts", made.MARKED, "--json"),
    ("list", "--json"),
    ("status",),
    ("prune", "--dry-run"),
)
#: Questions whose time does not depend on how long the history is.
_GROWS_NOT: dict[str, Callable[[Ledger], object]] = {
    "playbook as of 1,000 events ago": lambda ledger: Past(ledger, ledger.head().position - 1000).rows(),
    "diff of the last 1,000 events": lambda ledger: difference(
        ledger, ledger.head().position - 1000, ledger.head().position
    ),
    "bisect of a bullet": lambda ledger: crossings(
        ledger, made.MARKED, condition("helpful > 10"), ledger.head().position
    ),
}


def _asked(ledger: Ledger, ask: Callable[[Ledger], object]) -> Side:
    return timed(lambda: ask(ledger))


def _refresh(ledger: Ledger, numbers: Iterator[int]) -> Side:
    def work() -> float:
        events = made.session(next(numbers))
        begun = time.perf_counter()
        ledger.append(events)
        render(ledger)
        return time.perf_counter() - begun

    return work
