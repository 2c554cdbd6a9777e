"""The floor of an append: the bare driver executes the same statements with the same values.

Invariant: three ledgers begin as copies of one file. The first one appends, outside the measured
time, and its statements are recorded. The second one is measured. On the third one, the driver
executes the recorded statements.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks.harness import paired_ratio
from reflector.events.event import NewEvent
from reflector.ledger import append
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger

#: The transactions that are appended first without measuring, and those that are measured.
Burst = tuple[list[NewEvent], list[list[NewEvent]]]


class Call(NamedTuple):
    """An executed statement: with its rows of values, or without; and whether its answer was
    read.
    """

    many: bool
    sql: str
    values: Any
    read: bool


class Recorder:
    """A driver's cursor that remembers its calls."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.calls: list[Call] = []

    def execute(self, sql: str, *values: Any) -> Recorder:
        self.calls.append(Call(False, sql, values, False))
        self._cursor.execute(sql, *values)
        return self

    def executemany(self, sql: str, rows: Any) -> Recorder:
        rows = list(rows)
        self.calls.append(Call(True, sql, rows, False))
        self._cursor.executemany(sql, rows)
        return self

    def fetchone(self) -> Any:
        self.calls[-1] = self.calls[-1]._replace(read=True)
        return self._cursor.fetchone()

    def fetchall(self) -> Any:
        self.calls[-1] = self.calls[-1]._replace(read=True)
        return self._cursor.fetchall()


class Replay:
    """The three ledgers, made from a SQLite ledger's file. Close it at the end."""

    def __init__(self, file: Path) -> None:
        self._open = ExitStack()
        self._recorded, self._measured, self._bare = (
            self._copy(file, name) for name in ("recorded", "ours", "bare")
        )
        self._recorder = Recorder(None)
        # Prepared by the ledger like each of its connections: page size, WAL, synchronous, foreign
        # keys.
        self.cursor = self._open.enter_context(self._bare.engine.connection()).cursor()

    def close(self) -> None:
        self._open.close()

    def ratio(self, bursts: Sequence[Burst]) -> tuple[float, float, float]:
        """Return (floor, ours, ratio) in seconds for each transaction. The first burst is not
        counted.
        """
        turns = iter(bursts)
        waiting: dict[str, Any] = {}

        def prepared(side: str) -> Any:
            if not waiting:
                before, batches = next(turns)
                for events in (before, *batches):
                    if events:
                        with patch.object(append, "Statements", self._recording):
                            self._recorded.append(events)
                        waiting.setdefault("calls", []).append(self._recorder.calls)
                calls = waiting.pop("calls")
                if before:
                    self._execute(calls[:1])
                    self._measured.append(before)
                waiting["floor"], waiting["ours"] = calls[bool(before) :], batches
            return waiting.pop(side)

        def floor() -> float:
            calls = prepared("floor")
            begun = time.perf_counter()
            self._execute(calls)
            return (time.perf_counter() - begun) / len(calls)

        def ours() -> float:
            batches = prepared("ours")
            begun = time.perf_counter()
            for events in batches:
                self._measured.append(events)
            return (time.perf_counter() - begun) / len(batches)

        return paired_ratio(floor, ours, len(bursts) - 1)

    def _recording(self, cursor: Any, *of: Any) -> Statements:
        self._recorder = Recorder(cursor)
        return Statements(self._recorder, *of)

    def _execute(self, transactions: list[list[Call]]) -> None:
        cursor = self.cursor
        for calls in transactions:
            cursor.execute("BEGIN IMMEDIATE")
            for many, sql, values, read in calls:
                if many:
                    cursor.executemany(sql, values)
                else:
                    cursor.execute(sql, *values)
                if read:
                    cursor.fetchall()
            cursor.execute("COMMIT")

    def _copy(self, file: Path, name: str) -> Ledger:
        copy = file.with_name(f"{file.stem}-{name}.db")
        shutil.copyfile(file, copy)
        return self._open.enter_context(Ledger.open_file(copy))
