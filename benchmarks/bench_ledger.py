"""The ledger on SQLite: rebuilds, proofs and questions, each against the minimum of the machine."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from itertools import count
from pathlib import Path

import sqlalchemy as sa

from benchmarks import made, verifying
from benchmarks.harness import Row, Side, paired_ratio, timed
from benchmarks.process import Asked
from reflector.audit.blame import blame_bullet
from reflector.events.event import Event
from reflector.events.registry import fold
from reflector.ledger.counters import Counters
from reflector.ledger.rows import event_of
from reflector.ledger.store import Ledger
from reflector.playbook_files.playbook_json import render_playbook
from reflector.project import Project


def rows(quick: bool, big: bool = False) -> list[Row]:
    """Measure rebuilds, verify, questions and refresh. Ledgers have up to 10^5 events if quick,
    else 10^6, and 10^7 if big.
    """
    sizes = (
        [10**4, 10**5] if quick else [10**4, 10**5, 10**6, 10**7] if big else [10**4, 10**5, 10**6]
    )
    begun = time.perf_counter()
    empty, least, *grown = (made.ledgers([0, 10**3, *sizes])[size] for size in [0, 10**3, *sizes])
    files = dict(zip(sizes, grown, strict=True))
    print(
        f"made {sizes[-1]:,} events in {time.perf_counter() - begun:.0f} s,",
        end=" ",
        file=sys.stderr,
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_recount(files),
            *_folds(files),
            *verifying.rows(files, Path(folder)),
            *_questions(files, Path(folder)),
            *_whole_ledger(files, empty, least),
        ]


def _recount(files: dict[int, Path]) -> list[Row]:
    """Measure a new count of all counters by SQL, against reading the file once."""
    found = []
    times: dict[int, float] = {}
    for size, path in files.items():
        with Ledger.open_file(path) as ledger:
            floor = timed(
                partial(subprocess.run, ["cat", path], stdout=subprocess.DEVNULL, check=True)
            )
            ratio = paired_ratio(
                floor, timed(partial(_counted, ledger)), 7 if size >= 10**6 else 15
            )
        times[size] = ratio[1]
        goal = 1.5 if size >= 10**5 else None
        note = f"floor: `cat` of the file, {path.stat().st_size // 2**20} MiB, warm"
        found.append(Row(f"rebuild of every counter, {size:,} events", *ratio, goal, note))
    found.append(_growth("rebuild of every counter", times, 1.0))
    return found


def _counted(ledger: Ledger) -> None:
    with ledger.writing() as writing:
        Counters(writing.sql).recount(None)


def _growth(part: str, times: dict[int, float], goal: float | None) -> Row:
    """Return a row with the exponent of the time in the number of events: 1 if it is proportional,
    less if it grows more slowly.
    """
    smaller, larger = sorted(times)[-2:]
    slope = math.log(times[larger] / times[smaller]) / math.log(larger / smaller)
    note = f"log-log slope; floor: the time at {smaller:,} events"
    return Row(
        (f"{part}, growth to {larger:,} events"), times[smaller], times[larger], slope, goal, note
    )


def _folds(files: dict[int, Path]) -> list[Row]:
    """Measure the computation of everything from the events alone."""
    size = 10**5
    with Ledger.open_file(files[size]) as ledger:
        core = timed(lambda: _core_fold(ledger))
        return [
            Row(
                f"playbook from {size:,} events by fold",
                *paired_ratio(core, timed(lambda: fold(ledger.history()).bullets()), 9),
                1.2,
                "floor: tags counted over rows of the few columns needed, by SQLAlchemy Core",
            ),
            Row(
                f"rebuild of all tables from {size:,} events",
                *paired_ratio(core, timed(ledger.rebuild), 5),
                None,
                "same floor; also writes every projected row anew",
            ),
        ]


def _events() -> sa.TableClause:
    # readers compute `fault`, which is not a column
    columns = ("playbook_id", *(field.name for field in fields(Event) if field.name != "fault"))
    return sa.table("event", *map(sa.column, columns))


def _core_fold(ledger: Ledger) -> dict[tuple[str, str], set[str]]:
    """Compute only the counters by SQLAlchemy Core, with the minimum of columns and JSON."""
    table = _events()
    query = sa.select(
        table.c.event_id, table.c.type, table.c.session_id, table.c.reflection_id, table.c.data
    )
    counted: dict[tuple[str, str], set[str]] = {}
    with ledger.engine.alchemy().connect() as connection:
        ordered = query.where(table.c.playbook_id == ledger.playbook_id).order_by(table.c.position)
        for row in connection.execution_options(yield_per=2000).execute(ordered):
            if row.type == "bullet.tagged":
                data = json.loads(row.data)
                if data["disposition"] == "counted":
                    counted.setdefault((data["name"], data["tag"]), set()).add(row.event_id)
    return counted


def _questions(files: dict[int, Path], folder: Path) -> list[Row]:
    """Measure the explanation of a bullet's counts, and the refresh of playbook.json after a
    session.
    """
    smaller, larger = sorted(files)[-2:]
    numbers, project = count(2 * 10**6), Project.at(folder)
    found = []
    with Ledger.open_file(files[smaller]) as small, Ledger.open_file(files[larger]) as large:
        with Ledger.open_file(files[10**4]) as least:
            assert len(blame_bullet(least, made.MARKED)) == made.MARKS
        for size, ledger in ((smaller, small), (larger, large)):
            ratio = paired_ratio(timed(partial(_look_up, ledger)), _blame(ledger), 15)
            note = f"{made.MARKS} tags explained; floor: look-up of one event by its key"
            found.append(Row(f"blame of a bullet, {size:,} events", *ratio, 20.0, note))
        growth = paired_ratio(_blame(small), _blame(large), 15)
        found.append(
            Row(f"blame at {larger:,} events", *growth, 1.1, (f"floor: at {smaller:,} events"))
        )
        refreshed = paired_ratio(
            _refresh(small, project, numbers), _refresh(large, project, numbers), 15
        )
        note = f"a session appended, playbook.json rendered; floor: at {smaller:,} events"
        found.append(Row(f"refresh at {larger:,} events", *refreshed, 1.3, note))
    return found


def _whole_ledger(files: dict[int, Path], empty: Path, least: Path) -> list[Row]:
    """Measure questions about every session, each as a complete process. Some count on from a row;
    their floor is a short ledger. The others count from the start; their floor is a ledger without
    a session.
    """
    found = []
    with tempfile.TemporaryDirectory() as name:
        asked = {size: Asked(Path(name), file) for size, file in files.items()}
        short, without = Asked(Path(name), least), Asked(Path(name), empty)
        for size in sorted(files)[1:]:
            for command in _COUNTED_ON:
                ratio = paired_ratio(short.cpu(*command), asked[size].cpu(*command), 7)
                note = "whole process, CPU; floor: at 1,000 events"
                found.append(Row(f"`{' '.join(command)}` at {size:,} events", *ratio, 2.0, note))
        for what, at in _FROM_THE_START.items():
            ratio = paired_ratio(without.cpu(*at(1)), asked[10**5].cpu(*at(10**5)), 7)
            found.append(
                Row(
                    f"{what} at 100,000 events",
                    *ratio,
                    5.0,
                    "whole process, CPU; floor: without a session",
                )
            )
    return found


def _look_up(ledger: Ledger) -> None:
    table = _events()
    query = sa.select(table).where(
        table.c.playbook_id == ledger.playbook_id, table.c.position == 500
    )
    with ledger.engine.alchemy().connect() as connection:
        event_of(connection.execute(query).one()[1:])


def _blame(ledger: Ledger) -> Side:
    return timed(lambda: blame_bullet(ledger, made.MARKED))


#: Questions about the whole ledger.
_COUNTED_ON: tuple[tuple[str, ...], ...] = (
    ("stats", "--json"),
    ("list", "--by", "cited", "--json"),
    ("list", "--json"),
    ("status",),
    ("review", "find", "--dry-run"),
)
#: Questions that count from the start, by the last position.
_FROM_THE_START: dict[str, Callable[[int], tuple[str, ...]]] = {
    ("`list --as-of`, 1,000 events ago,"): lambda last: (
        "list",
        "--as-of",
        f"{max(1, last - 1000)}",
        "--json",
    ),
    ("`diff` of the last 1,000 events"): lambda last: (
        "diff",
        f"{max(1, last - 1000)}..{last}",
        "--json",
    ),
    "`stats --doubles`": lambda _: ("stats", "--doubles", "--json"),
    f"`stats --doubles {made.MARKED}`": lambda _: ("stats", "--doubles", made.MARKED, "--json"),
}


def _refresh(ledger: Ledger, project: Project, numbers: Iterator[int]) -> Side:
    def work() -> float:
        events = made.session(next(numbers))
        begun = time.perf_counter()
        ledger.append(events)
        render_playbook(ledger, project)
        return time.perf_counter() - begun

    return work
