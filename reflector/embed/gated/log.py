"""The log of reflections: a line for each turn on which the step ran.

Invariant: a log never harms a turn: it raises nothing and does not wait for a reader. Inside
`in_order`, its bytes depend only on the turns, and not on which agent was first.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from reflector.files import NO_WAIT

if TYPE_CHECKING:
    from reflector.embed.gated.settings import GatedConfig
    from reflector.embed.gated.turn import ReflectionResult

FILE_NAME = "t3_reflection.jsonl"
#: The place of this log among the logs of a turn, for a host that stages several of them and
#: flushes them together.
STAGE_ORDINAL = 10


def log_record(
    config: GatedConfig, result: ReflectionResult, *, agent: str, turn: int, ops_written: int
) -> dict[str, Any]:
    """Return a turn's record: turn, agent, backend, summary_len, ops_written, embed, ms, reason,
    fixture_key.
    """
    about = {"turn": turn, "agent": agent, "ops_written": ops_written, "ms": shown_ms(result.ms)}
    return about | result_figures(config, result)


def result_figures(config: GatedConfig, result: ReflectionResult) -> dict[str, Any]:
    """Return the figures of a result that both a log and a measure show."""
    key = {name: value for name, value in result.metrics.items() if name == "fixture_key"}
    length = len(result.summary.split())
    return {
        "backend": config.backend,
        "embed": config.embed,
        "summary_len": length,
        "reason": result.reason,
        **key,
    }


def shown_ms(ms: float) -> float:
    """Return milliseconds as a log shows them: 0.0 if the environment has CI=true."""
    return 0.0 if os.environ.get("CI", "").lower() == "true" else round(ms, 3)


def canonical_line(record: Mapping[str, Any]) -> str:
    """Return a record as one line of ASCII JSON with sorted keys, without a line break at the
    end.
    """
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


class RecordLog(Protocol):
    """Takes a record of each turn: a `ReflectionLog`, or the host's own object that stages its
    records.
    """

    def add(self, record: Mapping[str, Any]) -> None: ...


class ReflectionLog:
    """The log in a file, which is created with the first record. Agents in several threads may
    share one log.

    lost  how many records could not be written
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.lost = 0
        self._lock = threading.Lock()
        self._batches = 0
        self._staged: list[tuple[str, int, str]] = []

    def add(self, record: Mapping[str, Any]) -> None:
        """Write a complete record at once; inside `in_order`, stage it. It never raises."""
        with self._lock:
            try:
                staged = (
                    str(record.get("agent", "")),
                    int(record.get("turn", 0)),
                    canonical_line(record),
                )
            except Exception:  # noqa: BLE001  a fault of a host's object must not end the turn
                self.lost += 1
                return
            if self._batches:
                self._staged.append(staged)
            else:
                self._write(staged[-1])

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Stage the records of a batch, and write them by agent and turn when the batch ends.

        If batches overlap, the last one to end writes the records of all.
        """
        with self._lock:
            self._batches += 1
        try:
            yield
        finally:
            with self._lock:
                self._batches -= 1
                if not self._batches:
                    self._flush()

    def _flush(self) -> None:
        staged = sorted(self._staged)
        self._staged = []
        for *_, line in staged:
            self._write(line)

    def _write(self, line: str) -> None:
        """Append a line to the file, or count it as lost."""
        data = f"{line}\n".encode("ascii")
        try:
            # A pipe without a reader would block the turn, in `open` and, once it is full, in
            # `write`.
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_WAIT, 0o600)
            try:
                is_cut_short = os.write(fd, data) < len(data)
                self.lost += is_cut_short
            finally:
                os.close(fd)
        except (OSError, ValueError):  # a full disk, a missing folder, a NUL in the path
            self.lost += 1
