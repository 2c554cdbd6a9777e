"""Appends on SQLite: against the bare driver, beside other libraries, and by many processes at
once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks import made, peers
from benchmarks.harness import Row, paired_ratio, timed
from benchmarks.replay import Burst, Replay
from benchmarks.writers import SECONDS, Together, together
from reflector.events.event import NewEvent
from reflector.events.registry import fold
from reflector.ledger.store import Ledger

#: The number of transactions, of ten events each, that a measured side makes at a time.
_BURST = 100


def rows(quick: bool) -> list[Row]:
    """Return the rows for ten and a thousand events a transaction, and for 8 and 32 writers."""
    pairs = 7 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        numbers = count()
        found = [
            *_replayed(Path(folder), numbers, pairs),
            *_beside_peers(Path(folder), numbers, pairs),
        ]
        return [*found, *_writers(Path(folder), 2 if quick else 5)]


def _replayed(folder: Path, numbers: Iterator[int], pairs: int) -> list[Row]:
    file = folder / "append.db"
    with Ledger.open_file(file) as ledger:
        ledger.append([made.playbook()])
        for _ in range(10):
            ledger.append(sessions(numbers, 100))
        with ledger.engine.connection() as connection:  # the copies are made from this one file
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    replay = Replay(file)
    try:
        ten = replay.ratio([_reflections(numbers) for _ in range(pairs + 1)])
        thousand = replay.ratio(
            [([], [sessions(numbers, 100) for _ in range(3)]) for _ in range(pairs + 1)]
        )
    finally:
        replay.close()
    note = (
        "chain, triggers, counters, synchronous=FULL; floor: the bare driver with the same "
        "statements and values"
    )
    rates = (1000 / thousand[0], 1000 / thousand[1], thousand[2])
    return [
        Row("append, 10 events per transaction", *ten, 1.4, note),
        Row("bulk append, 1,000 per transaction", *rates, 1.6, "same floor", "events/s"),
    ]


def sessions(numbers: Iterator[int], times: int) -> list[NewEvent]:
    """Return the events of the next sessions, ten for each."""
    return [event for _ in range(times) for event in made.session(next(numbers))]


def _reflections(numbers: Iterator[int]) -> Burst:
    """Return appends of ten events, and the windows that they need."""
    chosen = [next(numbers) for _ in range(_BURST)]
    return [made.window(number) for number in chosen], [
        made.reflection(number, 9) for number in chosen
    ]


def appended_by(
    append: Callable[[list[NewEvent]], object], numbers: Iterator[int], size: int, times: int
) -> Callable[[], float]:
    """Return a side that appends transactions of some sessions. The sessions are made before. The
    side returns seconds for each event.
    """

    def side() -> float:
        batches = [sessions(numbers, size) for _ in range(times)]
        return timed(lambda: [append(batch) for batch in batches])() / (10 * size * times)

    return side


def _beside_peers(folder: Path, numbers: Iterator[int], pairs: int) -> list[Row]:
    """Measure the same events through an event-sourcing library, and as rows through
    sqlite-utils.
    """
    found = []
    notes = {
        "eventsourcing": "floor: its application; no chain, no counters",
        "sqlite-utils": "floor: insert_all into a table without indexes; no chain, no counters",
    }
    sourcing = peers.on_sqlite(folder / "eventsourcing.db")
    table = peers.rows_in(folder / "rows.db")
    with Ledger.open_file(folder / "peers.db") as ledger:
        ledger.append([made.playbook()])
        for name, peer, goal in (("eventsourcing", sourcing, 1.0), ("sqlite-utils", table, None)):
            if peer is None:
                continue
            for size, times in ((1, _BURST), (100, 1)):
                floor, ours = (
                    appended_by(one.append, numbers, size, times) for one in (peer, ledger)
                )
                took, mine, ratio = paired_ratio(floor, ours, pairs)
                part = f"append beside {name}, {10 * size:,} per transaction"
                found.append(Row(part, 1 / took, 1 / mine, ratio, goal, notes[name], "events/s"))
    if sourcing is not None:
        sourcing.close()
        found.append(_projection(folder))
    return found


def _projection(folder: Path) -> Row:
    """Measure the count of verdicts from the same events on both sides."""
    numbers = count()
    sourcing = peers.on_sqlite(folder / "projection-eventsourcing.db")
    assert sourcing is not None
    with Ledger.open_file(folder / "projection.db") as ledger:
        ledger.append([made.playbook()])
        for _ in range(20):
            events = sessions(numbers, 100)
            ledger.append(events)
            sourcing.append(events)
        ratio = paired_ratio(
            timed(sourcing.project), timed(lambda: fold(ledger.history()).bullets()), 5
        )
    sourcing.close()
    return Row(
        "projection of 20,000 events beside eventsourcing",
        *ratio,
        1.0,
        "floor: verdicts counted from its log",
    )


def _writers(folder: Path, turns: int) -> list[Row]:
    """Compare many processes that append to one playbook for a while with one process: how much
    they append, and how long one of them waits.
    """
    alone: list[Together] = []
    rounds: dict[int, list[Together]] = {8: [], 32: []}
    for turn in range(turns):
        url = f"sqlite:///{folder}/writers-{turn}.db"
        with Ledger.open(url) as ledger:
            ledger.append([made.playbook()])
        alone.append(together(url, 1, SECONDS, base=0))
        for writers, many in rounds.items():
            many.append(together(url, writers, SECONDS, base=100 * writers))
    return [
        row
        for writers, many in rounds.items()
        for row in rows_of_writers(
            f"{writers} writer processes, one playbook", alone, many, 1.0 if writers == 8 else None
        )
    ]


def rows_of_writers(
    part: str, alone: Sequence[Together], many: Sequence[Together], goal: float | None
) -> list[Row]:
    """Return the rate of many writers against one writer in the same round, and their longest wait
    in fair turns.
    """
    ratio = median(one.rate / both.rate for one, both in zip(alone, many, strict=True))
    rates = (median(one.rate for one in alone), median(both.rate for both in many))
    fair = median(both.longest / both.turns for both in many)
    longest, turns = median(both.longest for both in many), median(both.turns for both in many)
    passed = median(both.passed for both in many)
    note = (
        "floor: the time in which each appends once; appends that came before, in such turns: "
        f"{passed:.2f}"
    )
    return [
        Row(part, *rates, ratio, goal, "no lock error; floor: 1 writer", "events/s"),
        Row(f"longest wait of {part}", fair, longest, turns, 5.0, note),
    ]
