"""The log of reflections, `t3_reflection.jsonl`: one line for each turn on which somebody reflected.

Invariant: a log never harms a turn. What cannot be written is counted in `lost` and otherwise forgotten. A line is
written whole and at once; lines of agents that reflect in parallel are held back and written in an order that does not
depend on who was first.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reflector.files import NO_WAIT
from reflector.gating.config import GatedConfig
from reflector.gating.summary import ReflectionResult

FILE_NAME = "t3_reflection.jsonl"
#: Where the log stands among the logs of a turn, for a host that flushes several of them together.
STAGE_ORDINAL = 10


def log_record(
    config: GatedConfig,
    result: ReflectionResult,
    *,
    agent: str,
    turn: int,
    ops_written: int,
    reason: str | None = None,
) -> dict[str, Any]:
    """Return a turn's record: turn, agent, backend, summary_len, ops_written, embed, ms, reason, fixture_key."""
    record = {
        "turn": turn,
        "agent": agent,
        "backend": config.backend,
        "summary_len": len(result.summary.split()),
        "ops_written": ops_written,
        "embed": config.embed,
        "ms": shown_ms(result.ms),
        "reason": reason or result.reason,
    }
    key = result.metrics.get("fixture_key")
    return record if key is None else {**record, "fixture_key": key}


def shown_ms(ms: float) -> float:
    """Return milliseconds as a log shows them: 0.0 where the environment has CI=true."""
    return 0.0 if os.environ.get("CI", "").lower() == "true" else round(ms, 3)


def canonical_line(record: Mapping[str, Any]) -> str:
    """Return a record as its line, without the line's end: JSON in ASCII with sorted keys."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


class ReflectionLog:
    """The log in a file, which is made with its first record. Agents in several threads may share one."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.lost = 0
        self._lock = threading.Lock()
        self._held: list[tuple[str, int, str]] | None = None

    def add(self, record: Mapping[str, Any]) -> None:
        """Write a record now, or at the end of `in_order`. Never raises."""
        with self._lock:
            try:
                line = str(record["agent"]), int(record["turn"]), canonical_line(record)
            except (KeyError, TypeError, ValueError):
                self.lost += 1
                return
            if self._held is None:
                self._write(line[-1])
            else:
                self._held.append(line)

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Hold back the records of what runs inside, then write them by agent and turn, once the outermost ends."""
        with self._lock:
            if outermost := self._held is None:
                self._held = []
        try:
            yield
        finally:
            if outermost:
                with self._lock:
                    held, self._held = self._held, None
                    for *_, line in sorted(held or ()):
                        self._write(line)

    def _write(self, line: str) -> None:
        try:
            # Opening a pipe that nobody reads would wait for ever.
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_WAIT, 0o600)
            try:
                self.lost += os.write(fd, f"{line}\n".encode()) <= len(line)
            finally:
                os.close(fd)
        except (OSError, ValueError):  # a full disk, a folder that is not there, a NUL in the path
            self.lost += 1
